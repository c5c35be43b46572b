"""The rules about hosts that a server itself has: a file that it reads when it starts, and adds to.

They count for every process whose network is proxied, besides what its profile says; the strictest decides.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from paddock.errors import ConfigError, RulesError
from paddock.model.decision import Action, Origin
from paddock.model.endpoint import Endpoint
from paddock.model.profile import HostRule


class HostRules:
    """The rules in the file and those added since. Without a file there are no rules."""

    def __init__(self, path: Path | None = None, rules: tuple[HostRule, ...] = ()) -> None:
        self._path = path
        self._rules = {(rule.host, rule.protocol): rule for rule in rules}

    @property
    def rules(self) -> tuple[HostRule, ...]:
        """Return all rules, of which none contradicts another."""
        return tuple(self._rules.values())

    async def add(self, endpoint: Endpoint, action: Action, reason: str | None) -> Origin:
        """Decide on a host and protocol, on all ports, for processes started from now on. Return where the
        rule stands.

        Raises RulesError if the rule can't be written; then nothing is decided.
        """
        if self._path is None:
            raise RulesError("the server has no file for rules about hosts; set network_rules_file")
        # Few servers have one, and it takes a while to load.
        from paddock.rules.amendment import add_host_rule

        line = await asyncio.to_thread(
            add_host_rule, self._path, endpoint.host, endpoint.protocol, action, reason
        )
        origin = Origin(str(self._path), line)
        key = endpoint.host, endpoint.protocol
        self._rules[key] = HostRule(host=key[0], protocol=key[1], action=action, origin=str(origin))
        return origin


def load_host_rules(name: str) -> HostRules:
    """Read the file, and make it if it is missing. Blocks. Raises ConfigError.

    No command that this process confines may change it.
    """
    from paddock.rules.loader import load_sound_policy
    from paddock.rules.network import as_host_rules

    path = Path(name)
    try:
        # If the file were missing, a command could make it.
        path.touch(mode=0o600)
        policy = load_sound_policy([path])
    except OSError as error:
        raise ConfigError("network_rules_file", f"{name} can't be written: {error.strerror}") from error
    except RulesError as error:
        raise ConfigError("network_rules_file", str(error)) from error
    return HostRules(path, as_host_rules(policy.network_rules))
