"""The `sandbox` object of `process/start` and `fs/*`.

The outer object is an ordinary request part (camelCase, unknown fields
ignored). What stands inside `permissions` grants access (snake_case, unknown
fields refused). These are shapes only; what they mean is decided elsewhere.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from paddock.protocol.path import HostPath
from paddock.protocol.structure import Grant, Params

Access = Literal["read", "write", "deny", "none"]
Network = Literal["restricted", "enabled"]
WindowsSandboxLevel = Literal["disabled", "restricted-token", "elevated", "mxc"]


class RootPath(Grant, frozen=True, kw_only=True, tag_field="kind", tag="root"):
    """The whole file system."""


class MinimalPath(Grant, frozen=True, kw_only=True, tag_field="kind", tag="minimal"):
    """What programs need to start."""


class ProjectRoots(Grant, frozen=True, kw_only=True, tag_field="kind", tag="project_roots"):
    """The workspace roots of the request."""

    subpath: str | None = None
    """What is meant below each root; the roots themselves by default."""


class CurrentWorkingDirectory(
    Grant, frozen=True, kw_only=True, tag_field="kind", tag="current_working_directory"
):
    """An older name of `project_roots`."""

    subpath: str | None = None
    """What is meant below it."""


class TemporaryDirectory(Grant, frozen=True, kw_only=True, tag_field="kind", tag="tmpdir"):
    """The directory that TMPDIR names."""


class SlashTmp(Grant, frozen=True, kw_only=True, tag_field="kind", tag="slash_tmp"):
    """`/tmp`."""


class UnknownSpecialPath(Grant, frozen=True, kw_only=True, tag_field="kind", tag="unknown"):
    """A special path that the sender itself did not know."""


SpecialPath = (
    RootPath
    | MinimalPath
    | ProjectRoots
    | CurrentWorkingDirectory
    | TemporaryDirectory
    | SlashTmp
    | UnknownSpecialPath
)


class ExactPath(Grant, frozen=True, kw_only=True, tag_field="type", tag="path"):
    """One path and what is below it."""

    path: HostPath


class GlobPath(Grant, frozen=True, kw_only=True, tag_field="type", tag="glob_pattern"):
    """Every path that a pattern matches."""

    pattern: str


class NamedPath(Grant, frozen=True, kw_only=True, tag_field="type", tag="special"):
    """A path that depends on the host or on the request."""

    value: SpecialPath


class AccessEntry(Grant, frozen=True, kw_only=True):
    """What may be done with a path."""

    path: ExactPath | GlobPath | NamedPath
    access: Access
    missing_path_behavior: Literal["skip"] | None = None
    """What to do if it does not exist."""


class RestrictedFileSystem(Grant, frozen=True, kw_only=True, tag_field="type", tag="restricted"):
    """Only what the entries grant."""

    entries: list[AccessEntry]
    glob_scan_max_depth: Annotated[int, Meta(gt=0)] | None = None
    """How deep patterns are searched for."""


class UnrestrictedFileSystem(Grant, frozen=True, kw_only=True, tag_field="type", tag="unrestricted"):
    """Everything that the server's user may do."""


class ManagedProfile(Grant, frozen=True, kw_only=True, tag_field="type", tag="managed"):
    """The executor enforces this profile."""

    file_system: RestrictedFileSystem | UnrestrictedFileSystem
    network: Network


class DisabledProfile(Grant, frozen=True, kw_only=True, tag_field="type", tag="disabled"):
    """No sandbox is asked for."""


class ExternalProfile(Grant, frozen=True, kw_only=True, tag_field="type", tag="external"):
    """Somebody outside confines the executor already."""

    network: Network


PermissionProfile = ManagedProfile | DisabledProfile | ExternalProfile


class SandboxContext(Params, frozen=True, kw_only=True):
    """A permission profile and what its special paths refer to."""

    permissions: PermissionProfile
    """What the process may do."""
    windows_sandbox_level: WindowsSandboxLevel
    """Means nothing on Linux."""
    cwd: HostPath | None = None
    """What relative paths refer to."""
    workspace_roots: list[HostPath] | None = None
    """What `project_roots` refers to."""
    windows_sandbox_private_desktop: bool = False
    """Means nothing on Linux."""
    use_legacy_landlock: bool = False
    """Means nothing here."""
