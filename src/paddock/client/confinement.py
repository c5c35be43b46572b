"""Turns the confinement that a caller wants into the `sandbox` of requests.

A profile is a name, which the server knows the meaning of, or is written out as of
`paddock sandbox --profile`, in a file of this host or as a dict; what can't be read is refused before
anything is sent.
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
"""What messages call a profile that a program has written."""


ProfileLike = str | os.PathLike[str] | Mapping[str, Any]

UNCONFINED: Final = ":danger-full-access"


class Sandbox(Struct, frozen=True):
    """A profile, and the directories that are its workspace."""

    profile: ProfileLike
    """The name of one that the server knows, such as `:workspace`; a file of this host in TOML or JSON
    (`Path("ci.toml")`, `"ci.toml#strict"`); or a dict, as a profile is written in TOML
    (`{"extends": ":workspace", "network": "loopback"}`) or in JSON."""
    roots: Sequence[RemotePathLike] = ()
    """By default where the command runs; for files, the server's own directory."""
    trace: bool = False
    """Whether the server is to watch what a command attempts, so that `Ending.denials` tells all that it was
    refused. It runs slower."""
    limits: Limits | None = None
    """How much a command may use, in place of what the profile says of the same."""


SandboxLike = ProfileLike | Sandbox
"""A whole sandbox, or its profile alone."""


def with_limits(sandbox: SandboxLike | None, limits: Limits | None) -> SandboxLike | None:
    """Return a sandbox with limits. Without one, nothing but the limits is enforced."""
    if limits is None:
        return sandbox
    if sandbox is None:
        sandbox = UNCONFINED
    if isinstance(sandbox, Sandbox):
        return replace(sandbox, limits=limits)
    return Sandbox(sandbox, limits=limits)


def sandbox_context(environment: EnvironmentInfo, sandbox: SandboxLike, cwd: HostPath) -> SandboxContext:
    """Build what to send for a sandbox. Raises InvalidProfile, TypeError, ValueError or CapabilityMissing."""
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
    """Read a profile that is written out; a name stays one. Raises InvalidProfile or TypeError."""
    from paddock.sandbox.profile.source import names_file, read_profile

    match profile:
        case str() if not names_file(profile):
            return profile
        case str() | os.PathLike():
            return read_profile(os.fspath(profile))
        case Mapping():
            return _from_mapping(dict(profile))
        case _:
            raise TypeError(
                f"sandbox is {profile!r}; give the name of a profile, the path of a file, a dict or a Sandbox"
            )


def _from_mapping(profile: dict[str, Any]) -> WrittenProfile:
    from paddock.sandbox.profile.codec import profile_of
    from paddock.sandbox.profile.table import WrittenProfile, is_table, parse_table

    if not is_table(profile):
        return WrittenProfile(profile_of(profile, ORIGIN))
    return parse_table({"permissions": {ORIGIN: profile}}, ORIGIN, os.path.expanduser("~"), ORIGIN)


def _built_in(name: str) -> str | WrittenProfile:
    """Return a built-in profile written out; any other name as it is."""
    from paddock.sandbox.profile.table import BUILT_IN_NAMES, WrittenProfile, built_in

    return WrittenProfile(built_in(name)) if name in BUILT_IN_NAMES else name
