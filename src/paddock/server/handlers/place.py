"""Where a request about files is carried out, and on which path."""

from __future__ import annotations

from paddock.errors import InvalidRequest
from paddock.fs.operation import Canonicalize, GetMetadata
from paddock.fs.operations import Operations
from paddock.fs.sight import Sight
from paddock.model.profile import ManagedProfile, Profile, RestrictedFileSystem
from paddock.protocol.path import HostPath
from paddock.protocol.sandbox import SandboxContext
from paddock.server.confined_operations import ConfinedOperations
from paddock.server.connection import ClientConnection
from paddock.server.handlers.confinement import confinement_of
from paddock.server.sandboxes import Confinement


def operations_for(connection: ClientConnection, sandbox: SandboxContext | None) -> Operations:
    """Where operations under this sandbox are carried out.

    Raises InvalidParams if it makes no sense, ProfileExceeded if it is none and there has to be one.
    """
    if sandbox is None and connection.services.profiles.cap is None:
        # As below, and sooner: it is what most requests ask for.
        return connection.operations
    wanted = _confinement(connection, sandbox)
    return connection.operations if wanted is None else _confined(connection, wanted)


def own_operations(connection: ClientConnection) -> Operations:
    """Where the server reads files of its own choice for a client: within the cap, if there is one."""
    cap = connection.services.profiles.cap
    if cap is None or not _is_about_files(cap.profile):
        return connection.operations
    return _confined(connection, Confinement(cap.profile, cap.project_roots, cap.name))


async def sight_for(connection: ClientConnection, sandbox: SandboxContext | None) -> Sight | None:
    """What this process may look at itself for a request under this sandbox; None if it may at everything."""
    wanted = _confinement(connection, sandbox)
    return None if wanted is None else (await connection.services.sandboxes.view(wanted)).sight()


async def real_path_for(
    connection: ClientConnection, sandbox: SandboxContext | None, path: bytes
) -> bytes | None:
    """Where a path leads that can be read under this sandbox; None if everything can.

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
    return ConfinedOperations(connection.services.file_workers, wanted, connection.confined)


def _confinement(connection: ClientConnection, sandbox: SandboxContext | None) -> Confinement | None:
    """What file operations are confined to; None if to nothing."""
    profiles = connection.services.profiles
    if sandbox is not None:
        wanted = confinement_of(sandbox, profiles)
        if _is_about_files(wanted.profile):
            return wanted
    profiles.refuse_unconfined("files outside of a sandbox")
    return None


def _is_about_files(profile: Profile) -> bool:
    return isinstance(profile, ManagedProfile) and isinstance(profile.file_system, RestrictedFileSystem)


def local_path(path: HostPath) -> bytes:
    """The path as the kernel wants it. Raises InvalidRequest if it is not of this host."""
    if path.is_foreign:
        raise InvalidRequest(f"{path.text!r} is invalid on 'linux'; it names no file of this host")
    return path.path.encode("utf-8", "surrogateescape")
