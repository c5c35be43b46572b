"""Traced commands: what they are told to have been refused is what they were refused."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from paddock.sandbox.host.syscall_table import MACHINES
from tests.sandbox.identity import PYTHON
from tests.sandbox.launcher import Launcher, Outcome

PREFIX = "paddock sandbox: the sandbox denied "
NOTHING = f"{PREFIX}nothing\n"
DENIAL = re.compile(
    re.escape(PREFIX)
    + r"(?P<deed>writing|reading|running|network access|the system call)"
    + r"(?: to)?(?P<target> [^(].*?)? \([^()]*\)(?:; .*)?"
)
KINDS = {
    "writing": "write",
    "reading": "read",
    "running": "exec",
    "network access": "network",
    "the system call": "syscall",
}

READ_ALL = {"path": {"type": "special", "value": {"kind": "root"}}, "access": "read"}
WRITE_HERE = {"path": {"type": "special", "value": {"kind": "project_roots"}}, "access": "write"}
MINIMAL = {"path": {"type": "special", "value": {"kind": "minimal"}}, "access": "read"}


def profile(*entries: object, network: str = "restricted") -> str:
    files = {"type": "restricted", "entries": list(entries)}
    return json.dumps({"type": "managed", "file_system": files, "network": network})


def denied(path: Path) -> object:
    return {"path": {"type": "path", "path": str(path)}, "access": "deny"}


HERE = profile(READ_ALL, WRITE_HERE)


def denials_in(stderr: str) -> list[str]:
    """What is told to have been denied, as kind and target, without the rule and the way out."""
    found = [DENIAL.fullmatch(line) for line in stderr.splitlines()]
    return [f"{KINDS[denial['deed']]}{denial['target'] or ''}" for denial in found if denial is not None]


class Tracing:
    """Runs traced commands of one user in one workspace."""

    def __init__(self, launcher: Launcher, workspace: Path) -> None:
        self.launcher = launcher
        self.workspace = workspace

    def run(self, *argv: str, under: str = HERE) -> Outcome:
        arguments = ["sandbox", "--trace", "--profile", under, "--", *argv]
        return self.launcher.run(arguments, cwd=self.workspace)

    def refused(self, *argv: str, under: str = HERE, status: int | None = None) -> set[str]:
        """What is told to have been refused, without the rule."""
        outcome = self.run(*argv, under=under)
        assert status is None or outcome.status == status, outcome
        return set(denials_in(outcome.stderr))


@pytest.fixture(name="tracing")
def traced_commands(launcher: Launcher, workspace: Path) -> Tracing:
    return Tracing(launcher, workspace)


# --- files ------------------------------------------------------------------

WAYS_TO_WRITE = {
    "echo": 'echo x > "$1/new"',
    "append": 'echo x >> "$1/old"',
    "touch": 'touch "$1/new"',
    "mkdir": 'mkdir "$1/new"',
    "rm": 'rm -f "$1/old"',
    "rmdir": 'rmdir "$1/empty"',
    "mv": 'mv "$1/old" "$1/new"',
    "ln": 'ln "$1/old" "$1/new"',
    "ln -s": 'ln -s x "$1/new"',
    "chmod": 'chmod 600 "$1/old"',
    "chown": 'chown "$(id -u)" "$1/old"',
    "truncate": 'truncate -s 0 "$1/old"',
    "mkfifo": 'mkfifo "$1/new"',
    "cp": 'cp /etc/hostname "$1/new"',
    "touch -d": 'touch -d 2001-01-01 "$1/old"',
}


@pytest.mark.parametrize("way", WAYS_TO_WRITE)
def test_every_way_to_write_is_seen_where_it_is_refused_and_only_there(tracing: Tracing, way: str) -> None:
    outside = tracing.workspace.parent / f"{tracing.workspace.name}-outside"
    for place in (outside, tracing.workspace / "inside"):
        (place / "empty").mkdir(parents=True)
        (place / "old").write_text("")
        for path in (place, place / "empty", place / "old"):
            os.chown(path, tracing.launcher.user, tracing.launcher.user)
    script = WAYS_TO_WRITE[way]
    refused = tracing.refused("sh", "-c", script, "sh", str(outside))
    expected = {f"write {outside}/{name}" for name in ("new", "old", "empty") if f"/{name}" in script}
    assert refused == (expected - {f"write {outside}/old"} if way == "ln" else expected)
    assert tracing.refused("sh", "-c", script, "sh", f"{tracing.workspace}/inside", status=0) == set()
    assert sorted(os.listdir(outside)) == ["empty", "old"]


def test_paths_are_told_as_the_command_saw_them(tracing: Tracing) -> None:
    outside = tracing.workspace.parent
    (tracing.workspace / "link").symlink_to("..")
    script = "echo x > ../relative; echo x > link/through; cd /; echo x > .//a/../from-root; true"
    assert tracing.refused("sh", "-c", script) == {
        f"write {outside}/relative",
        f"write {tracing.workspace}/link/through",
        "write /from-root",
    } - ({"write /from-root"} if not Path("/a").exists() else set())


def test_attempts_that_fail_anyway_are_no_denials(tracing: Tracing) -> None:
    script = """\
        rm -f /usr/no-such-file; mkdir -p /usr; echo x > /usr/no-such-directory/x; rmdir /no-such-directory
        mv /no-such-file x; echo x > /usr; echo x > in; mkdir in; cat /no-such-file; ln no-such-file /usr/x
        mv no-such-file /usr/x; mv /usr/no-such-file /usr/x; true"""
    assert tracing.refused("sh", "-c", script, status=0) == set()


def test_a_file_that_exists_and_is_only_read_is_not_denied_though_it_would_have_been_made(
    tracing: Tracing,
) -> None:
    outside = tracing.workspace.parent / f"{tracing.workspace.name}-outside"
    outside.write_text("")
    assert tracing.refused("flock", str(outside), "true", status=0) == set()
    assert tracing.refused("flock", f"{outside}-missing", "true") == {f"write {outside}-missing"}


def test_writing_to_streams_and_devices_is_no_denial(tracing: Tracing) -> None:
    places = ("null", "stdout", "fd/1", "shm/x")
    script = "; ".join(f"echo x > /dev/{place}" for place in places)
    outcome = tracing.run("sh", "-c", f"({script}) | cat")
    assert (outcome.status, outcome.stdout, outcome.stderr) == (0, "x\nx\n", NOTHING)


def test_what_may_not_be_read_is_seen_when_it_is_read_listed_entered_or_executed(tracing: Tracing) -> None:
    secret = tracing.workspace / "secret"
    secret.mkdir()
    (secret / "file").write_text("x")
    program = tracing.workspace / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    under = profile(READ_ALL, WRITE_HERE, denied(secret), denied(program))
    (secret / "link").symlink_to("/etc/hostname")
    script = "cat secret/file secret/link secret/nothing; ls secret; cd secret; ./program; cat nothing; true"
    assert tracing.refused("sh", "-c", script, under=under, status=0) == {
        # Whether there is something below what is denied is not told.
        *(f"read {secret}/{name}" for name in ("file", "link", "nothing")),
        f"read {secret}",
        f"exec {program}",
    }


def test_what_is_not_shown_is_not_told_to_be_there(tracing: Tracing) -> None:
    under = profile(MINIMAL, WRITE_HERE)
    script = "cat /var/lib/dpkg/status; cat /home/nothing; ls /; ls /var; cd /var; true"
    assert tracing.refused("sh", "-c", script, under=under, status=0) == set()
    assert tracing.refused("touch", "/new", under=under, status=1) == {"write /new"}


def test_a_directory_that_leads_to_something_protected_is_seen_not_to_move(tracing: Tracing) -> None:
    (tracing.workspace / "a/secret").mkdir(parents=True)
    (tracing.workspace / "b").mkdir()
    for name in ("a", "b"):
        os.chown(tracing.workspace / name, tracing.launcher.user, tracing.launcher.user)
    under = profile(READ_ALL, WRITE_HERE, denied(tracing.workspace / "a/secret"))
    refused = tracing.refused("sh", "-c", "mv b c; mv a d", under=under, status=1)
    assert refused == {f"write {tracing.workspace}/a"}
    assert sorted(os.listdir(tracing.workspace)) == ["a", "c"]


def test_metadata_that_is_missing_is_seen_to_be_protected(tracing: Tracing) -> None:
    refused = tracing.refused("mkdir", ".git", status=1)
    assert refused == {f"write {tracing.workspace}/.git"}
    assert not (tracing.workspace / ".git").exists()


# --- network and system calls -----------------------------------------------

CONNECT = "import socket; socket.create_connection(('{}', {}))"


def test_the_network_is_seen_to_be_refused(tracing: Tracing) -> None:
    assert tracing.refused(PYTHON, "-c", CONNECT.format("192.0.2.1", 80), status=1) == {"network"}


def test_a_socket_of_the_host_is_refused_if_there_is_one(tracing: Tracing) -> None:
    script = "import socket; s = socket.socket(socket.AF_UNIX); s.connect({!r})"
    path = str(tracing.workspace / "socket")
    assert tracing.refused(PYTHON, "-c", script.format(path), status=1) == set()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        assert tracing.refused(PYTHON, "-c", script.format(path), status=1) == {f"network {path}"}


def test_on_a_private_loopback_only_other_addresses_are_refused(tracing: Tracing) -> None:
    under = profile(READ_ALL, network="loopback")
    assert tracing.refused(PYTHON, "-c", CONNECT.format("192.0.2.1", 80), under=under) == {
        "network 192.0.2.1:80"
    }
    assert tracing.refused(PYTHON, "-c", CONNECT.format("127.0.0.1", 9), under=under, status=1) == set()


CALLS = {
    "ptrace": (0, 0, 0, 0),
    "process_vm_readv": (1, 0, 0, 0, 0, 0),
    "process_vm_writev": (1, 0, 0, 0, 0, 0),
    "pidfd_getfd": (-1, 0, 0),
    "io_uring_setup": (0, 0),
    "io_uring_enter": (-1, 0, 0, 0, 0),
    "keyctl": (0, -3, 0),
    "add_key": (0, 0, 0, 0, 0),
    "bpf": (0, 0, 0),
    "userfaultfd": (-1,),
    "perf_event_open": (0, 0, 0, 0, 0),
    "open_by_handle_at": (-1, 0, 0),
    "syslog": (10, 0, 0),
    "unshare": (0x10000000,),
    "clone": (0x10000011, 0, 0, 0, 0),
    "clone3": (0, 0),
    "ioctl": (0, 0x5412, 0),
}
SOCKETS = [(domain, kind, 0) for domain in (1, 2, 10, 16, 17, 40) for kind in (1, 2, 3, 5)]
"""unix, inet, inet6, netlink, packet and vsock; stream, datagram, raw and seqpacket."""

TRY = """\
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
for call in sys.argv[1:]:
    name, number, *arguments = call.split(",")
    result = libc.syscall(int(number), *(ctypes.c_long(int(argument)) for argument in arguments))
    print(call, "done" if result >= 0 else ctypes.get_errno())
"""


@pytest.mark.parametrize("network", ["restricted", "loopback", "enabled"])
def test_calls_that_are_refused_fail_as_without_a_tracer_and_are_seen(tracing: Tracing, network: str) -> None:
    numbers = MACHINES[os.uname().machine].numbers
    calls = [*CALLS.items(), *(("socket", socket) for socket in SOCKETS)]
    calls += [("socketpair", (1, kind, 0, 0)) for kind in (1, 2, 3, 5)] + [("sendto", (-1, 0, 0, 0, 1, 16))]
    words = [",".join([name, str(numbers[name]), *map(str, arguments)]) for name, arguments in calls]
    under = profile(READ_ALL, network=network)
    traced = tracing.run(PYTHON, "-c", TRY, *words, under=under)
    plain = tracing.launcher.run(
        ["sandbox", "--profile", under, "--", PYTHON, "-c", TRY, *words], cwd=tracing.workspace
    )
    assert traced.stdout == plain.stdout
    seen = set(denials_in(traced.stderr))
    assert {f"syscall {name}" for name in CALLS if name != "clone3"} <= seen
    assert "syscall clone3" not in seen


def test_a_command_can_not_answer_for_itself(tracing: Tracing) -> None:
    script = """\
import ctypes, platform, struct
libc = ctypes.CDLL(None, use_errno=True)
number = {"x86_64": 317, "aarch64": 277}[platform.machine()]
code = ctypes.create_string_buffer(struct.pack("=HBBI", 6, 0, 0, 0x7FC00000))
program = ctypes.create_string_buffer(struct.pack("=H6xQ", 1, ctypes.addressof(code)))
print(libc.syscall(number, 1, 8, program), ctypes.get_errno())
"""
    assert tracing.run(PYTHON, "-c", script).stdout == "-1 16\n"


# --- many, odd and hostile commands -----------------------------------------

THREADS = """\
import os, subprocess, threading
def work(number):
    for turn in range(20):
        with open(f"f{number}", "w"): pass
        try: open(f"/usr/of-{number}", "w")
        except OSError: pass
threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
for thread in threads: thread.start()
for number in range(10): subprocess.run(["touch", f"/usr/by-{number}"], stderr=subprocess.DEVNULL)
for thread in threads: thread.join()
"""


def test_threads_and_children_of_a_command_are_seen(tracing: Tracing) -> None:
    expected = {f"write /usr/of-{number}" for number in range(8)}
    expected |= {f"write /usr/by-{number}" for number in range(10)}
    assert tracing.refused(PYTHON, "-c", THREADS, status=0) == expected


def test_a_hundred_processes_at_once_are_seen(tracing: Tracing) -> None:
    script = "for i in $(seq 100); do sh -c 'echo x > f$0; echo x > /usr/f$0' $i & done; wait"
    outcome = tracing.run("sh", "-c", script)
    assert len(denials_in(outcome.stderr)) == 100
    assert len(list(tracing.workspace.glob("f*"))) == 100


def test_no_more_than_a_bound_is_noted_and_the_rest_counted(tracing: Tracing) -> None:
    outcome = tracing.run(
        PYTHON, "-c", "import os\nfor i in range(130):\n try: os.mkdir(f'/usr/{i}')\n except OSError: pass"
    )
    lines = outcome.stderr.splitlines()
    assert (len(lines), lines[-1]) == (101, PREFIX + "30 more")


HOSTILE = """\
import ctypes, mmap, os, platform
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
page = mmap.PAGESIZE
place = libc.mmap(None, ctypes.c_size_t(2 * page), 3, 0x22, -1, ctypes.c_long(0))
libc.munmap(ctypes.c_void_p(place + page), ctypes.c_size_t(page))
def opened(address):
    result = libc.open(ctypes.c_void_p(address), 1)
    return ctypes.get_errno() if result < 0 else 0
name = b"/etc/hostname\\0"
ctypes.memmove(place + page - len(name), name, len(name))
print(opened(place + page - len(name)))
ctypes.memset(place + page - 4, 120, 4)
print(opened(place + page - 4), opened(1), opened(0), opened(place + page))
long = ctypes.create_string_buffer(b"/" + b"x" * 5000)
print(opened(ctypes.addressof(long)))
odd = ctypes.create_string_buffer(b"/etc/\\xff\\xfe\\0")
print(libc.mkdir(odd, 0o700))
"""


def test_arguments_that_make_no_sense_are_left_to_the_kernel(tracing: Tracing) -> None:
    """A path up to the last byte of a page, without an end, to nowhere, too long, and that is not text."""
    outcome = tracing.run(PYTHON, "-c", HOSTILE)
    refusal, *others = outcome.stdout.splitlines()
    assert int(refusal) in (errno.EROFS, errno.EACCES)
    # EFAULT four times, ENAMETOOLONG.
    assert others == ["14 14 14 14", "36", "-1"]
    assert denials_in(outcome.stderr) == ["write /etc/hostname", "write /etc/\ufffd\ufffd"]


def test_programs_work_under_a_tracer_as_they_do_without(tracing: Tracing) -> None:
    subprocess.run(["git", "init", "-q", str(tracing.workspace)], check=True)
    subprocess.run(["chown", "-R", str(tracing.launcher.user), str(tracing.workspace)], check=True)
    (tracing.workspace / "Makefile").write_text("all:\n\techo made > out\n")
    script = "git status --short -- x; make -s; cat out; tar cf - out | tar tf -"
    outcome = tracing.run("bash", "-c", script, under=profile(READ_ALL, WRITE_HERE, denied(Path("/root"))))
    assert (outcome.status, outcome.stdout) == (0, "made\nout\n")


def test_signals_and_statuses_are_those_of_the_command(tracing: Tracing) -> None:
    assert tracing.run("sh", "-c", "kill -TERM $$").status == 128 + signal.SIGTERM
    assert tracing.run("sh", "-c", "exit 7").status == 7
    assert tracing.run("no-such-program").status == 127
    assert tracing.run("sh", "-c", "trap 'exit 3' USR1; (kill -USR1 $$); while :; do : > x; done").status == 3


def test_without_anything_to_enforce_nothing_is_refused(tracing: Tracing) -> None:
    outcome = tracing.run("true", under=":danger-full-access")
    assert (outcome.status, outcome.stderr) == (0, NOTHING)


def test_what_can_not_be_traced_is_not_started(tracing: Tracing) -> None:
    arguments = ["sandbox", "--trace", "--use-legacy-landlock", "--profile", ":workspace", "--", "touch", "x"]
    outcome = tracing.launcher.run(arguments, cwd=tracing.workspace)
    assert outcome.status == 125
    assert "only what bubblewrap confines can be traced" in outcome.stderr
    assert not (tracing.workspace / "x").exists()
