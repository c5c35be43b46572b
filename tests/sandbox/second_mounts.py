"""A host with a chroot in a project, and Paddock's own directories mounted twice, in a namespace of its own.

    unshare --mount --propagation private python -m tests.sandbox.second_mounts HOW USER DIRECTORY

In the directory, `project/chroot` has a /proc, a /sys and a /dev mounted in it, and `project/alias` shows the
user's home, where Paddock keeps its state and looks for rules. A command of the user's is `confined` or
`plain`, and tries each thing. In `confined-covered`, the home covers older mounts of other file systems at
these very places. In `confined-overlaid` and `plain-overlaid`, `alias` is an overlay that writes to the home,
and `copy` is one that shows it. The output is JSON: what the command could do. It takes root.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.sandbox.identity import PYTHON, drop_to
from tests.sandbox.launcher import Launcher

ATTEMPTS = """
import json, os, sys

def keep(path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, "x").close()

attempts = {
    "list processes": lambda: os.listdir("chroot/proc"),
    "read of the first process": lambda: open("chroot/proc/1/status").read(),
    "open a setting": lambda: open("chroot/proc/sys/vm/swappiness").close(),
    "list objects of the kernel": lambda: os.listdir("chroot/sys/kernel"),
    "list nodes": lambda: os.listdir("chroot/dev"),
    "write Paddock's state": lambda: keep("alias/runtime-" + sys.argv[1] + "/planted"),
    "write a rule": lambda: keep("alias/.config/paddock/rules/planted.rules"),
    "list Paddock's state": lambda: os.listdir("copy/runtime-" + sys.argv[1]),
    "read a file": lambda: open("copy/other").read(),
    "write a file": lambda: keep("alias/ordinary"),
}
done = []
for name, attempt in attempts.items():
    try:
        attempt()
    except OSError:
        continue
    done.append(name)
print(json.dumps(done))
"""


def main(how: str, user: int, directory: Path) -> None:
    """Make the host, and have a command try."""
    project, home = directory / "project", directory / "home"
    for name, kind in (("proc", "proc"), ("sys", "sysfs"), ("dev", "devtmpfs")):
        place = project / "chroot" / name
        place.mkdir(parents=True)
        _mount("-t", kind, kind, str(place))
    # The sticky bit, so that a runtime directory of root's or the user's in it can be trusted.
    home.mkdir()
    how, _, layout = how.partition("-")
    if layout == "covered":
        for place in (home / f"runtime-{user}", home / ".config" / "paddock" / "rules"):
            place.mkdir(parents=True)
            _mount("-t", "tmpfs", "tmpfs", str(place))
        _mount("-t", "tmpfs", "tmpfs", str(home))
    home.chmod(0o1777)
    (home / "other").touch()
    (project / "alias").mkdir()
    if layout == "overlaid":
        _overlay(project / "alias", home, directory / "nothing", directory / "work")
        _overlay(project / "copy", directory / "upper", home, directory / "other-work")
    else:
        _mount("--bind", str(home), str(project / "alias"))
    for path in (project, project / "chroot"):
        os.chown(path, user, user)
    words = [PYTHON, "-c", ATTEMPTS, str(user)]
    with Launcher(user, home) as launcher:
        launcher.run(["sandbox", "--", "true"], cwd=project)
        if how == "confined":
            outcome = launcher.run(["sandbox", "--", *words], cwd=project)
            tried: Any = json.loads(outcome.stdout) if outcome.stdout else outcome.stderr
        else:
            plain = subprocess.run(words, cwd=project, capture_output=True, check=True, **drop_to(user))
            tried = json.loads(plain.stdout)
        granted = launcher.run(["sandbox", "--", "true"], cwd=project / "chroot" / "proc" / "sys").stderr
    print(json.dumps({"tried": tried, "granted": granted}))


def _overlay(place: Path, upper: Path, lower: Path, work: Path) -> None:
    for path in (place, upper, lower, work):
        path.mkdir(exist_ok=True)
    options = f"upperdir={upper},lowerdir={lower},workdir={work}"
    _mount("-t", "overlay", "overlay", "-o", options, str(place))


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
