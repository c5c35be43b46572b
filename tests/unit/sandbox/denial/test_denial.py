from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.model.denial import Denial, DenialKind
from paddock.sandbox.denial.attempt import Content, Resolution
from paddock.sandbox.denial.denial import DENIALS_LIMIT, DENIALS_PER_RULE, Ended, Said, explain, merge
from paddock.sandbox.denial.invocation import Invocation
from paddock.sandbox.denial.keyword import is_denial
from tests.unit.sandbox.denial.test_policy import USUAL, policy

POLICY = policy(*USUAL)


def explained(
    stderr: str = "",
    *,
    stdout: str = "",
    script: str = "make",
    exit_code: int = 1,
    links: dict[str, str] | None = None,
) -> list[str]:
    """Denials in short; a guess has a question mark."""
    said = [Said(stdout, is_stderr=False), Said(stderr, is_stderr=True)]
    ended = Ended(
        exit_code,
        Invocation(["sh", "-c", script], "/w"),
        said,
        is_suspected=is_denial(exit_code, [stderr.encode(), stdout.encode()]),
    )
    return [_short(denial) for denial in explain(ended, POLICY, partial(resolved, links or {}))]


def resolved(links: dict[str, str], path: str) -> list[Resolution]:
    return [Resolution(links.get(path, path), Content.FILE)]


def _short(denial: Denial) -> str:
    return f"{denial.kind} {denial.target} ({denial.rule})" + ("" if denial.is_certain else "?")


TOUCHED = "touch: cannot touch '/etc/x': Read-only file system"


@pytest.mark.parametrize("script", ["touch /etc/x", "cp -r w /etc", "cd /etc && touch x"])
def test_a_failure_that_the_profile_explains_is_certain_if_the_command_names_it(script: str) -> None:
    assert explained(TOUCHED, script=script) == ["write /etc/x (root = read)"]


@pytest.mark.parametrize(
    "script", ["make", "cat log >&2; exit 1", "find / -name x", f'echo "{TOUCHED}" >&2', "cat /etc/x.log >&2"]
)
def test_what_is_only_said_is_a_guess(script: str) -> None:
    assert explained(TOUCHED, script=script) == ["write /etc/x (root = read)?"]


def test_who_runs_git_names_its_repository() -> None:
    line = "fatal: Unable to create '/w/ro/.git/index.lock': Read-only file system"
    assert explained(line, script="cd ro && git add x") == ["write /w/ro/.git/index.lock (/w/ro = read)"]
    assert explained(line, script="git add x") == ["write /w/ro/.git/index.lock (/w/ro = read)?"]
    assert explained(line, script="cd ro && make") == ["write /w/ro/.git/index.lock (/w/ro = read)?"]


@pytest.mark.parametrize(
    "line",
    [
        "cat: /w/locked: Permission denied",
        "cat: /etc/shadow: Permission denied",
        "mkdir: cannot create directory '/w/x': File exists",
        "rm: cannot remove '/w/x': Device or resource busy",
        "cat: /w/x: No such file or directory",
    ],
)
def test_a_failure_that_the_profile_allows_is_no_denial_whatever_the_words(line: str) -> None:
    assert explained(line) == []


def test_a_mount_point_can_not_be_removed() -> None:
    line = "rm: cannot remove '/w/ro': Device or resource busy"
    assert explained(line, script="rm -r ro") == ["write /w/ro (/w/ro = read)"]


def test_a_read_only_place_that_the_profile_lets_write_is_a_guess() -> None:
    assert explained("touch: cannot touch '/w/x': Read-only file system") == ["write /w/x (None)?"]


def test_places_of_the_sandbox_itself_are_not_talked_about() -> None:
    line = "ls: cannot open directory '/run/paddock': Permission denied"
    assert explained(line, script="ls /run/paddock") == []


def test_what_stands_on_stdout_is_believed_if_the_command_names_it() -> None:
    line = "touch: cannot touch '/etc/x': Read-only file system"
    assert explained(stdout=line, script="cat log") == ["write /etc/x (root = read)?"]
    assert explained(stdout=line, script="touch /etc/x 2>&1") == ["write /etc/x (root = read)"]


def test_a_relative_path_is_believed_if_the_command_names_it_and_stays() -> None:
    line = "touch: cannot touch 'ro/x': Read-only file system"
    assert explained(line, script="touch ro/x") == ["write /w/ro/x (/w/ro = read)"]
    assert explained(line, script="make") == ["write ro/x (None)?"]
    assert explained(line, script="cd ..; touch ro/x") == ["write ro/x (None)?"]


def test_a_path_counts_as_what_it_leads_to_and_is_told_as_it_was_named() -> None:
    line = "touch: cannot touch '/w/link/x': Read-only file system"
    told = explained(line, script="touch link/x", links={"/w/link/x": "/etc/x"})
    assert told == ["write /w/link/x (root = read)"]


def test_a_hidden_path_is_a_guess_whether_it_exists_or_not() -> None:
    line = "cat: /w/sub/secret/x: No such file or directory"
    assert explained(line) == ["read /w/sub/secret/x (project_roots/sub/secret = deny)?"]


def test_the_last_failure_of_a_shell_that_could_not_run_something_is_about_running() -> None:
    lines = "sh: line 1: /w/sub/secret/a: Permission denied\nsh: line 2: /w/sub/secret/b: Permission denied\n"
    rule = "(project_roots/sub/secret = deny)"
    told = explained(lines, script="sub/secret/a || sub/secret/b", exit_code=126)
    assert told == [f"read /w/sub/secret/a {rule}", f"exec /w/sub/secret/b {rule}"]


def test_a_path_that_is_named_twice_is_told_once_as_what_is_said_more_clearly() -> None:
    path = "/w/sub/secret/a"
    lines = f"sh: {path}: Permission denied\nsh: exec: {path}: cannot execute: Permission denied\n"
    told = explained(lines, script=path)
    assert told == ["exec /w/sub/secret/a (project_roots/sub/secret = deny)"]


def test_what_is_certain_comes_first() -> None:
    lines = "x: 'a/b': Permission denied\ntouch: cannot touch '/etc/x': Read-only file system\n"
    assert explained(lines, script="touch /etc/x") == ["write /etc/x (root = read)", "read a/b (None)?"]


@pytest.mark.parametrize(
    ("text", "exit_code", "guess"),
    [
        ("permission denied", 1, "read None (None)?"),
        ("Read-only file system!", 1, "write None (None)?"),
        ("failed to write file", 1, "write None (None)?"),
        ("this is a sandbox", 3, "syscall None (None)?"),
        ("", 159, "syscall None (None)?"),
    ],
)
def test_words_alone_are_a_guess_without_a_target(text: str, exit_code: int, guess: str) -> None:
    assert explained(text, exit_code=exit_code) == [guess]


def test_a_host_is_told_once_and_by_name() -> None:
    lines = "sh: socket: Operation not permitted\nsh: line 1: /dev/tcp/10.0.0.1/80: Operation not permitted\n"
    told = explained(lines, script="echo > /dev/tcp/10.0.0.1/80")
    assert told == ["network 10.0.0.1:80 (network = restricted)"]


def test_a_host_that_the_command_does_not_name_is_a_guess() -> None:
    line = "curl: (6) Could not resolve host: a.b"
    assert explained(line, script="curl http://a.b/") == ["network a.b (network = restricted)"]
    assert explained(line, script="cat log >&2") == ["network a.b (network = restricted)?"]


def test_a_host_that_is_not_said_is_the_one_of_the_arguments() -> None:
    line = "socket.gaierror: [Errno -3] Temporary failure in name resolution"
    assert explained(line, script="get http://a.b/") == ["network a.b (network = restricted)"]


def test_a_system_call_that_is_always_refused_is_certain() -> None:
    line = "strace: ptrace(X): Operation not permitted"
    assert explained(line, script="/usr/bin/strace ls") == ["syscall ptrace (system calls = restricted)"]
    assert explained(line, script="make") == ["syscall ptrace (system calls = restricted)?"]
    assert explained("unshare: unshare failed: Operation not permitted") == ["syscall unshare (None)?"]


@pytest.mark.parametrize(
    "line",
    [
        "sh: 1: kill: Operation not permitted",
        "date: cannot set date: Operation not permitted",
        "chroot: cannot change root directory to '/': Operation not permitted",
    ],
)
def test_what_is_not_permitted_is_no_file_that_could_not_be_written(line: str) -> None:
    assert explained(line, script=line.split()[0].rstrip(":") + " date kill /") == ["syscall None (None)?"]


def test_program_that_gets_no_socket_lacks_the_network() -> None:
    line = 'psql: error: connection to server at "db", port 5432 failed: could not create socket: '
    assert explained(f"{line}Operation not permitted") == ["network None (network = restricted)?"]


def test_one_rule_does_not_displace_another() -> None:
    lines = "".join(f"rm: cannot remove '/etc/{n}': Read-only file system\n" for n in range(40))
    told = explained(
        lines + "touch: cannot touch '/w/ro/x': Read-only file system", script="rm -r /etc; touch ro/x"
    )
    assert told[:DENIALS_PER_RULE] == [f"write /etc/{n} (root = read)" for n in range(DENIALS_PER_RULE)]
    assert told[DENIALS_PER_RULE:] == ["write /w/ro/x (/w/ro = read)"]


def test_without_a_policy_everything_is_a_guess() -> None:
    said = [Said("touch: cannot touch '/etc/x': Read-only file system", is_stderr=True)]
    ended = Ended(1, Invocation(["make"], "/"), said, is_suspected=True)
    assert [_short(denial) for denial in explain(ended, None, partial(resolved, {}))] == [
        "write /etc/x (None)?"
    ]


# --- with a trace -----------------------------------------------------------

SEEN = Denial(DenialKind.WRITE, "/etc/x", "root = read", is_certain=True)


def test_what_was_said_and_not_seen_is_a_guess() -> None:
    said = Denial(DenialKind.WRITE, "/etc/y", "root = read", is_certain=True)
    assert [_short(denial) for denial in merge([said], [SEEN])] == [
        "write /etc/x (root = read)",
        "write /etc/y (root = read)?",
    ]


@pytest.mark.parametrize("target", ["/etc/x", "/etc/../etc/x"])
def test_what_was_said_and_seen_is_told_once(target: str) -> None:
    said = Denial(DenialKind.WRITE, target, "root = read", is_certain=True)
    assert merge([said], [SEEN]) == (SEEN,)


def test_a_host_is_known_from_what_was_said_where_only_a_socket_was_seen() -> None:
    seen = Denial(DenialKind.NETWORK, None, "network = restricted", is_certain=True)
    said = Denial(DenialKind.NETWORK, "a.b", "network = restricted", is_certain=True)
    assert merge([said], [seen]) == (said,)


def test_what_was_seen_is_told_beside_a_host_that_was_only_said() -> None:
    seen = Denial(DenialKind.NETWORK, None, "network = restricted", is_certain=True)
    said = Denial(DenialKind.NETWORK, "a.b", "network = restricted", is_certain=False)
    assert merge([said], [seen]) == (seen, said)


def test_words_alone_add_nothing_to_what_was_seen() -> None:
    guess = Denial(DenialKind.WRITE, "x", None, is_certain=False)
    assert merge([guess], [SEEN]) == (SEEN,)


LINES = st.lists(
    st.sampled_from(
        [
            "touch: cannot touch '/etc/x': Read-only file system",
            "cat: /w/sub/secret/x: Permission denied",
            "cat: ../../..: Permission denied",
            "cat: /w/\0: Permission denied",
            "curl: (6) Could not resolve host: a.b",
            "Operation not permitted",
            "mkdir: cannot create directory '/w/absent': File exists",
        ]
    )
    | st.text(max_size=40),
    max_size=30,
)


@given(stderr=LINES.map("\n".join), stdout=LINES.map("\n".join), exit_code=st.integers(1, 255))
def test_whatever_a_command_says_what_is_certain_is_what_the_profile_refuses(
    stderr: str, stdout: str, exit_code: int
) -> None:
    told = explained(stderr, stdout=stdout, exit_code=exit_code)
    assert len(told) <= DENIALS_LIMIT
    certain = {denial for denial in told if not denial.endswith("?")}
    assert certain <= {
        "write /etc/x (root = read)",
        "read /w/sub/secret/x (project_roots/sub/secret = deny)",
        "exec /w/sub/secret/x (project_roots/sub/secret = deny)",
        "network a.b (network = restricted)",
        "write /w/absent (/w/absent = deny)",
    }


def test_without_a_known_profile_everything_is_a_guess() -> None:
    said = [Said("curl: (6) Could not resolve host: example.com", is_stderr=True)]
    ended = Ended(1, Invocation(["curl", "example.com"], "/w"), said, is_suspected=True)
    assert [denial.is_certain for denial in explain(ended, None, partial(resolved, {}))] == [False]
