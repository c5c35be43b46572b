"""Tells a client of a decision on a host."""

from __future__ import annotations

from datetime import UTC, datetime

from paddock.model.endpoint import Endpoint
from paddock.network.policy import Reason, Ruling
from paddock.protocol.network import PolicyDecisionEvent


def decision_event(process_id: str, endpoint: Endpoint, ruling: Ruling) -> PolicyDecisionEvent:
    """Put a decision into the wire's form, as of now."""
    is_answered = ruling.reason in (Reason.ANSWERED, Reason.POLICY_DENIED)
    return PolicyDecisionEvent(
        process_id=process_id,
        timestamp=datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        decision="allow" if ruling.is_allowed else "deny",
        source="decider" if is_answered else "baseline_policy",
        reason=ruling.reason,
        protocol=endpoint.protocol,
        host=endpoint.host,
        port=endpoint.port,
        policy_override=ruling.reason is Reason.ANSWERED,
        rule=ruling.rule,
    )
