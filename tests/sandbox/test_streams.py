"""A confined command has the standard streams of its launcher, and nothing of the files behind them."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import stat
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.sandbox.helper_process import wait_until
from tests.sandbox.identity import ORDINARY, PYTHON, drop_to
from tests.sandbox.launcher import Launcher, Outcome, Stream

READ, WRITE, APPEND = os.O_RDONLY, os.O_WRONLY, os.O_WRONLY | os.O_APPEND
CONTENT = "of the host\n"
TERMINAL_GROUP = 5
"""That of terminals, in which no user is."""
AS_LONG_AGO = (1_000_000_000, 1_000_000_000)

ATTEMPTS: dict[str, tuple[int, str]] = {
    "mode of the input": (0, "os.fchmod(0, 0o777)"),
    "times of the input": (0, "os.utime(0, (1, 1))"),
    "mode of the input by its name": (0, "os.chmod('/proc/self/fd/0', 0o777)"),
    "input opened to write": (0, "os.write(os.open('/proc/self/fd/0', os.O_WRONLY), b'X')"),
    "input opened to append": (0, "os.write(os.open('/proc/self/fd/0', os.O_WRONLY|os.O_APPEND), b'X')"),
    "input truncated by its name": (0, "os.truncate('/proc/self/fd/0', 0)"),
    "input opened by another thread's name": (
        0,
        "os.write(os.open(f'/proc/thread-self/fd/0', os.O_WRONLY), b'X')",
    ),
    "input opened by /dev/stdin": (0, "os.write(os.open('/dev/stdin', os.O_WRONLY), b'X')"),
    "input linked into the workspace": (
        0,
        "os.link('/proc/self/fd/0', 'linked', follow_symlinks=True); os.chmod('linked', 0o777)",
    ),
    "mode of the output": (1, "os.fchmod(1, 0o777)"),
    "times of the output": (1, "os.utime(1, (1, 1))"),
    "output truncated": (1, "os.ftruncate(1, 0)"),
    "output overwritten": (
        1,
        "fcntl.fcntl(1, fcntl.F_SETFL, 0); os.pwrite(1, b'X', 0)",
    ),
    "output opened to read": (
        1,
        "open('leaked', 'wb').write(os.pread(os.open('/proc/self/fd/1', os.O_RDONLY), 100, 0))",
    ),
    "mode of the error output": (2, "os.fchmod(2, 0o777)"),
    "error output truncated": (2, "os.ftruncate(2, 0)"),
}


@pytest.fixture
def file(new_directory: Path, launcher: Launcher) -> Path:
    """A file of the user, where no profile of these tests lets a command write."""
    return _file(new_directory / "file", launcher)


@pytest.fixture
def pipe(new_directory: Path, launcher: Launcher) -> Path:
    """A named pipe of the user, out of reach of the command."""
    path = new_directory / "pipe"
    os.mkfifo(path, 0o600)
    os.chown(path, launcher.user, launcher.user)
    return path


def _file(path: Path, launcher: Launcher) -> Path:
    path.write_text(CONTENT)
    path.chmod(0o644)
    os.chown(path, launcher.user, launcher.user)
    os.utime(path, AS_LONG_AGO)
    return path


def _run(
    launcher: Launcher,
    workspace: Path,
    streams: Mapping[int, Stream],
    *command: str,
    profile: str = ":workspace",
    stdin: str = "",
) -> Outcome:
    words = ["sandbox", "--profile", profile, "--", *command]
    return launcher.run(words, cwd=workspace, streams=streams, stdin=stdin)


def _shell(launcher: Launcher, workspace: Path, streams: Mapping[int, Stream], script: str) -> Outcome:
    return _run(launcher, workspace, streams, "/bin/bash", "-c", script)


def _is_harmed(file: Path, workspace: Path) -> bool:
    status = file.stat()
    leaked = workspace / "leaked"
    return (
        stat.S_IMODE(status.st_mode) != 0o644
        or status.st_mtime == 1
        or not file.read_text().startswith(CONTENT)
        or file.read_text().endswith("X")
        or (leaked.exists() and CONTENT in leaked.read_text())
    )


@pytest.mark.parametrize("name", ATTEMPTS)
def test_command_can_do_nothing_to_a_file_that_is_its_stream(
    launcher: Launcher, workspace: Path, new_directory: Path, file: Path, name: str
) -> None:
    number, attempt = ATTEMPTS[name]
    script = f"import fcntl, os\n{attempt}"
    flags = READ if number == 0 else APPEND
    _run(launcher, workspace, {number: (str(file), flags)}, PYTHON, "-c", script)
    assert not _is_harmed(file, workspace)
    # It works where nothing is enforced.
    other = _file(new_directory / "other", launcher)
    (workspace / "leaked").unlink(missing_ok=True)
    _run(
        launcher,
        workspace,
        {number: (str(other), flags)},
        PYTHON,
        "-c",
        script,
        profile=":danger-full-access",
    )
    assert _is_harmed(other, workspace) or "linked" in name


def test_output_into_a_set_user_id_file_makes_no_program_that_acts_for_its_owner(
    launcher: Launcher, workspace: Path, file: Path
) -> None:
    for number in (1, 2):
        file.chmod(0o6755)
        done = _shell(launcher, workspace, {number: (str(file), WRITE)}, f"echo new >&{number}")
        assert (done.status, file.read_text()[:4]) == (0, "new\n")
        assert stat.S_IMODE(file.stat().st_mode) == 0o755


def test_directory_is_refused_as_a_stream(launcher: Launcher, workspace: Path, new_directory: Path) -> None:
    done = _shell(launcher, workspace, {0: (str(new_directory), READ)}, "ls /proc/self/fd/0/..")
    assert (done.status, done.stdout) == (125, "")
    assert "standard input is a directory" in done.stderr


def test_input_is_read_from_where_it_stands_and_the_rest_left_to_others(
    launcher: Launcher, workspace: Path, file: Path
) -> None:
    lines = "".join(f"{number}\n" for number in range(50_000))
    file.write_text(lines)
    assert _shell(launcher, workspace, {0: (str(file), READ)}, "cat").stdout == lines
    script = f"{PYTHON} -c 'import os; print(os.read(0, 4))'"
    done = _shell(launcher, workspace, {0: (str(file), READ)}, script)
    assert done.stdout == "b'0\\n1\\n'\n"


def test_all_output_is_written_before_the_command_is_said_to_have_ended(
    launcher: Launcher, workspace: Path, file: Path
) -> None:
    done = _shell(launcher, workspace, {1: (str(file), APPEND)}, "seq 200000; exit 7")
    assert done.status == 7
    assert file.read_text() == CONTENT + "".join(f"{number}\n" for number in range(1, 200_001))


def test_streams_that_are_one_file_keep_the_order_of_what_is_written(
    launcher: Launcher, workspace: Path, file: Path
) -> None:
    script = "for i in {1..200}; do echo $i; echo $i >&2; done"
    _shell(launcher, workspace, {1: (str(file), APPEND), 2: (1, 0)}, script)
    assert file.read_text() == CONTENT + "".join(f"{number}\n{number}\n" for number in range(1, 201))


def test_output_that_can_not_be_written_is_no_success(launcher: Launcher, workspace: Path) -> None:
    done = _shell(launcher, workspace, {1: ("/dev/full", WRITE)}, "echo lost")
    assert done.status == 125
    assert "can't write the command's output: No space left on device" in done.stderr


def test_status_stays_the_commands_where_its_errors_can_not_be_written(
    launcher: Launcher, workspace: Path
) -> None:
    script = "echo problem >&2; exit 42"
    assert _shell(launcher, workspace, {2: ("/dev/full", WRITE)}, script).status == 42


@pytest.mark.parametrize("number", [0, 1, 2])
def test_closed_stream_gets_nothing_of_ours(launcher: Launcher, workspace: Path, number: int) -> None:
    done = _shell(
        launcher, workspace, {number: (None, 0)}, f"readlink /proc/$$/fd/{number} > seen; echo ran > ran"
    )
    assert (workspace / "ran").read_text() == "ran\n", done
    assert (workspace / "seen").read_text() == "/dev/null\n"


def test_file_that_may_be_written_is_what_the_command_has(launcher: Launcher, workspace: Path) -> None:
    own = _file(workspace / "own", launcher)
    script = "import os; os.lseek(0, 3, 0); print(os.read(0, 3))"
    assert _run(launcher, workspace, {0: (str(own), READ)}, PYTHON, "-c", script).stdout == "b'the'\n"


OPENED_BY_ANOTHER = """
# The last for what is imported late: the other user may not be able to read the interpreter's files.
import os, sys, ctypes, socket
from paddock.cli import confined_terminal, input_source, stream_copy
from paddock.cli.confined_streams import ConfinedStreams
from paddock.sandbox.enforce.confined import Confined, Readers

path, user, flags, mode = sys.argv[1], *map(int, sys.argv[2:])
file = os.open(path, flags)
os.fchmod(file, mode)
os.dup2(file, 0 if flags == os.O_RDONLY else 1)
if os.geteuid() == 0:
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
streams = ConfinedStreams(Confined(list, readers=Readers(-1), grants={"/": True}))
print(streams.numbers[0 if flags == os.O_RDONLY else 1], file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("flags", "mode", "is_passed_on"),
    [(APPEND, 0o444, False), (APPEND, 0o222, True), (READ, 0o222, False), (READ, 0o444, True)],
)
def test_file_that_its_user_could_not_open_is_not_what_a_command_has(
    new_directory: Path, flags: int, mode: int, is_passed_on: bool
) -> None:
    """As when root's shell opens a log for a command of somebody else's."""
    new_directory.chmod(0o755)
    file = new_directory / "file"
    file.write_text(CONTENT)
    script = [sys.executable, "-c", OPENED_BY_ANOTHER, str(file), str(ORDINARY), str(flags), str(mode)]
    done = subprocess.run(script, stderr=subprocess.PIPE, stdin=subprocess.PIPE, text=True, check=True)
    assert (int(done.stderr) in (0, 1)) == is_passed_on


def test_metadata_that_is_protected_stays_so_as_a_stream(launcher: Launcher, workspace: Path) -> None:
    git = workspace / ".git"
    git.mkdir()
    config = _file(git / "config", launcher)
    _shell(
        launcher, workspace, {0: (str(config), READ)}, "echo X > /proc/self/fd/0; chmod 777 /proc/self/fd/0"
    )
    assert not _is_harmed(config, workspace)


def test_named_pipe_is_read_as_far_as_the_command_reads_and_never_written(
    launcher: Launcher, workspace: Path, pipe: Path
) -> None:
    # Open for both, so that it keeps what is in it.
    held = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    try:
        os.write(held, b"one\ntwo\n")
        stream = {0: (str(pipe), READ | os.O_NONBLOCK)}
        assert _shell(launcher, workspace, stream, "read line; echo $line").stdout == "one\n"
        _shell(launcher, workspace, stream, "echo X > /proc/self/fd/0; chmod 777 /proc/self/fd/0")
        assert os.read(held, 100) == b"two\n"
        assert stat.S_IMODE(pipe.stat().st_mode) == 0o600
    finally:
        os.close(held)


def test_command_whose_reader_is_gone_gets_a_broken_pipe(
    launcher: Launcher, workspace: Path, pipe: Path
) -> None:

    def read_a_little() -> None:
        with open(pipe, "rb", buffering=0) as reader:
            reader.read(1)

    reader = threading.Thread(target=read_a_little)
    reader.start()
    done = _shell(launcher, workspace, {1: (str(pipe), WRITE)}, "exec yes")
    reader.join()
    assert (done.status, done.stderr) == (141, "")


@pytest.mark.parametrize(
    ("number", "script", "status"),
    [
        (signal.SIGTERM, "exec yes", 143),
        (signal.SIGINT, "exec yes", 130),
        (signal.SIGTERM, "trap 'exit 0' TERM; yes & wait", 0),
    ],
)
def test_signal_ends_a_command_though_nobody_reads_its_output(
    launcher: Launcher, workspace: Path, pipe: Path, number: int, script: str, status: int
) -> None:
    held = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    capacity = fcntl.fcntl(held, fcntl.F_GETPIPE_SZ)
    try:
        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(_shell, launcher, workspace, {1: (str(pipe), WRITE)}, script)
            wait_until(lambda: _held_bytes(held) == capacity)
            os.kill(launcher.running(), number)
            outcome = done.result()
    finally:
        os.close(held)
    assert outcome == Outcome(
        status or 125, "", "paddock: can't write the command's output: nobody reads it\n"
    )


def _held_bytes(pipe: int) -> int:
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


OPEN_TERMINAL = "import os; os.fchown(0, -1, os.getgid()); os.fchmod(0, 0o666)"


def test_terminal_is_as_closed_to_others_afterwards_as_it_was(launcher: Launcher, workspace: Path) -> None:
    leader, follower = os.openpty()
    try:
        if os.geteuid() == 0:
            os.fchown(follower, launcher.user, TERMINAL_GROUP)
        os.fchmod(follower, 0o620)
        group = os.fstat(follower).st_gid
        streams: dict[int, Stream] = {0: (os.ttyname(follower), os.O_RDWR | os.O_NOCTTY)}
        outcome = _run(launcher, workspace, streams, PYTHON, "-c", f"{OPEN_TERMINAL}; print('open')")
        assert outcome.stdout == "open\n", outcome.stderr
        status = os.fstat(follower)
        # Nobody but root can give it back to a group that he is not in.
        own = launcher.user if os.geteuid() == 0 else os.getegid()
        assert (status.st_gid, stat.S_IMODE(status.st_mode)) in ((group, 0o620), (own, 0o600))
        assert status.st_gid == group or launcher.user != 0
        subprocess.run([PYTHON, "-c", OPEN_TERMINAL], stdin=follower, check=True, **drop_to(launcher.user))
        assert stat.S_IMODE(os.fstat(follower).st_mode) == 0o666
    finally:
        os.close(leader)
        os.close(follower)


TAKE_TERMINAL = """
import fcntl, termios
for request, argument in ((termios.TIOCEXCL, 0), (termios.TIOCSETD, (27).to_bytes(4, "little"))):
    try:
        fcntl.ioctl(0, request, argument)
    except OSError:
        pass
print("tried")
"""
TIOCGEXCL = 0x80045440


def test_terminal_can_be_opened_and_typed_at_afterwards(launcher: Launcher, workspace: Path) -> None:
    leader, follower = os.openpty()

    def state() -> tuple[bytes, bytes]:
        exclusive, discipline = (
            fcntl.ioctl(follower, request, bytes(4)) for request in (TIOCGEXCL, termios.TIOCGETD)
        )
        return exclusive, discipline

    try:
        os.fchown(follower, launcher.user, -1)
        before = state()
        streams: dict[int, Stream] = {0: (os.ttyname(follower), os.O_RDWR | os.O_NOCTTY)}
        outcome = _run(launcher, workspace, streams, PYTHON, "-c", TAKE_TERMINAL)
        assert outcome.stdout == "tried\n", outcome.stderr
        assert state() == before
        subprocess.run([PYTHON, "-c", TAKE_TERMINAL], stdin=follower, check=True, **drop_to(launcher.user))
        assert state() != before
    finally:
        os.close(leader)
        os.close(follower)


STOP_TERMINAL = "import termios; termios.tcflow(0, termios.TCOOFF)"
CHANGE_SETTINGS = """
import termios
settings = termios.tcgetattr(0)
settings[3] &= ~(termios.ECHO | termios.ICANON)
termios.tcsetattr(0, termios.TCSANOW, settings)
"""


@contextmanager
def _terminal(launcher: Launcher) -> Iterator[tuple[int, int, Stream]]:
    """Yield both ends of a terminal of the user, and what opens the second as a stream."""
    leader, follower = os.openpty()
    try:
        os.fchown(follower, launcher.user, -1)
        yield leader, follower, (os.ttyname(follower), os.O_RDWR | os.O_NOCTTY)
    finally:
        os.close(leader)
        os.close(follower)


def _takes_output(terminal: int) -> bool:
    poll = select.poll()
    poll.register(terminal, select.POLLOUT)
    return bool(poll.poll(0))


@pytest.mark.parametrize("number", [0, 1, 2])
def test_terminal_that_a_command_has_stopped_takes_output_afterwards(
    launcher: Launcher, workspace: Path, number: int
) -> None:
    with _terminal(launcher) as (_, follower, stream):
        script = STOP_TERMINAL.replace("(0", f"({number}")
        outcome = _run(launcher, workspace, {number: stream}, PYTHON, "-c", script)
        assert (outcome.status, _takes_output(follower)) == (0, True)
        subprocess.run([PYTHON, "-c", STOP_TERMINAL], stdin=follower, check=True)
        assert not _takes_output(follower)


def test_message_about_a_command_that_has_stopped_the_terminal_is_shown_there(
    launcher: Launcher, workspace: Path
) -> None:
    with _terminal(launcher) as (leader, _, stream):
        script = f"{STOP_TERMINAL}\ntry: open('/etc/new', 'w')\nexcept OSError: pass"
        words = ["sandbox", "--trace", "--", PYTHON, "-c", script]
        outcome = launcher.run(words, cwd=workspace, streams={0: stream, 1: stream, 2: stream})
        assert outcome.status == 0
        assert b"/etc/new" in os.read(leader, 10_000)


def test_terminal_has_its_settings_back_unless_a_pager_may_have_changed_them(
    launcher: Launcher, workspace: Path
) -> None:
    with _terminal(launcher) as (_, follower, stream):
        before = termios.tcgetattr(follower)
        _run(launcher, workspace, {0: stream, 1: stream, 2: stream}, PYTHON, "-c", CHANGE_SETTINGS)
        assert termios.tcgetattr(follower) == before
        _run(launcher, workspace, {0: stream, 2: stream}, PYTHON, "-c", CHANGE_SETTINGS)
        assert termios.tcgetattr(follower) != before
        termios.tcsetattr(follower, termios.TCSANOW, before)
        subprocess.run([PYTHON, "-c", CHANGE_SETTINGS], stdin=follower, check=True)
        assert termios.tcgetattr(follower) != before


STOP_KEY = b"\x13"


def test_signal_ends_paddock_though_its_message_can_not_be_shown(launcher: Launcher, workspace: Path) -> None:
    script = "try: open('/etc/new', 'w')\nexcept OSError: open('ready', 'w')\nimport time; time.sleep(1000)"
    words = ["sandbox", "--trace", "--", PYTHON, "-c", script]
    with _terminal(launcher) as (leader, follower, stream), ThreadPoolExecutor(1) as thread:
        running = thread.submit(launcher.run, words, cwd=workspace, streams={0: stream, 2: stream})
        wait_until((workspace / "ready").exists)
        os.write(leader, STOP_KEY)
        wait_until(lambda: not _takes_output(follower))
        os.kill(launcher.running(), signal.SIGTERM)
        assert running.result().status == 128 + signal.SIGTERM
        # The user has stopped it, so it stays stopped.
        assert not _takes_output(follower)


ASK_FOR_NUMBER = """
import fcntl
try:
    fcntl.ioctl(0, 0x80045430, bytes(4))  # TIOCGPTN
except OSError:
    print("no master")
else:
    print("master")
"""


def test_command_does_not_get_the_master_of_a_terminal(launcher: Launcher, workspace: Path) -> None:
    streams: dict[int, Stream] = {0: ("/dev/ptmx", os.O_RDWR | os.O_NOCTTY)}
    assert _run(launcher, workspace, streams, PYTHON, "-c", ASK_FOR_NUMBER).stdout == "no master\n"
    outside = _run(launcher, workspace, streams, PYTHON, "-c", ASK_FOR_NUMBER, profile=":danger-full-access")
    assert outside.stdout == "master\n"
