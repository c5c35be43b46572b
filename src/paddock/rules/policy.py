"""All rules together: what they say about a command. Pure.

A policy is a value that never changes. Every rule that fits is reported and the
strictest action wins, so neither the order of rules nor that of files matters, and
another rule can only make a decision stricter. Two exceptions, both about programs
that are called by their path, are described at `Policy.decide`.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct

from paddock.model.decision import Action, Decision, RuleMatch, strictest
from paddock.rules.network import NetworkRule
from paddock.rules.rule import PrefixRule


class Problem(Struct, frozen=True):
    """Why a file of rules is not in force."""

    path: str
    text: str
    """What is wrong, in one sentence."""
    line: int | None = None
    column: int | None = None
    """The column, counted from 1; None if the problem concerns the whole file."""
    excerpt: str = ""
    """The position in its file, marked, and the calls that led there."""
    is_unreadable: bool = False
    """Whether not even the text of the file could be read."""

    def __str__(self) -> str:
        where = f":{self.line}:{self.column}" if self.line is not None else ""
        return f"{self.path}{where}: {self.text}"


class Policy:
    """Rules that are in force together, and the files that should be but are not."""

    def __init__(
        self,
        rules: Iterable[PrefixRule] = (),
        host_executables: Mapping[str, tuple[str, ...]] | None = None,
        network_rules: Iterable[NetworkRule] = (),
        problems: Iterable[Problem] = (),
    ) -> None:
        self.rules = tuple(rules)
        self.host_executables = dict(host_executables or {})
        """Programs by name, with the only paths under which rules about the name apply."""
        self.network_rules = tuple(network_rules)
        self.problems = tuple(problems)
        self._of_program: dict[str, _ProgramRules] = {}
        for number, rule in enumerate(self.rules):
            self._of_program.setdefault(rule.program, _ProgramRules()).add(number, rule)

    @property
    def is_empty(self) -> bool:
        """Return whether `decide` has no decision on any command."""
        return not self.rules and not self.problems

    def decide(
        self, command: Sequence[str], cwd: str = "/", *, home: str | None = None, resolves_paths: bool = True
    ) -> Decision:
        """Decide on a command that would start in `cwd`.

        When no rule fits and `resolves_paths`, this tries a program that is called by its path under
        its name: `/usr/bin/git` by the rules of `git`, unless `host_executables` has other paths for
        the name. So a rule for the path itself hides those for the name, even stricter ones; and the
        last file that mentions a name decides which paths it has.
        """
        words = tuple(command)
        matches = self._matches(words, None)
        if not matches and resolves_paths and _is_path(words):
            matches = self._matches_by_name(words, cwd, home)
        if matches:
            # Enumerations are slow to compare, and usually there is nothing to compare.
            actions = [match.action for match in matches]
            action = actions[0] if len(actions) == 1 else strictest(actions)
            return Decision(action, words, tuple(matches))
        if self.problems:
            return Decision(Action.PROMPT, words, (), tuple(problem.path for problem in self.problems))
        return Decision(None, words)

    def hidden_by(self, prefix: Sequence[str]) -> PrefixRule | None:
        """Return a rule that another, which allows a program by its path to begin like this, would hide.

        That is a stricter one about the program's name and some of these commands only: whoever looks at one
        of the others does not see it. None if there is no such rule.
        """
        if not _is_path(prefix):
            return None
        path = absolute_path(prefix[0], "/")
        words = (posixpath.basename(path), *prefix[1:])
        # A relative path may lead to each program of that name.
        if prefix[0].startswith("/") and path not in self.host_executables.get(words[0], (path,)):
            # Rules about the name say nothing about this path.
            return None
        stricter = (
            rule for rule in self.rules if rule.program == words[0] and rule.action is not Action.ALLOW
        )
        return next((rule for rule in stricter if rule.may_fit(words) and not _is_seen(rule, words)), None)

    def may_concern(self, path: str) -> bool:
        """Return whether `decide` may find a rule for a program with this path, whatever its arguments."""
        return bool(self.problems) or not self._of_program.keys().isdisjoint((path, posixpath.basename(path)))

    def _matches(self, command: tuple[str, ...], resolved_program: str | None) -> list[RuleMatch]:
        rules = self._of_program.get(command[0]) if command else None
        if rules is None:
            return []
        matches = []
        for _, rule in rules.candidates(command):
            prefix = rule.matched_prefix(command)
            if prefix is not None:
                matches.append(
                    RuleMatch(prefix, rule.action, rule.origin, rule.justification, resolved_program)
                )
        return matches

    def _matches_by_name(self, command: tuple[str, ...], cwd: str, home: str | None) -> list[RuleMatch]:
        path = absolute_path(command[0], cwd, home)
        name = posixpath.basename(path)
        if not name or path not in self.host_executables.get(name, (path,)):
            return []
        return self._matches((name, *command[1:]), path)


class _ProgramRules:
    """The rules of one program, arranged so that a command meets few that do not fit.

    Most rules of a program with many have a second position; the second word finds those. They are
    arranged on first use: of many programs, commands use few.
    """

    def __init__(self) -> None:
        self._any: list[tuple[int, PrefixRule]] = []
        self._others: list[tuple[int, PrefixRule]] = []
        self._by_second_word: dict[str, list[tuple[int, PrefixRule]]] | None = None

    def add(self, number: int, rule: PrefixRule) -> None:
        """Add a rule, before anybody asks for `candidates`."""
        is_any = len(rule.pattern) == 1 or rule.has_free_flags
        (self._any if is_any else self._others).append((number, rule))

    def candidates(self, command: Sequence[str]) -> list[tuple[int, PrefixRule]]:
        """Return every rule that may fit, in the order of their numbers. May be called from any thread."""
        if self._by_second_word is None:
            self._by_second_word = self._arranged()
        second = self._by_second_word.get(command[1]) if len(command) > 1 else None
        if second is None:
            return self._any
        return sorted([*self._any, *second], key=_number) if self._any else second

    def _arranged(self) -> dict[str, list[tuple[int, PrefixRule]]]:
        found: dict[str, list[tuple[int, PrefixRule]]] = {}
        for number, rule in self._others:
            for word in dict.fromkeys(rule.pattern[1]):
                found.setdefault(word, []).append((number, rule))
        return found


_PATHS_WITHOUT_SLASH = frozenset({"", ".", "..", "~"})


def _is_path(command: Sequence[str]) -> bool:
    """Return whether a path names the program. For a plain name there is nothing to look up twice."""
    return bool(command) and ("/" in command[0] or command[0] in _PATHS_WITHOUT_SLASH)


def _is_seen(rule: PrefixRule, words: Sequence[str]) -> bool:
    """Return whether every command that begins with these words leads to the question of this rule."""
    return rule.action is Action.PROMPT and rule.fits_all(words)


def _number(numbered: tuple[int, PrefixRule]) -> int:
    return numbered[0]


@lru_cache(maxsize=1024)
def absolute_path(program: str, cwd: str, home: str | None = None) -> str:
    """Return the path of a program, from its text alone: follows no links. Expands `~` if there is a home."""
    if home is not None and (program == "~" or program.startswith("~/")):
        program = home + program[1:]
    path = posixpath.normpath(posixpath.join(cwd, program))
    # POSIX leaves the meaning of exactly two slashes at the beginning open; Linux has none for them.
    return f"/{path.lstrip('/')}" if path.startswith("//") else path
