"""Decides for one proxy by policies, and remembers what was denied to its command.

The caller supplies functions that report decisions and that ask about hosts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from paddock.errors import AuditUnwritable
from paddock.model.decision import Action
from paddock.model.denial import Denial, DenialKind
from paddock.model.endpoint import Endpoint
from paddock.model.host_pattern import HostPattern
from paddock.model.profile import ProxiedNetwork
from paddock.network.address import Address
from paddock.network.group import expanded
from paddock.network.policy import Decision, HostRule, Policy, Reason, Ruling, policy_of
from paddock.network.upstream import Upstream, parse_upstream

CHANGED_LIMIT: Final = 2048
"""Patterns of all changes to one policy while its command runs; those of a profile come on top. Each decision
looks at every pattern, which takes about half a microsecond."""

DENIALS_LIMIT: Final = 16
"""How many denied hosts the end of a command reports; more are in the log."""

Tell = Callable[[Endpoint, Ruling], Awaitable[None]]
"""Called with each decision before it is carried out. Raises AuditUnwritable."""


Ask = Callable[[Endpoint, Ruling], Awaitable[Ruling]]
"""Decides in place of a policy that leaves a host open, given that policy's ruling. Never returns ASK."""


class AllowedNetwork(Struct, frozen=True):
    """The hosts that a command may reach, and how."""

    policies: tuple[Policy, ...]
    """All of them have to allow a host."""
    upstream: Upstream | None = None


def allowed_network(
    wanted: ProxiedNetwork, groups: Mapping[str, Sequence[str]], cap: ProxiedNetwork | None = None
) -> AllowedNetwork:
    """Read the network that a profile grants, and its cap. Raises ValueError for invalid entries."""
    policies = [_policy(wanted, "network", groups)]
    upstream = wanted.upstream
    if cap is not None:
        policies.append(_policy(cap, "max_profile network", groups))
        if upstream not in (None, cap.upstream):
            raise ValueError("upstream differs from that of the profile that caps requests")
        upstream = cap.upstream
    return AllowedNetwork(tuple(policies), None if upstream is None else parse_upstream(upstream))


def _policy(network: ProxiedNetwork, place: str, groups: Mapping[str, Sequence[str]]) -> Policy:
    lists = policy_of(
        expanded(network.allow, groups),
        expanded(network.deny, groups),
        allows_local=network.allow_local,
        place=place,
    )
    written: dict[Action, list[HostRule]] = {action: [] for action in Action}
    for rule in network.rules:
        pattern = HostPattern(rule.host, has_any_port=True)
        written[rule.action].append(HostRule(pattern, rule.origin, frozenset({rule.protocol})))
    return replace(
        lists,
        allow=(*lists.allow, *written[Action.ALLOW]),
        ask=tuple(written[Action.PROMPT]),
        deny=(*lists.deny, *written[Action.FORBIDDEN]),
    )


class ChangeBudget:
    """The patterns that changes may still add to one policy, or to all policies of a session."""

    def __init__(self) -> None:
        self._left = CHANGED_LIMIT

    def take(self, allow: Sequence[str], deny: Sequence[str]) -> Policy:
        """Read the patterns of one change. Raises ValueError, also if there are too many by now."""
        count = len(allow) + len(deny)
        if count > self._left:
            raise ValueError(f"all changes together may name {CHANGED_LIMIT} patterns; {self._left} are left")
        more = policy_of(allow, deny, allows_local=False, place="network/policyUpdate")
        self._left -= count
        return more


class PolicyJudge:
    """A `gateway.Judge`. The first policy is the command's own, and the others cap it.

    It calls `tell` with every decision, and `ask` about hosts that the command's own policy leaves open.
    """

    def __init__(self, policies: Sequence[Policy], tell: Tell | None = None, ask: Ask | None = None) -> None:
        self._own, *self._caps = policies
        self._changes: list[Policy] = []
        self.budget = ChangeBudget()
        """For changes to this policy alone."""
        self._tell = tell
        self._ask = ask
        self._denials: dict[tuple[str, int], Denial] = {}

    @property
    def denials(self) -> tuple[Denial, ...]:
        """Return what the proxy denied the command, the first of each host and port."""
        return tuple(self._denials.values())

    async def decide(self, endpoint: Endpoint) -> Ruling:
        """Decide by the name."""
        ruling = await self._decided(endpoint)
        if ruling.is_allowed and self._tell is not None:
            try:
                await self._tell(endpoint, ruling)
            except AuditUnwritable as error:
                return Ruling(Decision.DENY, Reason.POLICY_DENIED, str(error))
        return ruling

    async def _decided(self, endpoint: Endpoint) -> Ruling:
        for cap in self._caps:
            ruling = cap.judge(endpoint)
            if not ruling.is_allowed:
                return ruling
        ruling = self._changed().judge(endpoint)
        is_open = ruling.decision is Decision.ASK or ruling.reason is Reason.NOT_ALLOWED
        if is_open and self._ask is not None:
            return await self._ask(endpoint, ruling)
        if ruling.decision is Decision.ASK:
            return Ruling(Decision.DENY, Reason.POLICY_DENIED, ruling.rule, "nobody can be asked")
        return ruling

    def change(self, more: Policy) -> None:
        """Allow and deny further hosts from the next connection on, as a `ChangeBudget` has read them.

        It costs nothing before that connection: there may be thousands of commands.
        """
        self._changes.append(more)

    def _changed(self) -> Policy:
        """Return the command's own policy with all changes."""
        if self._changes:
            self._own = self._own.changed(self._changes)
            self._changes.clear()
        return self._own

    def decide_address(self, endpoint: Endpoint, address: Address, own: Collection[Address]) -> Ruling | None:
        """Return why one address of a host that may be reached may not be."""
        found = (policy.judge_address(endpoint, address, own) for policy in (self._changed(), *self._caps))
        return next(filter(None, found), None)

    async def blocked(self, endpoint: Endpoint, ruling: Ruling) -> None:
        """Note a connection that is denied to the command."""
        key = endpoint.host, endpoint.port
        if key not in self._denials and len(self._denials) < DENIALS_LIMIT:
            rule = f"{ruling.rule} ({ruling.message})" if ruling.message else ruling.rule
            self._denials[key] = Denial(
                DenialKind.NETWORK, str(endpoint), rule, is_certain=True, endpoint=endpoint
            )
        if self._tell is not None:
            # It is refused whether or not that can be written down.
            with contextlib.suppress(AuditUnwritable):
                await self._tell(endpoint, ruling)
