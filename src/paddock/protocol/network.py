"""`network/*`: hosts that a process may reach through its proxy, decided at the start and while it runs."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from paddock.model.endpoint import NetworkProtocol
from paddock.model.verdict import HostRemember
from paddock.protocol.bound import MAX_HOSTS, Name
from paddock.protocol.question import QuestionParams
from paddock.protocol.structure import Params, Result, Unsigned

POLICY_REQUEST = "network/policyRequest"
POLICY_DECISION = "network/policyDecision"

Port = Annotated[int, Meta(ge=0, le=0xFFFF)]
Hosts = Annotated[list[str], Meta(max_length=MAX_HOSTS)]


class ManagedNetwork(Params, frozen=True, kw_only=True):
    """Proxies on the loopback of the host that are the only way out."""

    loopback_ports: list[Port]
    """Their ports."""
    allow_local_binding: bool
    """No effect: a process may always listen on its own loopback."""


class ProxyConfig(Params, frozen=True, kw_only=True):
    """The settings of a proxy, in the form of the reference."""

    enabled: bool
    """Must be true."""
    mode: Literal["full", "limited"] = "full"
    """The server refuses `limited`: it can't see requests inside TLS."""
    domains: Annotated[dict[str, Literal["allow", "deny"]], Meta(max_length=MAX_HOSTS)] | None = None
    """Hosts by pattern, on every port."""
    allow_local_binding: bool = False
    """Whether allowed hosts may have loopback and private addresses."""
    enable_socks5: bool = True
    """No effect: SOCKS 5 leads nowhere else."""
    allow_upstream_proxy: bool = False
    """No effect; a profile may name an upstream proxy."""


class NetworkProxy(Params, frozen=True, kw_only=True):
    """A proxy that the executor starts for the process. It needs a sandbox, and becomes its network."""

    proxy: ProxyConfig
    """Its settings."""
    policy_decision_timeout_ms: Unsigned | None = None
    """If present, the server asks the client about hosts that no entry names, and waits this long."""


class PolicyRequest(Result, frozen=True, kw_only=True):
    """The host that a process wants to reach."""

    protocol: NetworkProtocol
    """How it asked its proxy."""
    host: str
    """The host, by name or address."""
    port: int
    """The port."""


class PolicyRequestParams(QuestionParams, frozen=True, kw_only=True):
    """Ask whether a process may reach a host that its policy does not decide on."""

    process_id: str
    request: PolicyRequest
    """The host."""


class AllowDecision(Params, frozen=True, kw_only=True, tag_field="type", tag="allow"):
    """The process may reach the host."""


class DenyDecision(Params, frozen=True, kw_only=True, tag_field="type", tag="deny"):
    """The process may not reach the host."""

    reason: str | None = None
    """Why; the process reads it."""


class AskDecision(Params, frozen=True, kw_only=True, tag_field="type", tag="ask"):
    """The process may not reach the host now, because somebody has to be asked first."""

    reason: str | None = None
    """Why; the process reads it."""


class PolicyRequestResult(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The decision. It grants access, so unknown members are refused."""

    decision: AllowDecision | DenyDecision | AskDecision
    """The decision itself."""
    remember: HostRemember | None = None
    """Whether it stands for the same host and port in the rest of the process or session; or as a rule, for
    the host and protocol on every port, in the file that the server's settings name. In `rule`,
    `network/policyDecision` names that line, or says why there is none."""


class PolicyDecisionEvent(Result, frozen=True, kw_only=True):
    """`network/policyDecision`: the decision whether a process may reach a host. Some may be left out."""

    process_id: str
    timestamp: str
    """The time, in the form of RFC 3339."""
    scope: Literal["domain"] = "domain"
    """Always hosts."""
    decision: Literal["allow", "deny"]
    """The decision."""
    source: Literal["baseline_policy", "decider"]
    """Whether the lists or an answer decided."""
    reason: str
    """The reason, in one word."""
    protocol: NetworkProtocol
    """How it asked its proxy."""
    host: str
    """The host that it wants to reach."""
    port: int
    """The port."""
    policy_override: bool
    """Whether an answer allowed what the lists do not."""
    rule: str = ""
    """The entry that decided, in the words of the profile; the reference protocol does not have it."""


class PolicyUpdateParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Change the hosts that running processes may reach. Give exactly one of `process_id` and `session`.

    It grants access, so the server refuses unknown members.
    """

    process_id: Name | UnsetType = UNSET
    """One process."""
    session: bool = False
    """All processes of the session whose network is proxied, including later ones."""
    allow: Hosts = []
    """Patterns, as in a profile, of hosts to allow from now on; the same pattern is no longer denied."""
    deny: Hosts = []
    """Patterns of hosts to deny; the same pattern is no longer allowed. Open connections stay."""

    def __post_init__(self) -> None:
        if (self.process_id is UNSET) is not self.session:
            raise ValueError("give either processId or session: true")
