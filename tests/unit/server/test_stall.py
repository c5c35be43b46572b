"""Pauses that last are told; the many short ones are not."""

from __future__ import annotations

import asyncio

import pytest

from paddock.server import stall
from paddock.server.stall import Stall


class Watched:
    """A stall and what it told."""

    def __init__(self) -> None:
        self.has_lasted = asyncio.Event()
        self.over: list[float] = []
        self.stall = Stall(self.has_lasted.set, self.over.append)


async def test_a_pause_that_lasts_is_told_at_its_beginning_and_at_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stall, "LASTING_S", 0.0)
    watched = Watched()

    watched.stall.begin()
    await watched.has_lasted.wait()
    watched.stall.end()

    assert len(watched.over) == 1


async def test_a_short_pause_is_not_told() -> None:
    watched = Watched()

    watched.stall.begin()
    watched.stall.end()

    assert not watched.has_lasted.is_set()
    assert watched.over == []


async def test_beginning_and_ending_twice_is_beginning_and_ending_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stall, "LASTING_S", 0.0)
    watched = Watched()

    watched.stall.begin()
    watched.stall.begin()
    await watched.has_lasted.wait()
    watched.stall.end()
    watched.stall.end()

    assert len(watched.over) == 1
