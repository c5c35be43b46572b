"""Slow name servers hold up nobody but whoever asks them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from ipaddress import IPv4Address

import pytest

from paddock.network.address import Address
from paddock.network.name_lookup import LOOKUPS_LIMIT, NameLookup

FOUND = IPv4Address("192.0.2.1")


class SlowNames:
    """Looks up names: those that begin with `slow` are known when somebody says so."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.answer = threading.Event()

    def look_up(self, host: str, port: int) -> Sequence[Address]:
        if host.startswith("slow"):
            self.begun.release()
            self.answer.wait()
        if host.startswith("unknown"):
            raise OSError("no such name")
        return [FOUND]

    async def begun_by(self, count: int) -> None:
        for _ in range(count):
            await asyncio.to_thread(self.begun.acquire)


async def test_names_of_one_proxy_do_not_wait_for_those_of_another() -> None:
    names = SlowNames()
    one, another = NameLookup(names.look_up), NameLookup(names.look_up)
    slow = [asyncio.ensure_future(one(f"slow-{number}", 80)) for number in range(3 * LOOKUPS_LIMIT)]
    await names.begun_by(LOOKUPS_LIMIT)
    assert await another("quick", 80) == [FOUND]
    with pytest.raises(OSError, match="no such name"):
        await another("unknown", 80)
    # Whoever gives up leaves a thread behind, which still counts.
    for lookup in slow[:LOOKUPS_LIMIT]:
        lookup.cancel()
    waiting = asyncio.ensure_future(one("quick", 80))
    await asyncio.sleep(0)
    assert not names.begun.acquire(blocking=False)
    names.answer.set()
    await names.begun_by(2 * LOOKUPS_LIMIT)
    assert await asyncio.gather(*slow[LOOKUPS_LIMIT:], waiting) == [[FOUND]] * (2 * LOOKUPS_LIMIT + 1)


async def test_where_no_thread_can_be_started_the_name_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    lookup = NameLookup(SlowNames().look_up)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        for _ in range(2 * LOOKUPS_LIMIT):
            with pytest.raises(OSError, match="no thread"):
                await lookup("quick", 80)
    assert await lookup("quick", 80) == [FOUND]


async def test_what_gone_proxies_of_a_session_have_asked_for_still_counts() -> None:
    names, lookups = SlowNames(), asyncio.Semaphore(LOOKUPS_LIMIT + 1)
    gone, next_one, other = (NameLookup(names.look_up, lookups) for _ in range(3))
    slow = [asyncio.ensure_future(gone(f"slow-{number}", 80)) for number in range(LOOKUPS_LIMIT)]
    slow.append(asyncio.ensure_future(next_one("slow", 80)))
    await names.begun_by(LOOKUPS_LIMIT + 1)
    for lookup in slow:
        lookup.cancel()
    waiting = asyncio.ensure_future(other("slow", 80))
    given_up = asyncio.ensure_future(other("slow", 80))
    await asyncio.sleep(0)
    given_up.cancel()
    assert not names.begun.acquire(blocking=False)
    assert await NameLookup(names.look_up)("quick", 80) == [FOUND]
    names.answer.set()
    assert await waiting == [FOUND]
    assert await asyncio.gather(*(other("quick", 80) for _ in range(2 * LOOKUPS_LIMIT)))
