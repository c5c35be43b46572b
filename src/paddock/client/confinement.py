"""Turns the confinement that a caller wants into the `sandbox` of requests.

A profile is either a name that the server knows, or written out as for `paddock sandbox --profile`: in a file
on this host or as a dict. The client refuses a profile that it can't read before it sends anything.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from paddock.client.capability import require
from paddock.client.wire_path import RemotePathLike, wire_path
from paddock.errors import InvalidProfile
from paddock.model.profile import Limits, NetworkMode, mode_of
from paddock.protocol.path import HostPath
from paddock.protocol.permission_profile import profile_to_wire
from paddock.protocol.sandbox import SandboxContext
from paddock.protocol.session import EnvironmentInfo

if TYPE_CHECKING:
    from paddock.sandbox.profile.table import WrittenProfile

ORIGIN: Final = "sandbox"
"""The name in messages of a profile that a program wrote."""


ProfileLike = str | os.PathLike[str] | Mapping[str, Any]

UNCONFINED: Final = ":danger-full-access"


class Sandbox(Struct, frozen=True):
    """A profile, and the directories that are its workspace."""

    profile: ProfileLike
    """The name of a profile that the server knows, such as `:workspace`; a file on this host in TOML or JSON
    (`Path("ci.toml")`, `"ci.toml#strict"`); or a dict, as a profile is written in TOML (`{"extends":
    ":workspace", "network": "loopback"}`) or in JSON."""
    roots: Sequence[RemotePathLike] = ()
    """The workspace. The default is the command's directory; for files, the server's own directory."""
    trace: bool = False
    """Whether the server traces a command, so that `Ending.denials` lists everything the sandbox refused it.
    A traced command runs slower."""
    limits: Limits | None = None
    """How much a command may use. Each limit replaces the profile's own."""


SandboxLike = ProfileLike | Sandbox
"""A whole sandbox, or its profile alone."""


def with_limits(sandbox: SandboxLike | None, limits: Limits | None) -> SandboxLike | None:
    """Return the sandbox with the limits added. Without a sandbox, the server enforces only the limits."""
    if limits is None:
        return sandbox
    if sandbox is None:
        sandbox = UNCONFINED
    if isinstance(sandbox, Sandbox):
        return replace(sandbox, limits=limits)
    return Sandbox(sandbox, limits=limits)


def sandbox_context(environment: EnvironmentInfo, sandbox: SandboxLike, cwd: HostPath) -> SandboxContext:
    """Build the wire form of a sandbox. Raises InvalidProfile, TypeError, ValueError or CapabilityMissing."""
    if not isinstance(sandbox, Sandbox):
        sandbox = Sandbox(sandbox)
    roots = [wire_path(environment, root) for root in sandbox.roots] or [cwd]
    if sandbox.trace:
        require(environment, "sandboxTrace", "trace what a command is refused")
    written = _written(sandbox.profile)
    if isinstance(written, str) and (
        sandbox.limits is not None or not environment.capabilities.get("namedProfiles", False)
    ):
        # Limits are written into a profile, and a server of the reference protocol knows no names at all.
        written = _built_in(written)
    if isinstance(written, str):
        if sandbox.limits is not None:
            raise InvalidProfile(
                written, "only the server knows it; write the limits into it, or give a dict"
            )
        require(environment, "namedProfiles", f"find the profile {written!r} by its name")
        return SandboxContext(profile=written, cwd=cwd, workspace_roots=roots, trace=sandbox.trace)
    from paddock.sandbox.profile.enforced import is_enforced, limited

    roots += [wire_path(environment, root) for root in written.workspace_roots]
    meant = limited(written.profile, sandbox.limits)
    if is_enforced(meant) and mode_of(meant.network) is NetworkMode.PROXIED:
        require(environment, "proxiedNetwork", "let a command reach some hosts and no others")
    return SandboxContext(
        permissions=profile_to_wire(meant, partial(wire_path, environment)),
        windows_sandbox_level="disabled",
        cwd=cwd,
        workspace_roots=roots,
        trace=sandbox.trace,
    )


def _written(profile: ProfileLike) -> str | WrittenProfile:
    """Read a profile that is written out; return a name unchanged. Raises InvalidProfile or TypeError."""
    from paddock.sandbox.profile.source import names_file, profile_from, read_profile

    match profile:
        case str() if not names_file(profile):
            return profile
        case str() | os.PathLike():
            return read_profile(os.fspath(profile))
        case Mapping():
            return profile_from(dict(profile), ORIGIN)
        case _:
            raise TypeError(
                f"sandbox is {profile!r}; give the name of a profile, the path of a file, a dict or a Sandbox"
            )


def _built_in(name: str) -> str | WrittenProfile:
    """Return a built-in profile written out; return any other name unchanged."""
    from paddock.sandbox.profile.table import BUILT_IN_NAMES, WrittenProfile, built_in

    return WrittenProfile(built_in(name)) if name in BUILT_IN_NAMES else name
