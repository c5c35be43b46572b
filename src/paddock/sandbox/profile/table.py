"""Reads profiles in TOML: a file has several by name, and one can extend another.

    default_permissions = "dev"

    [permissions.dev]
    extends = ":workspace"
    [permissions.dev.filesystem]
    "~/.ssh" = "deny"
    [permissions.dev.filesystem.":workspace_roots"]
    "docs" = "read"
    "**/*.env" = "deny"

A table that extends another inherits its keys, and its own keys win. Unknown keys, words and names are
errors. Pure: tables in, profiles out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct, field

from paddock.c_string import NUL_FLAW
from paddock.errors import InvalidProfile
from paddock.model.profile import (
    Access,
    AccessEntry,
    DisabledProfile,
    ExactPath,
    GlobPath,
    Limits,
    ManagedProfile,
    MinimalPath,
    NamedPath,
    Network,
    NetworkMode,
    Profile,
    ProjectRoots,
    ProxiedNetwork,
    RestrictedFileSystem,
    RootPath,
    SlashTmp,
    SpecialPath,
    TemporaryDirectory,
)
from paddock.sandbox.profile.glob import SPECIAL
from paddock.sandbox.profile.path import ROOT, clean, join
from paddock.toml_flaw import instead

DANGER: Final = ":danger-full-access"
BUILT_IN: Final[Mapping[str, dict[str, Any]]] = {
    ":read-only": {"filesystem": {":root": "read"}},
    ":workspace": {
        "filesystem": {
            ":root": "read",
            ":workspace_roots": "write",
            ":slash_tmp": "write",
            ":tmpdir": "write",
        }
    },
}
"""Profiles that every file may extend; the metadata of a workspace is protected anyway."""

BUILT_IN_NAMES: Final = (*BUILT_IN, DANGER)

ITSELF: Final = "."
SUBTREE: Final = "/**"
SCAN_DEPTH: Final = "glob_scan_max_depth"

_SPECIAL_PATHS: Final[Mapping[str, SpecialPath]] = {
    ":root": RootPath(),
    ":minimal": MinimalPath(),
    ":workspace_roots": ProjectRoots(),
    ":project_roots": ProjectRoots(),
    ":tmpdir": TemporaryDirectory(),
    ":slash_tmp": SlashTmp(),
}


class WrittenProfile(Struct, frozen=True):
    """A profile, and the project roots that its file adds to those of the command."""

    profile: Profile
    workspace_roots: tuple[str, ...] = ()


class _Network(Struct, forbid_unknown_fields=True):
    """`enabled` alone is a switch; the other keys configure a proxy."""

    enabled: bool = False
    type: Literal["proxied"] | None = None
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    allow_local: bool = False
    upstream: str | None = None
    secrets: tuple[str, ...] = ()

    def value(self) -> Network:
        is_proxied = self.allow or self.deny or self.allow_local or self.upstream or self.secrets
        if self.type is None and not is_proxied:
            return NetworkMode.ENABLED if self.enabled else NetworkMode.RESTRICTED
        if self.enabled:
            raise ValueError("network.enabled is the whole network; leave it out where hosts are listed")
        return ProxiedNetwork(
            allow=self.allow,
            deny=self.deny,
            allow_local=self.allow_local,
            upstream=self.upstream,
            secrets=self.secrets,
        )


class _Table(Struct, forbid_unknown_fields=True):
    description: str = ""
    workspace_roots: dict[str, bool] = field(default_factory=dict)
    filesystem: dict[str, Any] = field(default_factory=dict)
    network: NetworkMode | _Network = NetworkMode.RESTRICTED
    limits: Limits = Limits()


_KEYS: Final = {
    "": ("extends", *_Table.__struct_fields__),
    "network": _Network.__struct_fields__,
    "limits": Limits.__struct_encode_fields__,
}
_WORDS: Final = {"network": ("restricted", "loopback", "enabled")}
"""What a profile may be made of; a network with a proxy is a table."""


class _File(Struct, forbid_unknown_fields=True):
    default_permissions: str = ""
    permissions: dict[str, dict[str, Any]] = field(default_factory=dict)


def is_table(written: Mapping[str, Any]) -> bool:
    """Return whether a profile has the form of TOML, and not one of the forms of JSON."""
    return "type" not in written and not written.keys().isdisjoint(("extends", "filesystem"))


def built_in(name: str) -> Profile:
    """Return the profile of a name that begins with a colon. Raises InvalidProfile."""
    if name not in BUILT_IN:
        return _named(name, {}, "").profile
    # They grant files and nothing else. Checking that with msgspec would take a tenth of a one-shot start.
    files = _merged(name, {}, ())["filesystem"]
    return ManagedProfile(file_system=RestrictedFileSystem(entries=tuple(_entries(files, name, ""))))


def parse_table(table: dict[str, Any], origin: str, home: str, name: str | None = None) -> WrittenProfile:
    """Return the profile called `name`, or the file's default one. Raises InvalidProfile.

    `home` is what `~` stands for.
    """
    from paddock.sandbox.profile.legacy import MODE_KEY, TABLE_KEY, parse_legacy_table

    if MODE_KEY in table or TABLE_KEY in table:
        return WrittenProfile(parse_legacy_table(table, origin))
    try:
        file = msgspec.convert(table, type=_File)
    except msgspec.ValidationError as error:
        from paddock.sandbox.profile.flaw import invalid_file

        raise invalid_file(str(error), origin, _File.__struct_fields__) from error
    for known in file.permissions:
        if known.startswith(":"):
            raise InvalidProfile(
                f"{origin}: {known}", "only built-in names begin with a colon; choose another"
            )
    chosen = name or file.default_permissions
    if not chosen:
        raise InvalidProfile(origin, "has no default_permissions; set it, or name a profile after '#'")
    return _named(chosen, file.permissions, home)


def _named(name: str, tables: Mapping[str, dict[str, Any]], home: str) -> WrittenProfile:
    if name == DANGER:
        return WrittenProfile(DisabledProfile())
    merged = _merged(name, tables, ())
    try:
        return _written(name, merged, home)
    except InvalidProfile as error:
        from paddock.sandbox.profile.flaw import path_in_file

        error.key = path_in_file(name, error.key, tables)
        raise


def _written(name: str, merged: dict[str, Any], home: str) -> WrittenProfile:
    """Return the profile that a table means. The key of an error is its path in the table."""
    try:
        table = msgspec.convert(merged, type=_Table)
    except msgspec.ValidationError as error:
        raise _refused(str(error), name) from error
    try:
        depth = msgspec.convert(
            table.filesystem.pop(SCAN_DEPTH, None), type=Annotated[int, Meta(ge=1)] | None
        )
    except msgspec.ValidationError as error:
        raise _refused(f"{error} - at `$.filesystem.{SCAN_DEPTH}`", name) from error
    network: NetworkMode | _Network | ProxiedNetwork = table.network
    if isinstance(network, _Network):
        try:
            network = network.value()
        except ValueError as error:
            raise InvalidProfile(f"{name}: network", str(error), ("network",)) from error
    profile = ManagedProfile(
        file_system=RestrictedFileSystem(
            entries=tuple(_entries(table.filesystem, name, home)), glob_scan_max_depth=depth
        ),
        network=network,
        limits=table.limits,
    )
    return WrittenProfile(profile, tuple(_roots(table.workspace_roots, name, home)))


def _refused(message: str, name: str) -> InvalidProfile:
    # Most profiles have no flaw, and each start of a sandbox would wait for the module.
    from paddock.sandbox.profile.flaw import invalid_table

    return invalid_table(message, name, _KEYS, _WORDS)


def _roots(written: Mapping[str, bool], name: str, home: str) -> Iterator[str]:
    for key, is_wanted in written.items():
        root = _expanded(key, home)
        if is_wanted and not root.startswith("/"):
            raise InvalidProfile(
                f"{name}: workspace_roots", f"{root!r} is not absolute", ("workspace_roots", key)
            )
        if is_wanted and "\0" in root:
            raise InvalidProfile(f"{name}: workspace_roots", f"{root!r} {NUL_FLAW}", ("workspace_roots", key))
        if is_wanted:
            yield root


def _merged(name: str, tables: Mapping[str, dict[str, Any]], below: tuple[str, ...]) -> dict[str, Any]:
    """Return a table with everything that it extends."""
    if name in below:
        raise InvalidProfile(name, f"extends itself: {' extends '.join((*below, name))}")
    if name == DANGER:
        raise InvalidProfile(below[-1], f"{DANGER} can't be extended, for it has nothing to restrict")
    table = tables.get(name) or BUILT_IN.get(name)
    if table is None:
        meant = instead(name, (*tables, *BUILT_IN_NAMES))
        named_by = ("permissions", below[-1], "extends") if below else ("default_permissions",)
        raise InvalidProfile(name, f"there is no profile of this name; {meant}", named_by)
    own = {key: value for key, value in table.items() if key != "extends"}
    if isinstance(own.get("filesystem"), dict):
        own["filesystem"] = {key: _as_table(value) for key, value in own["filesystem"].items()}
    base = table.get("extends")
    if base is None:
        return own
    if not isinstance(base, str):
        raise InvalidProfile(name, "extends must be the name of a profile")
    return _over(_merged(base, tables, (*below, name)), own)


def _as_table(value: Any) -> Any:
    """Return a table for a value: `"dir" = "read"` is short for one about the directory itself."""
    return {ITSELF: value} if isinstance(value, str) else value


def _over(base: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in own.items():
        known = merged.get(key)
        merged[key] = _over(known, value) if isinstance(known, dict) and isinstance(value, dict) else value
    return merged


def _entries(filesystem: dict[str, Any], name: str, home: str) -> Iterator[AccessEntry]:
    for key, grants in filesystem.items():
        origin = f"{name}: filesystem.{key!r}"
        try:
            yield from _granted(key, grants, origin, home)
        except InvalidProfile as error:
            error.key = ("filesystem", key, *error.key)
            raise


def _granted(key: str, grants: Any, origin: str, home: str) -> Iterator[AccessEntry]:
    if not isinstance(grants, dict):
        raise InvalidProfile(origin, "must be an access word, or a table of paths and access words")
    for below, word in grants.items():
        path = () if below == ITSELF else (below,)
        try:
            access = msgspec.convert(word, type=Access)
        except msgspec.ValidationError as error:
            raise InvalidProfile(origin, f"{word!r} is not read, write, deny or none", path) from error
        try:
            yield _entry(_expanded(key, home), below, access, origin)
        except InvalidProfile as error:
            error.key = path
            raise
        except ValueError as error:
            raise InvalidProfile(origin, str(error), path) from error


def _entry(key: str, below: str, access: Access, origin: str) -> AccessEntry:
    if below != ITSELF:
        names = below.split("/")
        if below.startswith("/") or any(name in ("", ".", "..") for name in names):
            raise InvalidProfile(origin, f"{below!r} must be a plain path below it, or '.'")
    if key.startswith(":"):
        return _special_entry(key, below, access, origin)
    if not key.startswith("/"):
        raise InvalidProfile(
            origin, "is neither an absolute path nor a special name such as :workspace_roots"
        )
    path = key if below == ITSELF else join(clean(key), below)
    path = _without_subtree(path, access, origin)
    if SPECIAL.isdisjoint(path):
        return AccessEntry(path=ExactPath(path=path or ROOT), access=access)
    return AccessEntry(path=GlobPath(pattern=path), access=access)


def _special_entry(key: str, below: str, access: Access, origin: str) -> AccessEntry:
    special = _SPECIAL_PATHS.get(key)
    if special is None:
        raise InvalidProfile(origin, f"is not a special name; there are {', '.join(_SPECIAL_PATHS)}")
    if below == ITSELF:
        return AccessEntry(path=NamedPath(value=special), access=access)
    if not isinstance(special, ProjectRoots):
        raise InvalidProfile(origin, "takes one access word; only :workspace_roots has a table")
    below = _without_subtree(below, access, origin)
    if SPECIAL.isdisjoint(below):
        return AccessEntry(path=NamedPath(value=ProjectRoots(subpath=below)), access=access)
    return AccessEntry(path=GlobPath(pattern=below), access=access)


def _without_subtree(path: str, access: Access, origin: str) -> str:
    """Drop `/**` from a grant, which covers everything below anyway. Refuse a grant by any other pattern."""
    if access is Access.DENY:
        return path
    path = path.removesuffix(SUBTREE)
    if not SPECIAL.isdisjoint(path):
        raise InvalidProfile(origin, f"the pattern {path!r} can only be denied; grant a directory")
    return path


def _expanded(path: str, home: str) -> str:
    return home + path[1:] if path == "~" or path.startswith("~/") else path
