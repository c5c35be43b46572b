"""Which attempts are denials: those that the profile refuses and that would not have failed anyway."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from paddock.model.denial import Denial, DenialKind
from paddock.model.profile import Access, Limits, NetworkMode
from paddock.sandbox.denial.attempt import CallAttempt, Content, FileAttempt, Need, NetworkAttempt, denial_of
from paddock.sandbox.denial.policy import Policy
from paddock.sandbox.denial.socket_address import InternetAddress, LocalAddress, SocketAddress
from paddock.sandbox.plan.mount import Bind
from paddock.sandbox.plan.plan import PRIVATE, Plan
from paddock.sandbox.profile.access import Rule

READ, WRITE, EXEC = DenialKind.READ, DenialKind.WRITE, DenialKind.EXEC
RULES = (
    Rule("/", Access.READ, ":root"),
    Rule("/w", Access.WRITE, ":project_roots"),
    Rule("/w/a/secret", Access.DENY, "/w/a/secret"),
    Rule("/run/paddock", Access.DENY, PRIVATE),
)
MOUNTS = (Bind("/w/a", is_writable=True, reason="can't be moved away"),)


def policy(network: NetworkMode = NetworkMode.RESTRICTED) -> Policy:
    return Policy(Plan(MOUNTS, (), RULES, network, Limits(), "/w", has_proc=True))


def file(
    kind: DenialKind,
    path: str,
    need: Need = Need.SOMETHING,
    content: Content = Content.FILE,
    *,
    is_moved: bool = False,
) -> Denial | None:
    return denial_of(FileAttempt(kind, path, need, path, content, is_moved), policy())


@pytest.mark.parametrize(
    ("kind", "path", "is_denied"),
    [
        (READ, "/etc/passwd", False),
        (EXEC, "/bin/sh", False),
        (WRITE, "/etc/passwd", True),
        (WRITE, "/w/x", False),
        (READ, "/w/a/secret/x", True),
        (EXEC, "/w/a/secret/x", True),
        (WRITE, "/w/a/secret/x", True),
        (WRITE, "/dev/null", False),
        (WRITE, "/proc/self/comm", False),
    ],
)
def test_the_profile_decides_by_path_and_kind(kind: DenialKind, path: str, is_denied: bool) -> None:
    denial = file(kind, path)
    assert (denial is not None) is is_denied
    assert denial is None or (denial.kind, denial.target, denial.is_certain) == (kind, path, True)


@pytest.mark.parametrize(
    ("need", "contents"),
    [
        (Need.SOMETHING, {Content.FILE, Content.DIRECTORY, Content.REFUSED}),
        (Need.FILE, {Content.FILE, Content.REFUSED}),
        (Need.NAME, {Content.FILE, Content.NOTHING, Content.REFUSED}),
        (Need.VACANCY, {Content.NOTHING, Content.REFUSED}),
    ],
)
def test_what_fails_for_want_of_the_file_is_no_denial(need: Need, contents: set[Content]) -> None:
    assert {content for content in Content if file(WRITE, "/etc/x", need, content)} == contents


def test_only_what_is_mounted_can_not_be_moved() -> None:
    assert file(WRITE, "/w/a", content=Content.DIRECTORY) is None
    assert file(WRITE, "/w/a", content=Content.DIRECTORY, is_moved=True) is not None
    assert file(WRITE, "/w/b", content=Content.DIRECTORY, is_moved=True) is None


def test_targets_are_text_and_nothing_is_said_of_what_is_our_own() -> None:
    denial = file(WRITE, "/etc/\udcff")
    assert denial is not None
    assert denial.target == "/etc/\ufffd"
    assert file(READ, "/run/paddock/x") is None


FAR = InternetAddress(ip_address("192.0.2.1"), 80)
NEAR = InternetAddress(ip_address("127.0.0.1"), 80)


@pytest.mark.parametrize(
    ("address", "mode", "is_denied"),
    [
        (FAR, NetworkMode.LOOPBACK, True),
        (NEAR, NetworkMode.LOOPBACK, False),
        (LocalAddress("/run/x"), NetworkMode.LOOPBACK, False),
        (None, NetworkMode.LOOPBACK, False),
        (FAR, NetworkMode.ENABLED, False),
    ],
)
def test_an_address_is_denied_if_it_is_out_of_reach(
    address: SocketAddress | None, mode: NetworkMode, is_denied: bool
) -> None:
    denial = denial_of(NetworkAttempt(address, is_refused=False), policy(mode))
    assert (denial is not None) is is_denied


def test_a_call_that_is_refused_is_denied_unless_nobody_is_there() -> None:
    socket = denial_of(NetworkAttempt(None, is_refused=True), policy())
    assert socket == Denial(DenialKind.NETWORK, None, "network = restricted", is_certain=True)
    service = NetworkAttempt(LocalAddress("/run/x"), is_refused=True, is_vain=True)
    assert denial_of(service, policy()) is None
    call = denial_of(CallAttempt("ptrace"), policy())
    assert call is not None
    assert (call.kind, call.target) == (DenialKind.SYSCALL, "ptrace")


@pytest.mark.parametrize(("linked", "grant"), [("/etc/hosts", "/etc"), ("/w/x", None), ("/etcetera", None)])
def test_hard_link_is_possible_only_within_what_is_granted(linked: str, grant: str | None) -> None:
    attempt = FileAttempt(WRITE, "/etc/x", Need.VACANCY, "/etc/x", Content.NOTHING, linked=linked)
    denial = denial_of(attempt, policy())
    assert denial is not None
    assert denial.grant == grant
