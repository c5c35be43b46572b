"""Landlock's rules by ABI, and what it can't enforce alone."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from paddock.model.profile import Limits, NetworkMode
from paddock.sandbox.enforce import init
from paddock.sandbox.enforce.report import read_reports
from paddock.sandbox.host.landlock_abi import COMPLETE_ABI, Port, Right, Scope, missing_from, rights_of
from paddock.sandbox.plan import landlock
from paddock.sandbox.plan.landlock import Reach, Ruleset

READ_ONLY = Reach(
    is_fully_readable=True,
    is_fully_writable=False,
    writable=(),
    exceptions=(),
    network=NetworkMode.RESTRICTED,
)


@pytest.mark.parametrize("abi", range(8))
def test_no_abi_is_asked_for_a_right_that_it_does_not_know(abi: int) -> None:
    known = {0: 0, 1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}.get(
        abi, (1 << 16) - 1
    )
    assert rights_of(abi) & ~known == 0
    ruleset = landlock.second_layer(["/work"], NetworkMode.RESTRICTED, abi)
    if abi < 2:
        assert ruleset is None
        return
    assert ruleset is not None
    assert Right.REFER in ruleset.handled
    assert bool(ruleset.ports) == (abi >= 4)
    assert bool(ruleset.scopes) == (abi >= 6)


def test_the_second_layer_leaves_writable_what_the_mounts_do_and_what_is_made_for_the_sandbox() -> None:
    ruleset = landlock.second_layer(["/work", "/tmp", "/work"], NetworkMode.LOOPBACK, 7)
    assert ruleset is not None
    assert ruleset.writable == ("/dev", "/proc", "/work", "/tmp")
    assert ruleset.ports == Port(0)


def test_reading_is_never_taken_away() -> None:
    reading = 1 << 0 | 1 << 2 | 1 << 3
    assert rights_of(COMPLETE_ABI) & reading == 0


def test_alone_it_enforces_a_read_only_profile_without_a_network() -> None:
    ruleset = landlock.alone(READ_ONLY, 7)
    assert isinstance(ruleset, Ruleset)
    assert ruleset.ports == Port.BIND_TCP | Port.CONNECT_TCP
    assert ruleset.scopes == Scope.ABSTRACT_UNIX_SOCKET | Scope.SIGNAL
    assert "/dev" not in ruleset.writable
    assert "/dev/null" in ruleset.writable


def test_alone_it_enforces_writable_directories_without_exceptions() -> None:
    ruleset = landlock.alone(replace(READ_ONLY, writable=("/out",)), 7)
    assert isinstance(ruleset, Ruleset)
    assert ruleset.writable[-1] == "/out"


@pytest.mark.parametrize(
    ("reach", "abi", "reason"),
    [
        (replace(READ_ONLY, is_fully_readable=False), 7, "restricts what can be read"),
        (replace(READ_ONLY, exceptions=("/work/.git",)), 7, "below writable ones (/work/.git)"),
        (replace(READ_ONLY, network=NetworkMode.LOOPBACK), 7, "needs a network namespace"),
        (replace(READ_ONLY, network=NetworkMode.ENABLED), 7, "sockets that only mounts can hide"),
        (replace(READ_ONLY, has_process_limit=True), 7, "needs a user namespace"),
        (READ_ONLY, 2, "can't forbid truncating"),
    ],
)
def test_what_it_can_not_express_alone_is_refused_with_the_reason(
    reach: Reach, abi: int, reason: str
) -> None:
    reasons = landlock.alone(reach, abi)
    assert isinstance(reasons, tuple)
    [told] = reasons
    assert reason in told


def test_all_reasons_are_told_at_once() -> None:
    reach = replace(READ_ONLY, is_fully_readable=False, network=NetworkMode.LOOPBACK)
    reasons = landlock.alone(reach, 0)
    assert isinstance(reasons, tuple)
    assert len(reasons) == 3


def test_the_words_for_the_init_say_all_of_it() -> None:
    ruleset = Ruleset(Right.WRITE_FILE | Right.TRUNCATE, Port.BIND_TCP, Scope.SIGNAL, ("/a b", "/c"))
    limits = Limits(memory_bytes=1, cpu_seconds=2, processes=3, file_bytes=4, open_files=5, wall_seconds=6)
    assert init.words(limits=limits, ruleset=ruleset, argv0="-sh") == [
        *("as=1", "cpu=2", "fsize=4", "nofile=5", "nproc=3", "wall=6"),
        *("landlock=4002:1:2", "allow=4002:/a b", "allow=4002:/c"),
        "argv0=-sh",
    ]
    assert init.words() == []


def test_the_init_is_told_its_descriptors_and_reads_the_rest_from_the_last() -> None:
    said = init.descriptor_words(
        filter_fd=7, report_fd=8, kept_fd=(9, 250), listening=(10, (80, 1080)), more_fd=11
    )
    assert said == ["seccomp=7", "keep=9:250", "report=8", "listen=10:80", "listen=10:1080", "more=11"]
    assert init.descriptor_words() == []


def test_a_report_that_was_cut_short_is_not_one() -> None:
    assert read_reports(b"\1\0\0\0\0\0") == []


def test_what_an_older_kernel_does_not_enforce_is_told() -> None:
    assert missing_from(0) == ("everything",)
    assert missing_from(2)[:2] == ("truncation", "TCP ports")
    assert "truncation" not in missing_from(3)
    assert missing_from(COMPLETE_ABI) == ()
