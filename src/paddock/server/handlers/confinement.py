"""Turns a request's `sandbox` on the wire into a profile."""

from __future__ import annotations

from msgspec import UNSET

from paddock.errors import InvalidParams
from paddock.model import profile as model
from paddock.model.legacy_policy import LegacyPolicy
from paddock.protocol.path import HostPath
from paddock.protocol.permission_profile import profile_from_wire
from paddock.protocol.sandbox import SandboxContext
from paddock.sandbox.profile.enforced import entries_of
from paddock.server.confinement import Confinement
from paddock.server.profiles import Profiles


def confinement_of(sandbox: SandboxContext, profiles: Profiles, directory: str | None = None) -> Confinement:
    """Return the profile that a request asks for, and its project roots. Raises InvalidParams.

    `directory` is where a command is to run, if there is one.
    """
    roots = tuple(local_directory(root, "workspaceRoots") for root in sandbox.workspace_roots or ())
    cwd = None if sandbox.cwd is None else local_directory(sandbox.cwd, "cwd")
    # Without roots, legacy policies and names mean the directory where they apply.
    here = cwd or directory
    around = roots or (() if here is None else (here,))
    if sandbox.policy is not None:
        return Confinement(_legacy(sandbox.policy), around)
    if sandbox.profile is not None:
        written = profiles.named(sandbox.profile)
        around = tuple(dict.fromkeys((*around, *written.workspace_roots)))
        if not around and _is_dynamic(written.profile):
            raise InvalidParams(
                f"params.sandbox: the profile {sandbox.profile!r} is about workspace roots; give cwd or "
                "workspaceRoots"
            )
        return Confinement(written.profile, around, sandbox.profile)
    assert sandbox.permissions is not UNSET
    profile = profile_from_wire(sandbox.permissions, lambda path: local_directory(path, "permissions"))
    if cwd is None and _is_dynamic(profile):
        raise InvalidParams(
            "params.sandbox: file system sandbox context with dynamic permissions requires cwd"
        )
    return Confinement(profile, roots)


def local_directory(path: HostPath, name: str) -> str:
    """Return a path of the sandbox object. Raises InvalidParams if it is not of this host."""
    if path.is_foreign:
        raise InvalidParams(f"params.sandbox.{name}: {path.text!r} does not name a file of this Linux host")
    return path.path


def _legacy(policy: LegacyPolicy) -> model.Profile:
    try:
        from paddock.sandbox.profile.legacy import from_legacy

        return from_legacy(policy)
    except ValueError as error:
        raise InvalidParams(f"params.sandbox.policy: {error}") from error


def _is_dynamic(profile: model.Profile) -> bool:
    """Return whether the profile means something else in another workspace."""
    return any(
        isinstance(entry.path, model.NamedPath)
        and isinstance(entry.path.value, (model.ProjectRoots, model.CurrentWorkingDirectory))
        for entry in entries_of(profile)
    )
