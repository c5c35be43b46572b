"""The rules about hosts that a server itself has: a file that it reads, at a reload again, and adds to.

They count for every process whose network is proxied, besides what its profile says; the strictest decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

from paddock.errors import ConfigError, RulesError
from paddock.model.decision import Action, Origin
from paddock.model.endpoint import Endpoint, NetworkProtocol
from paddock.model.profile import HostRule

if TYPE_CHECKING:
    from pathlib import Path

_Key = tuple[str, NetworkProtocol]


class HostRules:
    """The rules in the file and those added since. Without a file there are no rules."""

    def __init__(self, path: Path | None = None, rules: Iterable[HostRule] = ()) -> None:
        self._path = path
        self._rules = _by_key(rules)
        self._added: dict[_Key, HostRule] = {}
        """Rules that were added since the file was last read."""

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
        # Few servers have a rules file, and the module takes a while to load.
        from paddock.rules.amendment import add_host_rule

        line = await asyncio.to_thread(
            add_host_rule, self._path, endpoint.host, endpoint.protocol, action, reason
        )
        origin = Origin(str(self._path), line)
        key = endpoint.host, endpoint.protocol
        rule = HostRule(host=key[0], protocol=key[1], action=action, origin=str(origin))
        self._rules[key] = self._added[key] = rule
        return origin

    async def read(self) -> tuple[HostRule, ...]:
        """Read the file again, and return its rules for `renew`. Raises ConfigError."""
        if self._path is None:
            return ()
        self._added = {}
        return await asyncio.to_thread(_read, self._path)

    def renew(self, rules: Iterable[HostRule]) -> None:
        """Replace the rules by those that were read, for processes started from now on."""
        self._rules = {**_by_key(rules), **self._added}


def load_host_rules(name: str) -> HostRules:
    """Read the file, and make it if it is missing. Blocks. Raises ConfigError.

    No command that this process confines may change it.
    """
    from pathlib import Path

    path = Path(name)
    return HostRules(path, _read(path))


def _by_key(rules: Iterable[HostRule]) -> dict[_Key, HostRule]:
    return {(rule.host, rule.protocol): rule for rule in rules}


def _read(path: Path) -> tuple[HostRule, ...]:
    from paddock.rules.loader import load_sound_policy
    from paddock.rules.network import as_host_rules

    try:
        # If the file were missing, a command could make it.
        path.touch(mode=0o600)
        policy = load_sound_policy([path])
    except OSError as error:
        raise ConfigError("network_rules_file", f"{path} can't be written: {error.strerror}") from error
    except RulesError as error:
        raise ConfigError("network_rules_file", str(error)) from error
    return as_host_rules(policy.network_rules)
