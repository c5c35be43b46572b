"""What a caller wants confined -> the `sandbox` of requests. Pure.

A profile is a name, which the server knows the meaning of, or is written out as of
`paddock sandbox --profile`; what can't be read is refused before anything is sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from paddock.client.capability import require
from paddock.client.place import RemotePathLike, wire_path
from paddock.protocol.path import HostPath
from paddock.protocol.permission_profile import profile_to_wire
from paddock.protocol.sandbox import SandboxContext
from paddock.protocol.session import EnvironmentInfo


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A profile, and the directories that are its workspace."""

    profile: str | Mapping[str, Any]
    """The name of one that the server knows, such as `:workspace`, or a profile as it is written in JSON."""
    roots: Sequence[RemotePathLike] = ()
    """By default where the command runs; for files, the server's own directory."""
    trace: bool = False
    """Whether the server is to watch what a command attempts, so that `Ending.denials` tells all that it was
    refused. It runs slower."""


SandboxLike = str | Mapping[str, Any] | Sandbox
"""A whole sandbox, or its profile alone."""


def sandbox_context(environment: EnvironmentInfo, sandbox: SandboxLike, cwd: HostPath) -> SandboxContext:
    """What to send. Raises InvalidProfile, TypeError, ValueError or CapabilityMissing."""
    if not isinstance(sandbox, Sandbox):
        sandbox = Sandbox(sandbox)
    profile, roots = sandbox.profile, [wire_path(environment, root) for root in sandbox.roots] or [cwd]
    if sandbox.trace:
        require(environment, "sandboxTrace", "trace what a command is refused")
    if isinstance(profile, str):
        require(environment, "namedProfiles", f"find the profile {profile!r} by its name")
        return SandboxContext(profile=profile, cwd=cwd, workspace_roots=roots, trace=sandbox.trace)
    if not isinstance(profile, Mapping):
        raise TypeError(f"sandbox is {profile!r}; give the name of a profile, a dict or a Sandbox")
    from paddock.sandbox.profile import profile_of

    meant = profile_of(dict(profile), "sandbox")
    return SandboxContext(
        permissions=profile_to_wire(meant, partial(wire_path, environment)),
        windows_sandbox_level="disabled",
        cwd=cwd,
        workspace_roots=roots,
        trace=sandbox.trace,
    )
