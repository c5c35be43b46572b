"""`network/*`: whom a process may reach through its proxy, decided while it runs; and what a start says."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from paddock.model.endpoint import NetworkProtocol
from paddock.model.host_pattern import HostPattern
from paddock.model.verdict import HostRemember
from paddock.protocol.bound import MAX_ENTRIES, Name
from paddock.protocol.question import QuestionParams
from paddock.protocol.structure import Params, Result, Unsigned

POLICY_REQUEST = "network/policyRequest"
POLICY_DECISION = "network/policyDecision"

Port = Annotated[int, Meta(ge=0, le=0xFFFF)]
Hosts = Annotated[list[str], Meta(max_length=MAX_ENTRIES)]


class ManagedNetwork(Params, frozen=True, kw_only=True):
    """Which proxies on the loopback of the host are the only way out."""

    loopback_ports: list[Port]
    """Their ports."""
    allow_local_binding: bool
    """Means nothing here: a process may always listen on its own loopback."""


class ProxyConfig(Params, frozen=True, kw_only=True):
    """The settings of a proxy, as the reference has them."""

    enabled: bool
    """Must be true."""
    mode: Literal["full", "limited"] = "full"
    """`limited` is refused: what is asked inside of TLS is not seen."""
    domains: dict[str, Literal["allow", "deny"]] | None = None
    """Hosts by pattern, on every port."""
    allow_local_binding: bool = False
    """Whether allowed hosts may have loopback and private addresses."""
    enable_socks5: bool = True
    """Means nothing here: SOCKS 5 leads nowhere else."""
    allow_upstream_proxy: bool = False
    """Means nothing here; a profile may name an upstream proxy."""


class NetworkProxy(Params, frozen=True, kw_only=True):
    """A proxy that the executor starts for the process. It needs a sandbox, of which it is the network."""

    proxy: ProxyConfig
    """Its settings."""
    policy_decision_timeout_ms: Unsigned | None = None
    """If it is given, the client is asked about hosts that no entry names, for so long."""


class PolicyRequest(Result, frozen=True, kw_only=True):
    """Whom a process wants to reach."""

    protocol: NetworkProtocol
    """How it asked its proxy."""
    host: str
    """The host, by name or address."""
    port: int
    """On which port."""


class PolicyRequestParams(QuestionParams, frozen=True, kw_only=True):
    """Ask whether a process may reach a host that its policy does not decide on."""

    process_id: str
    request: PolicyRequest
    """Whom."""


class AllowDecision(Params, frozen=True, kw_only=True, tag_field="type", tag="allow"):
    """It may."""


class DenyDecision(Params, frozen=True, kw_only=True, tag_field="type", tag="deny"):
    """It may not."""

    reason: str | None = None
    """Why; the process reads it."""


class AskDecision(Params, frozen=True, kw_only=True, tag_field="type", tag="ask"):
    """It may not now, because somebody has to be asked first."""

    reason: str | None = None
    """Why; the process reads it."""


class PolicyRequestResult(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The decision. It grants access, so unknown members are refused."""

    decision: AllowDecision | DenyDecision | AskDecision
    """What becomes of it."""
    remember: HostRemember | None = None
    """Whether it stands for the same host and port in the rest of the process or session; or as a rule, for
    the host and protocol on every port, in the file that the server's settings name. Which line that is, or
    why there is none, `network/policyDecision` tells in `rule`."""


class PolicyDecisionEvent(Result, frozen=True, kw_only=True):
    """`network/policyDecision`: it was decided whether a process may reach a host. Some may be left out."""

    process_id: str
    timestamp: str
    """When, as of RFC 3339."""
    scope: Literal["domain"] = "domain"
    """Always hosts."""
    decision: Literal["allow", "deny"]
    """Whether it may."""
    source: Literal["baseline_policy", "decider"]
    """Whether the lists decided, or an answer."""
    reason: str
    """Why, in one word."""
    protocol: NetworkProtocol
    """How it asked its proxy."""
    host: str
    """Whom it wants to reach."""
    port: int
    """On which port."""
    policy_override: bool
    """Whether an answer allowed what the lists do not."""
    rule: str = ""
    """What decided, in the words of the profile; the reference protocol does not tell it."""


class PolicyUpdateParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Change whom running processes may reach. Exactly one of `process_id` and `session` is given.

    It grants access, so unknown members are refused.
    """

    process_id: Name | UnsetType = UNSET
    """One process."""
    session: bool = False
    """All processes of the session whose network is proxied, also those that are started later."""
    allow: Hosts = []
    """Patterns, as in a profile, that may be reached from now on; the same pattern is no longer denied."""
    deny: Hosts = []
    """Patterns that may not; the same pattern is no longer allowed. Open connections stay."""

    def __post_init__(self) -> None:
        if (self.process_id is UNSET) is not self.session:
            raise ValueError("give either processId or session: true")
        for pattern in (*self.allow, *self.deny):
            HostPattern.parse(pattern)
