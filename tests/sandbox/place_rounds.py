"""A launcher that has places made and removed again and again, so that a test can race with its janitor.

    python -m tests.sandbox.place_rounds USER DIRECTORY PROJECT ROUNDS

It imports what it needs, gives up root for good, and prints in how many rounds the places were held. The
directory is as for `launcher`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from paddock.sandbox.enforce.janitor import Janitor, PlaceholderTaken, locate
from paddock.sandbox.host.placeholder import Placeholder, PlaceholderKind
from tests.sandbox.launcher import become_user, use_copies

PLACES = {
    ".git": PlaceholderKind.DIRECTORY,
    ".codex": PlaceholderKind.DIRECTORY,
    "secret": PlaceholderKind.FILE,
}


def run(user: int, directory: Path, project: str, rounds: int) -> int:
    """Hold the places, as a launcher does for a command, and release them."""
    use_copies(directory)
    janitor = Janitor(become_user(user, directory))
    wanted = [Placeholder(f"{project}/{name}", kind) for name, kind in PLACES.items()]
    held = 0
    for _ in range(rounds):
        try:
            places = locate(wanted)
            janitor.hold(places)
        except PlaceholderTaken:
            continue
        held += 1
        janitor.release(places, was_killed=False)
    janitor.close()
    return held


if __name__ == "__main__":
    print(run(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])))
