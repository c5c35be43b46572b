"""What a command may touch: files, network, resources.

These are the values that a profile is made of, in the shape in which it is
written as JSON: a profile decodes into them and encodes back. An unknown field or
kind is an error, because a profile grants access. `paddock.sandbox` decides what
an entry means on a given host.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct
from msgspec.structs import force_setattr

from paddock.c_string import refuse_nul
from paddock.model.decision import Action
from paddock.model.endpoint import NetworkProtocol
from paddock.model.host_pattern import HostPattern, normal_host

MAX_PATTERNS: Final = 1024
"""Most patterns of hosts in one list. Each takes some 10 µs to read, and adds a microsecond to every
connection."""

MAX_SECRETS: Final = 64
"""Most secrets that one profile may name; the server reads each when a command starts."""

GROUP_MARK: Final = "@"
"""Precedes the name of a group of hosts."""


class Access(StrEnum):
    """What a command may do with a path and everything below it."""

    READ = "read"
    WRITE = "write"
    """Read, too."""
    DENY = "deny"

    @classmethod
    def _missing_(cls, value: object) -> Access | None:
        """Accept another word for `deny`, which Paddock itself never writes."""
        return cls.DENY if value == "none" else None


class NetworkMode(StrEnum):
    """How much of the network a command reaches."""

    RESTRICTED = "restricted"
    """Nothing: no socket but connected pairs."""

    LOOPBACK = "loopback"
    """A private loopback: its own servers and clients find each other, nothing enters or leaves."""

    PROXIED = "proxied"
    """A private loopback, from which a proxy leads to the allowed hosts; this word alone allows none."""

    ENABLED = "enabled"
    """The network of the host."""


class Grant(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A value that grants access. Decoding refuses an unknown field, never ignores it."""


Amount = Annotated[int, Meta(gt=0, le=2**63 - 1)]


class Limits(Grant, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """How much a command may use. A field that is absent sets no limit."""

    memory_bytes: Amount | None = None
    """The older name of `address_space_bytes`; messages always use it."""
    address_space_bytes: Amount | None = None
    """Address space of each process: what it reserves, which may be far more than it uses."""
    total_memory_bytes: Amount | None = None
    """Memory that all processes use together, including cached file content."""
    cpu_seconds: Amount | None = None
    """Processor time of each process."""
    processes: Amount | None = None
    """Processes and threads at one time."""
    file_bytes: Amount | None = None
    """Size of each file that the command writes."""
    open_files: Amount | None = None
    """Descriptors of each process."""
    wall_seconds: Amount | None = None
    """Time until everything is killed."""

    def __post_init__(self) -> None:
        if self.address_space_bytes is None:
            return
        if self.memory_bytes is not None:
            raise ValueError("memoryBytes is the older name of addressSpaceBytes; give one of them")
        # Keep one name, inside and on the wire: older servers know no other.
        force_setattr(self, "memory_bytes", self.address_space_bytes)
        force_setattr(self, "address_space_bytes", None)


Patterns = Annotated[tuple[str, ...], Meta(max_length=MAX_PATTERNS)]


class HostRule(Grant, frozen=True, kw_only=True, omit_defaults=True):
    """A rule from a file about one host, on all of its ports."""

    host: str
    protocol: NetworkProtocol
    action: Action
    """`prompt` asks the client, and denies if nobody answers."""
    origin: str
    """The location of the rule."""

    def __post_init__(self) -> None:
        if self.host != normal_host(self.host):
            raise ValueError(
                f"the host {self.host!r} of a rule is to be written as {normal_host(self.host)!r}"
            )


class ProxiedNetwork(
    Grant, frozen=True, kw_only=True, omit_defaults=True, rename="camel", tag_field="type", tag="proxied"
):
    """Only hosts that are allowed, by name and through a proxy."""

    allow: Patterns = ()
    """Hosts that may be reached: `host`, `*.host` for the names below it, `**.host` for both, `*` for all;
    `:PORT` or `:*` behind it, otherwise the ports 80 and 443. `@name` is a group of hosts."""
    deny: Patterns = ()
    """Hosts to refuse even if `allow` names them; without a port, on all ports."""
    allow_local: bool = False
    """Whether names in `allow` may lead to loopback and private addresses of the host."""
    upstream: str | None = None
    """Another proxy, `http://[USER:PASSWORD@]HOST:PORT`, that all traffic goes through."""
    secrets: Annotated[tuple[str, ...], Meta(max_length=MAX_SECRETS)] = ()
    """Secrets that the settings of the server declare, by their names. The proxy adds each to requests that
    go to its hosts; `allow` has to name these, too."""
    rules: Annotated[tuple[HostRule, ...], Meta(max_length=MAX_PATTERNS)] = ()
    """Rules from files (`network_rule`), in addition to the lists; the strictest counts."""

    def __post_init__(self) -> None:
        for text in (*self.allow, *self.deny):
            if not text.startswith(GROUP_MARK):
                HostPattern.parse(text)


Network = NetworkMode | ProxiedNetwork


def mode_of(network: Network) -> NetworkMode:
    """Return the mode of a network."""
    return NetworkMode.PROXIED if isinstance(network, ProxiedNetwork) else network


class RootPath(Grant, frozen=True, kw_only=True, tag_field="kind", tag="root"):
    """The whole file system."""


class MinimalPath(Grant, frozen=True, kw_only=True, tag_field="kind", tag="minimal"):
    """The files that programs need to start."""


class ProjectRoots(Grant, frozen=True, kw_only=True, tag_field="kind", tag="project_roots"):
    """The workspace roots."""

    subpath: str | None = None
    """A path below each root; the roots themselves by default."""

    def __post_init__(self) -> None:
        refuse_nul("subpath", self.subpath)


class CurrentWorkingDirectory(
    Grant, frozen=True, kw_only=True, tag_field="kind", tag="current_working_directory"
):
    """An older name of `project_roots`."""

    subpath: str | None = None
    """A path below it."""

    def __post_init__(self) -> None:
        refuse_nul("subpath", self.subpath)


class TemporaryDirectory(Grant, frozen=True, kw_only=True, tag_field="kind", tag="tmpdir"):
    """The directory that TMPDIR of the server or launcher names, if it is private to the user or sticky."""


class SlashTmp(Grant, frozen=True, kw_only=True, tag_field="kind", tag="slash_tmp"):
    """`/tmp`."""


class UnknownSpecialPath(Grant, frozen=True, kw_only=True, tag_field="kind", tag="unknown"):
    """A special path that the sender itself did not know."""

    path: str | None = None
    """The word that the sender did not know."""
    subpath: str | None = None
    """A path below it."""

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


# The garbage collector need not look at the entries, of which a profile may have thousands: nothing that they
# hold leads back to them.
class ExactPath(Grant, frozen=True, kw_only=True, gc=False, tag_field="type", tag="path"):
    """One path and everything below it."""

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


class AccessEntry(Grant, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The access to one path."""

    path: ExactPath | GlobPath | NamedPath
    access: Access
    """`none` is another word for `deny`."""
    missing_path_behavior: Literal["skip"] | None = None
    """`skip`: Paddock does not keep a missing path from being created."""


class RestrictedFileSystem(
    Grant, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="restricted"
):
    """Grants only what the entries name."""

    entries: tuple[AccessEntry, ...]
    glob_scan_max_depth: Annotated[int, Meta(gt=0)] | None = None
    """How deep to search for matches of patterns; unlimited by default."""


class UnrestrictedFileSystem(Grant, frozen=True, kw_only=True, tag_field="type", tag="unrestricted"):
    """Grants everything that the user may do."""


class ManagedProfile(Grant, frozen=True, kw_only=True, tag_field="type", tag="managed"):
    """A profile that Paddock enforces."""

    file_system: RestrictedFileSystem | UnrestrictedFileSystem
    network: Network = NetworkMode.RESTRICTED
    limits: Limits = Limits()


class DisabledProfile(Grant, frozen=True, kw_only=True, tag_field="type", tag="disabled"):
    """Asks for no sandbox."""


class ExternalProfile(Grant, frozen=True, kw_only=True, tag_field="type", tag="external"):
    """Something outside Paddock already confines files; Paddock enforces only the network."""

    network: Network = NetworkMode.RESTRICTED


Profile = ManagedProfile | DisabledProfile | ExternalProfile
