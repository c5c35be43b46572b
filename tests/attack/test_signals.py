"""Signals to processes outside, and processes that want to outlive their command."""

from __future__ import annotations

import os

from tests.attack.attempt import Attempt, Scene, each_attempt, is_held, is_leaked, is_signalled, survives
from tests.attack.conftest import Arena

TERM, STOP, KILL, USER, REAL_TIME = 15, 19, 9, 10, 40
HIGHEST_NICENESS = 19


def _is_limited(scene: Scene) -> bool:
    return any("Max open files            16" in victim.limits for victim in scene.victims)


def _is_nicer(scene: Scene) -> bool:
    # The victims begin with the niceness of the tests, which may run as a background job.
    return any(victim.niceness > os.nice(0) for victim in scene.victims)


def _is_on_one_processor(scene: Scene) -> bool:
    return any(victim.status["Cpus_allowed_list"] == "0" for victim in scene.victims)


def _is_overwritten(scene: Scene) -> bool:
    (victim,) = scene.victims
    with open(f"/proc/{victim.pid}/mem", "rb") as memory:
        memory.seek(int((scene.cell.inside / "address").read_text(), 16))
        return not memory.read(64).startswith(scene.cell.secret.encode())


def _has_many_waiting(scene: Scene) -> bool:
    """The signals that wait for processes of this user are most of what the kernel keeps for him."""
    (victim,) = scene.victims
    waiting, limit = map(int, victim.status["SigQ"].split("/"))
    return waiting > limit // 2


ATTEMPTS = [
    Attempt("a signal to a process", f"$PROBE kill $VICTIM {TERM}", is_signalled, has_victim=True),
    Attempt("the end of a process", f"$PROBE kill $VICTIM {KILL}", is_signalled, has_victim=True),
    Attempt("a process is stopped", f"$PROBE kill $VICTIM {STOP}", is_signalled, has_victim=True),
    Attempt("a signal to a thread", f"$PROBE tgkill $VICTIM {USER}", is_signalled, has_victim=True),
    Attempt("a signal with a value", f"$PROBE sigqueue $VICTIM {REAL_TIME}", is_signalled, has_victim=True),
    Attempt(
        "a signal through a descriptor of a process",
        f"$PROBE pidfd_kill $VICTIM {TERM}",
        is_signalled,
        has_victim=True,
    ),
    Attempt(
        "a signal that the kernel sends when a pipe has something to read",
        f"$PROBE owned_signal $VICTIM {USER}",
        is_signalled,
        has_victim=True,
    ),
    Attempt(
        "a signal to the group of a process", f"$PROBE kill -$VICTIM {USER}", is_signalled, has_victim=True
    ),
    Attempt(
        "a signal to everybody",
        f"$PYTHON -c 'import os; os.kill(-1, {USER})'",
        is_signalled,
        has_victim=True,
        is_alone=True,
    ),
    Attempt(
        "the end of every number that a process could have",
        "n=$((VICTIM - 40)); while [ $n -lt $((VICTIM + 40)) ]; do"
        " [ $n = $$ ] || kill -USR1 $n; n=$((n + 1)); done",
        is_signalled,
        has_victim=True,
        is_alone=True,
    ),
    Attempt("a process is traced", "$PROBE ptrace $VICTIM", is_signalled, has_victim=True),
    Attempt(
        "a process is traced without being stopped", "$PROBE seize $VICTIM", is_signalled, has_victim=True
    ),
    Attempt(
        "the first process of the sandbox, or what is above outside, is traced",
        "$PROBE seize 1 || $PROBE seize $VICTIM",
        is_held,
        has_victim=True,
    ),
    Attempt(
        "the memory of a process is read", "$PROBE read_memory $VICTIM $ADDRESS", is_leaked, has_victim=True
    ),
    Attempt(
        "the memory of a process is written",
        "echo $ADDRESS > address; $PROBE write_memory $VICTIM $ADDRESS",
        _is_overwritten,
        has_victim=True,
    ),
    Attempt(
        "the memory of a process is moved out",
        "$PROBE madvise $VICTIM $ADDRESS",
        is_held,
        has_victim=True,
        needs="process_madvise",
        needs_root=True,
    ),
    Attempt("the limits of a process", "$PROBE prlimit $VICTIM", _is_limited, has_victim=True),
    Attempt(
        "the priority of a process",
        "$PROBE renice $VICTIM",
        _is_nicer,
        has_victim=True,
        needs="a niceness below the highest" if os.nice(0) == HIGHEST_NICENESS else "",
    ),
    Attempt(
        "the processors of a process",
        "$PROBE affinity $VICTIM",
        _is_on_one_processor,
        has_victim=True,
        needs="more than one processor",
    ),
]

SURVIVORS = [
    Attempt("a daemon in a session of its own", "setsid $PROBE nothing", survives),
    Attempt("one that ignores every signal", "trap '' 1 2 3 15; setsid $PROBE nothing", survives),
    Attempt("one that is stopped", "$PROBE stopped", survives),
    Attempt("one that its own child traces", "$PROBE traced_child || $PROBE nothing", survives),
    Attempt("one that waits for a child in its own memory", "$PROBE vforked", survives),
    Attempt(
        "one that holds all standard streams",
        "mkfifo up; ($PROBE nothing; echo > up; sleep 300) & read it < up",
        survives,
    ),
    Attempt(
        "one that is the child of the first process",
        "mkfifo up; sh -c '($PROBE nothing; echo > up) &'; read it < up",
        survives,
    ),
]


@each_attempt(ATTEMPTS)
def test_process_outside_is_out_of_reach(attempt: Attempt, user: int, arena: Arena) -> None:
    arena.judge(attempt, ATTEMPTS, user)


@each_attempt(SURVIVORS)
def test_nothing_outlives_its_command(attempt: Attempt, user: int, arena: Arena) -> None:
    arena.judge(attempt, SURVIVORS, user)
