"""What the kernel shows and takes through files."""

from __future__ import annotations

import os
import pty
from collections.abc import Mapping
from pathlib import Path

from tests.attack.attempt import (
    Attempt,
    Judge,
    Scene,
    each_attempt,
    has_read,
    holds,
    is_held,
    is_leaked,
)
from tests.attack.conftest import Arena
from tests.attack.ground import Cell

GROUPS = ("/sys/fs/cgroup", "/sys/fs/cgroup/pids", "/sys/fs/cgroup/unified")
"""Where the control groups of the host may be, by the versions of the hierarchy."""

_terminals: dict[Cell, int] = {}


def _group(file: str) -> str:
    return "; ".join(f"$PROBE open {group}/{file} w" for group in GROUPS)


def _has_made_group(scene: Scene) -> bool:
    made = [Path(group, scene.cell.process_name) for group in GROUPS]
    found = [path for path in made if path.is_dir()]
    for path in found:
        path.rmdir()
    return bool(found)


def _terminal(cell: Cell) -> Mapping[str, str]:
    """A terminal of the same user, that of another program."""
    leader, follower = pty.openpty()
    name = os.ttyname(follower)
    os.chmod(name, 0o666)
    os.close(follower)
    os.set_blocking(leader, False)
    _terminals[cell] = leader
    return {"TERMINAL": name}


def _has_written_terminal(scene: Scene) -> bool:
    leader = _terminals.pop(scene.cell)
    try:
        return bool(os.read(leader, 99))
    except OSError:
        return False
    finally:
        os.close(leader)


def _victim_has(adjustment: int) -> Judge:
    return lambda scene: any(victim.oom_adjustment == adjustment for victim in scene.victims)


def _has_own_adjustment(scene: Scene) -> bool:
    return any(process.oom_adjustment < 0 for process in scene.held)


def _victim_is_overwritten(scene: Scene) -> bool:
    (victim,) = scene.victims
    address = int((scene.cell.inside / "address").read_text(), 16)
    with open(f"/proc/{victim.pid}/mem", "rb") as memory:
        memory.seek(address)
        return not memory.read(64).startswith(scene.cell.secret.encode())


MEMORY = "with open('/proc/$VICTIM/mem', '{}', 0) as m: m.seek($ADDRESS); {}"
"""For Python: the memory of the process outside."""

ATTEMPTS = [
    Attempt(
        "the program that gets core dumps is chosen",
        "$PROBE open /proc/sys/kernel/core_pattern w",
        holds("/proc/sys", is_writable=True),
        needs_root=True,
    ),
    Attempt(
        "the kernel takes a key of the magic ones",
        "$PROBE open /proc/sysrq-trigger w",
        holds("/proc/sysrq-trigger", is_writable=True),
        needs_root=True,
        needs="magic keys",
    ),
    Attempt(
        "the memory of the kernel is read as a core file",
        "$PROBE open /proc/kcore r",
        has_read("/proc/kcore"),
        needs_root=True,
        needs="/proc/kcore",
    ),
    Attempt(
        "the messages of the kernel are read",
        "$PROBE open /proc/kmsg r; $PROBE open /dev/kmsg r",
        holds("/proc/kmsg", "/dev/kmsg"),
        needs_root=True,
        needs="kmsg",
    ),
    Attempt(
        "the environment of a process outside is read",
        "for p in /proc/[0-9]*; do cat $p/environ; done",
        is_leaked,
        host_script="export TOKEN=$SECRET; $PROBE nothing",
    ),
    Attempt(
        "the command line of a process outside is read",
        "for p in /proc/[0-9]*; do cat $p/cmdline; done",
        is_leaked,
        host_script="$PROBE nothing $SECRET",
    ),
    Attempt(
        "the memory of a process outside is read as a file",
        f'$PYTHON -c "{MEMORY.format("rb", "print(m.read(64))")}"',
        is_leaked,
        has_victim=True,
    ),
    Attempt(
        "the memory of a process outside is written as a file",
        f'echo $ADDRESS > address; $PYTHON -c "{MEMORY.format("r+b", "m.write(bytes(64))")}"',
        _victim_is_overwritten,
        has_victim=True,
    ),
    Attempt(
        "the root of another process leads to files outside",
        "for p in $VICTIM 1 self thread-self; do cat /proc/$p/root$OUT/secret; done",
        is_leaked,
        has_victim=True,
    ),
    Attempt(
        "the directory of another process leads to files outside",
        "for p in $VICTIM 1 self; do for d in . ..; do cat /proc/$p/cwd/$d/outside/*/secret; done; done",
        is_leaked,
        has_victim=True,
    ),
    Attempt(
        "the root of a thread leads to files outside",
        "cat /proc/$VICTIM/task/$VICTIM/root$OUT/secret /proc/1/task/1/root$OUT/secret",
        is_leaked,
        has_victim=True,
    ),
    Attempt(
        "what a process outside has mapped is opened again",
        "for p in $VICTIM 1; do for f in /proc/$p/map_files/*; do $PROBE open $f r && exit; done; done",
        is_held,
        has_victim=True,
        needs_root=True,
    ),
    Attempt(
        "a process outside becomes the first to go without memory",
        "echo 777 > /proc/$VICTIM/oom_score_adj",
        _victim_has(777),
        has_victim=True,
    ),
    Attempt(
        "a command becomes the last to go without memory",
        "echo -500 > /proc/self/oom_score_adj && $PROBE nothing",
        _has_own_adjustment,
        needs_root=True,
        needs="CAP_SYS_RESOURCE",
    ),
    Attempt(
        "sockets of the host are told by their names",
        "cat /proc/net/unix /proc/1/net/unix",
        is_leaked,
        host_script=(
            "$PYTHON -c \"import socket, os; s = socket.socket(socket.AF_UNIX); s.bind('\\0$SECRET');"
            " s.set_inheritable(True); os.execv('$PROBE', ['probe', 'nothing'])\""
        ),
    ),
    Attempt(
        "a terminal of another program takes what is written",
        "echo x > $TERMINAL",
        _has_written_terminal,
        prepare=_terminal,
    ),
    Attempt(
        "the physical memory is read",
        "$PROBE open /dev/mem r",
        holds("/dev/mem"),
        needs_root=True,
        needs="/dev/mem",
    ),
    Attempt(
        "a disk is read behind its file system",
        "for d in /dev/[svx]d[a-z] /dev/xvd[a-z] /dev/nvme*n1 /dev/loop0; do $PROBE open $d r && break; done",
        holds("/dev/"),
        needs_root=True,
        needs="a disk",
    ),
]

WIDE = [
    Attempt(
        "a setting of the kernel's objects is written",
        "for f in /sys/kernel/mm/transparent_hugepage/enabled /sys/power/state /sys/kernel/uevent_seqnum"
        " /sys/module/*/parameters/*; do $PROBE open $f w && break; done",
        holds("/sys", is_writable=True),
        profile="wide",
        needs_root=True,
    ),
    Attempt(
        "a command leaves its control group for the host's",
        _group("cgroup.procs"),
        holds("/sys/fs/cgroup", is_writable=True),
        profile="wide",
        needs_root=True,
    ),
    Attempt(
        "the program is chosen that the kernel runs for an empty group",
        "for f in /sys/fs/cgroup/*/release_agent; do $PROBE open $f w && break; done",
        holds("/sys/fs/cgroup", is_writable=True),
        profile="wide",
        needs_root=True,
        needs="control groups of the first version",
    ),
    Attempt(
        "a control group of its own is made",
        "; ".join(f"mkdir {group}/$NAME" for group in GROUPS),
        _has_made_group,
        profile="wide",
        needs_root=True,
    ),
    Attempt(
        "the program is chosen that the kernel runs for a device",
        "$PROBE open /sys/kernel/uevent_helper w; $PROBE open /proc/sys/kernel/hotplug w;"
        " $PROBE open /proc/sys/kernel/modprobe w; $PROBE open /proc/sys/kernel/poweroff_cmd w",
        holds("/sys/kernel", "/proc/sys", is_writable=True),
        profile="wide",
        needs_root=True,
    ),
    Attempt(
        "events are made up for the device manager",
        "for f in /sys/class/net/lo/uevent /sys/class/mem/null/uevent; do $PROBE open $f w && break; done",
        holds("/sys/", is_writable=True),
        profile="wide",
        needs_root=True,
    ),
    Attempt(
        "a device of the host is opened in a view of everything",
        "for d in kmsg loop-control tty0 vga_arbiter; do $PROBE open /dev/$d w && break; done",
        is_held,
        profile="wide",
        needs_root=True,
    ),
]


@each_attempt(ATTEMPTS)
def test_files_of_the_kernel_show_and_take_nothing_of_others(
    attempt: Attempt, user: int, arena: Arena
) -> None:
    arena.judge(attempt, ATTEMPTS, user)


@each_attempt(WIDE)
def test_view_of_everything_shows_no_file_that_steers_the_kernel(
    attempt: Attempt, user: int, arena: Arena
) -> None:
    arena.judge(attempt, WIDE, user)
