"""What a confined command sees of the kernel's own files is what is listed, and programs need no more."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from paddock.sandbox.host.kernel_file import CLOSED_BY_KERNEL, VISIBLE
from tests.sandbox.identity import PYTHON, drop_to
from tests.sandbox.launcher import Launcher

LOOK = """
import json, os
found = {}
for name in os.listdir("/proc"):
    path = "/proc/" + name
    # Whoever reads the log outside waits for the next line, and takes it away from others.
    if name.isdigit() or name == "kmsg":
        continue
    try:
        if os.path.isdir(path):
            found[name] = bool(os.listdir(path))
        else:
            with open(path, "rb") as file:
                file.read(1)
            found[name] = True
    except OSError:
        found[name] = False
print(json.dumps(found))
"""

WRITE = """
import os
for name in os.listdir("/proc"):
    path = "/proc/" + name
    if name.isdigit() or name in ("self", "thread-self", "mounts", "net") or not os.path.isdir(path):
        continue
    # Its mode stays what it is: there is one copy of it, the kernel's.
    for attempt in (
        lambda: os.chmod(path, os.stat(path).st_mode & 0o7777),
        lambda: open(path + "/made", "w").write("x"),
    ):
        try:
            attempt()
            print(name)
        except OSError:
            pass
print("done")
"""

NEEDED = (
    *("/proc/self/status", "/proc/self/maps", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/uptime"),
    *(
        "/proc/loadavg",
        "/proc/version",
        "/proc/filesystems",
        "/proc/mounts",
        "/proc/net/dev",
        "/proc/cgroups",
    ),
    *("/proc/sys/kernel/osrelease", "/proc/sys/kernel/random/uuid", "/proc/sys/vm/overcommit_memory"),
    *("/sys/devices/system/cpu/online", "/sys/kernel/mm/transparent_hugepage/enabled"),
)


def _inside(launcher: Launcher, workspace: Path, *argv: str) -> str:
    command = ["sandbox", "--profile", ":workspace", "--", *argv]
    outcome = launcher.run(command, cwd=workspace, env={"PATH": "/usr/local/bin:/usr/bin:/bin"})
    assert outcome.status == 0, outcome.stderr
    return outcome.stdout


def _outside(launcher: Launcher, *argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=True, **drop_to(launcher.user))
    return str(done.stdout)


def test_only_what_is_listed_of_proc_can_be_read(launcher: Launcher, workspace: Path) -> None:
    inside = json.loads(_inside(launcher, workspace, PYTHON, "-c", LOOK))
    readable = {name for name, is_readable in inside.items() if is_readable}
    assert readable <= VISIBLE | CLOSED_BY_KERNEL
    assert "cpuinfo" in readable
    outside = json.loads(_outside(launcher, PYTHON, "-c", LOOK))
    # Of what the user reads on the host, this is all that is missing.
    missing = {name for name, is_readable in outside.items() if is_readable} - readable
    # One of them takes a capability.
    assert not missing & VISIBLE - {"mtrr"}


@pytest.mark.parametrize("name", ["keys", "kpagecount", "kpageflags", "kpagecgroup", "vmallocinfo"])
def test_what_the_kernel_tells_of_others_is_closed(launcher: Launcher, workspace: Path, name: str) -> None:
    path = Path("/proc", name)
    script = f"head -c 8 {path} && echo READ; echo done"
    assert _inside(launcher, workspace, "/bin/sh", "-c", script) == "done\n"
    if path.exists():
        has_been = _outside(launcher, "/bin/sh", "-c", f"head -c 8 {path} > /dev/null && echo READ; true")
        assert has_been == ("READ\n" if launcher.user == 0 or name == "keys" else "")


def test_nothing_can_be_made_or_changed_among_the_kernels_files(launcher: Launcher, workspace: Path) -> None:
    *made, done = _inside(launcher, workspace, PYTHON, "-c", WRITE).splitlines()
    assert done == "done"
    assert not made


def test_programs_find_what_they_ask_for(launcher: Launcher, workspace: Path) -> None:
    present = [path for path in NEEDED if os.path.exists(path)]
    inside = _inside(launcher, workspace, "/bin/sh", "-c", f"cat {' '.join(present)} > /dev/null && echo all")
    assert inside == "all\n"
    assert (
        _inside(launcher, workspace, "/bin/sh", "-c", "ls /sys/fs/cgroup > /dev/null && echo seen")
        == "seen\n"
    )


def test_file_system_that_is_mounted_among_the_kernels_objects_is_closed(tmp_path: Path) -> None:
    """As those for debugging and tracing are; here one of the test's, in a mount namespace of its own."""
    place = "/sys/kernel/mm"
    project = tmp_path / "project"
    project.mkdir()
    look = f"cat {place}/secret; ls {place}"
    script = f"""
        mount -t ramfs ramfs {place} && chmod 755 {place} && echo secret > {place}/secret || exit
        cat {place}/secret
        cd {project} && exec "$0" -P -m paddock sandbox --profile :read-only -- /bin/sh -c '{look}'
    """
    apart = (
        ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
    )
    done = subprocess.run(
        [*apart, "/bin/sh", "-c", script, sys.executable],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PADDOCK_RUNTIME_DIR": str(tmp_path / "runtime")},
    )
    assert done.stdout == "secret\n", done.stderr
    assert "No such file" in done.stderr
