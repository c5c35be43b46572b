"""A command can't take the processor from its init, nor leave a program that acts for its user."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from tests.sandbox.identity import PYTHON, drop_to
from tests.sandbox.launcher import Launcher

SETTING = """\
import ctypes, os, resource, sys
who = int(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
def check(result):
    if result != 0: raise OSError(ctypes.get_errno(), "")
"""

DEMOTIONS = {
    "idle": "os.sched_setscheduler(who, os.SCHED_IDLE, os.sched_param(0))",
    "parameters": "os.sched_setparam(who, os.sched_param(0))",
    "attributes": "check(libc.syscall({sched_setattr}, who, bytes([48]) + bytes(47), 0))",
    "affinity": "os.sched_setaffinity(who, {min(os.sched_getaffinity(0))})",
    "limit": "resource.prlimit(who, resource.RLIMIT_NOFILE, (0, 4096))",
    "niceness": "os.setpriority(os.PRIO_PROCESS, who, 19)",
    "disk": "check(libc.syscall({ioprio_set}, 1, who, 3 << 13))",
}
NUMBERS = {
    "x86_64": {"sched_setattr": 314, "ioprio_set": 251},
    "aarch64": {"sched_setattr": 274, "ioprio_set": 30},
}


def script(demotion: str) -> str:
    code = DEMOTIONS[demotion]
    for name, number in NUMBERS[os.uname().machine].items():
        code = code.replace(f"{{{name}}}", str(number))
    return f"{SETTING}try: {code}\nexcept OSError as error: print(error.errno); sys.exit()\nprint('done')\n"


@pytest.mark.parametrize("demotion", DEMOTIONS)
def test_a_command_can_not_take_the_init_s_share(launcher: Launcher, workspace: Path, demotion: str) -> None:
    code = script(demotion)
    inside = launcher.run(["sandbox", "--", PYTHON, "-c", code, "1"], cwd=workspace)
    assert (inside.stdout, inside.stderr) == ("1\n", "")
    # Its own share is a process's to give up.
    own = launcher.run(["sandbox", "--", PYTHON, "-c", code, "0"], cwd=workspace)
    assert (own.stdout, own.stderr) == ("done\n", "")
    with subprocess.Popen(["sleep", "60"], **drop_to(launcher.user)) as other:
        try:
            outside = subprocess.run(
                [PYTHON, "-c", code, str(other.pid)],
                capture_output=True,
                text=True,
                check=False,
                **drop_to(launcher.user),
            )
        finally:
            other.kill()
    assert outside.stdout == "done\n"


@pytest.mark.parametrize(
    "code", ["os.setpriority(os.PRIO_USER, 0, 19)", "os.setpriority(os.PRIO_PGRP, 0, 19)"]
)
def test_a_command_can_not_slow_down_all_of_its_user_or_group(
    launcher: Launcher, workspace: Path, code: str
) -> None:
    done = launcher.run(["sandbox", "--", PYTHON, "-c", f"import os; {code}"], cwd=workspace)
    assert "PermissionError" in done.stderr


SET_USER_ID = [
    "os.chmod('program', 0o4755)",
    "os.fchmod(os.open('program', os.O_RDONLY), 0o4755)",
    "os.chmod('program', 0o4755, dir_fd=os.open('.', os.O_RDONLY))",
]


@pytest.mark.parametrize("code", SET_USER_ID)
def test_a_command_can_not_leave_a_set_user_id_program(
    launcher: Launcher, workspace: Path, code: str
) -> None:
    program = workspace / "program"
    program.write_text("#!/bin/sh\n")
    os.chown(program, launcher.user, launcher.user)
    arguments = [PYTHON, "-c", f"import os; {code}"]
    done = launcher.run(["sandbox", "--", *arguments], cwd=workspace)
    assert "PermissionError" in done.stderr
    assert not program.stat().st_mode & stat.S_ISUID
    subprocess.run(arguments, cwd=workspace, check=True, **drop_to(launcher.user))
    assert program.stat().st_mode & stat.S_ISUID


def test_a_file_that_is_made_set_user_id_loses_that_with_its_first_byte(
    launcher: Launcher, workspace: Path
) -> None:
    code = "import os; os.write(os.open('program', os.O_CREAT | os.O_WRONLY, 0o4755), b'#!/bin/sh')"
    assert launcher.run(["sandbox", "--", PYTHON, "-c", code], cwd=workspace).status == 0
    assert not (workspace / "program").stat().st_mode & stat.S_ISUID
