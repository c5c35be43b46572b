"""The `sandbox` object of `process/start` and `fs/*`.

The outer object is an ordinary request part (camelCase, unknown fields
ignored). The content of `permissions` grants access (snake_case, unknown
fields refused); it differs from `model.profile` in that a path may be a `file:`
URI. These are shapes only; other modules decide what they mean.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import UNSET, Meta, UnsetType

from paddock.model.legacy_policy import ReadOnly, WorkspaceWrite
from paddock.model.profile import (
    Access,
    DisabledProfile,
    ExternalProfile,
    GlobPath,
    Grant,
    Limits,
    NamedPath,
    Network,
    UnrestrictedFileSystem,
)
from paddock.protocol.bound import MAX_ENTRIES, Name
from paddock.protocol.path import HostPath
from paddock.protocol.structure import Params

WindowsSandboxLevel = Literal["disabled", "restricted-token", "elevated", "mxc"]


class ExactPath(Grant, frozen=True, kw_only=True, gc=False, tag_field="type", tag="path"):
    """One path and everything below it."""

    path: HostPath


class AccessEntry(Grant, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The access to one path."""

    path: ExactPath | GlobPath | NamedPath
    access: Access
    """`none` is another word for `deny`."""
    missing_path_behavior: Literal["skip"] | None = None
    """What to do if it does not exist."""


class RestrictedFileSystem(
    Grant, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="restricted"
):
    """Grants only what the entries name."""

    entries: Annotated[tuple[AccessEntry, ...], Meta(max_length=MAX_ENTRIES)]
    glob_scan_max_depth: Annotated[int, Meta(gt=0)] | None = None
    """How deep to search for matches of patterns."""


class ManagedProfile(Grant, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="managed"):
    """The executor enforces this profile."""

    file_system: RestrictedFileSystem | UnrestrictedFileSystem
    network: Network
    limits: Limits = Limits()
    """How much it may use."""


PermissionProfile = ManagedProfile | DisabledProfile | ExternalProfile


class SandboxContext(Params, frozen=True, kw_only=True):
    """A permission profile and what its special paths refer to.

    `permissions` and `windows_sandbox_level` are required, unless `policy` or `profile` stands in
    their place.
    """

    EXTENSIONS: ClassVar[frozenset[str]] = frozenset({"policy", "profile", "trace"})

    permissions: PermissionProfile | UnsetType = UNSET
    """What the process may do."""
    windows_sandbox_level: WindowsSandboxLevel | UnsetType = UNSET
    """Means nothing on Linux."""
    cwd: HostPath | None = None
    """The base of relative paths."""
    workspace_roots: Annotated[list[HostPath], Meta(max_length=MAX_ENTRIES)] | None = None
    """The directories that `project_roots` refers to."""
    windows_sandbox_private_desktop: bool = False
    """Means nothing on Linux."""
    use_legacy_landlock: bool = False
    """Means nothing here."""
    policy: ReadOnly | WorkspaceWrite | None = None
    """A policy in the form that preceded profiles."""
    profile: Name | None = None
    """The name of a profile of the server's settings, or of a built-in one."""
    trace: bool = False
    """Whether to watch what the process attempts, so that `denials` lists what was refused, and not only
    what the process says about it. It runs slower. For `fs/*` it has no effect."""

    def __post_init__(self) -> None:
        if self.policy is not None and self.profile is not None:
            raise ValueError("policy and profile replace permissions; give one of them")
        if self.policy is None and self.profile is None:
            for name, value in (
                ("permissions", self.permissions),
                ("windowsSandboxLevel", self.windows_sandbox_level),
            ):
                if value is UNSET:
                    raise ValueError(f"missing required field `{name}`")
        elif self.permissions is not UNSET:
            word = "policy" if self.policy is not None else "profile"
            raise ValueError(f"{word} replaces permissions; give one or the other")
