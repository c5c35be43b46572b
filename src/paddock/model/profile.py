"""What a command may touch: files, network, resources.

These are the values that a profile is made of, in the shape in which it is
written as JSON: a profile decodes into them and encodes back. A field or a kind
that is not known here is an error, because a profile grants access. What an
entry means on a given host is decided by `paddock.sandbox`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from msgspec import Meta, Struct

from paddock.c_string import refuse_nul


class Access(StrEnum):
    """What may be done with a path and everything below it."""

    READ = "read"
    WRITE = "write"
    """Read, too."""
    DENY = "deny"

    @classmethod
    def _missing_(cls, value: object) -> Access | None:
        """Understand another word for `deny`, which is never written."""
        return cls.DENY if value == "none" else None


class NetworkMode(StrEnum):
    """What of the network a command reaches."""

    RESTRICTED = "restricted"
    """Nothing: no socket but connected pairs."""

    LOOPBACK = "loopback"
    """A private loopback: its own servers and clients find each other, nothing enters or leaves."""

    ENABLED = "enabled"
    """The network of the host."""


class Grant(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A value that grants access. A field that is not understood is refused, never ignored."""


Amount = Annotated[int, Meta(gt=0, le=2**63 - 1)]


class Limits(Grant, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """How much a command may use; what is not given is not limited."""

    memory_bytes: Amount | None = None
    """Address space of each process."""
    cpu_seconds: Amount | None = None
    """Processor time of each process."""
    processes: Amount | None = None
    """Processes and threads at one time."""
    file_bytes: Amount | None = None
    """Size of each file that is written."""
    open_files: Amount | None = None
    """Descriptors of each process."""
    wall_seconds: Amount | None = None
    """Time until everything is killed."""


class RootPath(Grant, frozen=True, kw_only=True, tag_field="kind", tag="root"):
    """The whole file system."""


class MinimalPath(Grant, frozen=True, kw_only=True, tag_field="kind", tag="minimal"):
    """What programs need to start."""


class ProjectRoots(Grant, frozen=True, kw_only=True, tag_field="kind", tag="project_roots"):
    """The workspace roots."""

    subpath: str | None = None
    """What is meant below each root; the roots themselves by default."""

    def __post_init__(self) -> None:
        refuse_nul("subpath", self.subpath)


class CurrentWorkingDirectory(
    Grant, frozen=True, kw_only=True, tag_field="kind", tag="current_working_directory"
):
    """An older name of `project_roots`."""

    subpath: str | None = None
    """What is meant below it."""

    def __post_init__(self) -> None:
        refuse_nul("subpath", self.subpath)


class TemporaryDirectory(Grant, frozen=True, kw_only=True, tag_field="kind", tag="tmpdir"):
    """The directory that TMPDIR of the server or launcher names, if it is private to the user or sticky."""


class SlashTmp(Grant, frozen=True, kw_only=True, tag_field="kind", tag="slash_tmp"):
    """`/tmp`."""


class UnknownSpecialPath(Grant, frozen=True, kw_only=True, tag_field="kind", tag="unknown"):
    """A special path that the sender itself did not know."""

    path: str | None = None
    """The word it did not know."""
    subpath: str | None = None
    """What was meant below it."""

    def __post_init__(self) -> None:
        refuse_nul("path", self.path)
        refuse_nul("subpath", self.subpath)


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

    path: str
    """Absolute."""

    def __post_init__(self) -> None:
        refuse_nul("path", self.path)
        if not self.path.startswith("/"):
            raise ValueError(f"path {self.path!r} is not absolute; write it from the root")


class GlobPath(Grant, frozen=True, kw_only=True, tag_field="type", tag="glob_pattern"):
    """Every path that a pattern matches."""

    pattern: str

    def __post_init__(self) -> None:
        refuse_nul("pattern", self.pattern)


class NamedPath(Grant, frozen=True, kw_only=True, tag_field="type", tag="special"):
    """A path that depends on the host or on the request."""

    value: SpecialPath


class AccessEntry(Grant, frozen=True, kw_only=True, omit_defaults=True):
    """What may be done with a path."""

    path: ExactPath | GlobPath | NamedPath
    access: Access
    """`none` is another word for `deny`."""
    missing_path_behavior: Literal["skip"] | None = None
    """`skip`: a path that does not exist is not protected against being made."""


class RestrictedFileSystem(
    Grant, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="restricted"
):
    """Only what the entries grant."""

    entries: tuple[AccessEntry, ...]
    glob_scan_max_depth: Annotated[int, Meta(gt=0)] | None = None
    """How deep patterns are searched for; without it, to the bottom."""


class UnrestrictedFileSystem(Grant, frozen=True, kw_only=True, tag_field="type", tag="unrestricted"):
    """Everything that the user may do."""


class ManagedProfile(Grant, frozen=True, kw_only=True, tag_field="type", tag="managed"):
    """A profile that Paddock enforces."""

    file_system: RestrictedFileSystem | UnrestrictedFileSystem
    network: NetworkMode = NetworkMode.RESTRICTED
    limits: Limits = Limits()


class DisabledProfile(Grant, frozen=True, kw_only=True, tag_field="type", tag="disabled"):
    """No sandbox is asked for."""


class ExternalProfile(Grant, frozen=True, kw_only=True, tag_field="type", tag="external"):
    """Somebody outside confines files already; only the network is left to enforce."""

    network: NetworkMode = NetworkMode.RESTRICTED


Profile = ManagedProfile | DisabledProfile | ExternalProfile
