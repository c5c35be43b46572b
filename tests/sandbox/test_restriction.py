"""A process takes on the rules and the filter of a sandbox, with the real kernel."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from paddock.errors import SandboxUnavailable
from paddock.model.profile import NetworkMode
from paddock.model.restriction import Restriction
from paddock.sandbox import landlock, seccomp
from paddock.sandbox.kernel import Kernel

PROBE = """
import ctypes, json, os, socket, sys, msgspec
from paddock.fs.restriction import take_on
from paddock.model.restriction import Restriction

if sys.argv[1:]:
    ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    take_on(msgspec.json.decode(sys.argv[1], type=Restriction))

def attempt(work):
    try:
        work()
    except OSError as error:
        return error.errno
    return 0

def write(path):
    with open(path, "w") as file:
        file.write("changed")

print(json.dumps({
    "read": attempt(lambda: open("outside").read()),
    "write outside": attempt(lambda: write("outside")),
    "write inside": attempt(lambda: write("granted/inside")),
    "write a file": attempt(lambda: write("file")),
    "move in": attempt(lambda: os.rename("outside", "granted/outside")),
    "connect": attempt(lambda: socket.socket(socket.AF_INET)),
}))
"""

EACCES, EPERM = 13, 1


def restriction(*writable: Path) -> Restriction:
    abi = Kernel().landlock_abi()
    if abi < landlock.NEEDED_ABI:
        pytest.skip(f"this kernel has Landlock ABI {abi}, {landlock.NEEDED_ABI} is needed")
    ruleset = landlock.second_layer([str(path) for path in writable], NetworkMode.RESTRICTED, abi)
    try:
        program = seccomp.program(NetworkMode.RESTRICTED, platform.machine())
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    return Restriction(landlock=landlock.rules(ruleset), filter=program)


def outcome(directory: Path, restriction: Restriction | None) -> dict[str, int]:
    """The errno of each attempt, or 0."""
    for name in ("outside", "file"):
        (directory / name).write_text("as it was")
    (directory / "granted").mkdir(exist_ok=True)
    words = [] if restriction is None else [msgspec.json.encode(restriction).decode()]
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *words], cwd=directory, stdout=subprocess.PIPE, check=True
    )
    told: dict[str, int] = json.loads(done.stdout)
    return told


def test_a_restricted_process_writes_where_it_was_granted_and_has_no_network(tmp_path: Path) -> None:
    granted = restriction(tmp_path / "granted", tmp_path / "file", tmp_path / "missing")

    assert set(outcome(tmp_path, None).values()) == {0}
    assert outcome(tmp_path, granted) == {
        "read": 0,
        "write outside": EACCES,
        "write inside": 0,
        "write a file": 0,
        "move in": EACCES,
        "connect": EPERM,
    }


def test_a_filter_that_the_kernel_does_not_take_is_an_error(tmp_path: Path) -> None:
    broken = Restriction(landlock=None, filter=b"")

    with pytest.raises(subprocess.CalledProcessError):
        outcome(tmp_path, broken)
