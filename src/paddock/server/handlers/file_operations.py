"""Turns a file request into operations and a path."""

from __future__ import annotations

from msgspec.structs import replace

from paddock.errors import InvalidRequest
from paddock.fs.operation import Canonicalize, GetMetadata
from paddock.fs.operations import Operations
from paddock.fs.read_filter import ReadFilter
from paddock.protocol.path import HostPath
from paddock.protocol.sandbox import SandboxContext
from paddock.sandbox.profile.enforced import restricted_files
from paddock.server.confined_operations import ConfinedOperations
from paddock.server.confinement import Confinement
from paddock.server.connection import ClientConnection
from paddock.server.handlers.confinement import confinement_of


def operations_for(connection: ClientConnection, sandbox: SandboxContext | None) -> Operations:
    """Return the object that carries out operations under this sandbox.

    Raises InvalidParams for a sandbox that makes no sense, and ProfileExceeded for a missing one that the
    server requires.
    """
    if sandbox is None and connection.services.profiles.cap is None:
        # A shortcut with the same result as below: most requests ask for this.
        return connection.local_operations or connection.make_local_operations()
    wanted = _confinement(connection, sandbox)
    return connection.make_local_operations() if wanted is None else _confined(connection, wanted)


def own_operations(connection: ClientConnection) -> Operations:
    """Return the object that reads files of the server's own choice for a client, within any cap."""
    cap = connection.services.profiles.cap
    if cap is None or restricted_files(cap.profile) is None:
        return connection.make_local_operations()
    wanted = Confinement(cap.profile, cap.project_roots, cap.name, client=connection.number)
    return _confined(connection, wanted)


async def read_filter_for(connection: ClientConnection, sandbox: SandboxContext | None) -> ReadFilter | None:
    """Return a filter of what this process itself may read for a request under this sandbox; None for
    everything."""
    wanted = _confinement(connection, sandbox)
    if wanted is None:
        return None
    return await connection.services.enclosures.sandboxes.read_filter(wanted)


async def real_path_for(
    connection: ClientConnection, sandbox: SandboxContext | None, path: bytes
) -> bytes | None:
    """Return the real path of a path that is readable under this sandbox; None if everything is.

    The sandbox resolves it, links and all, so that a denied path looks the same as one that does not exist;
    by the time it were resolved outside, a link might lead through a denied path. Raises the errors that
    reading it raises.
    """
    wanted = _confinement(connection, sandbox)
    if wanted is None:
        return None
    operations = _confined(connection, wanted)
    await operations.perform(GetMetadata(path=path))
    return (await operations.perform(Canonicalize(path=path))).path


def _confined(connection: ClientConnection, wanted: Confinement) -> ConfinedOperations:
    workers = connection.services.enclosures.file_workers
    return ConfinedOperations(workers, wanted, connection.number, connection.confined)


def _confinement(connection: ClientConnection, sandbox: SandboxContext | None) -> Confinement | None:
    """Return the confinement of file operations; None if there is none."""
    profiles = connection.services.profiles
    if sandbox is not None:
        wanted = confinement_of(sandbox, profiles)
        if restricted_files(wanted.profile) is not None:
            return replace(wanted, client=connection.number)
    profiles.refuse_unconfined("files outside of a sandbox")
    return None


def local_path(path: HostPath) -> bytes:
    """Return the path as the kernel wants it. Raises InvalidRequest if it is not of this host."""
    if path.is_foreign:
        raise InvalidRequest(f"{path.text!r} is invalid on 'linux'; it names no file of this host")
    return path.path.encode("utf-8", "surrogateescape")
