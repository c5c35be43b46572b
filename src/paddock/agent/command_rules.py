"""What rules say about a line of shell.

A line is taken apart into the commands that it has; the strictest answer counts. Only where nothing else is
in it - no redirection, no substitution, no variable - and every command is allowed, is the line as a whole.
"""

from __future__ import annotations

import posixpath
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from paddock.agent.program_rules import needed_params
from paddock.errors import AmendmentRefused
from paddock.model.decision import Action, Decision, Origin, strictest
from paddock.protocol.intercept import InterceptParams
from paddock.rules.amendment import add_rule, check_prefix
from paddock.rules.loader import load_sound_policy
from paddock.rules.policy import Policy
from paddock.rules.program_kind import INTERPRETERS, SHELLS
from paddock.rules.rule import PrefixRule
from paddock.rules.script_reading import look_at, read_script

_SESSION: Final = Origin("an approval of this session", 1)


class CommandRules:
    """The rules of one agent. `amended_file` is where an "always" is written; None keeps it in memory.

    Any thread may `allow`, while another has other rules put in force.
    """

    def __init__(self, policy: Policy, amended_file: Path | None = None) -> None:
        self._policy = policy
        self._amended_file = amended_file
        self._granted: dict[str, None] = {}
        self._changing = threading.Lock()

    @property
    def granted(self) -> tuple[str, ...]:
        """Return the paths that commands got to write by approvals, with all that they hold.

        No rule lets a program out from there: a command may have put another in its place.
        """
        return tuple(self._granted)

    def note_granted(self, paths: Iterable[str]) -> None:
        """Note that an approved command may write these paths."""
        self._granted |= dict.fromkeys(paths)

    @property
    def policy(self) -> Policy:
        """Return the rules that are in force now, with what was allowed for always."""
        return self._policy

    @property
    def amended_path(self) -> str:
        """Return where rules stand that came from an "always", as their origin names it."""
        return _SESSION.path if self._amended_file is None else str(self._amended_file)

    async def look_at(self, line: str) -> None:
        """Take a line apart, so that the methods below answer about it at once; otherwise they block.

        Raises RulesUnavailable.
        """
        await look_at(line)

    def decide(self, argv: Sequence[str], line: str, cwd: str) -> Decision:
        """Return what the rules say about a shell that runs `line`. Raises RulesError.

        `Action.ALLOW` means that the line may run without a sandbox and without a question.
        """
        shell = self._policy.decide(argv, cwd)
        script = read_script(line)
        found = [
            self._policy.decide(words, cwd) for each in script.commands if (words := each.argv) is not None
        ]
        action = strictest(each.action for each in (shell, *found) if each.action is not None)
        if action is None:
            return Decision(None, tuple(argv))
        if action is Action.ALLOW:
            is_whole = script.is_plain and bool(found) and all(each.action is Action.ALLOW for each in found)
            return found[0] if is_whole else Decision(None, tuple(argv))
        return next(each for each in (shell, *found) if each.action is action)

    def allow(self, prefix: Sequence[str]) -> None:
        """Allow commands that begin like this from now on. Raises AmendmentRefused and RulesError."""
        check_prefix(prefix)
        if (hidden := self._policy.hidden_by(prefix)) is not None:
            problem = f"a rule about a path counts in place of those about the name, such as {hidden.origin}"
            raise AmendmentRefused(prefix, problem)
        if self._amended_file is not None:
            add_rule(self._amended_file, prefix)
        origin = Origin(self.amended_path, _SESSION.line)
        rule = PrefixRule(tuple((word,) for word in prefix), Action.ALLOW, origin)
        with self._changing:
            self._policy = _with_rules(self._policy, rule)

    def renew(self, policy: Policy) -> None:
        """Put other rules in force. What was allowed for always stays, unless a file holds it."""
        with self._changing:
            kept = [rule for rule in self._policy.rules if rule.origin == _SESSION]
            self._policy = _with_rules(policy, *kept)

    def proposed_prefix(self, line: str) -> tuple[str, ...]:
        """Return the first words of a line with one plain command, if a rule may allow them; else nothing."""
        script = read_script(line)
        if not script.is_plain or len(script.commands) != 1:
            return ()
        words = script.commands[0].argv or ()
        return self.checked_prefix(words[:2] if len(words) > 1 and not words[1].startswith("-") else words)

    def fitting_prefix(self, prefix: Sequence[str], line: str) -> tuple[str, ...]:
        """Return a prefix that a model proposes; nothing unless every command of the line begins with it."""
        script = read_script(line)
        words = tuple(prefix)
        begins = [(each.argv or ())[: len(words)] == words for each in script.commands]
        return self.checked_prefix(words) if script.is_plain and begins and all(begins) else ()

    def commands_of(self, line: str) -> tuple[tuple[str, ...], ...]:
        """Return the commands of a line, as far as their words are known."""
        found = (each.argv for each in read_script(line).commands)
        return tuple(argv for argv in found if argv is not None)

    def programs(self, *, asks: bool, distrusted: Iterable[str] = ()) -> InterceptParams | None:
        """Return the rules for an executor that holds them against each program a command executes.

        No program in `distrusted` or `granted` directories leaves the sandbox. Returns None if there are no
        rules.
        """
        unsafe = (*distrusted, *self.granted)
        return needed_params(self._policy, on_prompt="ask" if asks else "deny", distrusted=unsafe)

    def checked_prefix(self, prefix: Sequence[str]) -> tuple[str, ...]:
        """Return the prefix, or nothing if it would allow too much to be proposed.

        That is also what runs a file by its name: a confined command may have written the file. And it is a
        path by which the rule would hide a stricter one, which the question does not name.
        """
        program = posixpath.basename(prefix[0]).rstrip("-.0123456789") if prefix else ""
        if program in SHELLS or program in INTERPRETERS or self._policy.hidden_by(prefix) is not None:
            return ()
        try:
            check_prefix(prefix)
        except AmendmentRefused:
            return ()
        return tuple(prefix)


def _with_rules(policy: Policy, *rules: PrefixRule) -> Policy:
    return Policy((*policy.rules, *rules), policy.host_executables, policy.network_rules, policy.problems)


def load_rules(
    rules: CommandRules | Policy | Iterable[str | Path] | None, amended_file: Path | None
) -> CommandRules | None:
    """Return the rules of a policy or of files; None if there are none. Raises RulesError."""
    if rules is None or isinstance(rules, CommandRules):
        return rules
    policy = rules if isinstance(rules, Policy) else load_sound_policy(Path(path) for path in rules)
    return CommandRules(policy, amended_file)
