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
import ctypes, os, resource, struct, sys
who = int(sys.argv[1])
# The usual policy, with the niceness that it has: to be less nice takes a privilege.
usual = struct.pack("=IIQiIQQQ", 48, 0, 0, os.nice(0), 0, 0, 0, 0)
most_files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
libc = ctypes.CDLL(None, use_errno=True)
def check(result):
    if result != 0: raise OSError(ctypes.get_errno(), "")
"""

DEMOTIONS = {
    "idle": "os.sched_setscheduler(who, os.SCHED_IDLE, os.sched_param(0))",
    "parameters": "os.sched_setparam(who, os.sched_param(0))",
    "attributes": "check(libc.syscall({sched_setattr}, who, usual, 0))",
    "affinity": "os.sched_setaffinity(who, {min(os.sched_getaffinity(0))})",
    "limit": "resource.prlimit(who, resource.RLIMIT_NOFILE, (0, most_files))",
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


CALL = "import ctypes; call = ctypes.CDLL(None, use_errno=True).syscall; "
OPENAT2 = (
    CALL + "import errno, struct; how = struct.pack('QQQ', os.O_CREAT | os.O_WRONLY, 0o4755, 0); "
    "made = call(437, -100, b'made', how, len(how)); "
    "assert made >= 0 or ctypes.get_errno() != errno.ENOSYS, 'PermissionError'"
)
MADE_SET_USER_ID = {
    "openat": "os.open('made', os.O_CREAT | os.O_WRONLY, 0o4755)",
    "openat exclusively": "os.open('made', os.O_CREAT | os.O_EXCL | os.O_RDONLY, 0o6711)",
    "unnamed file": "file = os.open('.', os.O_TMPFILE | os.O_RDWR, 0o4755); "
    "os.link(f'/proc/self/fd/{file}', 'made', dst_dir_fd=os.open('.', os.O_RDONLY))",
    "mknodat": "os.mknod('made', 0o104755, dir_fd=os.open('.', os.O_RDONLY))",
    "openat2": OPENAT2,
}
if os.uname().machine == "x86_64":
    REFUSED = ", 'PermissionError'"
    MADE_SET_USER_ID |= {
        "open": f"{CALL} assert call(2, b'made', os.O_CREAT | os.O_WRONLY, 0o4755) >= 0{REFUSED}",
        "creat": f"{CALL} assert call(85, b'made', 0o4755) >= 0{REFUSED}",
        "mknod": f"{CALL} assert call(133, b'made', 0o104755, 0) >= 0{REFUSED}",
    }


@pytest.mark.parametrize("options", [[], ["--trace"]], ids=["untraced", "traced"])
@pytest.mark.parametrize("name", MADE_SET_USER_ID)
def test_a_command_can_not_make_a_file_with_the_set_user_id_bit(
    launcher: Launcher, workspace: Path, name: str, options: list[str]
) -> None:
    code = f"import os; os.umask(0); {MADE_SET_USER_ID[name]}"
    done = launcher.run(["sandbox", *options, "--", PYTHON, "-c", code], cwd=workspace)
    assert "PermissionError" in done.stderr
    assert not (workspace / "made").exists()
    subprocess.run([PYTHON, "-c", code], cwd=workspace, check=True, **drop_to(launcher.user))
    assert (workspace / "made").stat().st_mode & stat.S_ISUID


@pytest.mark.parametrize("options", [[], ["--trace"]], ids=["untraced", "traced"])
def test_what_stands_in_place_of_a_mode_where_nothing_is_made_does_not_matter(
    launcher: Launcher, workspace: Path, options: list[str]
) -> None:
    (workspace / "file").write_text("there")
    code = "import os; print(os.read(os.open('file', os.O_RDONLY, 0o7777), 9)); os.mkdir('made', 0o7755)"
    done = launcher.run(["sandbox", *options, "--", PYTHON, "-c", code], cwd=workspace)
    assert done.stdout == "b'there'\n"
    assert not (workspace / "made").stat().st_mode & stat.S_ISUID
