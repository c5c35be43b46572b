"""`initialize` and `environment/*`."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from paddock.protocol.call import Call
from paddock.protocol.session import (
    ClientCapabilities,
    EnvironmentInfo,
    EnvironmentStatus,
    InitializeParams,
    InitializeResult,
)
from paddock.protocol.structure import NoParams
from paddock.server.connection import ClientConnection, HandlerTable
from paddock.server.environment import describe_environment
from paddock.server.record import Client

READY = EnvironmentStatus(status="ready")


def initialize(
    connection: ClientConnection, call: Call[InitializeParams]
) -> InitializeResult | Coroutine[Any, Any, InitializeResult]:
    """Open a session, or attach to a detached one."""
    params = call.params
    capabilities = params.capabilities or ClientCapabilities()
    sessions = connection.services.sessions
    info = describe_environment(connection.services.settings, with_extensions=capabilities.extensions)
    name = params.client_name
    if params.resume_session_id is None:
        # Operators come and go; a session that waited for each to return would only be in the way.
        session = sessions.open(connection, client_name=name, ttl_s=0 if connection.is_operator else None)
    else:
        session = sessions.resume(params.resume_session_id, connection, client_name=name)
    connection.greet(session, capabilities)
    client = Client(connection.number, name, connection.peer, connection.is_operator)
    if params.resume_session_id is None:
        session.record.opened(client)
    else:
        session.record.resumed(client)
    return session.record.paced(InitializeResult(session_id=session.id, environment_info=info))


def info(connection: ClientConnection, _: Call[NoParams]) -> EnvironmentInfo:
    """Describe the host."""
    return describe_environment(connection.services.settings, with_extensions=connection.has_extensions)


def status(_connection: ClientConnection, _: Call[NoParams]) -> EnvironmentStatus:
    """Report that the server accepts commands."""
    return READY


HANDLERS: HandlerTable = {"initialize": initialize, "environment/info": info, "environment/status": status}
