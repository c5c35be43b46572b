"""`initialize` and `environment/*`."""

from __future__ import annotations

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

READY = EnvironmentStatus(status="ready")


def initialize(connection: ClientConnection, params: InitializeParams) -> InitializeResult:
    """Open a session, or attach to a detached one."""
    capabilities = params.capabilities or ClientCapabilities()
    sessions = connection.services.sessions
    info = describe_environment(connection.services.settings, with_extensions=capabilities.extensions)
    if params.resume_session_id is None:
        session = sessions.open(connection)
    else:
        session = sessions.resume(params.resume_session_id, connection)
    connection.greet(session, capabilities)
    return InitializeResult(session_id=session.id, environment_info=info)


def info(connection: ClientConnection, _: NoParams) -> EnvironmentInfo:
    """Describe the host."""
    return describe_environment(connection.services.settings, with_extensions=connection.has_extensions)


def status(_connection: ClientConnection, _: NoParams) -> EnvironmentStatus:
    """Say that commands are taken."""
    return READY


HANDLERS: HandlerTable = {"initialize": initialize, "environment/info": info, "environment/status": status}
