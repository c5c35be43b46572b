"""Works out what a profile's entries grant: the most specific one decides.

It turns entries into rules, each about one absolute path and everything below it, and rules into the access
of any path. Of two rules about the same path, the first in the order deny, write, read wins; without a rule
nothing is granted. Pure: the caller says what special paths refer to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, assert_never

from msgspec import Struct

from paddock.errors import InvalidProfile
from paddock.model.profile import (
    Access,
    AccessEntry,
    CurrentWorkingDirectory,
    ExactPath,
    GlobPath,
    MinimalPath,
    NamedPath,
    ProjectRoots,
    RootPath,
    SlashTmp,
    SpecialPath,
    TemporaryDirectory,
    UnknownSpecialPath,
)
from paddock.sandbox.profile.enforced import EnforcedProfile, entries_of
from paddock.sandbox.profile.glob import Matcher, Pattern, parse_pattern
from paddock.sandbox.profile.path import ROOT, ancestors, clean, join

SLASH_TMP = "/tmp"

MINIMAL: Final = (
    "/bin",
    "/sbin",
    "/usr",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/run/current-system/sw",
)
"""Directories that programs need to start, on the distributions that we know."""

METADATA_NAMES: Final = (".git", ".codex", ".agents", ".aws", ".paddock")
"""Names protected directly under each writable directory, because other programs obey what is there."""

_STRENGTH = {Access.READ: 0, Access.WRITE: 1, Access.DENY: 2}


class Surroundings(Struct, frozen=True):
    """What the special paths of a profile refer to. All paths are absolute and resolved."""

    project_roots: tuple[str, ...]
    linked_roots: tuple[tuple[str, str], ...] = ()
    """The project roots that were named by links: as named, and resolved."""
    tmpdir: str | None = None
    """The temporary directory of the launcher itself, if it is not /tmp."""
    has_slash_tmp: bool = True
    minimal: tuple[str, ...] = ()
    """The directories that programs need to start, as far as they exist here; may be links."""
    private: tuple[str, ...] = ()
    """Denied under every profile: files that Paddock keeps there would open the sandbox."""
    private_names: tuple[str, ...] = ()
    """The names by which Paddock finds these. May be links, and lead through `..`."""
    own: tuple[str, ...] = ()
    """Read-only under every profile: what Paddock runs, imports or obeys outside of any sandbox."""
    own_links: tuple[str, ...] = ()
    """Links that lead to these."""
    own_searched: tuple[tuple[str, str, str], ...] = ()
    """Where the next interpreter of Paddock would find other modules: path, reason, remedy."""
    rules_directories: tuple[str, ...] = ()
    """Read-only under every profile, even if missing: where Paddock finds its user's rules. May be links."""
    own_names: tuple[str, ...] = ()
    """Other names of files in `own`, and directories that can't be searched for such names."""


class Rule(Struct, frozen=True):
    """The access to a path and everything below it, except where a rule about a longer path decides."""

    path: str
    access: Access
    origin: str
    """The words of the profile, or the default, that the rule comes from."""
    skips_missing: bool = False
    """Whether the command may create the path if it does not exist."""
    is_metadata: bool = False
    """Whether it protects a workspace's metadata, which is a directory if it does not exist yet."""
    stands_as_file: bool = False
    """Whether the placeholder is an empty file, because tools would misread a directory of that name."""
    stands_as_socket: bool = False
    """Whether it is a socket, beside a missing `.git`: git would add a file to the repository around it."""


class Grants(Struct, frozen=True):
    """The entries of a profile with their special paths resolved."""

    rules: tuple[Rule, ...]
    denied_patterns: tuple[Pattern, ...]
    is_unrestricted: bool = False
    """Whether the profile leaves it to somebody else, or to nobody, to restrict files."""

    @property
    def denies_anything(self) -> bool:
        """Return whether there may be more to deny than the rules name."""
        return bool(self.denied_patterns) or any(rule.access is Access.DENY for rule in self.rules)


class AccessTable:
    """The access of every path under a set of rules."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules: dict[str, Rule] = {}
        for rule in rules:
            known = self._rules.get(rule.path)
            if known is None or _STRENGTH[rule.access] > _STRENGTH[known.access]:
                self._rules[rule.path] = rule
        self.rules: Final = tuple(
            sorted(self._rules.values(), key=lambda rule: (rule.path.count("/"), rule.path))
        )
        """One rule for each path that has one, shallow paths first."""

    def __contains__(self, path: str) -> bool:
        return path in self._rules

    def rule_of(self, path: str) -> Rule | None:
        """Return the rule that decides about a path."""
        for above in (path, *ancestors(path)):
            rule = self._rules.get(above)
            if rule is not None:
                return rule
        return None

    def access_of(self, path: str) -> Access:
        """Return the access to a path."""
        rule = self._rules.get(path)
        return rule.access if rule is not None else self.access_around(path)

    def access_around(self, path: str) -> Access:
        """Return the access that a path would have without a rule of its own."""
        for directory in ancestors(path):
            rule = self._rules.get(directory)
            if rule is not None:
                return rule.access
        return Access.DENY


def resolve(entries: Sequence[AccessEntry], surroundings: Surroundings) -> Grants:
    """Resolve entries to rules, in their order. Raises InvalidProfile for a denial that makes no sense."""
    rules: list[Rule] = []
    patterns: list[Pattern] = []
    paths: Sequence[str]
    for entry in entries:
        match entry.path:
            case ExactPath(path=path):
                paths, origin = (path,), path
            case GlobPath(pattern=pattern):
                # A grant by pattern would have to hold for files that do not exist yet.
                if entry.access is Access.DENY:
                    patterns += _patterns(pattern, surroundings)
                continue
            case NamedPath(value=special):
                paths, origin = _special_paths(special, entry.access, surroundings), _name(special)
            case _:
                assert_never(entry.path)
        skips_missing = entry.missing_path_behavior == "skip"
        rules += [Rule(clean(path), entry.access, origin, skips_missing) for path in paths]
    return Grants(tuple(rules), tuple(dict.fromkeys(patterns)))


def grants_tmpdir(profile: EnforcedProfile) -> bool:
    """Return whether a profile lets commands write the temporary directory of the launcher."""
    return any(
        entry.access is Access.WRITE
        and isinstance(entry.path, NamedPath)
        and isinstance(entry.path.value, TemporaryDirectory)
        for entry in entries_of(profile)
    )


def names_minimal(profile: EnforcedProfile) -> bool:
    """Return whether a profile says something about what programs need to start."""
    return any(
        isinstance(entry.path, NamedPath) and isinstance(entry.path.value, MinimalPath)
        for entry in entries_of(profile)
    )


def names_workspace(profile: EnforcedProfile) -> bool:
    """Return whether the workspace matters to a profile."""
    return any(
        isinstance(entry.path.value, (ProjectRoots, CurrentWorkingDirectory))
        if isinstance(entry.path, NamedPath)
        else isinstance(entry.path, GlobPath) and not entry.path.pattern.startswith("/")
        for entry in entries_of(profile)
    )


def _special_paths(special: SpecialPath, access: Access, surroundings: Surroundings) -> Sequence[str]:
    match special:
        case RootPath():
            return (ROOT,)
        case MinimalPath():
            return surroundings.minimal
        case ProjectRoots(subpath=subpath) | CurrentWorkingDirectory(subpath=subpath):
            return [_below(root, subpath) for root in surroundings.project_roots]
        case TemporaryDirectory():
            return () if surroundings.tmpdir is None else (surroundings.tmpdir,)
        case SlashTmp():
            return (SLASH_TMP,) if surroundings.has_slash_tmp else ()
        case UnknownSpecialPath(path=word):
            if access is Access.DENY:
                raise InvalidProfile(
                    f"entry {word!r}", "denies a special path that is not known here; name the path itself"
                )
            return ()
        case _:
            assert_never(special)


def _below(root: str, subpath: str | None) -> str:
    if subpath is None:
        return root
    names = subpath.split("/")
    if subpath.startswith("/") or ".." in names:
        raise InvalidProfile(f"subpath {subpath!r}", "leaves the project root; write a path below it")
    return join(root, subpath)


def _name(special: SpecialPath) -> str:
    kind = special.__struct_config__.tag
    subpath = getattr(special, "subpath", None)
    return f":{kind}" if subpath is None else f":{kind}/{subpath}"


def _patterns(text: str, surroundings: Surroundings) -> list[Pattern]:
    """Parse a pattern. A relative one applies below each project root. Raises InvalidProfile."""
    if text.startswith("/"):
        patterns = [parse_pattern(text)]
    else:
        patterns = [Pattern(root, text) for root in surroundings.project_roots]
    # A bad one is refused even where there is no root to search.
    Matcher([pattern.rest for pattern in patterns] or [text])
    return patterns
