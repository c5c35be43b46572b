"""Device nodes and files of the kernel belong to root, but a command of root's can't change them.

The nodes are the test's own (`private_devices`). Nothing here is aimed at those of the machine.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sandbox.identity import PYTHON, drop_to
from tests.sandbox.launcher import Launcher
from tests.sandbox.private_devices import NODES, WAYS
from tests.sandbox.profiles import workspace_write
from tests.wire import session

LONG_AGO = 1_000_000_000

CHANGE = """
import json, os, struct
acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *e) for e in ((1, 6, ~0 & 0xffffffff), (2, 7, 1),
    (4, 6, 0xffffffff), (16, 7, 0xffffffff), (32, 6, 0xffffffff)))
changed = []
def attempt(name, act):
    try:
        act()
        changed.append(name)
    except OSError:
        pass
for name in ("null", "zero", "full", "random", "urandom", "tty"):
    path = "/dev/" + name
    attempt("mode of " + name, lambda: os.chmod(path, 0o640))
    attempt("times of " + name, lambda: os.utime(path, (1, 1)))
    attempt("list of " + name, lambda: os.setxattr(path, "system.posix_acl_access", acl))
attempt("mode of input", lambda: os.fchmod(0, 0o606))
attempt("mode of input by its name", lambda: os.chmod("/proc/self/fd/0", 0o604))
attempt("times of input", lambda: os.utime(0, (2, 2)))
print(json.dumps(changed))
"""

USE = """
import os, pty
with open("/dev/null", "w") as null:
    assert null.write("x") == 1
assert len(open("/dev/urandom", "rb").read(5)) == 5
assert open("/dev/zero", "rb").read(3) == bytes(3)
assert os.read(0, 1) == b""
leader, follower = pty.openpty()
os.write(follower, b"x")
assert os.read(leader, 1) == b"x"
open("/dev/shm/made", "w").close()
print("used")
"""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to whom device nodes belong")
each_way = pytest.mark.parametrize("way", WAYS)


def _apart(way: str, directory: Path, script: str, *words: str) -> str:
    """What a shell script says that has nodes of its own; its words are `$0` and what follows."""
    places = {name: directory / name for name in ("mount", "project")}
    for place in places.values():
        place.mkdir()
    helper = [sys.executable, "-m", "tests.sandbox.private_devices", way, str(places["mount"])]
    told = {"PADDOCK_RUNTIME_DIR": str(directory / "runtime"), "PROJECT": str(places["project"])}
    done = subprocess.run(
        ["unshare", "--mount", *helper, "/bin/sh", "-c", script, *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **told},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


SEEN = "stat -c '%n %a %Y' " + " ".join(f"/dev/{name}" for name in NODES)
PADDOCK = '"$0" -P -m paddock sandbox'


def _script(command: str) -> str:
    """Look at the nodes before and after a command."""
    old = " ".join(f"/dev/{name}" for name in NODES)
    return f"touch -d @{LONG_AGO} {old}; {SEEN}; echo; cd $PROJECT; {command}; echo; {SEEN}"


def _outcome(said: str) -> tuple[list[str], bool]:
    """What the command says that it changed, and whether anything was."""
    before, changed, after = said.split("\n\n")
    return json.loads(changed), before.strip() != after.strip()


@needs_root
@each_way
def test_nodes_can_be_changed_outside(tmp_path: Path, way: str) -> None:
    changed, is_changed = _outcome(_apart(way, tmp_path, _script('"$0" -c "$1" < /dev/null'), PYTHON, CHANGE))
    assert len(changed) == 3 * len(NODES) + 3
    assert is_changed


@needs_root
@each_way
@pytest.mark.parametrize("profile", [":workspace", ":read-only", ":danger-full-access"])
def test_nodes_stay_as_they_are(tmp_path: Path, way: str, profile: str) -> None:
    if profile == ":danger-full-access":
        # With the network alone refused: everything may be written.
        profile = '{"type": "managed", "file_system": {"type": "unrestricted"}, "network": "restricted"}'
    script = _script(f"""{PADDOCK} --profile '{profile}' -- "$1" -c "$2" < /dev/null""")
    assert _outcome(_apart(way, tmp_path, script, sys.executable, PYTHON, CHANGE)) == ([], False)


@needs_root
@each_way
def test_devices_can_be_used(tmp_path: Path, way: str) -> None:
    script = f'cd $PROJECT; {PADDOCK} -- "$1" -c "$2" < /dev/null; ls /dev/shm/made'
    script += " 2> /dev/null || echo only inside"
    assert _apart(way, tmp_path, script, sys.executable, PYTHON, USE) == "used\nonly inside\n"


@needs_root
@each_way
@pytest.mark.parametrize("capability", ["sys_admin", "mknod"])
def test_root_that_may_not_mount_or_make_nodes_keeps_its_nodes_as_well(
    tmp_path: Path, capability: str, way: str
) -> None:
    """As in a container."""
    without = f"setpriv --bounding-set -{capability} --inh-caps -{capability}"
    script = _script(f'{without} {PADDOCK} -- "$1" -c "$2" < /dev/null')
    assert _outcome(_apart(way, tmp_path, script, sys.executable, PYTHON, CHANGE)) == ([], False)


WITHOUT_CALL = f"""
import ctypes, os, sys
# fsopen(2) has this number everywhere. Load it, fail if it is that one with ENOSYS, or allow it.
steps = (0x20, 0, 0, 0), (0x15, 0, 1, 430), (6, 0, 0, 0x50000 | {errno.ENOSYS}), (6, 0, 0, 0x7FFF0000)
code = ctypes.create_string_buffer(b"".join(
    a.to_bytes(2, "little") + bytes((b, c)) + d.to_bytes(4, "little") for a, b, c, d in steps))
class Program(ctypes.Structure):
    _fields_ = [("count", ctypes.c_ushort), ("steps", ctypes.c_void_p)]
program = Program(len(steps), ctypes.addressof(code))
assert ctypes.CDLL(None, use_errno=True).prctl(22, 2, ctypes.byref(program)) == 0
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


@needs_root
@each_way
@pytest.mark.parametrize("capabilities", ["", "setpriv --bounding-set -mknod --inh-caps -mknod"])
def test_devices_are_the_same_where_the_kernel_mounts_only_in_the_old_way(
    tmp_path: Path, capabilities: str, way: str
) -> None:
    filtered = f'{capabilities} "$0" -c "$3" -P -m paddock sandbox -- "$1" -c "$2" < /dev/null'
    for directory, code in (("change", CHANGE), ("use", USE)):
        (tmp_path / directory).mkdir()
        words = (sys.executable, PYTHON, code, WITHOUT_CALL)
        said = _apart(way, tmp_path / directory, _script(filtered), *words)
        if code is CHANGE:
            assert _outcome(said) == ([], False)
        else:
            assert "used" in said.splitlines()


@needs_root
def test_program_finds_its_terminal_by_a_name(tmp_path: Path) -> None:
    leader, follower = os.openpty()
    try:
        subprocess.run(
            [sys.executable, "-P", "-m", "paddock", "sandbox", "--", "/usr/bin/tty"],
            stdin=follower,
            stdout=follower,
            stderr=follower,
            check=True,
            cwd=tmp_path,
            env={**os.environ, "PADDOCK_RUNTIME_DIR": str(tmp_path / "runtime")},
        )
        assert os.read(leader, 100).startswith(b"/dev/")
    finally:
        os.close(leader)
        os.close(follower)


@needs_root
def test_profile_that_grants_the_devices_of_the_host_lets_files_be_made_among_them(tmp_path: Path) -> None:
    entries = [
        {"path": {"type": "special", "value": {"kind": "root"}}, "access": "read"},
        {"path": {"type": "path", "path": "/dev"}, "access": "write"},
    ]
    profile = json.dumps(
        {
            "type": "managed",
            "file_system": {"type": "restricted", "entries": entries},
            "network": "restricted",
        }
    )
    script = f"""{PADDOCK} --profile '{profile}' -- /bin/sh -c 'echo granted > /dev/made'; cat /dev/made"""
    assert _apart("whole", tmp_path, script, sys.executable) == "granted\n"


@needs_root
@pytest.mark.parametrize("is_confined", [False, True])
def test_command_of_a_server_without_input_can_not_change_a_node(tmp_path: Path, is_confined: bool) -> None:
    script = _script('"$0" -m tests.sandbox.test_device_nodes "$PROJECT" "$1"')
    # The modules of the tests are found from here.
    script = script.replace("cd $PROJECT; ", "")
    said = _apart("whole", tmp_path, script, sys.executable, "confined" if is_confined else "plain")
    changed, is_changed = _outcome(said)
    assert is_changed is not is_confined
    assert bool(changed) is not is_confined


async def _start_on_server(project: str, is_confined: bool) -> str:
    async with session() as client:
        confinement = {"sandbox": workspace_write(Path(project))} if is_confined else {}
        await client.start("p", PYTHON, "-c", CHANGE, **confinement)
        return (await client.finish("p")).streams["stdout"].decode()


def test_mode_of_a_node_can_not_be_set_by_any_user(launcher: Launcher, workspace: Path) -> None:
    # To the mode that it has, so that nothing would be changed if it could be.
    script = "import os; os.chmod('/dev/null', os.stat('/dev/null').st_mode & 0o7777)"
    outcome = launcher.run(["sandbox", "--", PYTHON, "-c", script], cwd=workspace)
    assert outcome.status == 1
    assert ("Read-only" if launcher.user == 0 else "PermissionError") in outcome.stderr


SAME_MODES = """
import os, stat
for above, directories, files in os.walk("/proc"):
    directories[:] = [name for name in directories if not name.isdigit()]
    for name in (".", *files):
        path = os.path.join(above, name)
        try:
            status = os.lstat(path)
            if not stat.S_ISLNK(status.st_mode):
                os.chmod(path, stat.S_IMODE(status.st_mode))
                print(path)
        except OSError:
            pass
print("done")
"""
"""Sets the modes that there are: for what belongs to the kernel there is only one copy."""


def test_modes_of_the_kernels_files_can_not_be_set(launcher: Launcher, workspace: Path) -> None:
    outcome = launcher.run(["sandbox", "--", PYTHON, "-c", SAME_MODES], cwd=workspace)
    assert (outcome.stdout, outcome.stderr) == ("done\n", "")
    script = ["/bin/sh", "-c", "chmod $(stat -c %a /proc/version) /proc/version"]
    outside = subprocess.run(script, stderr=subprocess.DEVNULL, check=False, **drop_to(launcher.user))
    assert (outside.returncode == 0) == (launcher.user == 0)


def test_commands_read_settings_and_open_their_streams_again(launcher: Launcher, workspace: Path) -> None:
    script = "cat /proc/sys/kernel/ostype /proc/self/comm; echo written > /dev/stdout; ls /proc/1 > /dev/null"
    outcome = launcher.run(["sandbox", "--", "/bin/sh", "-c", script], cwd=workspace)
    assert outcome.stdout == "Linux\ncat\nwritten\n", outcome.stderr


if __name__ == "__main__":
    print(asyncio.run(_start_on_server(sys.argv[1], sys.argv[2] == "confined")), end="")
