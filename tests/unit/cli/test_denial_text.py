"""What people are told of a sandbox when their command has failed."""

from __future__ import annotations

import pytest

from paddock.cli.denial_text import explanations
from paddock.client.ending import Ending
from paddock.model.cause import Cause
from paddock.model.denial import Denial, DenialKind
from paddock.model.profile import Limits


@pytest.mark.parametrize(
    ("denial", "line"),
    [
        (
            Denial(DenialKind.WRITE, "/etc/x", "root = read", is_certain=True, grant="/etc"),
            'the sandbox denied writing /etc/x (root = read); a profile with "/etc" = "write" allows it',
        ),
        (
            Denial(DenialKind.WRITE, "/x", "root = read", is_certain=True),
            "the sandbox denied writing /x (root = read)",
        ),
        (
            Denial(DenialKind.WRITE, "/w/.venv/x", "run by paddock itself = read", is_certain=True),
            (
                "the sandbox denied writing /w/.venv/x (run by paddock itself = read); "
                "no profile allows it, because Paddock itself runs or obeys it; "
                "if it is in the way, give Paddock an environment of its own (uv tool install, pipx)"
            ),
        ),
        (
            Denial(
                DenialKind.WRITE,
                "/e\x1b]0;x\a/a\npaddock run: b\x9b",
                "root = read",
                is_certain=True,
                grant="/e\x1b",
            ),
            (
                r"the sandbox denied writing /e\u001b]0;x\u0007/a\npaddock run: b\u009b (root = read); "
                r'a profile with "/e\u001b" = "write" allows it'
            ),
        ),
        (
            Denial(DenialKind.READ, None, None, is_certain=False),
            "the sandbox may have denied reading a file",
        ),
        (
            Denial(DenialKind.EXEC, "/opt/x", "default = deny", is_certain=True, grant="/opt/x"),
            'the sandbox denied running /opt/x (default = deny); a profile with "/opt/x" = "read" allows it',
        ),
        (
            Denial(DenialKind.NETWORK, "a.b", "no", is_certain=True),
            (
                "the sandbox denied network access to a.b (no); "
                "--allow-host 'a.b:*' allows it for programs that use HTTP_PROXY, "
                'a profile with network = "enabled" for all'
            ),
        ),
        (
            Denial(DenialKind.NETWORK, "[2001:db8::1]:22", "no", is_certain=True),
            (
                "the sandbox denied network access to [2001:db8::1]:22 (no); "
                "--allow-host [2001:db8::1]:22 allows it for programs that use HTTP_PROXY, "
                'a profile with network = "enabled" for all'
            ),
        ),
        (
            Denial(DenialKind.NETWORK, "localhost:80", "no", is_certain=True),
            (
                "the sandbox denied network access to localhost:80 (no); "
                'a profile with network = "enabled" allows it, and "loopback" among its own processes'
            ),
        ),
        (
            Denial(DenialKind.SYSCALL, "mount", "no", is_certain=True),
            "the sandbox denied the system call mount (no); no profile but :danger-full-access allows it",
        ),
    ],
)
def test_each_denial_is_one_line_with_the_way_out(denial: Denial, line: str) -> None:
    ending = Ending(1, sandbox_denied=True, denials=(denial,))
    assert list(explanations(ending)) == [line]


@pytest.mark.parametrize("cause", [Cause.MEMORY, Cause.CPU, Cause.WALL, Cause.PROCESSES])
def test_a_limit_that_ended_the_command_is_named(cause: Cause) -> None:
    (line,) = explanations(Ending(1, cause=cause))
    assert line.startswith("the limit ")
    assert line.endswith("of its profile ended it; raise it if that is too low")


@pytest.mark.parametrize(
    ("limits", "named"),
    [
        (None, "addressSpaceBytes or totalMemoryBytes"),
        (Limits(total_memory_bytes=1), "totalMemoryBytes"),
        (Limits(address_space_bytes=1), "addressSpaceBytes"),
        (Limits(memory_bytes=1, processes=1), "addressSpaceBytes"),
        (Limits(memory_bytes=1, total_memory_bytes=1), "addressSpaceBytes or totalMemoryBytes"),
    ],
)
def test_of_the_limits_of_memory_the_one_that_the_profile_sets_is_named(
    limits: Limits | None, named: str
) -> None:
    (line,) = explanations(Ending(1, cause=Cause.MEMORY), limits)
    assert line == f"the limit {named} of its profile ended it; raise it if that is too low"


def test_a_breach_of_the_sandbox_that_ended_the_command_is_told() -> None:
    (line,) = explanations(Ending(125, cause=Cause.BREACH))
    assert line == "somebody moved, removed or replaced what its profile denies it; run it again"


def test_a_denial_of_which_nothing_is_known_is_said_to_be_likely() -> None:
    (line,) = explanations(Ending(1, sandbox_denied=True))
    assert line.startswith("the sandbox probably made it fail")


def test_what_a_trace_saw_is_told_of_a_command_that_ended_well_too() -> None:
    denial = Denial(DenialKind.READ, "/x", None, is_certain=True)
    (line,) = explanations(Ending(0, cause=Cause.EXIT, denials=(denial,)))
    assert line.startswith("the sandbox denied reading /x")


def test_nothing_is_said_of_a_command_that_was_denied_nothing() -> None:
    assert list(explanations(Ending(0, cause=Cause.EXIT))) == []
    assert list(explanations(Ending(1, cause=Cause.EXIT))) == []
    # The words of a denial were there, and the profile allows what failed.
    assert list(explanations(Ending(1, cause=Cause.EXIT, sandbox_denied=True))) == []
