"""`python -m bench.decisions`: how fast rules decide, and how long they take to load.

A thousand rules, and commands of several kinds in turn: what no rule is about, what one is
about, a program called by its path, and the case that an index by program does not help with,
a thousand rules of one program. The goal is a million decisions in ten seconds. Takes a few
seconds.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from paddock.model.decision import Action, Origin
from paddock.rules.loader import load_sound_policy
from paddock.rules.policy import Policy
from paddock.rules.rule import PrefixRule

RULES = 1000
PROGRAMS = 100
ROUNDS = 5
DECISIONS_PER_ROUND = 50_000
GOAL_US = 10.0

Command = tuple[str, ...]


def policy(programs: int) -> Policy:
    """A thousand rules, each for another subcommand of one of some programs."""
    return Policy(
        PrefixRule(
            ((f"program{number % programs}",), (f"verb{number}",)),
            Action.PROMPT,
            Origin("bench.rules", number),
        )
        for number in range(RULES)
    )


def commands(prefix: str, programs: int) -> list[Command]:
    return [
        (f"{prefix}program{number % programs}", f"verb{number}", "--flag", "operand")
        for number in range(RULES)
    ]


def microseconds_per_decision(rules: Policy, asked: Sequence[Command]) -> float:
    begun = time.perf_counter()
    for _ in range(DECISIONS_PER_ROUND // len(asked)):
        for command in asked:
            rules.decide(command, "/work")
    return (time.perf_counter() - begun) / DECISIONS_PER_ROUND * 1e6


def load_seconds(rules: int) -> float:
    """From files on disk to a policy, the child process included."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "bench.rules")
        path.write_text("".join(f'prefix_rule(["git", "verb{number}"])\n' for number in range(rules)))
        begun = time.perf_counter()
        load_sound_policy([path])
        return time.perf_counter() - begun


def main() -> None:
    spread, single = policy(PROGRAMS), policy(1)
    kinds = {
        "no rule is about it": (spread, commands("other-", PROGRAMS)),
        "one of 10 rules of its program": (spread, commands("", PROGRAMS)),
        "the same, called by its path": (spread, commands("/usr/bin/", PROGRAMS)),
        "one of 1,000 rules of its program": (single, commands("", 1)),
    }
    rounds: dict[str, list[float]] = {kind: [] for kind in kinds}
    for _ in range(ROUNDS):
        for kind, (rules, asked) in kinds.items():
            rounds[kind].append(microseconds_per_decision(rules, asked))
    print(f"| {RULES} rules, a command of which | us per decision | goal |\n|---|---:|---:|")
    for kind, values in rounds.items():
        print(f"| {kind} | {statistics.median(values):.2f} | {GOAL_US:.0f} |")
    print("\n| load | ms |\n|---|---:|")
    for count in (1, RULES):
        milliseconds = statistics.median(load_seconds(count) for _ in range(ROUNDS)) * 1000
        print(f"| a file of {count} rules | {milliseconds:.0f} |")


if __name__ == "__main__":
    main()
