"""A host with a home on Btrfs, in a namespace of its own.

    unshare --mount --propagation private python -m tests.sandbox.subvolumes HOW USER DIRECTORY

The user's home is a subvolume. It has a file with a secret, and a project with a subvolume in it. The profile
denies the file and the inner subvolume. A command of the user's is `confined` or `plain`, and tries to get at
them by calls about whole subvolumes. The output is JSON: what it could do. It takes root.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.sandbox.identity import PYTHON, drop_to
from tests.sandbox.launcher import Launcher

SIZE_BYTES = 64 << 20

CALLS = """
import fcntl, os, struct

SNAP_CREATE, SNAP_DESTROY, SUBVOL_CREATE = 0x50009401, 0x5000940F, 0x5000940E
SNAP_CREATE_V2, SUBVOL_SETFLAGS = 0x50009417, 0x4008941A

def call(directory, request, argument):
    file = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.ioctl(file, request, bytearray(argument))
    finally:
        os.close(file)

def about(name, source=-1):
    return struct.pack("q4088s", source, name.encode())
"""

ATTEMPTS = (
    CALLS
    + """
import json

def snapshot(request, layout, name):
    home = os.open("..", os.O_RDONLY | os.O_DIRECTORY)
    call(".", request, struct.pack(layout, home, name.encode()))
    return open(name + "/secret").read()

attempts = {
    "read": lambda: open("../secret").read(),
    "snapshot": lambda: snapshot(SNAP_CREATE, "q4088s", "first"),
    "other snapshot": lambda: snapshot(SNAP_CREATE_V2, "q48x4040s", "second"),
    "new subvolume": lambda: call(".", SUBVOL_CREATE, about("new")),
    "close": lambda: call("new", SUBVOL_SETFLAGS, struct.pack("Q", 2)),
    "remove": lambda: call(".", SNAP_DESTROY, about("hidden")),
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
)


def main(how: str, user: int, directory: Path) -> None:
    """Make the host, and have a command try."""
    image, top = directory / "image", directory / "top"
    top.mkdir()
    with image.open("wb") as file:
        file.truncate(SIZE_BYTES)
    _run("mkfs.btrfs", "--quiet", "--mixed", "--nodiscard", str(image))
    _run("mount", "-o", "loop,user_subvol_rm_allowed", str(image), str(top))
    home = top / "home"
    project = home / "project"
    _make_subvolume(home)
    project.mkdir()
    _make_subvolume(project / "hidden")
    (home / "secret").write_text("secret")
    for path in (home, project, project / "hidden", home / "secret"):
        os.chown(path, user, user)
    profile = json.dumps(
        {
            "extends": ":workspace",
            "filesystem": {str(home / "secret"): "deny", str(project / "hidden"): "deny"},
        }
    )
    words = [PYTHON, "-c", ATTEMPTS]
    if how == "plain":
        plain = subprocess.run(words, cwd=project, capture_output=True, check=True, **drop_to(user))
        print(plain.stdout.decode())
        return
    runtime = directory / "runtime"
    runtime.mkdir()
    runtime.chmod(0o1777)
    with Launcher(user, runtime) as launcher:
        outcome = launcher.run(["sandbox", "--profile", profile, "--", *words], cwd=project)
        print(outcome.stdout or json.dumps(outcome.stderr))


def _make_subvolume(path: Path) -> None:
    _run(PYTHON, "-c", f"{CALLS}\ncall({str(path.parent)!r}, SUBVOL_CREATE, about({path.name!r}))")


def _run(*words: str) -> None:
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
