"""Runs every asynchronous test of the transports on both event loops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
import uvloop

from tests.unit.transport.recorder import Acceptor


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Name the loops; pytest-asyncio runs each test once per loop."""
    return {"asyncio": asyncio.SelectorEventLoop, "uvloop": uvloop.new_event_loop}


@pytest.fixture
async def acceptor() -> AsyncIterator[Acceptor]:
    """Make receivers, and drop whatever links a test leaves behind."""
    acceptor = Acceptor()
    yield acceptor
    await acceptor.aclose()
