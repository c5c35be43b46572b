"""Paddock's client loses its connection to the peer's server, and comes back."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

import paddock
from tests.interaction.cutting_proxy import CuttingProxy
from tests.interaction.traffic import check_everything
from tests.wire import shell

AT_ONCE = paddock.ReconnectPolicy(min_delay_s=0, max_delay_s=0, attached_delay_s=0.01, new_session=False)
CUTS = 300


def fifos(directory: Path) -> tuple[Path, Path]:
    """To let a process go on, and to learn that it has."""
    gate, done = directory / "gate", directory / "done"
    for path in (gate, done):
        os.mkfifo(path)
    return gate, done


async def pass_through(gate: Path, done: Path) -> None:
    await asyncio.to_thread(gate.write_text, "\n")
    await asyncio.to_thread(done.read_text)


@pytest.mark.unmeasured
@pytest.mark.timeout(300)
async def test_cuts_under_load_lose_and_double_nothing(peer_url: str) -> None:
    async with (
        CuttingProxy(peer_url, seed=1, limit=CUTS, longest_bytes=512 * 1024) as proxy,
        paddock.connect(proxy.url, reconnect=AT_ONCE, request_timeout_s=None) as box,
    ):
        await check_everything(box, proxy)
    assert proxy.cuts == CUTS


async def test_output_and_exit_that_were_missed_are_learned_afterwards(peer_url: str, tmp_path: Path) -> None:
    gate, done = fifos(tmp_path)
    script = f"echo before; read x < {gate}; echo during; echo > {done}; exit 3"
    async with CuttingProxy(peer_url) as proxy, paddock.connect(proxy.url, reconnect=AT_ONCE) as box:
        process = await box.start(shell(script))
        assert (await anext(aiter(process))).data == b"before\n"
        proxy.freeze_all()
        await pass_through(gate, done)
        proxy.break_all()
        assert await process.communicate() == (b"during\n", b"")
        assert await process.wait() == 3


async def test_output_that_the_peer_has_dropped_is_a_gap(peer_url: str, tmp_path: Path) -> None:
    gate, done = fifos(tmp_path)
    script = f"echo head; read x < {gate}; head -c 3000000 /dev/zero; echo tail; echo > {done}"
    async with CuttingProxy(peer_url) as proxy, paddock.connect(proxy.url, reconnect=AT_ONCE) as box:
        process = await box.start(shell(script))
        await anext(aiter(process))
        proxy.freeze_all()
        await pass_through(gate, done)
        proxy.break_all()
        gap, *rest = [item async for item in process.output(on_gap="yield")]
        assert isinstance(gap, paddock.Gap)
        assert (gap.from_seq, gap.size_bytes) == (2, None)
        tail = b"".join(item.data for item in rest if isinstance(item, paddock.Output))
        assert tail.endswith(b"\0tail\n")
        assert await process.wait() == 0


async def test_another_client_takes_a_session_over(peer_url: str) -> None:
    first = await paddock.connect(peer_url)
    process = await first.start(shell("echo one; read x; echo $x"), stdin=True)
    assert (await anext(aiter(process))).data == b"one\n"
    with pytest.raises(paddock.SessionAttached):
        await paddock.connect(peer_url, resume=first.session_id)
    await first.detach()
    async with paddock.connect(peer_url, resume=first.session_id) as second:
        again = await second.attach(process.process_id, after_seq=process.read_seq)
        await again.write(b"two\n")
        assert await again.communicate() == (b"two\n", b"")
    with pytest.raises(paddock.UnknownSession):
        await paddock.connect(peer_url, resume="00000000-0000-0000-0000-000000000000")
