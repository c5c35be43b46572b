"""A part of the machine that attacks may destroy: namespaces of processes, mounts and IPC of their own.

In there runs one process, as root or as an ordinary user, that forks for each command line it is sent, so
that the `paddock` command line, plain programs and victims are all below it. Signals to everybody end
in its pid namespace. Its `/tmp` is its own, and nothing but the ground of the test can be written, so
that an attack that gets out of a sandbox still hits nobody.

    python -m tests.attack.stage USER GROUND SOCKET

Each connection to the socket is one command line: the descriptors that it inherits, and a line of JSON.
The answer is its exit status.
"""

from __future__ import annotations

import array
import json
import os
import select
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paddock import own_program
from paddock.cli.main import main
from tests.sandbox.launcher import become_user, import_everything, rehearse, use_copies
from tests.sandbox.private_devices import have_each
from tests.sandbox.reachable import LIBC, MS_BIND, MS_RDONLY, MS_REMOUNT, cover, mount, open_the_way

NAMESPACES = ("--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child", "--mount-proc")
DESCRIPTORS_LIMIT = 64
RUN_TIMEOUT_S = 40.0
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin"}

JOIN_SESSION_KEYRING = 1
KEYCTL_NUMBERS = {"x86_64": 250, "aarch64": 219}
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 47, 4


@dataclass(frozen=True)
class Outcome:
    """What came of a command line."""

    status: int
    stdout: bytes
    stderr: bytes


def apart(module: str, *words: str) -> list[str]:
    """The command line that runs a module in namespaces of its own."""
    # An ordinary user is given them by one of users, in which he stays who he is.
    identity = () if os.geteuid() == 0 else ("--user", "--map-current-user", "--keep-caps")
    return ["unshare", *identity, *NAMESPACES, "--", sys.executable, "-m", module, *words]


class Running:
    """A command line that was started."""

    def __init__(self, connection: socket.socket, output: Sequence[int]) -> None:
        self._connection = connection
        self._output = list(output)

    def fileno(self) -> int:
        """Becomes readable when it has ended."""
        return self._connection.fileno()

    def wait(self) -> Outcome:
        """Its outcome; raises TimeoutError when it does not end."""
        try:
            self._connection.settimeout(RUN_TIMEOUT_S)
            status = int(self._connection.recv(64) or b"-1")
            return Outcome(status, *(os.pread(file, os.fstat(file).st_size, 0) for file in self._output))
        finally:
            self.close()

    def close(self) -> None:
        """Forget it. It goes on."""
        self._connection.close()
        while self._output:
            os.close(self._output.pop())


class Stage:
    """The process in its namespaces, seen from the test. A context manager."""

    def __init__(self, user: int, ground: Path) -> None:
        self.user = user
        self.ground = ground
        self._address = str(ground / f"stage-{user}-{os.getpid()}")
        self._process = subprocess.Popen(
            apart("tests.attack.stage", str(user), str(ground), self._address),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n", "the stage could not be set"

    def start(
        self,
        words: Sequence[str],
        *,
        cwd: Path,
        is_plain: bool = False,
        env: Mapping[str, str] | None = None,
        files: Mapping[int, int] | None = None,
    ) -> Running:
        """Start `paddock WORDS`, or if it `is_plain` the words themselves.

        `files` are descriptors of ours under the numbers at which it inherits them.
        """
        output = [os.memfd_create(name) for name in ("stdout", "stderr")]
        with ExitStack() as opened:
            null = os.open(os.devnull, os.O_RDONLY)
            opened.callback(os.close, null)
            inherited = {0: null, 1: output[0], 2: output[1], **(files or {})}
            request = {
                "words": list(words),
                "is_plain": is_plain,
                "cwd": str(cwd),
                "env": {**ENVIRONMENT, **(env or {})},
                "numbers": list(inherited),
            }
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(self._address)
            rights = array.array("i", inherited.values())
            connection.sendmsg([b"\n"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
            connection.sendall(json.dumps(request).encode() + b"\n")
        return Running(connection, output)

    def run(self, words: Sequence[str], **more: Any) -> Outcome:
        """As `start`, to the end."""
        return self.start(words, **more).wait()

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: object) -> None:
        with self._process, suppress(BrokenPipeError):
            assert self._process.stdin is not None
            self._process.stdin.close()


# ---- in the namespaces ----


def serve(user: int, ground: Path, address: str) -> None:
    """Set the stage, and play on it until standard input ends."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(64)
    os.chmod(address, 0o777)
    keep_capabilities()
    use_copies(ground)
    import_everything()
    rehearse()
    settle(user, ground)
    # A session keyring that commands could reach: it is inherited, whatever namespaces are made.
    _join_keyring(f"paddock-attack-{user}")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    # As the first process of its namespace it gets no signal from there that it does not handle.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.write(1, b"ready\n")
    while sys.stdin not in (readable := select.select([sys.stdin, listener], [], [])[0]):
        assert listener in readable
        connection, _ = listener.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            _answer(connection)
            os._exit(0)
        connection.close()


def settle(user: int, ground: Path) -> None:
    """Make this a place that attacks may destroy, and become the user, for good."""
    # So high that no process inside a sandbox, where counting begins anew, has the number of one outside.
    Path("/proc/sys/kernel/ns_last_pid").write_text("20000")
    for place in ("/tmp", "/dev/shm"):
        cover(place, "mode=1777")
    if os.geteuid() == 0 and user != 0:
        open_the_way()
    if os.geteuid() == 0:
        # They belong to root, who may be the user of the commands.
        nodes = Path("/tmp/nodes")
        nodes.mkdir()
        have_each(nodes)
        nodes.rmdir()
    mount(str(ground), str(ground), "", MS_BIND)
    mount("none", "/", "", MS_REMOUNT | MS_BIND | MS_RDONLY)
    become_user(user, ground)


def keep_capabilities() -> None:
    """Keep to this process what it needs to settle: bubblewrap refuses to start with any."""
    LIBC.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)


def _join_keyring(name: str) -> None:
    number = KEYCTL_NUMBERS.get(os.uname().machine)
    if number is not None:
        LIBC.syscall(number, JOIN_SESSION_KEYRING, name.encode())


def _answer(connection: socket.socket) -> None:
    _, inherited, _, _ = socket.recv_fds(connection, 1, DESCRIPTORS_LIMIT)
    request = json.loads(connection.makefile().readline())
    pid = os.fork()
    if pid == 0:
        connection.close()
        _become(request, inherited)
    for file in inherited:
        os.close(file)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with suppress(BrokenPipeError):
        connection.sendall(str(code if code >= 0 else 128 - code).encode())


def _become(request: dict[str, Any], inherited: Sequence[int]) -> None:
    """Run the command line in this process, a child, and end it."""
    status = 1
    try:
        os.setsid()
        os.chdir(request["cwd"])
        # Out of the way of the numbers that they are to have.
        files = [os.dup2(file, 200 + file, inheritable=False) for file in inherited]
        os.closerange(0, 200)
        # It has programs open that were found at the rehearsal.
        own_program._find.cache_clear()
        for number, file in zip(request["numbers"], files, strict=True):
            os.dup2(file, number)
        if request["is_plain"]:
            os.execve(request["words"][0], request["words"], request["env"])
        os.environ.update(request["env"])
        sys.stdout, sys.stderr = _stream(1), _stream(2)
        status = main(request["words"])
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        os._exit(status)


def _stream(number: int) -> Any:
    """A stream as the interpreter makes it at its start: none for a directory."""
    try:
        return open(number, "w", closefd=False)
    except OSError:
        return None


if __name__ == "__main__":
    serve(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
