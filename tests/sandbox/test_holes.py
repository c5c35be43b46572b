"""Each way out of the peer's sandbox that was found by measurement is closed here, and still open there.

A way is a command that says OPEN when it got through. It does so outside any sandbox and in the
peer's, and must not in ours. Others are commands that the peer's sandbox breaks: they say WORKS
outside and here. `HOLES` is the table of both, with the numbers by which the findings are known.
Not in it: files that are made after the start of a command, which a snapshot can't cover, and 14, the
time that a start takes, which `make bench` measures.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.identity import PYTHON, drop_to
from tests.sandbox.launcher import LEAKED_DESCRIPTOR, Launcher

pytestmark = pytest.mark.usefixtures("launcher_way")

REPOSITORY = Path(__file__).resolve().parents[2]
PEER = next(REPOSITORY.glob(".peer/node_modules/@openai/*/vendor/*/bin/codex"), None)

Json = dict[str, Any]
Argv = tuple[str, ...]

OPEN, WORKS = "OPEN\n", "WORKS\n"
KEYCTL = {"x86_64": 250, "aarch64": 219}.get(platform.machine(), -1)
CLONE_NEWUSER = 0x10000000

NOT_CONFINED = 125
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin"}

INHERITING = ("/bin/bash", "-c", f'exec {LEAKED_DESCRIPTOR}< "$0"; exec "$@"')
"""Starts a command with the descriptor of a file."""


@dataclass(frozen=True)
class Hole:
    """A way out of the peer's sandbox, or a command that it breaks.

    `@W` is the workspace, `@OUT` a directory outside it and `@PID` a process of the host.
    """

    number: int
    name: str
    profile: Json
    commands: tuple[Argv, ...]
    """One after the other, under the same profile; the last one says whether."""
    setup: str = ":"
    says: str = OPEN
    options: Argv = ()
    inherits: bool = False
    """Whether the descriptor of a secret file is open where the sandbox is started."""
    needs: str = ""
    """What not every user of every host has."""


def _shell(script: str) -> Argv:
    return ("/bin/bash", "-c", script)


def _python(*lines: str) -> Argv:
    return (PYTHON, "-c", "\n".join(lines))


def _called(call: str) -> Argv:
    return _python("import ctypes", f"if ctypes.CDLL(None).{call} >= 0: print('OPEN')")


def _sent(address: str) -> Argv:
    """A datagram, and with it a descriptor."""
    return _python(
        "import array, os, socket",
        "passed = array.array('i', [os.open('.', os.O_RDONLY)])",
        "sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)",
        f"sender.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, passed)], 0, {address!r})",
        "print('OPEN')",
    )


def _special(kind: str, access: str) -> Json:
    return {"path": {"type": "special", "value": {"kind": kind}}, "access": access}


def _exact(path: str, access: str) -> Json:
    return {"path": {"type": "path", "path": path}, "access": access}


def _profile(*entries: Json, **more: Any) -> Json:
    restricted = {"type": "restricted", "entries": list(entries)}
    return {"type": "managed", "file_system": restricted, "network": "restricted", **more}


READ, WRITE, MINIMAL = (
    _special("root", "read"),
    _special("project_roots", "write"),
    _special("minimal", "read"),
)
WORKSPACE = _profile(READ, WRITE)
DENY_PATTERN = _profile(
    READ, WRITE, {"path": {"type": "glob_pattern", "pattern": "@W/**/*.env"}, "access": "deny"}
)
FULL_WRITE = {"type": "managed", "file_system": {"type": "unrestricted"}, "network": "restricted"}

HOLES = [
    Hole(
        1,
        "kernel settings can be written",
        WORKSPACE,
        (_shell('f=/proc/sys/kernel/core_pattern; v=$(cat $f); printf %s "$v" > $f && echo OPEN'),),
        needs="kernel settings that this user can write",
    ),
    Hole(2, "datagrams with descriptors reach sockets of the host", WORKSPACE, (_sent("@OUT/socket"),)),
    Hole(
        3,
        "a denied file moves with its directory",
        _profile(READ, WRITE, _exact("@W/a/secret", "deny")),
        (_shell("mv a b"), _shell("cat b/secret")),
        setup="mkdir a; echo OPEN > a/secret",
    ),
    Hole(
        4,
        "another name of a file that a pattern denies",
        DENY_PATTERN,
        (_shell("cat other"),),
        setup="echo OPEN > x.env; ln x.env other",
    ),
    Hole(
        4,
        "another name of a file in a denied directory",
        _profile(READ, WRITE, _exact("@W/secret", "deny")),
        (_shell("cat other"),),
        setup="mkdir secret; echo OPEN > secret/key; ln secret/key other",
    ),
    Hole(
        4,
        "a link that a pattern denies",
        DENY_PATTERN,
        (_shell("cat x.env"),),
        setup="echo OPEN > target; ln -s target x.env",
    ),
    Hole(
        4,
        "a directory that a pattern denies",
        DENY_PATTERN,
        (_shell("cat conf.env/key"),),
        setup="mkdir conf.env; echo OPEN > conf.env/key",
    ),
    Hole(5, "descriptors are inherited", WORKSPACE, (_shell(f"cat <&{LEAKED_DESCRIPTOR}"),), inherits=True),
    Hole(
        6,
        "without a /proc of its own, a command sees processes of the host",
        WORKSPACE,
        (_shell("[ -r /proc/@PID/cmdline ] && echo OPEN"),),
        options=("--no-proc",),
    ),
    Hole(
        7,
        "writing where nothing is granted seems to succeed",
        _profile(MINIMAL, _exact("@W", "read")),
        (_shell("echo x > @W-beside && echo OPEN"),),
    ),
    Hole(
        8,
        "a profile that shows only what programs need",
        _profile(MINIMAL, WRITE),
        (_shell("echo WORKS"),),
        says=WORKS,
    ),
    Hole(
        9,
        "a single file that can be written",
        _profile(READ, _exact("@W/file", "write")),
        (_shell("echo WORKS > file; cat file"),),
        setup="touch file",
        says=WORKS,
    ),
    Hole(10, "datagrams reach abstract sockets, all files writable", FULL_WRITE, (_sent("\0@OUT"),)),
    Hole(
        11,
        "the keyring of the caller can be used",
        WORKSPACE,
        (_called(f"syscall({KEYCTL}, 0, -3, 0)"),),
        needs="keyrings",
    ),
    Hole(
        11,
        "user namespaces can be made",
        WORKSPACE,
        (_called(f"unshare({CLONE_NEWUSER})"),),
        needs="user namespaces for every program",
    ),
    Hole(
        12,
        "an event loop is woken through a socket pair",
        WORKSPACE,
        (
            _python(
                "import socket",
                "left, right = socket.socketpair()",
                "left.send(b'x')",
                "print('WORKS' if right.recv(1) else '')",
            ),
        ),
        says=WORKS,
    ),
    Hole(
        13,
        "files have any size",
        _profile(READ, WRITE, limits={"fileBytes": 1000}),
        (_shell("head -c 2000 /dev/zero > big; [ $(stat -c %s big) = 2000 ] && echo OPEN"),),
    ),
]

each_hole = pytest.mark.parametrize("hole", HOLES, ids=[f"{hole.number}: {hole.name}" for hole in HOLES])


@pytest.fixture(scope="module")
def outside(ground: Path) -> Iterator[Path]:
    """A directory of the host with a secret, and with a socket that also has an abstract name."""
    directory = Path(tempfile.mkdtemp(prefix="out-", dir=ground))
    directory.chmod(0o777)
    (directory / "secret").write_text(OPEN)
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as named,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as abstract,
    ):
        named.bind(str(directory / "socket"))
        (directory / "socket").chmod(0o777)
        abstract.bind(f"\0{directory}")
        yield directory


@pytest.fixture(scope="module")
def peer() -> Iterator[list[str]]:
    """The command line of the peer's sandbox; skips by name where it is not installed."""
    if PEER is None:
        pytest.skip("the peer is not installed (make peer)")
    trace = Path(f"/tmp/codex-daemon-{os.geteuid()}")
    was_there = trace.exists()
    # Not below /tmp: it would refuse to keep its helpers there.
    with tempfile.TemporaryDirectory(prefix="peer-", dir="/var/tmp") as directory:
        program = Path(directory, "codex-linux-sandbox")
        program.symlink_to(PEER.resolve())
        yield ["/usr/bin/env", f"CODEX_HOME={directory}", f"TMPDIR={directory}", str(program)]
    if not was_there:
        # It makes this in spite of TMPDIR.
        with suppress(OSError):
            trace.rmdir()


@each_hole
def test_way_out_is_closed_and_what_works_outside_works(
    hole: Hole, launcher: Launcher, workspace: Path, outside: Path
) -> None:
    scene = Scene(hole, workspace, outside, launcher.user)
    said = scene.said_by([])
    if hole.needs and said != hole.says:
        pytest.skip(f"needs {hole.needs}")
    assert said == hole.says
    scene.set_up()
    options = ["--policy-cwd", str(workspace), "--profile", scene.profile, *hole.options]
    leak = outside / "secret" if hole.inherits else None
    *_, outcome = [
        launcher.run(["sandbox", *options, "--", *command], cwd=workspace, env=ENVIRONMENT, leak=leak)
        for command in scene.commands
    ]
    assert outcome.status != NOT_CONFINED, outcome
    assert outcome.stdout == (WORKS if hole.says == WORKS else ""), outcome


@each_hole
def test_peer_has_the_hole(hole: Hole, peer: list[str], ground: Path, outside: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("the holes were found by root")
    with tempfile.TemporaryDirectory(prefix="w-", dir=ground) as directory:
        scene = Scene(hole, Path(directory), outside, os.geteuid())
        options = ["--sandbox-policy-cwd", directory, "--permission-profile", scene.profile_for(peer)]
        said = scene.said_by([*peer, *options, *hole.options, "--"])
    assert said == (OPEN if hole.says == OPEN else "")


class Scene:
    """A hole in a workspace of its own."""

    def __init__(self, hole: Hole, workspace: Path, outside: Path, user: int) -> None:
        self._names = {"@W": str(workspace), "@OUT": str(outside), "@PID": str(os.getpid())}
        self._hole = hole
        self._workspace = workspace
        self._user = user
        self.profile = self._filled(json.dumps(hole.profile))
        self.commands = [[self._filled(word) for word in command] for command in hole.commands]

    def set_up(self) -> None:
        """Make the workspace what it is before the first command."""
        for path in self._workspace.iterdir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        self._run(["/bin/bash", "-c", self._hole.setup]).check_returncode()

    def said_by(self, launcher: list[str]) -> str:
        """What the last command said when this started them."""
        self.set_up()
        start = [*INHERITING, self._filled("@OUT/secret")] if self._hole.inherits else []
        return [self._run([*start, *launcher, *command]).stdout for command in self.commands][-1]

    def profile_for(self, peer: list[str]) -> str:
        """The profile in words that the peer knows; it runs itself again inside, and must be seen there."""
        profile = json.loads(self.profile)
        profile.pop("limits", None)
        if self._hole.number == 7:
            assert PEER is not None
            seen = (Path(peer[-1]).parent, PEER.resolve().parent)
            profile["file_system"]["entries"] += [_exact(str(path), "read") for path in seen]
        return json.dumps(profile)

    def _run(self, argv: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            argv,
            cwd=self._workspace,
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            **drop_to(self._user),
        )

    def _filled(self, text: str) -> str:
        for name, value in self._names.items():
            text = text.replace(name, value)
        return text
