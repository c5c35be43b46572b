"""Decides what a command may reach through the proxy: lists of hosts in, a ruling with its rule out. Pure.

A denial wins over a question, and a question over a permission; a host that no list names is denied. A name
that was allowed is not enough: the address that it has at the moment of connecting is judged too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from paddock.model.denial import NOT_NAMED
from paddock.model.endpoint import Endpoint, NetworkProtocol
from paddock.model.host_pattern import HostPattern, parse_address
from paddock.network.address import Address, class_of, inner_address

EVERY_PROTOCOL: Final = frozenset(NetworkProtocol)


class Decision(StrEnum):
    """The decision on a connection."""

    ALLOW = "allow"
    ASK = "ask"
    """Somebody is asked, and without an answer it is denied."""
    DENY = "deny"


class Reason(StrEnum):
    """Why, for programs."""

    ALLOWED = "allowed"
    ANSWERED = "answered"
    """Somebody was asked, and has allowed it."""
    NOT_ALLOWED = "not_allowed"
    NOT_ALLOWED_LOCAL = "not_allowed_local"
    DENIED = "denied"
    POLICY_DENIED = "policy_denied"
    """Somebody was asked and denied it, or a rule asks and nobody can answer."""
    HOST_MISMATCH = "host_mismatch"
    """The data inside the connection names another host."""
    UNSUPPORTED = "unsupported"


class Ruling(Struct, frozen=True):
    """A decision, and the rule behind it."""

    decision: Decision
    reason: Reason
    rule: str
    """In the words of the profile or of the file of rules."""
    message: str | None = None
    """A message to the command from the person or rule that decided."""

    @property
    def is_allowed(self) -> bool:
        """Return whether the proxy makes the connection."""
        return self.decision is Decision.ALLOW


class HostRule(Struct, frozen=True):
    """A pattern, the protocols that it is for, and where it is written."""

    pattern: HostPattern
    origin: str
    protocols: frozenset[NetworkProtocol] = EVERY_PROTOCOL

    @property
    def is_listed(self) -> bool:
        """Return whether it is an entry of a list, and no rule of a file."""
        return self.protocols == EVERY_PROTOCOL


class Policy(Struct, frozen=True):
    """The hosts that a command may reach."""

    allow: tuple[HostRule, ...] = ()
    ask: tuple[HostRule, ...] = ()
    deny: tuple[HostRule, ...] = ()
    allows_local: bool = False
    """Whether loopback and private addresses may be reached, by a pattern that names a host."""

    def judge(self, endpoint: Endpoint) -> Ruling:
        """Decide by the name, or the address that stands in its place."""
        for rule in self.deny:
            if endpoint.protocol in rule.protocols and rule.pattern.refuses(endpoint.host, endpoint.port):
                return Ruling(Decision.DENY, Reason.DENIED, rule.origin)
        address = parse_address(endpoint.host)
        if address is not None and (local := self.judge_address(endpoint, address)) is not None:
            return local
        for rule in self.ask:
            if endpoint.protocol in rule.protocols and rule.pattern.refuses(endpoint.host, endpoint.port):
                return Ruling(Decision.ASK, Reason.POLICY_DENIED, rule.origin)
        granted = self._grant(endpoint)
        if granted is None:
            return Ruling(Decision.DENY, Reason.NOT_ALLOWED, NOT_NAMED)
        return Ruling(Decision.ALLOW, Reason.ALLOWED, granted.origin)

    def judge_address(
        self, endpoint: Endpoint, address: Address, own: Collection[Address] = ()
    ) -> Ruling | None:
        """Decide whether one address of a host that was allowed may be connected to; None if it may.

        `own` are the addresses of this host.
        """
        # Of two names for one address, only one may be on the list.
        texts = [str(each) for each in (address, inner_address(address)) if each is not None]
        for rule in self.deny:
            if endpoint.protocol in rule.protocols and any(
                rule.pattern.refuses(text, endpoint.port) for text in texts
            ):
                return Ruling(Decision.DENY, Reason.DENIED, rule.origin)
        kind = class_of(address, own)
        if kind is None:
            return None
        if not kind.is_local:
            return Ruling(
                Decision.DENY, Reason.NOT_ALLOWED_LOCAL, f"no profile allows the {kind} address {address}"
            )
        granted = self._grant(endpoint)
        if self.allows_local and granted is not None and not granted.pattern.is_for_all:
            return None
        if not self.allows_local:
            what = "network.allowLocal is not set for"
        elif granted is None:
            what = f"network.allow does not name port {endpoint.port} of"
        else:
            what = "network.allow = * does not mean"
        return Ruling(Decision.DENY, Reason.NOT_ALLOWED_LOCAL, f"{what} the {kind} address {address}")

    def changed(self, changes: Iterable[Policy]) -> Policy:
        """Return the policy after changes, in their order: each adds its rules, and takes their opposites in
        a list away.

        Rules of files are about one protocol. They stay: the server's own are among them.
        """
        allow: dict[HostPattern, HostRule] = {}
        deny: dict[HostPattern, HostRule] = {}
        allowed, denied = set[HostPattern](), set[HostPattern]()
        for change in changes:
            for rules, own, opposite, named in (
                (change.allow, allow, deny, allowed),
                (change.deny, deny, allow, denied),
            ):
                for rule in rules:
                    opposite.pop(rule.pattern, None)
                    named.add(rule.pattern)
                    own[rule.pattern] = rule
        left = (rule for rule in self.allow if rule.pattern not in denied)
        refused = (rule for rule in self.deny if not rule.is_listed or rule.pattern not in allowed)
        return replace(self, allow=(*left, *allow.values()), deny=(*refused, *deny.values()))

    def _grant(self, endpoint: Endpoint) -> HostRule | None:
        for rule in self.allow:
            if endpoint.protocol in rule.protocols and rule.pattern.grants(endpoint.host, endpoint.port):
                return rule
        return None


def policy_of(
    allow: Iterable[str], deny: Iterable[str], *, allows_local: bool, place: str = "network"
) -> Policy:
    """Read the lists of a profile. Raises ValueError for a pattern that means nothing."""
    return Policy(
        allow=tuple(HostRule(HostPattern.parse(text), f"{place}.allow = {text}") for text in allow),
        deny=tuple(HostRule(HostPattern.parse(text), f"{place}.deny = {text}") for text in deny),
        allows_local=allows_local,
    )
