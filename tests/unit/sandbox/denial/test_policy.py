from __future__ import annotations

from typing import Any

import pytest

from paddock.model.denial import DenialKind
from paddock.model.profile import ManagedProfile
from paddock.sandbox.denial.policy import Policy
from paddock.sandbox.plan.plan import PlanInput, confine
from paddock.sandbox.profile.access import Surroundings
from paddock.sandbox.profile.codec import profile_of
from tests.unit.sandbox.imagined_host import ImaginedFiles

FILES = {
    "/w/.git/": "",
    "/w/sub/secret/": "",
    "/w/a.pem": "key",
    "/w/ro/": "",
    "/run/paddock/": "",
    "/sys/": "",
    "/proc/sys/": "",
}
ROOT = {"type": "special", "value": {"kind": "root"}}
ROOTS = {"type": "special", "value": {"kind": "project_roots"}}
SUB = {"type": "special", "value": {"kind": "project_roots", "subpath": "sub/secret"}}
USUAL = (
    (ROOT, "read"),
    (ROOTS, "write"),
    (SUB, "deny"),
    ({"type": "path", "path": "/w/ro"}, "read"),
    ({"type": "path", "path": "/w/absent"}, "deny"),
    ({"type": "glob_pattern", "pattern": "**/*.key"}, "deny"),
    ({"type": "glob_pattern", "pattern": "**/*.pem"}, "deny"),
)


def policy(
    *entries: tuple[Any, str], network: str = "restricted", matches: tuple[str, ...] = ("/w/a.pem",)
) -> Policy:
    files = {"type": "restricted", "entries": [{"path": path, "access": access} for path, access in entries]}
    profile = profile_of({"type": "managed", "file_system": files, "network": network}, "test")
    assert isinstance(profile, ManagedProfile)
    surroundings = Surroundings(project_roots=("/w",), private=("/run/paddock",))
    given = PlanInput(surroundings, "/w", denied_matches=matches)
    return Policy(confine(profile, given, ImaginedFiles(FILES)))


@pytest.mark.parametrize(
    ("path", "access", "words"),
    [
        ("/etc/x", "read", "root = read"),
        ("/w/x", "write", "project_roots = write"),
        ("/w/ro/x", "read", "/w/ro = read"),
        ("/w/sub/secret/x", "deny", "project_roots/sub/secret = deny"),
        ("/w/.git/config", "read", "/w/.git = read"),
        ("/w/a.pem", "deny", "/w/**/*.pem = deny"),
        ("/run/paddock/x", "deny", None),
        ("/proc/sys/vm/x", "read", "kernel settings = read"),
    ],
)
def test_what_decides_about_a_path_is_told_in_the_words_of_the_profile(
    path: str, access: str, words: str | None
) -> None:
    ruling = policy(*USUAL).at(path)
    assert ruling is not None
    assert (ruling.access, ruling.words) == (access, words)


def test_another_name_of_a_denied_file_is_told_by_itself() -> None:
    """No pattern names it: it is a hard link to a file that one does."""
    ruling = policy(*USUAL, matches=("/w/a.pem", "/w/other")).at("/w/other")
    assert ruling is not None
    assert ruling.words == "/w/other = deny"


def test_nothing_is_said_about_what_the_sandbox_has_of_its_own() -> None:
    assert [policy(*USUAL).at(path) for path in ("/proc/self/mem", "/dev/null", "/dev/shm/x")] == [None] * 3


def test_what_is_not_granted_is_denied_by_default() -> None:
    ruling = policy((ROOTS, "write")).at("/etc/x")
    assert ruling is not None
    assert (ruling.access, ruling.words) == ("deny", "default = deny")


def test_settings_of_the_kernel_can_not_be_written_though_everything_else_can() -> None:
    ruling = policy((ROOT, "write")).at("/sys/kernel/x")
    assert ruling is not None
    assert ruling.refuses(DenialKind.WRITE)
    assert not ruling.refuses(DenialKind.READ)


def test_what_is_protected_and_what_leads_to_it_can_not_be_moved() -> None:
    usual = policy(*USUAL)
    told = {path: usual.fixed(path) for path in ("/w/ro", "/w/sub", "/w/.git", "/w/other")}
    assert {path: ruling and ruling.words for path, ruling in told.items()} == {
        "/w/ro": "/w/ro = read",
        "/w/sub": "project_roots/sub/secret = deny",
        "/w/.git": "/w/.git = read",
        "/w/other": None,
    }


def test_no_rule_explains_why_a_writable_grant_can_not_be_moved() -> None:
    granted = policy((ROOT, "read"), ({"type": "path", "path": "/w/a.pem"}, "write"), matches=())
    assert granted.fixed("/w/a.pem") is None


def test_what_only_a_pattern_could_name_can_not_be_granted() -> None:
    ruling = policy((ROOT, "read"), ({"type": "path", "path": "/w/r*"}, "read")).at("/w/r*/x")
    assert ruling is not None
    assert ruling.grant(DenialKind.WRITE, "/w/r*/x", is_in_place=True) is None


def test_a_place_that_is_held_is_known() -> None:
    usual = policy(*USUAL)
    held, free = usual.held("/w/absent"), usual.held("/w/other")
    assert held is not None
    assert (held.words, free) == ("/w/absent = deny", None)


@pytest.mark.parametrize(
    ("network", "host", "is_refused"),
    [
        ("restricted", None, True),
        ("restricted", "127.0.0.1", True),
        ("enabled", "10.0.0.1", False),
        ("loopback", "10.0.0.1", True),
        ("loopback", "127.0.0.1", False),
        ("loopback", "::ffff:127.0.0.1", False),
        ("loopback", "[::1]", False),
        ("loopback", "localhost", False),
        ("loopback", "build-host", None),
        ("loopback", None, None),
    ],
)
def test_a_host_is_out_of_reach_or_not_or_nobody_knows(
    network: str, host: str | None, is_refused: bool | None
) -> None:
    assert policy((ROOT, "read"), network=network).refuses_host(host) is is_refused


def test_a_call_is_refused_for_sure_only_if_its_arguments_do_not_matter() -> None:
    restricted = policy((ROOT, "read"))
    calls = ("ptrace", "connect", "unshare", "clone3", "read")
    assert [restricted.refuses_call(call) for call in calls] == [True, True, False, False, False]


@pytest.mark.parametrize(
    ("path", "in_place", "elsewhere"),
    [
        ("/etc/x", "/etc/x", "/etc"),
        ("/w/ro", "/w/ro", "/w/ro"),
        ("/w/ro/x", "/w/ro/x", "/w/ro"),
        # Patterns can't be granted.
        ("/etc/a*/x", "/etc", "/etc"),
        # Git needs more than its lock file.
        ("/w/.git/index.lock", "/w/.git", "/w/.git"),
        # Another repository may need grants of its own.
        ("/other/.git/index", None, None),
        # These stay closed in a directory that is granted.
        ("/other/.codex", None, None),
        ("/other/HEAD", "/other/HEAD", None),
        ("/other/refs/x", "/other/refs/x", "/other/refs"),
        # What the profile denies on purpose, what no profile grants, where programs of Paddock are.
        ("/w/sub/secret/x", None, None),
        ("/proc/sys/vm/x", None, None),
        ("/sys/x", None, None),
        ("/usr/bin/x", "/usr/bin/x", None),
        ("/x", "/x", None),
    ],
)
def test_grant_is_the_least_that_works(path: str, in_place: str | None, elsewhere: str | None) -> None:
    ruling = policy(*USUAL).at(path)
    assert ruling is not None
    assert ruling.grant(DenialKind.WRITE, path, is_in_place=True) == in_place
    assert ruling.grant(DenialKind.WRITE, path, is_in_place=False) == elsewhere
