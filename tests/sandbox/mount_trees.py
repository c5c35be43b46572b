"""A host with mounts upon mounts, in a mount namespace of a test's own.

    unshare --mount --propagation private python -m tests.sandbox.mount_trees SEED USER DIRECTORY

Mounts, binds and moves what chance tells, some of it with propagation, which puts new mounts below older
ones. The output is JSON: how often a mount was in sight, how often one was not, and the paths about whose
mount Paddock and the kernel do not agree. It takes root; the user does not matter.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from itertools import product
from pathlib import Path

from paddock.sandbox.host.mount_alias import mount_of, mounts_in
from paddock.sandbox.host.mount_line import mount_lines
from paddock.sandbox.host.propagation import read_table

NAMES = ("a", "b")
STEPS = 60


def main(seed: str, directory: Path) -> None:
    """Make the mounts, and compare after each."""
    chance = random.Random(seed)
    places = [directory.joinpath(*names) for depth in (1, 2, 3) for names in product(NAMES, repeat=depth)]
    seen = covered = 0
    differing = []
    _mount("-t", "tmpfs", "tmpfs", str(directory))
    _fill(directory)
    for _ in range(STEPS):
        _change(chance, places)
        mounts, lines = mounts_in(read_table()), list(mount_lines(read_table()))
        seen += len(mounts)
        covered += len(lines) - len(mounts)
        for path in filter(os.path.isdir, map(str, places)):
            found = mount_of(path, mounts)
            if found is None or found.number != _number(path):
                differing.append(path)
    print(json.dumps({"seen": seen, "covered": covered, "differing": differing}))


def _change(chance: random.Random, places: list[Path]) -> None:
    source, target = (str(place) for place in chance.sample(places, 2))
    words = chance.choice(
        [
            ["-t", "tmpfs", "tmpfs", target],
            ["--bind", source, target],
            ["--rbind", source, target],
            ["--move", source, target],
            ["--make-shared", target],
            ["--make-private", target],
        ]
    )
    # Much of it is impossible at the time. Binds of binds would double the mounts at each step.
    if words[0] != "--rbind" or read_table().count(b"\n") < 200:
        subprocess.run(["mount", *words], check=False, stderr=subprocess.DEVNULL)
    if words[0] == "-t" and chance.random() < 0.8:
        _fill(Path(target))


def _fill(directory: Path) -> None:
    for names in product(NAMES, repeat=3):
        directory.joinpath(*names).mkdir(parents=True, exist_ok=True)


def _number(path: str) -> bytes:
    file = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        told = Path(f"/proc/self/fdinfo/{file}").read_bytes()
    finally:
        os.close(file)
    return told.partition(b"mnt_id:")[2].split(b"\n")[0].strip()


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[3]))
