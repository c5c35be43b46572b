"""What a plan refuses, asked about one thing at a time, and in the words of its profile.

A plan is made to be carried out; this reads it the other way round, for whoever wants to know why something
did not work. Paths are real ones: what links lead to is found out elsewhere. Pure.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from paddock.model.denial import DenialKind
from paddock.model.profile import Access, NetworkMode
from paddock.sandbox import git_metadata, seccomp
from paddock.sandbox.access import AccessTable, Rule
from paddock.sandbox.glob import Matcher
from paddock.sandbox.path import ROOT, is_within
from paddock.sandbox.plan import PATTERN, PRIVATE, Plan
from paddock.sandbox.socket_address import InternetAddress
from paddock.sandbox.view import DEV, KERNEL_OBJECTS, KERNEL_SETTINGS, PROC

DEFAULT_WORDS: Final = f"default = {Access.DENY}"
"""Of a path that the profile does not grant."""

KERNEL_WORDS: Final = f"kernel settings = {Access.READ}"
"""The same under every profile."""

CALL_WORDS: Final = "system calls = restricted"
"""The same under every profile."""

LOCAL_NAMES: Final = frozenset({"localhost", "ip6-localhost", "localhost.localdomain"})


@dataclass(frozen=True, slots=True)
class Ruling:
    """What is granted at a path."""

    access: Access
    words: str | None
    """What of the profile says so; None if it is not the profile's."""

    def refuses(self, kind: DenialKind) -> bool:
        """Whether an access of this kind is refused."""
        return self.access is Access.DENY or (self.access is Access.READ and kind is DenialKind.WRITE)


class Policy:
    """Answers for one plan."""

    def __init__(self, plan: Plan) -> None:
        self._table = AccessTable(plan.rules)
        self._patterns = [(pattern, Matcher([pattern.rest])) for pattern in plan.denied_patterns]
        held = (place.path for place in plan.placeholders)
        self._held = frozenset(path for path in held if self._table.access_of(path) is not Access.WRITE)
        self._mounted = frozenset(mount.path for mount in plan.mounts) - {ROOT}
        self._network = plan.network
        self._refused_calls = frozenset(
            rule.call
            for rule in seccomp.rules(plan.network)
            if not rule.conditions and rule.errno == errno.EPERM
        )

    def at(self, path: str) -> Ruling | None:
        """What is granted at a real path; None where the sandbox has files of its own, in /proc and /dev."""
        rule = self._table.rule_of(path)
        for directory in (PROC, DEV):
            if is_within(path, directory) and (rule is None or not is_within(rule.path, directory)):
                is_setting = is_within(path, KERNEL_SETTINGS)
                return Ruling(Access.READ, KERNEL_WORDS) if is_setting else None
        if rule is None:
            return Ruling(Access.DENY, DEFAULT_WORDS)
        if rule.path == ROOT and rule.access is Access.WRITE and is_within(path, KERNEL_OBJECTS):
            return Ruling(Access.READ, KERNEL_WORDS)
        return Ruling(rule.access, self.words(rule))

    def is_private(self, path: str) -> bool:
        """Whether a real path is the sandbox's own, which nobody is told of."""
        rule = self._table.rule_of(path)
        return rule is not None and rule.origin == PRIVATE

    def fixed(self, path: str) -> Ruling | None:
        """Why a real path can't be moved away or removed; None if it can.

        It is protected itself, or has something below it that is.
        """
        if path not in self._mounted:
            return None
        for rule in self._table.rules:
            if rule.access is not Access.WRITE and is_within(rule.path, path):
                return Ruling(rule.access, self.words(rule))
        return None

    def held(self, path: str) -> Ruling | None:
        """Why nothing can be made at a real path that does not exist; None if something can."""
        return self.at(path) if path in self._held else None

    def words(self, rule: Rule) -> str | None:
        """A rule in the words of the profile; None for those that are nobody's business."""
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
        """What the profile says of the network."""
        return f"network = {self._network}"

    def refuses_host(self, host: str | None) -> bool | None:
        """Whether a host, by name or address, is out of reach; None if it depends on what is not known."""
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
            # Names of hosts are looked up in files, too, and those may say anything.
            return None
        return not address.is_local

    def refuses_names(self) -> bool:
        """Whether nobody can be asked for the address of a host."""
        return self._network is not NetworkMode.ENABLED

    def refuses_call(self, call: str) -> bool:
        """Whether a system call is refused with EPERM, whatever its arguments."""
        return call in self._refused_calls

    def _pattern(self, rule: Rule) -> str:
        for pattern, matcher in self._patterns:
            below = rule.path.removeprefix(pattern.base + "/")
            if below != rule.path and matcher.matches(below):
                return str(pattern)
        return rule.path
