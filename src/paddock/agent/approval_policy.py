"""Decides when the agent asks somebody, and what it refuses without asking. Pure."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from paddock.agent.exec_arguments import SandboxPermissions
from paddock.model.decision import Action


class ApprovalPolicy(StrEnum):
    """When to ask."""

    UNTRUSTED = "untrusted"
    """Ask before everything that no rule allows, and after a denial."""
    ON_REQUEST = "on-request"
    """Ask when the model wants more than its profile grants."""
    ON_FAILURE = "on-failure"
    """Ask then, and also when the sandbox has denied something: a yes runs the command again."""
    NEVER = "never"
    """Never ask: refuse whatever needs a question, and report denials to the model."""


class Granular(Struct, frozen=True):
    """`on-request` with each kind of question on or off. The agent refuses what it may not ask about."""

    sandbox_approval: bool
    """Questions whether something may run without the sandbox, or again after a denial."""
    rules: bool
    """Questions whether a command may run that a rule wants somebody to approve."""
    request_permissions: bool = False
    """Questions whether a command may have more than the profile grants."""


Policy = ApprovalPolicy | Granular


class Requirement(Struct, frozen=True):
    """The approval needed before a first attempt."""

    must_ask: bool = False
    refusal: str | None = None
    """Why the agent does not even ask. It then starts nothing."""


def parse_policy(policy: str | Granular) -> Policy:
    """Return the policy of a name. Raises ValueError."""
    if isinstance(policy, Granular):
        return policy
    try:
        return ApprovalPolicy(policy)
    except ValueError:
        known = ", ".join(ApprovalPolicy)
        raise ValueError(f"there is no approval policy {policy!r}; there are {known}, and Granular") from None


def requirement(
    policy: Policy,
    action: Action | None,
    wish: SandboxPermissions,
    *,
    is_restricted: bool,
    is_dangerous: bool = False,
) -> Requirement:
    """Return what a command needs: `action` is what the rules say, `wish` what the model asks for."""
    if action is Action.FORBIDDEN:
        return Requirement(refusal="a rule forbids it")
    if action is Action.PROMPT:
        return _asked_for_rule(policy)
    if wish is SandboxPermissions.REQUIRE_ESCALATED and is_restricted and action is not Action.ALLOW:
        return _asked_for_wish(policy, isinstance(policy, Granular) and not policy.sandbox_approval)
    if wish is SandboxPermissions.WITH_ADDITIONAL_PERMISSIONS and is_restricted:
        return _asked_for_wish(policy, isinstance(policy, Granular) and not policy.request_permissions)
    if is_dangerous and action is None:
        return _asked_for_danger(policy)
    return Requirement(must_ask=policy is ApprovalPolicy.UNTRUSTED and action is None)


def asks_after_denial(policy: Policy) -> bool:
    """Return whether a denial leads to a question and, if that is answered with yes, to a retry."""
    if isinstance(policy, Granular):
        return policy.sandbox_approval
    return policy in (ApprovalPolicy.UNTRUSTED, ApprovalPolicy.ON_FAILURE)


def asks_for_rules(policy: Policy) -> bool:
    """Return whether somebody is asked what a rule wants asked; else it is refused."""
    return policy.rules if isinstance(policy, Granular) else policy is not ApprovalPolicy.NEVER


def lets_model_ask(policy: Policy) -> bool:
    """Return whether a model that asks for more permissions has anybody to ask."""
    if isinstance(policy, Granular):
        return policy.sandbox_approval or policy.request_permissions
    return policy is not ApprovalPolicy.NEVER


def _asked_for_rule(policy: Policy) -> Requirement:
    if not asks_for_rules(policy):
        return Requirement(refusal="a rule requires approval, and the approval policy forbids asking")
    return Requirement(must_ask=True)


def _asked_for_danger(policy: Policy) -> Requirement:
    if policy is ApprovalPolicy.NEVER or (isinstance(policy, Granular) and not policy.sandbox_approval):
        return Requirement(refusal="it removes files by force, and the approval policy forbids asking")
    return Requirement(must_ask=True)


def _asked_for_wish(policy: Policy, is_off: bool) -> Requirement:
    if policy is ApprovalPolicy.NEVER or is_off:
        return Requirement(refusal="the approval policy forbids asking for more permissions; do without them")
    return Requirement(must_ask=True)
