"""A file worker takes on what a command does, or serves nobody: with the real kernel, for every user."""

from __future__ import annotations

import base64
import errno
import json
import os
import platform
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from paddock.c_string import c_strings
from paddock.errors import SandboxUnavailable
from paddock.fs.answer import Failure
from paddock.fs.framing import HEADER, NOT_BEGUN, read_reply
from paddock.model.profile import NetworkMode
from paddock.model.restriction import Restriction
from paddock.sandbox.enforce import init
from paddock.sandbox.enforce.report import ReportKind, read_reports
from paddock.sandbox.host.kernel import Kernel
from paddock.sandbox.host.landlock_abi import NEEDED_ABI
from paddock.sandbox.host.syscall_table import MACHINES
from paddock.sandbox.plan import landlock, seccomp
from paddock.sandbox.plan.landlock import Ruleset
from tests.processes import children_of
from tests.sandbox.entered_worker import FACTS
from tests.sandbox.identity import PYTHON, drop_to, each_user
from tests.sandbox.init_start import TIMEOUT_S, Start

REPOSITORY: Final = Path(__file__).parents[2]
MODE: Final = NetworkMode.RESTRICTED
NESTED: Final = ("--disable-userns",)
"""With which bubblewrap runs its program in a user namespace inside of that which owns the mounts."""

Facts = dict[str, Any]


@pytest.fixture(name="ruleset")
def rules_for_a_place(place: Path) -> Ruleset:
    """What may be written is a directory and a file of the place, and one that does not exist."""
    abi = Kernel().landlock_abi()
    if abi < NEEDED_ABI:
        pytest.skip(f"this kernel has Landlock ABI {abi}, {NEEDED_ABI} is needed")
    ruleset = landlock.second_layer([str(place / name) for name in ("granted", "file", "none")], MODE, abi)
    assert ruleset is not None
    return ruleset


@pytest.fixture(name="filter_")
def filter_of_the_machine() -> bytes:
    try:
        return seccomp.program(MODE, platform.machine())
    except SandboxUnavailable as error:
        pytest.skip(str(error))


def furnish(place: Path) -> str:
    """Put into the place what is tried there; gives the argument of `FACTS`."""
    (place / "granted").mkdir(exist_ok=True)
    (place / "granted").chmod(0o777)
    for name in ("outside", "file"):
        (place / name).write_text("as it was")
        (place / name).chmod(0o666)
    return json.dumps({"place": str(place), "keyctl": MACHINES[platform.machine()].numbers["keyctl"]})


@contextmanager
def kept(start: Start) -> Iterator[int]:
    """The first process of a sandbox that is kept for others."""
    with (
        start.prepared([]) as (argv, options, reports),
        subprocess.Popen(argv, stdin=subprocess.DEVNULL, **options) as process,
    ):
        try:
            [report] = read_reports(os.read(reports, 1000))
            assert report.kind is ReportKind.CONFINED
            [first] = children_of(process.pid)
            yield first
        finally:
            process.kill()


def said_by_worker(user: int, first: int, argument: str, restriction: Restriction) -> bytes:
    """What a worker that enters a sandbox writes to its socket."""
    told = {
        "words": base64.b64encode(restriction.words).decode(),
        "filter": base64.b64encode(restriction.filter).decode(),
        "argument": argument,
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.sandbox.entered_worker", str(user), str(first)],
        input=json.dumps(told).encode(),
        stdout=subprocess.PIPE,
        cwd=REPOSITORY,
        timeout=TIMEOUT_S,
        check=True,
    )
    return done.stdout


def restriction_of(ruleset: Ruleset, filter_: bytes) -> Restriction:
    words = [*init.words(ruleset=ruleset, holds=True), "--"]
    return Restriction(words=c_strings(words, sys.getfilesystemencoding()), filter=filter_)


@each_user
@pytest.mark.parametrize("options", [(), NESTED], ids=["one-user-namespace", "two"])
def test_a_file_worker_is_confined_exactly_as_a_command(
    user: int, options: tuple[str, ...], place: Path, ruleset: Ruleset, filter_: bytes
) -> None:
    argument = furnish(place)
    command_start = Start(user, mode=MODE, ruleset=ruleset, options=options)
    done = command_start.run(PYTHON, "-c", FACTS, argument)
    command: Facts = json.loads(done.stdout)
    with kept(Start(user, mode=MODE, ruleset=ruleset, options=options, holds=True)) as first:
        said = said_by_worker(user, first, furnish(place), restriction_of(ruleset, filter_))
        worker: Facts = json.loads(said)
        sandbox = {name: os.stat(f"/proc/{first}/ns/{name}").st_ino for name in worker["namespaces"]}
    furnish(place)
    outside = subprocess.run(
        [PYTHON, "-c", FACTS, argument], stdout=subprocess.PIPE, check=True, **drop_to(user)
    )
    free: Facts = json.loads(outside.stdout)

    for fact in ("status", "securebits", "keyring", "attempts"):
        assert worker[fact] == command[fact], fact
    assert worker["namespaces"] == sandbox
    status = worker["status"]
    assert {int(status[name], 16) for name in status if name.startswith("Cap")} == {0}
    assert (status["NoNewPrivs"], status["Seccomp"], worker["securebits"]) == ("1", "2", 0)
    assert worker["keyring"] == errno.EPERM
    attempts = worker["attempts"]
    assert [attempts[name] for name in ("read", "write inside", "write a file")] == [0, 0, 0]
    assert [attempts[name] for name in ("write outside", "move in")] == [errno.EACCES, errno.EACCES]
    refused = ("socket", "user namespace", "mount namespace", "chroot")
    assert {attempts[name] for name in refused} == {errno.EPERM}
    # Outside all of it is possible that is not a matter of being root.
    possible = ("read", "write outside", "write inside", "write a file", "move in", "socket")
    assert {free["attempts"][name] for name in possible} == {0}
    assert (free["status"]["Seccomp"], free["status"]["NoNewPrivs"]) == ("0", "0")


@each_user
def test_a_file_worker_keeps_its_memory_to_itself_and_nothing_open(
    user: int, place: Path, ruleset: Ruleset, filter_: bytes
) -> None:
    with kept(Start(user, mode=MODE, ruleset=ruleset, holds=True)) as first:
        said = said_by_worker(user, first, furnish(place), restriction_of(ruleset, filter_))
    worker: Facts = json.loads(said)
    # As of paddock-init; a command has executed a program since.
    assert worker["dumpable"] == 0
    # No file of the host, which clients could reach through /proc.
    assert (worker["open"], worker["more"]) == (["pipe", "socket"], [])
    # Those of a profile are for commands, and so is that of waiting signals.
    for name, limit in worker["limits"].items():
        assert tuple(limit) == resource.getrlimit(getattr(resource, name)), name


RIGHTS_THAT_NO_KERNEL_HAS: Final = Ruleset(1 << 63, 0, 0, ())  # type: ignore[arg-type]
INSTRUCTION: Final = bytes.fromhex("060000000000ff7f")
"""Return SECCOMP_RET_ALLOW (linux/seccomp.h), little-endian."""


@each_user
@pytest.mark.parametrize(
    ("rules", "program", "complaint"),
    [
        pytest.param(RIGHTS_THAT_NO_KERNEL_HAS, None, "Landlock: Invalid argument", id="rights"),
        pytest.param(Ruleset(2, 0, 0, ("tmp",)), None, "word allow=2:tmp: Invalid argument", id="path"),  # type: ignore[arg-type]
        pytest.param(None, b"", "seccomp: Invalid argument", id="no-filter"),
        pytest.param(None, INSTRUCTION + b"\0", "seccomp: Invalid argument", id="half-an-instruction"),
        pytest.param(None, INSTRUCTION * 4097, "seccomp: Invalid argument", id="too-many-instructions"),
    ],
)
def test_a_worker_that_can_t_take_on_all_of_it_serves_nobody_and_says_why(
    user: int,
    rules: Ruleset | None,
    program: bytes | None,
    complaint: str,
    place: Path,
    ruleset: Ruleset,
    filter_: bytes,
) -> None:
    restriction = restriction_of(rules or ruleset, filter_ if program is None else program)
    with kept(Start(user, mode=MODE, ruleset=ruleset, holds=True)) as first:
        said = said_by_worker(user, first, furnish(place), restriction)
    reply = read_reply(said[HEADER.size :])
    assert reply.number == NOT_BEGUN
    assert isinstance(reply.answer, Failure)
    assert reply.answer.message == f"the file worker can't be confined: {complaint}"
    assert (place / "file").read_text() == "as it was"


@each_user
@pytest.mark.parametrize("has_bwrap", [True, False], ids=["bwrap", "alone"])
def test_a_command_is_not_started_under_a_filter_that_would_be_cut_off(user: int, has_bwrap: bool) -> None:
    done = Start(user, has_bwrap=has_bwrap, filter=INSTRUCTION * 4097).run("echo", "ran")
    assert (done.status != 0, done.stdout) == (True, "")
