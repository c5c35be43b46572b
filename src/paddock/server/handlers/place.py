"""Where a request about files is carried out, and on which path."""

from __future__ import annotations

from paddock.errors import InvalidRequest, SandboxUnenforceable
from paddock.fs.operations import Operations
from paddock.model.profile import ManagedProfile, RestrictedFileSystem
from paddock.protocol.path import HostPath
from paddock.protocol.sandbox import SandboxContext
from paddock.server.confined_operations import ConfinedOperations
from paddock.server.connection import ClientConnection
from paddock.server.handlers.confinement import confinement_of


def operations_for(connection: ClientConnection, sandbox: SandboxContext | None) -> Operations:
    """Where operations under this sandbox are carried out.

    Raises InvalidParams if it makes no sense, ProfileExceeded if it is none and there has to be one.
    """
    services = connection.services
    if sandbox is not None:
        wanted = confinement_of(sandbox, services.profiles)
        match wanted.profile:
            case ManagedProfile(file_system=RestrictedFileSystem()):
                return ConfinedOperations(services.file_workers, wanted, connection.confined)
    services.profiles.refuse_unconfined("files outside of a sandbox")
    return connection.operations


def refuse_confinement(connection: ClientConnection, sandbox: SandboxContext | None) -> None:
    """For what this process does itself. Raises InvalidParams if it was to be confined, or has to be."""
    profiles = connection.services.profiles
    if sandbox is not None and isinstance(confinement_of(sandbox, profiles).profile, ManagedProfile):
        raise SandboxUnenforceable("watches can't be confined")
    profiles.refuse_unconfined("a watch, which no sandbox confines")


def local_path(path: HostPath) -> bytes:
    """The path as the kernel wants it. Raises InvalidRequest if it is not of this host."""
    if path.is_foreign:
        raise InvalidRequest(f"{path.text!r} is invalid on 'linux'; it names no file of this host")
    return path.path.encode("utf-8", "surrogateescape")
