"""The operations and the path that a request about files comes down to."""

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
    """Return what carries out operations under this sandbox.

    Raises InvalidParams if it makes no sense, ProfileExceeded if it is none and there has to be one.
    """
    if sandbox is None and connection.services.profiles.cap is None:
        # The result is as below, and comes sooner: most requests ask for this.
        return connection.operations
    wanted = _confinement(connection, sandbox)
    return connection.operations if wanted is None else _confined(connection, wanted)


def own_operations(connection: ClientConnection) -> Operations:
    """Return what reads files of the server's own choice for a client: within the cap, if there is one."""
    cap = connection.services.profiles.cap
    if cap is None or restricted_files(cap.profile) is None:
        return connection.operations
    wanted = Confinement(cap.profile, cap.project_roots, cap.name, client=connection.number)
    return _confined(connection, wanted)


async def read_filter_for(connection: ClientConnection, sandbox: SandboxContext | None) -> ReadFilter | None:
    """Return what this process itself may look at for a request under this sandbox; None for everything."""
    wanted = _confinement(connection, sandbox)
    return None if wanted is None else (await connection.services.sandboxes.snapshot(wanted)).read_filter()


async def real_path_for(
    connection: ClientConnection, sandbox: SandboxContext | None, path: bytes
) -> bytes | None:
    """Return where a path leads that can be read under this sandbox; None if everything can.

    Asked inside, links and all, so that what is denied there can't be told from what does not exist: outside,
    a link may lead through it by then. Raises what reading it does.
    """
    wanted = _confinement(connection, sandbox)
    if wanted is None:
        return None
    operations = _confined(connection, wanted)
    await operations.perform(GetMetadata(path=path))
    return (await operations.perform(Canonicalize(path=path))).path


def _confined(connection: ClientConnection, wanted: Confinement) -> ConfinedOperations:
    workers = connection.services.file_workers
    return ConfinedOperations(workers, wanted, connection.number, connection.confined)


def _confinement(connection: ClientConnection, sandbox: SandboxContext | None) -> Confinement | None:
    """Return what file operations are confined to; None if to nothing."""
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
