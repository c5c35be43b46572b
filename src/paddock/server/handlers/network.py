"""`network/*`, and the network of a start: turns the request into the services of the process."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import UNSET, structs
from msgspec.structs import replace

from paddock.errors import InvalidParams, InvalidRequest, SecretUnusable
from paddock.model.network_secret import BUNDLE_PATH
from paddock.model.profile import Profile, ProxiedNetwork
from paddock.protocol.call import Call
from paddock.protocol.network import POLICY_REQUEST, NetworkProxy, PolicyUpdateParams
from paddock.protocol.process import StartParams
from paddock.protocol.structure import Empty
from paddock.sandbox.profile.enforced import EnforcedProfile, is_enforced, managed_profile, proxied_network
from paddock.server.connection import ClientConnection, HandlerTable

if TYPE_CHECKING:
    from paddock.server.handlers.start import CheckedStart
    from paddock.server.process_network import ProcessNetwork

DECISION_TIMEOUT_S: Final = 60.0
"""How long a question stays open if the client that answers such questions did not say."""

EMPTY = Empty()


def is_managed(params: StartParams) -> bool:
    """Return whether a start wants its only way out to be proxies that others run."""
    return params.enforce_managed_network or params.managed_network is not None


def wanted_profile(profile: Profile, params: StartParams) -> Profile:
    """Return the profile with the network settings of the start added. Raises InvalidParams."""
    if params.network_proxy is not None and is_managed(params):
        raise InvalidParams("params: managedNetwork and networkProxy contradict each other; give one of them")
    try:
        if params.network_proxy is not None:
            return _with_proxy(profile, params.network_proxy)
        return managed_profile(profile) if is_managed(params) else profile
    except ValueError as error:
        raise InvalidParams(f"params: {error}") from error


def refuse_unconfined(params: StartParams) -> None:
    """Refuse network settings that nothing would enforce on the process. Raises InvalidParams."""
    for name, is_wanted in (("networkProxy", params.network_proxy), ("managedNetwork", is_managed(params))):
        if is_wanted:
            raise InvalidParams(
                f"params.{name}: a managed network can't be enforced without a sandbox; give one"
            )


def _with_proxy(profile: Profile, wanted: NetworkProxy) -> EnforcedProfile:
    if not wanted.proxy.enabled:
        raise ValueError("networkProxy.proxy.enabled is false; leave networkProxy out")
    if wanted.proxy.mode == "limited":
        raise ValueError("networkProxy.proxy.mode: limited can't be enforced inside of TLS; use full")
    hosts = [(f"{pattern}:*", permission) for pattern, permission in (wanted.proxy.domains or {}).items()]
    network = ProxiedNetwork(
        allow=tuple(pattern for pattern, permission in hosts if permission == "allow"),
        deny=tuple(pattern for pattern, permission in hosts if permission == "deny"),
        allow_local=wanted.proxy.allow_local_binding,
    )
    return structs.replace(managed_profile(profile), network=network)


def with_network(connection: ClientConnection, checked: CheckedStart, params: StartParams) -> CheckedStart:
    """Give a process the services of its proxied network, if it has one, and their addresses. Raises
    InvalidParams."""
    wanted = checked.confinement
    if wanted is None or not is_enforced(wanted.profile):
        return checked
    if secrets := connection.services.settings.network_secrets:
        from paddock.server.network_secrets import without_secret_variables

        environment = without_secret_variables(checked.spec.env, secrets.values())
        checked = replace(checked, spec=replace(checked.spec, env=environment))
    network = proxied_network(wanted.profile)
    if network is None:
        return checked
    try:
        made, environment = (
            _managed(connection, checked, params)
            if is_managed(params)
            else _proxied(connection, checked, params, network)
        )
    except ValueError as error:
        raise InvalidParams(f"params: network: {error}") from error
    except SecretUnusable as error:
        raise InvalidRequest(str(error)) from error
    return replace(
        checked,
        spec=replace(checked.spec, env=environment),
        confinement=replace(wanted, network=made),
    )


def _managed(
    connection: ClientConnection, checked: CheckedStart, params: StartParams
) -> tuple[ProcessNetwork, dict[str, str]]:
    # Few processes have one, and the module takes a while to load.
    from paddock.network.forward import forwarding
    from paddock.network.route import managed_route
    from paddock.server.process_network import ProcessNetwork

    cap = connection.services.profiles.cap
    if cap is not None and proxied_network(cap.profile) is not None:
        raise ValueError("a managed network bypasses the hosts of the profile that caps requests")
    ports = None if params.managed_network is None else params.managed_network.loopback_ports
    route = managed_route(checked.spec.env, ports)
    return ProcessNetwork(forwarding(route.endpoints), connection.services.proxy_turns), route.environment


def _proxied(
    connection: ClientConnection, checked: CheckedStart, params: StartParams, network: ProxiedNetwork
) -> tuple[ProcessNetwork, dict[str, str]]:
    from paddock.network.gateway import Gateway
    from paddock.network.group import GROUPS
    from paddock.network.judge import PolicyJudge, allowed_network
    from paddock.network.name_lookup import NameLookup
    from paddock.network.proxy import PolicyProxy
    from paddock.network.route import proxied_environment, trusting_environment
    from paddock.server.network_questions import NetworkQuestions
    from paddock.server.network_secrets import secrets_of
    from paddock.server.process_network import ProcessNetwork

    session, services = connection.session, connection.services
    process_id = checked.description.process_id
    most = None if services.profiles.cap is None else proxied_network(services.profiles.cap.profile)
    # Of equal rules the server's own come last; of all rules the strictest counts.
    ruled = structs.replace(network, rules=(*network.rules, *services.host_rules.rules))
    allowed = allowed_network(ruled, {**GROUPS, **services.settings.network_groups}, most)
    is_capped = services.profiles.cap is not None
    secrets = secrets_of(network, most, is_capped, services.settings, session)
    timeout_s = _decision_timeout_s(connection, params)
    questions = None
    if timeout_s is not None:
        questions = NetworkQuestions(
            process_id,
            session.questions.ask,
            session.network_answers,
            timeout_s,
            services.host_rules.add,
        )
    judge = PolicyJudge(
        allowed.policies,
        partial(session.process_reaches, process_id, is_told=params.network_proxy is not None),
        None if questions is None else questions.decide,
    )
    for change in session.network_changes:
        judge.change(change)
    resolve = NameLookup(lookups=session.lookups)
    proxy = PolicyProxy(Gateway(judge, resolve=resolve, upstream=allowed.upstream, secrets=secrets))
    environment = proxied_environment(checked.spec.env)
    bundle = None
    if secrets is not None and secrets.authority is not None:
        bundle = secrets.authority.bundle
        environment = trusting_environment(environment, BUNDLE_PATH)
    made = ProcessNetwork(proxy.services(), services.proxy_turns, judge, questions, bundle)
    return made, environment


def _decision_timeout_s(connection: ClientConnection, params: StartParams) -> float | None:
    """Return how long the client is asked about a host; None if it is not asked."""
    if params.network_proxy is not None:
        timeout_ms = params.network_proxy.policy_decision_timeout_ms
        if not timeout_ms:
            return None
        # The reference does not say in `initialize` what it answers.
        connection.answered_methods |= {POLICY_REQUEST}
        return timeout_ms / 1000
    return DECISION_TIMEOUT_S if POLICY_REQUEST in connection.answered_methods else None


def update(connection: ClientConnection, call: Call[PolicyUpdateParams]) -> Empty:
    """Change which hosts processes may reach."""
    params, session = call.params, connection.session
    try:
        if params.process_id is UNSET:
            session.change_network(params.allow, params.deny)
            return EMPTY
        entry = session.get(params.process_id)
        if entry.managed.is_closed:
            # It reaches nobody any more, and a client can't know that before it asks.
            return EMPTY
        network = entry.network
        if network is None or network.judge is None:
            raise InvalidParams(f"params.processId: the network of {params.process_id!r} is not proxied")
        network.judge.change(network.judge.budget.take(params.allow, params.deny))
    except ValueError as error:
        raise InvalidParams(f"params: {error}") from error
    return EMPTY


HANDLERS: HandlerTable = {"network/policyUpdate": update}
