"""Finds what two profiles both grant: a client may narrow the server's profile, and never widens it. Pure.

For every path, the result grants what the weaker of the two grants. It compares both by where their paths
lead on the host (`path_lookup`), and keeps every denial, whatever surrounds it. Special paths of the client
mean what they mean to the client, so they are written out; temporary directories of the cap keep their names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct, field, structs
from msgspec.structs import replace

from paddock.errors import InvalidProfile
from paddock.mcp_server.path_lookup import Location
from paddock.model.profile import (
    Access,
    AccessEntry,
    DisabledProfile,
    ExactPath,
    ExternalProfile,
    GlobPath,
    Limits,
    ManagedProfile,
    NamedPath,
    Network,
    NetworkMode,
    Profile,
    ProxiedNetwork,
    RestrictedFileSystem,
    RootPath,
    SlashTmp,
    TemporaryDirectory,
    UnrestrictedFileSystem,
    mode_of,
)
from paddock.sandbox.plan.metadata import OTHER_REPOSITORIES
from paddock.sandbox.profile.access import METADATA_NAMES, MINIMAL, AccessTable, Rule, Surroundings, resolve
from paddock.sandbox.profile.enforced import entries_of
from paddock.sandbox.profile.path import DEV, PROC, ROOT, ancestors, depth, is_within

_ACCESS_ORDER: Final = (Access.DENY, Access.READ, Access.WRITE)
_NETWORK_ORDER: Final = (
    NetworkMode.RESTRICTED,
    NetworkMode.LOOPBACK,
    NetworkMode.PROXIED,
    NetworkMode.ENABLED,
)
_PROTECTED: Final = frozenset((*METADATA_NAMES, *OTHER_REPOSITORIES))


class Bounds(Struct, frozen=True):
    """A profile, and what its special paths refer to."""

    profile: Profile
    roots: tuple[str, ...]
    tmpdir: str | None = None
    found: Mapping[str, Location] = field(default_factory=dict)
    """Where paths lead on the host."""

    @property
    def writable(self) -> tuple[str, ...]:
        """Return the paths that it grants for writing, without the temporary directories."""
        files = _files(self.profile)
        if not isinstance(files, RestrictedFileSystem):
            return ()
        return self._granted([entry for entry in files.entries if not _is_temporary(entry)])

    @property
    def all_writable(self) -> tuple[str, ...]:
        """Return the paths that it grants for writing, with the temporary directories."""
        return self._granted(entries_of(self.profile))

    @property
    def paths(self) -> tuple[str, ...]:
        """Return the paths that it speaks of, as they are named, and all that may be meant by `minimal`."""
        return tuple(dict.fromkeys(rule.path for rule in self._rules(entries_of(self.profile))))

    def rules(self, entries: Sequence[AccessEntry]) -> tuple[Rule, ...]:
        """Return what the entries grant, by names. Raises InvalidProfile for a denial that means nothing."""
        return tuple(rule for rule in self._rules(entries) if not self._is_absent(rule))

    def table(self, rules: Sequence[Rule]) -> AccessTable:
        """Return the access that rules grant, by where their paths lead."""
        return AccessTable(replace(rule, path=self.location(rule.path).path) for rule in rules)

    def location(self, path: str) -> Location:
        """Return where a path leads; a path that nobody has looked up leads to itself."""
        return self.found.get(path) or Location(path)

    def patterns(self, entries: Sequence[AccessEntry]) -> tuple[str, ...]:
        """Return the patterns that are denied, all of them absolute."""
        return tuple(map(str, resolve(entries, self._surroundings).denied_patterns))

    def _is_absent(self, rule: Rule) -> bool:
        """Return whether a rule is about files that programs need on other hosts."""
        if rule.path not in MINIMAL or rule.access is Access.DENY or not self.found:
            return False
        found = self.found.get(rule.path)
        return found is None or found.is_missing

    def _granted(self, entries: Sequence[AccessEntry]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(rule.path for rule in self._rules(entries) if rule.access is Access.WRITE))

    def _rules(self, entries: Sequence[AccessEntry]) -> tuple[Rule, ...]:
        return resolve(entries, self._surroundings).rules

    @property
    def _surroundings(self) -> Surroundings:
        return Surroundings(project_roots=self.roots, tmpdir=self.tmpdir, minimal=MINIMAL)


def meet(cap: Bounds, wanted: Bounds) -> Profile:
    """Return a profile of what both grant. Raises InvalidProfile for a profile that can't be understood."""
    if isinstance(wanted.profile, DisabledProfile):
        return cap.profile
    if isinstance(cap.profile, DisabledProfile):
        return wanted.profile
    network = _meet_networks(cap.profile.network, wanted.profile.network)
    most, asked = cap.profile, wanted.profile
    if isinstance(most, ExternalProfile) and isinstance(asked, ExternalProfile):
        return ExternalProfile(network=network)
    if isinstance(most, ExternalProfile):
        return structs.replace(asked, network=network)
    if isinstance(asked, ExternalProfile):
        return structs.replace(most, network=network)
    return ManagedProfile(
        file_system=_meet_files(cap, wanted),
        network=network,
        limits=_meet_limits(most.limits, asked.limits),
    )


def _files(profile: Profile) -> RestrictedFileSystem | UnrestrictedFileSystem | None:
    return profile.file_system if isinstance(profile, ManagedProfile) else None


def _meet_networks(most: Network, asked: Network) -> Network:
    _refuse_secrets(most, asked)
    if mode_of(most) is not mode_of(asked):
        return min(most, asked, key=lambda network: _NETWORK_ORDER.index(mode_of(network)))
    if most == asked or not isinstance(asked, ProxiedNetwork):
        return asked
    if not isinstance(most, ProxiedNetwork):
        return most
    raise InvalidProfile("network", "both the client and the server name hosts; leave that to the server")


def _refuse_secrets(most: Network, asked: Network) -> None:
    """Refuse secrets that the cap does not name: a command that uses one gets more than any network
    grants."""
    named = most.secrets if isinstance(most, ProxiedNetwork) else ()
    for secret in asked.secrets if isinstance(asked, ProxiedNetwork) else ():
        if secret not in named:
            raise InvalidProfile(
                "network.secrets", f"the server's profile does not name the secret {secret!r}"
            )


def _meet_limits(one: Limits, other: Limits) -> Limits:
    pairs = zip(structs.asdict(one).items(), structs.asdict(other).values(), strict=True)
    return Limits(
        **{name: min((each for each in (a, b) if each is not None), default=None) for (name, a), b in pairs}
    )


def _meet_files(cap: Bounds, wanted: Bounds) -> RestrictedFileSystem | UnrestrictedFileSystem:
    most, asked = _files(cap.profile), _files(wanted.profile)
    if isinstance(asked, UnrestrictedFileSystem):
        assert most is not None
        return most
    if isinstance(most, UnrestrictedFileSystem):
        assert asked is not None
        return asked
    assert isinstance(most, RestrictedFileSystem)
    assert isinstance(asked, RestrictedFileSystem)
    depths = (most.glob_scan_max_depth, asked.glob_scan_max_depth)
    return RestrictedFileSystem(
        entries=(
            *_meet_entries(cap, wanted, most.entries, asked.entries),
            *_patterns(cap, wanted, most.entries, asked.entries),
        ),
        # The deeper search denies more; without a number it goes to the bottom.
        glob_scan_max_depth=None if None in depths else max(depth for depth in depths if depth is not None),
    )


def _meet_entries(
    cap: Bounds, wanted: Bounds, most: Sequence[AccessEntry], asked: Sequence[AccessEntry]
) -> Iterator[AccessEntry]:
    """Yield entries about paths, from the root down, without grants that hold there anyway."""
    most_rules, asked_rules = cap.rules(most), wanted.rules(asked)
    most_table, asked_table = cap.table(most_rules), wanted.table(asked_rules)
    temporary = _temporary_names(cap, most)
    by_target: dict[str, list[tuple[Rule, tuple[str, ...]]]] = {}
    for rule in most_rules:
        by_target.setdefault(cap.location(rule.path).path, []).append((rule, (rule.path,)))
    for rule in asked_rules:
        target = wanted.location(rule.path).path
        by_target.setdefault(target, []).append((rule, _client_names(rule, target)))
    read_only = {location.path for location in wanted.found.values() if location.is_read_only}
    given: dict[str, Access] = {}
    for target in sorted(by_target, key=lambda path: (depth(path), path)):
        access = min(
            _protected_access(most_table, target),
            _protected_access(asked_table, target),
            key=_ACCESS_ORDER.index,
        )
        if access is Access.WRITE and target in read_only:
            # A plan of the cap protects it by what it finds in the files, and would not if an entry names it.
            access = Access.READ
        rules = [rule for rule, _ in by_target[target]]
        names = dict.fromkeys(name for _, names in by_target[target] for name in names)
        around = next((given[above] for above in ancestors(target) if above in given), Access.DENY)
        is_needed = any(rule.access is Access.DENY for rule in rules) or any(name != target for name in names)
        if target == ROOT and access is Access.DENY:
            continue
        if access is around and target != ROOT and not is_needed:
            continue
        given[target] = access
        for name in names:
            yield AccessEntry(
                path=temporary.get(name) or _path_entry(name),
                access=access,
                missing_path_behavior="skip" if all(rule.skips_missing for rule in rules) else None,
            )


def _path_entry(path: str) -> ExactPath | NamedPath:
    return NamedPath(value=RootPath()) if path == ROOT else ExactPath(path=path)


def _client_names(rule: Rule, target: str) -> tuple[str, ...]:
    """Return the names under which a rule of the client is passed on.

    A grant is about the target that was compared, so that no link is followed again. Programs also need the
    links of the host that lead to them, such as /bin.
    """
    return (rule.path, target) if rule.access is Access.DENY or rule.path in MINIMAL else (target,)


def refuse_unknown_grants(wanted: Bounds) -> None:
    """Refuse a grant of the client if the host can't tell where its path leads. Raises InvalidProfile."""
    for rule in wanted.rules(entries_of(wanted.profile)):
        if rule.access is Access.DENY:
            continue
        if rule.path not in wanted.found:
            raise InvalidProfile(
                f"path {rule.path}",
                "it leads through what the server's profile does not show; name another path",
            )
        for path in (rule.path, wanted.found[rule.path].path):
            if is_within(path, PROC) or is_within(path, DEV):
                raise InvalidProfile(f"path {rule.path}", "every command has a /proc and /dev of its own")


def _protected_access(table: AccessTable, path: str) -> Access:
    """Return what a table grants at a path, without the metadata that a writable directory keeps to itself.

    A plan protects those below what it grants, and would not below what an entry of the client names.
    """
    rule = table.rule_of(path)
    if rule is None:
        return Access.DENY
    below = path[len(rule.path) :].split("/")
    return Access.READ if rule.access is Access.WRITE and not _PROTECTED.isdisjoint(below) else rule.access


def _temporary_names(cap: Bounds, entries: Sequence[AccessEntry]) -> dict[str, NamedPath]:
    """Return the paths that keep their name: whether TMPDIR can be trusted is decided where it is mounted."""
    names: dict[str, NamedPath] = {}
    for entry in entries:
        if _is_temporary(entry):
            assert isinstance(entry.path, NamedPath)
            names |= {rule.path: entry.path for rule in cap.rules((entry,))}
    return names


def _is_temporary(entry: AccessEntry) -> bool:
    return isinstance(entry.path, NamedPath) and isinstance(entry.path.value, TemporaryDirectory | SlashTmp)


def _patterns(
    cap: Bounds, wanted: Bounds, most: Sequence[AccessEntry], asked: Sequence[AccessEntry]
) -> Iterator[AccessEntry]:
    for pattern in dict.fromkeys((*cap.patterns(most), *wanted.patterns(asked))):
        yield AccessEntry(path=GlobPath(pattern=pattern), access=Access.DENY)
