"""Answers what a plan refuses, about one thing at a time, in the words of its profile.

A plan is made to be carried out; this module reads it the other way round, to explain why something did not
work. Paths are real ones: others follow the links. Pure.
"""

from __future__ import annotations

import errno
from ipaddress import ip_address
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from paddock.model.denial import OWN, Denial, DenialKind
from paddock.model.host_pattern import LOCAL_NAMES
from paddock.model.profile import Access, NetworkMode
from paddock.sandbox.denial.socket_address import InternetAddress
from paddock.sandbox.plan import git_metadata, seccomp
from paddock.sandbox.plan.plan import PATTERN, PRIVATE, Plan
from paddock.sandbox.profile.access import METADATA_NAMES as PROTECTED_NAMES
from paddock.sandbox.profile.access import AccessTable, Rule
from paddock.sandbox.profile.glob import SPECIAL, Matcher
from paddock.sandbox.profile.path import DEV, KERNEL_OBJECTS, KERNEL_SETTINGS, PROC, ROOT, is_within, parent

DEFAULT_WORDS: Final = f"default = {Access.DENY}"
"""The words for a path that the profile does not grant."""

KERNEL_WORDS: Final = f"kernel settings = {Access.READ}"
"""The same under every profile."""

CALL_WORDS: Final = "system calls = restricted"
"""The same under every profile."""

PROXY_HINT: Final = "only its proxy leads out; use HTTP_PROXY, HTTPS_PROXY or ALL_PROXY, which name it"
"""For a program that tried a direct connection."""

PROGRAM_DIRECTORIES: Final = ("/usr/bin", "/bin", "/sbin")
"""Directories that may hold bubblewrap, and that no profile may let a command write."""

METADATA_NAMES: Final = frozenset(PROTECTED_NAMES)

KEPT_NAMES: Final = METADATA_NAMES.union(git_metadata.REPOSITORY_NAMES)
"""Names that a command may not be able to make or change at the top of what a profile lets it write."""


class Ruling(Struct, frozen=True):
    """The access to a path, and its reason."""

    access: Access
    words: str | None
    """The part of the profile that says so; None if it is not from the profile."""
    scope: str | None = None
    """Where a grant must lie to change the access; None if no single grant is enough."""
    is_whole: bool = False
    """Whether it can only be granted as a whole."""

    def refuses(self, kind: DenialKind) -> bool:
        """Return whether the sandbox refuses an access of this kind."""
        return self.access is Access.DENY or (self.access is Access.READ and kind is DenialKind.WRITE)

    def grant(self, kind: DenialKind, path: str, *, is_in_place: bool) -> str | None:
        """Return the path that must be granted for an access of this kind to work; None if none is enough.

        Names are created and removed in a directory, so the directory must be granted unless the file only
        changes `is_in_place`: a file granted by itself is a mount, which can't be removed.
        """
        if self.scope is None:
            return None
        wanted = path if kind is not DenialKind.WRITE or is_in_place else parent(path)
        if self.is_whole or not is_within(wanted, self.scope):
            wanted = self.scope
        if kind is DenialKind.WRITE and not self.is_whole and _is_kept(path, wanted):
            return None
        # Patterns can only be denied.
        while SPECIAL.intersection(wanted):
            if wanted == self.scope:
                return None
            wanted = parent(wanted)
        return None if kind is DenialKind.WRITE and not self._can_be_opened(wanted) else wanted

    def _can_be_opened(self, path: str) -> bool:
        """Return whether Paddock would accept a grant to write there, and whether the grant would help."""
        has_programs = any(is_within(directory, path) for directory in PROGRAM_DIRECTORIES)
        is_metadata = not self.is_whole and not METADATA_NAMES.isdisjoint(path.split("/"))
        return not has_programs and not is_metadata


def _is_kept(path: str, granted: str) -> bool:
    """Return whether a path may stay closed to a command that may write a directory above it."""
    below = path.removeprefix(granted).lstrip("/")
    return path != granted and below.partition("/")[0] in KEPT_NAMES


def with_wider_grant(denial: Denial, other: Denial) -> Denial:
    """Return a denial with a grant that is also enough for another of the same path."""
    if denial.grant is None or other.grant is None:
        return replace(denial, grant=None)
    return replace(denial, grant=min(denial.grant, other.grant, key=len))


class Policy:
    """Answers for one plan."""

    def __init__(self, plan: Plan) -> None:
        self._table = AccessTable(plan.rules)
        self._patterns = [(pattern, Matcher([pattern.rest])) for pattern in plan.denied_patterns]
        held = (placeholder.path for placeholder in plan.placeholders)
        self._held = frozenset(path for path in held if self._table.access_of(path) is not Access.WRITE)
        self._mounted = frozenset(mount.path for mount in plan.mounts) - {ROOT}
        self._network = plan.network
        self._refused_calls = frozenset(
            rule.call
            for rule in seccomp.rules(plan.network)
            if not rule.conditions and rule.errno == errno.EPERM
        )

    def at(self, path: str) -> Ruling | None:
        """Return what the profile grants at a real path.

        Returns None where the sandbox has files of its own, in /proc and /dev.
        """
        rule = self._table.rule_of(path)
        for directory in (PROC, DEV):
            if is_within(path, directory) and (rule is None or not is_within(rule.path, directory)):
                is_setting = is_within(path, KERNEL_SETTINGS)
                return Ruling(Access.READ, KERNEL_WORDS) if is_setting else None
        if rule is None:
            return Ruling(Access.DENY, DEFAULT_WORDS, ROOT)
        if rule.path == ROOT and rule.access is Access.WRITE and is_within(path, KERNEL_OBJECTS):
            return Ruling(Access.READ, KERNEL_WORDS)
        ruling = self._ruling(rule)
        return replace(ruling, scope=None) if is_within(path, KERNEL_OBJECTS) else ruling

    def is_private(self, path: str) -> bool:
        """Return whether a real path belongs to the sandbox itself; no report mentions those."""
        rule = self._table.rule_of(path)
        return rule is not None and rule.origin == PRIVATE

    def fixed(self, path: str) -> Ruling | None:
        """Return why a real path can't be moved away or removed; None if it can.

        It, or something below it, is protected.
        """
        if path not in self._mounted:
            return None
        rules = [
            rule
            for rule in self._table.rules
            if rule.access is not Access.WRITE and is_within(rule.path, path)
        ]
        if not rules:
            return None
        ruling = self._ruling(rules[0])
        return ruling if len(rules) == 1 else replace(ruling, scope=None)

    def held(self, path: str) -> Ruling | None:
        """Return why a missing real path can't be created; None if it can."""
        return self.at(path) if path in self._held else None

    def words(self, rule: Rule) -> str | None:
        """Return a rule in the words of the profile; None for a rule that is nobody's business."""
        if rule.origin == PRIVATE:
            return None
        if rule.origin == PATTERN:
            name = self._pattern(rule)
        elif rule.origin.startswith(git_metadata.ORIGIN):
            name = rule.path
        else:
            name = rule.origin.removeprefix(":")
        return f"{name} = {rule.access}"

    @property
    def network_words(self) -> str:
        """Return what the profile says about the network."""
        hint = f"; {PROXY_HINT}" if self._network is NetworkMode.PROXIED else ""
        return f"network = {self._network}{hint}"

    def refuses_host(self, host: str | None) -> bool | None:
        """Return whether a host, by name or address, is out of reach; None if it depends on the unknown."""
        match self._network:
            case NetworkMode.ENABLED:
                return False
            case NetworkMode.RESTRICTED:
                return True
        if host is None:
            return None
        if host.lower() in LOCAL_NAMES:
            return False
        try:
            address = InternetAddress(ip_address(host.strip("[]")), 0)
        except ValueError:
            # Host names are also looked up in files, which may say anything.
            return None
        return not address.is_local

    def refuses_names(self) -> bool:
        """Return whether the command has no way to look up a host's address."""
        return self._network is not NetworkMode.ENABLED

    def refuses_call(self, call: str) -> bool:
        """Return whether the filter refuses a system call with EPERM, whatever its arguments."""
        return call in self._refused_calls

    def _ruling(self, rule: Rule) -> Ruling:
        if rule.access is Access.DENY or rule.origin == OWN:
            # The profile says no of just this, or no profile says yes.
            return Ruling(rule.access, self.words(rule))
        if not rule.is_metadata:
            return Ruling(rule.access, self.words(rule), rule.path)
        # The rules that keep a directory from becoming a repository stay, whatever is granted.
        is_opened = rule.path.rpartition("/")[2] in METADATA_NAMES and rule.origin == git_metadata.ORIGIN
        return Ruling(rule.access, self.words(rule), rule.path if is_opened else None, is_whole=True)

    def _pattern(self, rule: Rule) -> str:
        for pattern, matcher in self._patterns:
            below = rule.path.removeprefix(pattern.base + "/")
            if below != rule.path and matcher.matches(below):
                return str(pattern)
        return rule.path
