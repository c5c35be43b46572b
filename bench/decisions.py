"""How fast rules decide, and how long they take to load. The peer has no such thing to ask a server for.

A thousand rules, and commands of several kinds in turn: what no rule is about, what one is
about, a program called by its path, and the case that an index by program does not help with,
a thousand rules of one program. The goal is a million decisions in ten seconds.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from bench.row import Figure, Row, Unit
from bench.servers import Contender
from paddock.model.decision import Action, Origin
from paddock.rules.loader import load_sound_policy
from paddock.rules.policy import Policy
from paddock.rules.rule import PrefixRule

RULES = 1000
PROGRAMS = 100
DECISIONS_PER_ROUND = 50_000

Command = tuple[str, ...]


class Decisions(Row):
    """Decisions of this version, in this process."""

    name: ClassVar[str] = "decisions"
    figures: ClassVar[tuple[Figure, ...]] = (
        Figure("1,000 rules: no rule is about the command", Unit.PER_SECOND),
        Figure("1,000 rules: one of 10 of its program is", Unit.PER_SECOND),
        Figure("1,000 rules: the same, called by its path", Unit.PER_SECOND),
        Figure("1,000 rules of one program", Unit.PER_SECOND),
        Figure("1,000 rules loaded from a file", Unit.SECONDS),
    )

    def __init__(self) -> None:
        spread, single = _policy(PROGRAMS), _policy(1)
        self._kinds = (
            (spread, _commands("other-", PROGRAMS)),
            (spread, _commands("", PROGRAMS)),
            (spread, _commands("/usr/bin/", PROGRAMS)),
            (single, _commands("", 1)),
        )

    def measure(self, contender: Contender) -> Sequence[float | None]:
        if contender.name != "paddock":
            return (None,) * len(self.figures)
        return *(_decisions_per_second(policy, asked) for policy, asked in self._kinds), _load_s()


def _policy(programs: int) -> Policy:
    """A thousand rules, each for another subcommand of one of some programs."""
    return Policy(
        PrefixRule(
            ((f"program{number % programs}",), (f"verb{number}",)),
            Action.PROMPT,
            Origin("bench.rules", number),
        )
        for number in range(RULES)
    )


def _commands(prefix: str, programs: int) -> list[Command]:
    return [
        (f"{prefix}program{number % programs}", f"verb{number}", "--flag", "operand")
        for number in range(RULES)
    ]


def _decisions_per_second(policy: Policy, asked: Sequence[Command]) -> float:
    begun = time.perf_counter()
    for _ in range(DECISIONS_PER_ROUND // len(asked)):
        for command in asked:
            policy.decide(command, "/work")
    return DECISIONS_PER_ROUND / (time.perf_counter() - begun)


def _load_s() -> float:
    """From a file on disk to a policy, the child process included."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "bench.rules")
        path.write_text("".join(f'prefix_rule(["git", "verb{number}"])\n' for number in range(RULES)))
        begun = time.perf_counter()
        load_sound_policy([path])
        return time.perf_counter() - begun
