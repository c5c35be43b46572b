"""The network of a command that `paddock sandbox` confines: its policy proxy, or proxies that others run.

Imports the proxy only for a command that gets one: most have no network.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from paddock.errors import InvalidProfile
from paddock.model.profile import Profile
from paddock.sandbox.profile.enforced import is_enforced, managed_profile, proxied_network

if TYPE_CHECKING:
    from paddock.cli.confined_network import ConfinedNetwork
    from paddock.model.denial import Denial
    from paddock.model.profile import ProxiedNetwork
    from paddock.network.judge import PolicyJudge


class SandboxNetwork(Struct, frozen=True):
    """The network that a command gets, and its profile."""

    profile: Profile
    environment: Mapping[str, str]
    served: ConfinedNetwork | None = None
    """The proxy that serves it; None if it needs none."""
    judge: PolicyJudge | None = None

    @property
    def denials(self) -> tuple[Denial, ...]:
        """Return what the proxy denied the command."""
        return () if self.judge is None else self.judge.denials


def sandbox_network(profile: Profile, environment: Mapping[str, str], managed: str | None) -> SandboxNetwork:
    """Decide what the command gets; `managed` is JSON if others run its proxies. Raises InvalidProfile."""
    try:
        if managed is not None:
            return _managed(profile, environment, managed)
        wanted = proxied_network(profile) if is_enforced(profile) else None
        if wanted is None:
            return SandboxNetwork(profile, environment)
        if wanted.secrets:
            raise ValueError(
                "secrets are declared in the settings of a server; use `paddock run` with one that has them"
            )
        return _proxied(profile, environment, wanted)
    except ValueError as error:
        raise InvalidProfile("the network", str(error)) from error


def _proxied(profile: Profile, environment: Mapping[str, str], wanted: ProxiedNetwork) -> SandboxNetwork:
    from paddock.cli.confined_network import ConfinedNetwork
    from paddock.network.gateway import Gateway
    from paddock.network.group import GROUPS
    from paddock.network.judge import PolicyJudge, allowed_network
    from paddock.network.proxy import PolicyProxy
    from paddock.network.route import proxied_environment

    allowed = allowed_network(wanted, GROUPS)
    judge = PolicyJudge(allowed.policies)
    services = PolicyProxy(Gateway(judge, upstream=allowed.upstream)).services()
    return SandboxNetwork(profile, proxied_environment(environment), ConfinedNetwork(services), judge)


def _managed(profile: Profile, environment: Mapping[str, str], managed: str) -> SandboxNetwork:
    import msgspec

    from paddock.cli.confined_network import ConfinedNetwork
    from paddock.model.managed_network import ManagedNetwork
    from paddock.network.forward import forwarding
    from paddock.network.route import managed_route

    wanted = msgspec.json.decode(managed, type=ManagedNetwork)
    route = managed_route(environment, wanted.loopback_ports)
    return SandboxNetwork(
        managed_profile(profile), route.environment, ConfinedNetwork(forwarding(route.endpoints))
    )
