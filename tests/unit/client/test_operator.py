"""The connection of an operator, to a server that a test scripts."""

from __future__ import annotations

import asyncio

import pytest

from paddock.client import operator
from paddock.client.connection import Connection
from paddock.client.operator import ServerControl
from paddock.errors import ConnectionLost
from paddock.transport.limits import TransportLimits
from tests.unit.client.scripted_server import ScriptedServer

PATIENT = TransportLimits(close_timeout_s=3600)
"""A transport that itself would wait beyond the end of the test."""


async def test_a_server_that_hangs_does_not_keep_its_operator_from_leaving(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(operator, "CLOSE_TIMEOUT_S", 0.01)
    server = ScriptedServer(limits=PATIENT)
    connection = Connection()
    await server.dial(connection.attach)
    server.link.pause_reading()
    connection.open()
    control = ServerControl("memory", connection)
    request = asyncio.create_task(control.process("session", "process").read(0))
    await asyncio.sleep(0)
    await control.aclose()
    with pytest.raises(ConnectionLost):
        await request
