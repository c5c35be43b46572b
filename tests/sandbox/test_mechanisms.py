"""Limits, Landlock alone and the choice of bubblewrap, through `paddock sandbox`."""

from __future__ import annotations

import json
import platform
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from paddock.model.profile import NetworkMode
from paddock.sandbox.enforce import init
from paddock.sandbox.host import cgroup_controller, limit
from paddock.sandbox.host.kernel import Kernel
from paddock.sandbox.plan import landlock
from tests.sandbox.identity import PYTHON
from tests.sandbox.launcher import Launcher, Outcome

READ_ROOT = {"path": {"type": "special", "value": {"kind": "root"}}, "access": "read"}
NOT_CONFINED = 125

FORKING = """\
import os, time
made = 0
try:
    for _ in range(30):
        if os.fork() == 0:
            time.sleep(1000)
        made += 1
except BlockingIOError:
    pass
print(made, flush=True)
"""


def profile(*entries: dict[str, Any], network: str = "restricted", **limits: int) -> str:
    return json.dumps(
        {
            "type": "managed",
            "file_system": {"type": "restricted", "entries": [READ_ROOT, *entries]},
            "network": network,
            "limits": limits,
        }
    )


def writing(path: Path) -> dict[str, Any]:
    return {"path": {"type": "path", "path": str(path)}, "access": "write"}


def sandboxed(launcher: Launcher, workspace: Path, written: str, *command: str, flags: str = "") -> Outcome:
    return launcher.run(
        ["sandbox", "--policy-cwd", str(workspace), "--profile", written, *flags.split(), "--", *command],
        cwd=workspace,
    )


# --- limits -----------------------------------------------------------------


def test_a_profile_limits_time_memory_and_files(launcher: Launcher, workspace: Path) -> None:
    late = sandboxed(launcher, workspace, profile(wallSeconds=1), "sleep", "1000")
    assert late.status == init.WALL_LIMIT_STATUS
    assert "took longer than 1 s" in late.stderr
    code = "import mmap; mmap.mmap(-1, 300 << 20)"
    assert sandboxed(launcher, workspace, profile(), PYTHON, "-c", code).status == 0
    large = sandboxed(launcher, workspace, profile(memoryBytes=200 << 20), PYTHON, "-c", code)
    assert "Cannot allocate memory" in large.stderr
    long = sandboxed(
        launcher,
        workspace,
        profile(writing(workspace), fileBytes=1000),
        *("sh", "-c", "head -c 2000 /dev/zero > file"),
    )
    assert long.status == 128 + signal.SIGXFSZ
    assert (workspace / "file").stat().st_size == 1000


def test_a_limit_of_processes_holds_or_is_refused(launcher: Launcher, workspace: Path) -> None:
    limited = sandboxed(launcher, workspace, profile(processes=10), PYTHON, "-c", FORKING)
    kernel = tuple(int(part) for part in platform.release().split(".")[:2])
    counts = limit.can_count_processes((kernel[0], kernel[1]), launcher.user)
    if counts or (launcher.user == 0 and cgroup_controller.directory(Kernel(), "pids") is not None):
        # The command itself is one of the ten.
        assert limited.stdout == "9\n"
    else:
        assert (limited.status, limited.stdout) == (NOT_CONFINED, "")
        assert "the number of processes can't be limited" in limited.stderr
    assert sandboxed(launcher, workspace, profile(), PYTHON, "-c", FORKING).stdout == "30\n"


# --- Landlock alone ---------------------------------------------------------

LEGACY = "--use-legacy-landlock"


@pytest.fixture(name="landlocked")
def kernel_with_landlock() -> None:
    abi = Kernel().landlock_abi()
    if not isinstance(landlock.alone(_READ_ONLY, abi), landlock.Ruleset):
        pytest.skip(f"Landlock ABI {abi} enforces nothing alone")


_READ_ONLY = landlock.Reach(
    is_fully_readable=True,
    is_fully_writable=False,
    writable=(),
    exceptions=(),
    network=NetworkMode.RESTRICTED,
)


@pytest.mark.usefixtures("landlocked")
def test_landlock_alone_enforces_a_read_only_profile(launcher: Launcher, workspace: Path) -> None:
    script = (
        "cat /etc/hostname > /dev/null && echo read; echo x > file || echo refused;"
        f" {PYTHON} -c 'import socket; socket.socket()' 2>/dev/null || echo offline;"
        " grep Seccomp: /proc/self/status"
    )
    alone = sandboxed(launcher, workspace, profile(), "sh", "-c", script, flags=LEGACY)
    assert alone.stdout == "read\nrefused\noffline\nSeccomp:\t2\n"
    assert list(workspace.iterdir()) == []


@pytest.mark.usefixtures("landlocked")
@pytest.mark.parametrize(
    ("written", "reason"),
    [
        (":workspace", "it protects paths below writable ones"),
        (profile(network="loopback"), "needs a network namespace"),
        (profile(network="enabled"), "sockets that only mounts can hide"),
        (profile({"path": {"type": "path", "path": "/etc"}, "access": "deny"}), "restricts what can be read"),
    ],
)
def test_what_landlock_alone_can_not_express_is_refused_with_the_reason(
    launcher: Launcher, workspace: Path, written: str, reason: str
) -> None:
    refused = sandboxed(launcher, workspace, written, "touch", "ran", flags=LEGACY)
    assert refused.status == NOT_CONFINED
    assert reason in refused.stderr
    assert not (workspace / "ran").exists()


@pytest.mark.usefixtures("landlocked")
def test_what_landlock_alone_would_enforce_is_explained(launcher: Launcher, workspace: Path) -> None:
    legacy = ["sandbox", LEGACY, "--explain", "--profile"]
    explained = launcher.run([*legacy, profile(writing(workspace), network="restricted")], cwd=workspace)
    assert explained.status == NOT_CONFINED, "its metadata can't be protected"
    explained = launcher.run([*legacy, ":read-only"], cwd=workspace)
    assert explained.stdout.startswith("enforcement      partial: Landlock alone")
    assert "read-write  /dev/null" in explained.stdout


# --- which bubblewrap --------------------------------------------------------


def test_a_program_called_bwrap_without_its_options_is_passed_over(
    launcher: Launcher, workspace: Path, ground: Path
) -> None:
    real = shutil.which("bwrap")
    if real is None:
        pytest.skip("bubblewrap is not installed")
    old = ground / "old"
    old.mkdir(exist_ok=True)
    (old / "bwrap").write_text("#!/bin/sh\necho old\n")
    (old / "bwrap").chmod(0o755)
    path = f"{old}:{Path(real).parent}:/usr/bin:/bin"
    outcome = launcher.run(["sandbox", "--", "echo", "ran"], cwd=workspace, env={"PATH": path})
    assert (outcome.status, outcome.stdout) == (0, "ran\n")
