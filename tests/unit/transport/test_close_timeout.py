"""How long a closing link may take."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import cast

from paddock.transport.delivery import CloseTimeout
from paddock.transport.link import Link
from tests.unit.transport.recorder import PATIENCE_S


class ClosingLink:
    """A link whose queue is found to have these sizes, one after the other."""

    def __init__(self, sizes: Iterable[int]) -> None:
        self.left = list(sizes)
        self.is_aborted = asyncio.Event()

    @property
    def buffered_bytes(self) -> int:
        return self.left.pop(0)

    def abort(self) -> None:
        self.is_aborted.set()


async def test_a_link_is_given_more_time_for_as_long_as_its_queue_shrinks() -> None:
    # It is looked at when a wait begins and when that ends.
    link = ClosingLink([9, 8, 8, 5, 5, 5, 1])
    CloseTimeout(cast(Link, link), 0.001).begin()
    async with asyncio.timeout(PATIENCE_S):
        await link.is_aborted.wait()
    assert link.left == [1]


async def test_a_link_that_is_gone_in_time_is_not_aborted() -> None:
    link = ClosingLink([9, 9])
    timeout = CloseTimeout(cast(Link, link), 0.001)
    timeout.begin()
    timeout.end()
    await asyncio.sleep(0.002)
    assert (link.left, link.is_aborted.is_set()) == ([9], False)
