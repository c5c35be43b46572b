"""A host whose mounts are shared, as systemd makes them, in a mount namespace of a test's own.

    unshare --mount --propagation private python -m tests.sandbox.shared_mounts TRIAL USER DIRECTORY

A file system appears in the directory, at `outside/place` and at `project/place`, while a program of the
user's is at work: a command that is `confined` or `plain`, one that is confined and finds it there already
(`before`), or a `worker` of a server. For `triggered` and `triggered-plain` it appears because the command
looks there (autofs(5)). Nothing appears for one that is `unprepared` or whose launcher was `misled`, because
it must not even start. The output is JSON, what came of it. It takes root.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import select
import stat
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from threading import Event, Thread
from typing import Any

import paddock
from paddock.cli.main import main as main_of_paddock
from paddock.sandbox.enforce import assembly
from paddock.sandbox.host.propagation import receives_mounts
from tests.sandbox.identity import PYTHON, drop_to
from tests.sandbox.init_start import Start
from tests.sandbox.launcher import Launcher, become_launcher
from tests.sandbox.reachable import mount
from tests.sandbox.user_server import user_server

CONTENT = "of the stick"
PLACES = ("outside/place", "project/place")
TRIGGER = "outside/automatic"

AUTOFS_IOC_READY = 0x9360
PACKET_BYTES = 4096
TOKEN_OFFSET = 8
"""In struct autofs_v5_packet (linux/auto_fs.h)."""

LOOK = """
import errno, json, os, sys
try:
    seen = sorted(os.listdir(sys.argv[1]))
except OSError as error:
    seen = errno.errorcode[error.errno]
print(json.dumps(seen))
"""
LOOK_S = 0.1

COMMAND = """
import json, os

def failure(work, *words):
    try:
        work(*words)
    except OSError as error:
        return error.errno
    return 0

os.write(os.open("ready", os.O_WRONLY), b"x")
open("go").read()
with open("/proc/self/mountinfo") as file:
    tags = {tag.partition(":")[0] for line in file for tag in line.partition(" - ")[0].split()[6:]}
print(json.dumps({
    "tags": sorted(tags),
    **{place: {
        "list": sorted(os.listdir("../" + place)),
        "device": failure(os.open, "../" + place + "/node", os.O_RDWR),
        "mode": failure(os.chmod, "../" + place + "/file", 0o666),
        "times": failure(os.utime, "../" + place + "/file", (1, 1)),
    } for place in ("outside/place", "project/place")},
}))
"""


def main(trial: str, user: int, directory: Path) -> None:
    """Make the host, and have the trial there."""
    # A file system may call itself as the table of mounts calls what is shared.
    _mount("-t", "tmpfs", "-o", "mode=755", "master:1", str(directory))
    _mount("--make-rshared", "/")
    for name in ("stick", "project", *PLACES, TRIGGER):
        (directory / name).mkdir(parents=True)
        os.chown(directory / name, user, user)
    # The sticky bit, so that a runtime directory of root's or the user's in it can be trusted.
    (directory / "launcher").mkdir()
    (directory / "launcher").chmod(0o1777)
    _mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", str(directory / "stick"))
    (directory / "stick" / "file").write_text(CONTENT)
    # As /dev/zero, so that nothing would be harmed.
    os.mknod(directory / "stick" / "node", stat.S_IFCHR | 0o600, os.makedev(1, 5))
    for name in ("file", "node"):
        os.chown(directory / "stick" / name, user, user)
    print(json.dumps(TRIALS[trial](user, directory)))


def _plug_in(directory: Path) -> None:
    for place in PLACES:
        _mount("--bind", str(directory / "stick"), str(directory / place))


def _confined(user: int, directory: Path) -> Any:
    return _command(user, directory, is_confined=True, is_before=False)


def _before(user: int, directory: Path) -> Any:
    return _command(user, directory, is_confined=True, is_before=True)


def _plain(user: int, directory: Path) -> Any:
    return _command(user, directory, is_confined=False, is_before=False)


def _command(user: int, directory: Path, *, is_confined: bool, is_before: bool) -> Any:
    project = directory / "project"
    for name in ("ready", "go"):
        os.mkfifo(project / name)
        os.chown(project / name, user, user)
    if is_before:
        _plug_in(directory)

    def run() -> str:
        if is_confined:
            with Launcher(user, directory / "launcher") as launcher:
                outcome = launcher.run(["sandbox", "--", PYTHON, "-c", COMMAND], cwd=project)
                return outcome.stdout or outcome.stderr
        plain = [PYTHON, "-c", COMMAND]
        done: subprocess.CompletedProcess[str] = subprocess.run(
            plain, cwd=project, stdout=subprocess.PIPE, text=True, check=True, **drop_to(user)
        )
        return done.stdout

    with ThreadPoolExecutor(1) as thread:
        done = thread.submit(run)
        _await_command(project / "ready", done)
        if not done.done():
            if not is_before:
                _plug_in(directory)
            (project / "go").write_text("")
        return json.loads(done.result())


def _await_command(fifo: Path, done: Future[str]) -> None:
    """Wait until the command has written, or has ended early."""
    ready = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        while not done.done() and not select.select([ready], [], [], LOOK_S)[0]:
            pass
    finally:
        os.close(ready)


def _triggered(user: int, directory: Path) -> Any:
    with Launcher(user, directory / "launcher") as launcher, _automount(directory) as came:
        words = ["sandbox", "--", PYTHON, "-c", LOOK, str(directory / TRIGGER)]
        outcome = launcher.run(words, cwd=directory / "project")
        return {"seen": json.loads(outcome.stdout or outcome.stderr), "is_triggered": came.is_set()}


def _triggered_plain(user: int, directory: Path) -> Any:
    with _automount(directory) as came:
        done: subprocess.CompletedProcess[str] = subprocess.run(
            [PYTHON, "-c", LOOK, str(directory / TRIGGER)],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            # Whoever is in the group of the daemon sees the place as it is.
            start_new_session=True,
            **drop_to(user),
        )
        return {"seen": json.loads(done.stdout), "is_triggered": came.is_set()}


@contextmanager
def _automount(directory: Path) -> Iterator[Event]:
    """Mount the stick as soon as somebody looks at TRIGGER, and tell that somebody did."""
    place = directory / TRIGGER
    came = Event()
    requests, kernel_end = os.pipe()
    os.setpgid(0, 0)
    options = f"fd={kernel_end},pgrp={os.getpgrp()},minproto=5,maxproto=5,direct"
    mount("auto", str(place), "autofs", 0, options)
    os.close(kernel_end)
    root = os.open(place, os.O_RDONLY)

    def serve() -> None:
        # Until the file system is gone, and the other end of the pipe with it.
        while packet := os.read(requests, PACKET_BYTES):
            came.set()
            # In a sandbox it does not arrive, and is asked for again.
            if not (place / "file").exists():
                _mount("--bind", str(directory / "stick"), str(place))
            fcntl.ioctl(root, AUTOFS_IOC_READY, struct.unpack_from("I", packet, TOKEN_OFFSET)[0])

    daemon = Thread(target=serve, daemon=True)
    daemon.start()
    yield came


def _worker(user: int, directory: Path) -> Any:
    with user_server(user, directory / "launcher", apart=()) as url:
        return asyncio.run(_operations(url, directory))


async def _operations(url: str, directory: Path) -> Any:
    """What a worker sees that was there before, and what the next request gets."""
    file = directory / "outside" / "place" / "file"
    async with paddock.connect(url) as box:
        files = box.fs.confined(":read-only")
        async with files.reader("/proc/self/mountinfo") as table:
            is_missing = not (await files.read_directory(file.parent))
            _plug_in(directory)
            seen = (await table.read()).decode()
        again = (await files.read_file(file)).decode()
    lines = [line.partition(" - ")[0].split() for line in seen.splitlines()]
    return {
        "is_missing": is_missing,
        "tags": sorted({tag.partition(":")[0] for line in lines for tag in line[6:]}),
        "arrived": sorted(line[4] for line in lines if line[4].endswith("/place")),
        "again": again,
    }


def _unprepared(user: int, directory: Path) -> Any:
    """Start the init under a bubblewrap with the mounts of the host, before and after these are shared."""
    start = Start(user, is_isolated=True)
    outcomes = []
    for propagation in ("--make-rprivate", "--make-rshared"):
        _mount(propagation, "/")
        outcome = start.run("/bin/echo", str(directory))
        outcomes.append([outcome.status, outcome.stdout, outcome.stderr])
    return outcomes


def _misled(user: int, directory: Path) -> Any:
    """Run a command line that looked when the host had no shared mounts yet."""
    with TemporaryFile("w+") as said:
        if (launcher := os.fork()) == 0:
            become_launcher(user, directory / "launcher")
            setattr(assembly, receives_mounts.__name__, lambda: False)
            os.chdir(directory / "project")
            for stream in (1, 2):
                os.dup2(said.fileno(), stream)
            os._exit(main_of_paddock(["sandbox", "--", "/bin/echo", "started"]))
        status = os.waitstatus_to_exitcode(os.waitpid(launcher, 0)[1])
        said.seek(0)
        return [status, said.read()]


TRIALS: Mapping[str, Callable[[int, Path], Any]] = {
    "confined": _confined,
    "before": _before,
    "plain": _plain,
    "worker": _worker,
    "unprepared": _unprepared,
    "misled": _misled,
    "triggered": _triggered,
    "triggered-plain": _triggered_plain,
}


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
