"""Commands that use up what everybody needs, and traps that keep the next command from being started."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import paddock
from paddock.sandbox.host.glob_scan import MATCH_LIMIT
from tests.attack.attempt import LIMITS, USERS, Attempt, Scene, each_attempt, is_leaked, profile_of
from tests.attack.conftest import Arena, NewGround
from tests.attack.ground import Cell, Ground, processes
from tests.attack.server import server_apart
from tests.attack.stage import Outcome, Running, Stage
from tests.sandbox.identity import ORDINARY, PYTHON

HELD = """
import mmap, os, resource, signal, sys, threading
done, told = os.pipe()
if os.fork():
    os.close(told)
    sys.exit(not os.read(done, 1))
try:
    kept = []
    {}
except BaseException as error:
    print(error)
open("/proc/self/comm", "w").write(os.environ["NAME"])
os.write(told, b"x")
signal.pause()
"""
"""For Python: does something and stays, with what it has got."""


def _holding(line: str) -> str:
    return f"$PYTHON -c '{HELD.format(line)}'"


def _is_crowd(scene: Scene) -> bool:
    return len(scene.held) > LIMITS["processes"]


def _has_threads(scene: Scene) -> bool:
    return any(int(process.status["Threads"]) > LIMITS["processes"] for process in scene.held)


def _has_files(scene: Scene) -> bool:
    return any(len(process.descriptors) > LIMITS["openFiles"] for process in scene.held)


def _has_memory(scene: Scene) -> bool:
    return any(
        int(process.status["VmSize"].split()[0]) << 10 > LIMITS["memoryBytes"] for process in scene.held
    )


def _has_large_file(scene: Scene) -> bool:
    path = scene.cell.inside / "large"
    return path.exists() and path.stat().st_size > LIMITS["fileBytes"]


def _has_many_waiting(scene: Scene) -> bool:
    """The signals that wait are most of what the kernel keeps for the user."""
    (victim,) = scene.victims
    waiting, limit = map(int, victim.status["SigQ"].split("/"))
    return waiting > limit // 2


LIMITED = [
    Attempt(
        "more processes than the profile gives",
        "i=0; while [ $i -lt 80 ]; do $PROBE nothing; i=$((i + 1)); done",
        _is_crowd,
        profile="limited",
        is_alone=True,
    ),
    Attempt(
        "threads in place of processes",
        _holding("for _ in range(80): threading.Thread(target=signal.pause, daemon=True).start()"),
        _has_threads,
        profile="limited",
        is_alone=True,
    ),
    Attempt(
        "more open files than the profile gives",
        _holding("while len(kept) < 200: kept.append(os.dup(0))"),
        _has_files,
        profile="limited",
    ),
    Attempt(
        "a limit that is raised again",
        _holding("resource.setrlimit(7, (500, 500)); kept = [os.dup(0) for _ in range(200)]"),
        _has_files,
        profile="limited",
    ),
    Attempt(
        "more memory than the profile gives",
        _holding("kept.append(mmap.mmap(-1, 1 << 30))"),
        _has_memory,
        profile="limited",
    ),
    Attempt(
        "a file larger than the profile gives, written",
        "head -c 300000 /dev/zero > large",
        _has_large_file,
        profile="limited",
    ),
    Attempt(
        "a file larger than the profile gives, with nothing in it",
        "truncate -s 300000 large",
        _has_large_file,
        profile="limited",
    ),
    Attempt(
        "a file larger than the profile gives, reserved",
        "fallocate -l 300000 large",
        _has_large_file,
        profile="limited",
    ),
    Attempt(
        "a file that grows through a descriptor for appending",
        "i=0; while [ $i -lt 30 ]; do head -c 10000 /dev/zero >> large; i=$((i + 1)); done",
        _has_large_file,
        profile="limited",
    ),
]

SIGNALS = [
    Attempt(
        "all signals that may wait for a user",
        "$PROBE flood",
        _has_many_waiting,
        has_victim=True,
    ),
]


def _plain(cell: Cell) -> None:
    (cell.inside / "x.env").write_text(cell.secret)


def _pipe(cell: Cell) -> None:
    _plain(cell)
    os.mkfifo(cell.inside / "pipe.env")


def _socket(cell: Cell) -> None:
    _plain(cell)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(cell.inside / "s.env"))


def _many(cell: Cell) -> None:
    for number in range(MATCH_LIMIT + 1):
        (cell.inside / f"{number}.env").write_text("x")
    (cell.inside / "x.env").write_text(cell.secret)


def _long(cell: Cell) -> None:
    (cell.inside / ("n" * 251 + ".env")).write_text(cell.secret)
    (cell.inside / "x.env").write_text(cell.secret)


def _circle(cell: Cell) -> None:
    _plain(cell)
    (cell.inside / "circle.env").symlink_to("circle.env")
    (cell.inside / "around").symlink_to(".")


def _trap(name: str, prepare: Callable[[Cell], None], host_script: str = "") -> Attempt:
    return Attempt(
        name,
        "cat x.env n*.env",
        is_leaked,
        prepare=prepare,
        host_script=host_script,
        is_alone=True,
        may_be_refused=True,
    )


TRAPS = [
    _trap("a pipe that matches, for whoever opens it to wait for ever", _pipe),
    _trap("a socket that matches", _socket),
    _trap("more files that match than there can be mounts", _many),
    _trap("a name as long as names can be", _long),
    _trap("links that lead in a circle", _circle),
    _trap(
        "directories deeper than a path can be long",
        _plain,
        """$PYTHON -c 'import os; [(os.mkdir("d" * 200), os.chdir("d" * 200)) for _ in range(30)]'""",
    ),
]


@each_attempt(LIMITED)
def test_limit_holds_for_all_that_a_command_does(attempt: Attempt, user: int, arena: Arena) -> None:
    arena.judge(attempt, LIMITED, user)


@each_attempt(SIGNALS)
def test_command_leaves_others_their_share(attempt: Attempt, user: int, arena: Arena) -> None:
    arena.judge(attempt, SIGNALS, user)


@each_attempt(TRAPS)
def test_trap_neither_holds_up_the_next_start_nor_opens_it(attempt: Attempt, user: int, arena: Arena) -> None:
    arena.judge(attempt, TRAPS, user)


# ---- descriptors under way ----

HOARD = """
import array, os, resource, socket, sys
limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
many = array.array("i", [0] * 250)
pairs, sent = [], 0
try:
    while sent < 2000000:
        pairs.append(socket.socketpair())
        sender = pairs[-1][0]
        sender.setblocking(False)
        try:
            while True:
                sender.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, many)])
                sent += len(many)
        except BlockingIOError:
            pass
except OSError as error:
    print(error, flush=True)
sys.stdin.read()
"""
"""For Python: sends descriptors that nobody takes, until the kernel counts too many of this user."""


@contextmanager
def _lower_limit_of_descriptors(count: int) -> Iterator[None]:
    """What is started in the block has this lower limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


HOARDER = ORDINARY + 1
"""A user whose share of descriptors under way nobody else needs."""

HOARDS = 5
"""Tries to use up all descriptors, without a sandbox."""


@contextmanager
def _no_other_hoard() -> Iterator[None]:
    """Wait for other processes of the suite that do this: the kernel counts what all of them have sent."""
    with Path(__file__).open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.mark.parametrize("lower_limit", [1024, 1 << 20], ids=["usual limit", "raised limit"])
async def test_command_that_sends_descriptors_to_nobody_leaves_others_their_starts(
    lower_limit: int, territory: Path, new_ground: NewGround
) -> None:
    """The kernel counts none of root's programs (CAP_SYS_RESOURCE), so this is about an ordinary user."""
    # Other tests beside this one start things as the usual ordinary user.
    user = HOARDER if os.geteuid() == 0 else USERS[-1]
    ground = new_ground(user)
    ground.give()
    with (
        _no_other_hoard(),
        _lower_limit_of_descriptors(lower_limit),
        server_apart(user, territory) as url,
    ):
        async with paddock.connect(url) as box, paddock.connect(url) as other:

            async def is_startable(hoarding: paddock.Sandbox | None) -> list[bool]:
                """Whether the other client can start something, confined and not."""
                startable = []
                argv = [PYTHON, "-c", HOARD]
                async with await box.start(argv, cwd=ground.project, sandbox=hoarding, stdin=True) as hoard:
                    await hoard.read_until("Too many references")
                    for sandbox in (confined, None):
                        try:
                            await other.run(["true"], cwd=ground.project, sandbox=sandbox, check=True)
                            startable.append(True)
                        except paddock.SpawnError:
                            startable.append(False)
                return startable

            confined = paddock.Sandbox(":workspace", roots=[ground.project])
            assert await is_startable(confined) == [True, True]
            # The kernel may still be freeing what the one before has sent, and then there is room again.
            for _ in range(HOARDS):
                if not any(await is_startable(None)):
                    return
            pytest.fail("nobody was kept from starting something")


# ---- the time limit ----

WALL_STATUS = 124
ENDLESS = {
    "it ignores every signal": "trap '' 1 2 3 15; while :; do sleep 9 || :; done",
    "it floods the first process with signals": "for i in 1 2 3 4; do $PROBE pester 1 28; done; sleep 99",
    "it floods the first process with signals that all wait": (
        "trap '' 40; for i in 1 2 3; do $PROBE pester 1 40; done; sleep 99"
    ),
    "it floods the first process with ends of children": "while :; do (true &); done",
    "it stops itself and all others": "kill -STOP -1; kill -STOP $$; sleep 99",
    "it stops the first process": "while :; do kill -STOP 1; kill -TSTP 1; sleep 0.1; done",
    "it is always another process": "f() { (sleep 0.01; f) & }; f; sleep 99",
    "it is in sessions of its own": "for i in 1 2 3; do setsid $PROBE nothing; done; setsid sleep 99",
    "it waits for a pipe that nobody opens": "mkfifo pipe; cat pipe",
}


@pytest.fixture(scope="module", params=USERS, ids=lambda user: "root" if user == 0 else "ordinary")
def endings(
    request: pytest.FixtureRequest,
    stage_of: Callable[[int], Stage],
    new_ground: NewGround,
    probe: Path,
) -> dict[str, tuple[Outcome, bool]]:
    """How commands without an end ended that had a second, and whether something of them lives."""
    stage = stage_of(request.param)
    started = {}
    for name, script in ENDLESS.items():
        ground = new_ground(request.param)
        ground.give()
        profile = profile_of("strict", ground)
        profile = profile.replace('"limits": {}', '"limits": {"wallSeconds": 1}')
        words = ["sandbox", "--policy-cwd", str(ground.project), "--profile", profile, "--", "/bin/sh", "-c"]
        (ground.project / "probe").write_bytes(probe.read_bytes())
        (ground.project / "probe").chmod(0o755)
        variables = f"export NAME={ground.token}-0 PROBE={ground.project}/probe; "
        started[name] = ground, stage.start([*words, variables + script], cwd=ground.project)
    return {name: _end_of(ground, running) for name, (ground, running) in started.items()}


def _end_of(ground: Ground, running: Running) -> tuple[Outcome, bool]:
    try:
        outcome = running.wait()
    except TimeoutError:
        outcome = Outcome(-1, b"", b"it never ended")
    left = processes(ground.token)
    for process in left:
        os.kill(process.pid, signal.SIGKILL)
    return outcome, bool(left)


@pytest.mark.parametrize("name", ENDLESS)
def test_time_limit_ends_every_command(name: str, endings: dict[str, tuple[Outcome, bool]]) -> None:
    outcome, is_alive = endings[name]
    assert (outcome.status, is_alive) == (WALL_STATUS, False), outcome
