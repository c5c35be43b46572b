from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.model.denial import DenialKind
from paddock.sandbox.denial.named_failure import LINE_LIMIT, NamedFailure, Trouble, failures


def named(text: str) -> list[NamedFailure]:
    return [failure for _, failure in failures(text) if failure is not None]


@pytest.mark.parametrize(
    ("line", "trouble", "names"),
    [
        ("bash: line 1: /x: Permission denied", "EACCES", ["/x"]),
        ("/bin/bash: line 1: /my dir/x: Permission denied", "EACCES", ["/my dir/x"]),
        ("sh: 1: cannot create /x: Read-only file system", "EROFS", ["/x"]),
        ("dash: 1: cannot open sub/x: Permission denied", "EACCES", ["sub/x"]),
        ("touch: cannot touch '/x': Read-only file system", "EROFS", ["/x"]),
        ("touch: cannot touch '/my: x': Read-only file system", "EROFS", ["/my: x"]),
        ("mv: cannot move 'a' to 'b': Device or resource busy", "EBUSY", ["a", "b"]),
        ("ln: failed to create hard link '/b' => '/a': Read-only file system", "EROFS", ["/b"]),
        ("head: cannot open '/x' for reading: Permission denied", "EACCES", ["/x"]),
        ("truncate: cannot open '/x' for writing: Read-only file system", "EROFS", ["/x"]),
        ("tar: /x.tar: Cannot open: Read-only file system", "EROFS", ["/x.tar"]),
        ("sed: couldn't open temporary file /etc/sedAb: Read-only file system", "EROFS", ["/etc/sedAb"]),
        ("mkdir: cannot create directory \u2018/x\u2019: File exists", "EEXIST", ["/x"]),
        ("cat: /x: No such file or directory", "ENOENT", ["/x"]),
        ("PermissionError: [Errno 13] Permission denied: '/x'", "EACCES", ["/x"]),
        ("OSError: [Errno 30] Read-only file system: '/a' -> '/b'", "EROFS", ["/a", "/b"]),
        ('OSError: [Errno 30] Read-only file system: "/it\'s"', "EROFS", ["/it's"]),
        ("python3: can't open file '/x': [Errno 13] Permission denied", "EACCES", ["/x"]),
        ("Error: EACCES: permission denied, open '/x'", "EACCES", ["/x"]),
        ("Error: EROFS: read-only file system, rename '/a' -> '/b'", "EROFS", ["/a", "/b"]),
        ("Error: EROFS: read-only file system, copyfile '/a' -> '/b'", "EROFS", ["/b"]),
        ("Error: spawnSync /x y EACCES", "EACCES", ["/x y"]),
        (
            "fatal: Unable to create '/w/.git/index.lock': Read-only file system",
            "EROFS",
            ["/w/.git/index.lock"],
        ),
        (
            "fatal: cannot lock ref 'refs/heads/b': Unable to create '/w/b.lock': Read-only file system",
            "EROFS",
            ["/w/b.lock"],
        ),
        ("\x1b[31mtouch: cannot touch '/x': \x1b[1mPermission denied\x1b[0m\r", "EACCES", ["/x"]),
        (
            "  0Warning: Failed to open the file \nWarning: /a\nWarning: b: Read-only file \nWarning: system",
            "EROFS",
            ["/ab"],
        ),
    ],
)
def test_the_path_that_an_error_is_about_is_found(line: str, trouble: str, names: list[str]) -> None:
    (failure,) = named(line)
    assert (failure.trouble, list(failure.names)) == (Trouble(trouble), names)


@pytest.mark.parametrize(
    ("line", "target"),
    [
        ("curl: (6) Could not resolve host: example.com", "example.com"),
        ("curl: (7) Failed to connect to 10.0.0.1 port 80 after 0 ms: Couldn't connect", "10.0.0.1:80"),
        ("fatal: unable to access 'https://a.b/': Could not resolve host: a.b", "a.b"),
        ("ssh: Could not resolve hostname a.b: Temporary failure in name resolution", "a.b"),
        ("wget: unable to resolve host address 'a.b'", "a.b"),
        ("bash: line 1: a.b: Temporary failure in name resolution", "a.b"),
        ("socket.gaierror: [Errno -3] Temporary failure in name resolution", None),
        ("bash: line 1: /dev/tcp/10.0.0.1/80: Operation not permitted", "10.0.0.1:80"),
        ("Error: connect EPERM 10.0.0.1:80 - Local (undefined:undefined)", "10.0.0.1:80"),
        ("Error: connect EPERM ::1:80 - Local (undefined:undefined)", "::1:80"),
        ("Error: listen EPERM: operation not permitted 0.0.0.0:80", "0.0.0.0:80"),
        ("Error: listen EPERM: operation not permitted 0.0.0.0", "0.0.0.0"),
        ("Error: getaddrinfo EAI_AGAIN a.b", "a.b"),
        ("10.0.0.1[0: 10.0.0.1]: errno=Operation not permitted", "10.0.0.1"),
        ("bash: socket: Operation not permitted", None),
        ("OSError: [Errno 101] Network is unreachable", None),
        ("urllib.error.URLError: <urlopen error [Errno 1] Operation not permitted>", None),
    ],
)
def test_the_host_that_could_not_be_reached_is_found(line: str, target: str | None) -> None:
    (failure,) = named(line)
    assert failure.kind is DenialKind.NETWORK
    assert failure.names == (() if target is None else (target,))


def test_python_that_fails_in_its_socket_module_wanted_the_network() -> None:
    error = "PermissionError: [Errno 1] Operation not permitted"
    frame = '  File "/usr/lib/python3.11/{}", line 1, in __init__\n'
    (in_socket,) = named(frame.format("socket.py") + error)
    (elsewhere,) = named(frame.format("pathlib.py") + error)
    assert (in_socket.kind, elsewhere.kind) == (DenialKind.NETWORK, None)


@pytest.mark.parametrize(
    ("line", "call"),
    [
        ("strace: ptrace(PTRACE_TRACEME, ...): Operation not permitted", "ptrace"),
        ("ptrace: Operation not permitted.", "ptrace"),
        ("strace: attach: PTRACE_SEIZE: Operation not permitted", "ptrace"),
        ("unshare: unshare failed: Operation not permitted", "unshare"),
        ("dmesg: read kernel buffer failed: Operation not permitted", "syslog"),
    ],
)
def test_the_system_call_that_failed_is_found(line: str, call: str) -> None:
    speaker = line.partition(":")[0]
    assert named(line) == [NamedFailure(Trouble.NOT_PERMITTED, (call,), DenialKind.SYSCALL, speaker)]


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("touch: cannot touch '/x': Permission denied", DenialKind.WRITE),
        ("Error: EACCES: permission denied, mkdir '/x'", DenialKind.WRITE),
        ("Error: spawn /x EACCES", DenialKind.EXEC),
        ("bash: exec: /x: cannot execute: Permission denied", DenialKind.EXEC),
        ("cat: /x: Permission denied", None),
    ],
)
def test_what_was_wanted_is_told_where_the_words_say_so(line: str, kind: DenialKind | None) -> None:
    assert [failure.kind for failure in named(line)] == [kind]


@pytest.mark.parametrize(
    "line",
    [
        "rm: cannot remove 'it'\\''s': Permission denied",
        "cat: /w/a: b: Permission denied",
        "permission denied",
        "",
        "all is well",
    ],
)
def test_a_name_that_can_not_be_told_for_sure_is_not_told(line: str) -> None:
    assert all(failure.names == () for failure in named(line))


def test_long_lines_are_passed_over() -> None:
    assert named("cat: /" + "x" * LINE_LIMIT + ": Permission denied") == []


FRAGMENTS = [
    "Permission denied",
    "Read-only file system",
    "Operation not permitted",
    "Temporary failure in name resolution",
    "could not resolve host: ",
    "failed to connect to ",
    " port 1",
    "connect EPERM ",
    "spawn ",
    " EACCES",
    "/dev/tcp/",
    "Warning: ",
    "\nWarning: ",
    "\x1b[",
    '  File "',
    "'",
    '"',
    "\u2018",
    "\u2019",
    " to ",
    " -> ",
    ": ",
    "[0: ",
    "]: errno=",
    "[Errno 13] ",
    "/",
    "\\",
    "\0",
    "İ",
    "\ufffd",
    "\r",
    "\n",
]


@given(st.lists(st.sampled_from([*FRAGMENTS, "a", "b.c", "1"]), max_size=40).map("".join))
def test_whatever_is_written_there_is_read(text: str) -> None:
    for line, failure in failures(text):
        assert failure is None or all(name in line for name in _parts(failure))


def _parts(failure: NamedFailure) -> list[str]:
    if failure.kind is DenialKind.SYSCALL:
        return []
    if failure.kind is DenialKind.NETWORK:
        return [part for name in failure.names for part in re.split(":", name)]
    return list(failure.names)


@pytest.mark.parametrize("fragment", [fragment for fragment in FRAGMENTS if "\n" not in fragment])
def test_repetition_does_not_multiply_the_work(fragment: str) -> None:
    # An expression that tries all ways to match would not be done within the time that a test has.
    line = (fragment * LINE_LIMIT)[:LINE_LIMIT]
    for _ in failures("\n".join([line] * 64)):
        pass


def test_line_whose_small_letters_are_more_is_left_alone() -> None:
    line = "cat: /x: Permission denied"
    assert named(line)
    assert not named(f"\u0130{line}")
