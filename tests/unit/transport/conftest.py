"""Runs every asynchronous test of the transports on both event loops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack

import pytest
import uvloop

from paddock.transport import websocket
from paddock.transport.http import HttpPolicy
from paddock.transport.limits import WebSocketLimits
from paddock.transport.listener import Listener
from tests.unit.transport.recorder import Acceptor

Serve = Callable[..., Awaitable[Listener]]


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


@pytest.fixture
async def resources() -> AsyncIterator[AsyncExitStack]:
    """Close what a test has opened, last first."""
    async with AsyncExitStack() as stack:
        yield stack


@pytest.fixture
def serve(resources: AsyncExitStack) -> Serve:
    """Listen until the end of the test."""

    async def serve(
        accept: Acceptor, limits: WebSocketLimits | None = None, http: HttpPolicy = lambda _: None
    ) -> Listener:
        listener = await websocket.listen("127.0.0.1", 0, accept, limits, http)
        resources.push_async_callback(listener.aclose)
        return listener

    return serve
