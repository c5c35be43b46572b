"""A launcher that holds and releases placeholders again and again, so that a test can race with its janitor.

    python -m tests.sandbox.placeholder_rounds USER DIRECTORY PROJECT ROUNDS

It imports what it needs, gives up root for good, and prints in how many rounds it held the placeholders. The
directory is as for `launcher`. After ROUNDS rounds it goes on until it has held them once: a round that fails
is so quick that all of them may fit in a time in which whoever it races with gets no processor.
"""

from __future__ import annotations

import sys
from pathlib import Path

from paddock.sandbox.enforce.janitor import Janitor, PlaceholderTaken, locate
from paddock.sandbox.host.placeholder import Placeholder, PlaceholderKind
from tests.sandbox.launcher import become_user, use_copies

PLACEHOLDERS = {
    ".git": PlaceholderKind.DIRECTORY,
    ".codex": PlaceholderKind.DIRECTORY,
    "secret": PlaceholderKind.FILE,
}

PATIENCE = 1000
"""How many times as many rounds there are at most."""


def run(user: int, directory: Path, project: str, rounds: int) -> int:
    """Hold the placeholders, as a launcher does for a command, and release them."""
    use_copies(directory)
    janitor = Janitor(become_user(user, directory))
    wanted = [Placeholder(f"{project}/{name}", kind) for name, kind in PLACEHOLDERS.items()]
    held = 0
    for done in range(rounds * PATIENCE):
        if done >= rounds and held:
            break
        try:
            placeholders = locate(wanted)
            janitor.hold(placeholders)
        except PlaceholderTaken:
            continue
        held += 1
        janitor.release(placeholders, was_killed=False)
    janitor.close()
    return held


if __name__ == "__main__":
    print(run(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])))
