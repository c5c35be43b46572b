"""The filters in the real kernel: refused inside, and the same attempt works outside."""

from __future__ import annotations

import os
import platform
import signal
import socket
from pathlib import Path

import pytest

from paddock.model.profile import NetworkMode
from paddock.sandbox.host.syscall_table import MACHINES
from tests.sandbox.identity import PYTHON, each_user
from tests.sandbox.init_start import Start

each_mode = pytest.mark.parametrize("mode", list(NetworkMode))
RESTRICTED, LOOPBACK, ENABLED = NetworkMode.RESTRICTED, NetworkMode.LOOPBACK, NetworkMode.ENABLED
PROXIED = NetworkMode.PROXIED

if platform.machine() not in MACHINES:
    pytest.skip(f"there is no filter for {platform.machine()}", allow_module_level=True)

PRELUDE = """\
import asyncio, ctypes, os, pty, socket, threading
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, function):
    try:
        print(name, "ok", function())
    except OSError as error:
        print(name, error.errno)
def call(name, number, *arguments):
    result = libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments))
    print(name, "ok" if result >= 0 else ctypes.get_errno())
"""


def tried(user: int, mode: NetworkMode | None, code: str) -> dict[str, str]:
    """What came of each attempt, by its name."""
    outcome = Start(user, mode=mode).run(PYTHON, "-c", PRELUDE + code)
    assert (outcome.status, outcome.stderr) == (0, "")
    return dict(line.split(" ", 1) for line in outcome.stdout.splitlines())


def number(name: str) -> int:
    return MACHINES[platform.machine()].numbers[name]


# --- in every mode ----------------------------------------------------------

DANGEROUS = {
    "ptrace": (0, 0, 0, 0),
    "process_vm_readv": ("os.getpid()", 0, 0, 0, 0, 0),
    "process_vm_writev": ("os.getpid()", 0, 0, 0, 0, 0),
    "keyctl": (0, -3, 0),
    "unshare": (0x10000000,),
}
"""Calls that work for anybody, with arguments with which they do no harm."""

BARRED_ELSEWHERE = {
    "io_uring_setup": (0, 0),
    "io_uring_enter": (-1, 0, 0, 0, 0),
    "io_uring_register": (-1, 0, 0, 0),
    "add_key": (0, 0, 0, 0, 0),
    "request_key": (0, 0, 0, 0),
    "pidfd_getfd": (-1, 0, 0),
    "bpf": (0, 0, 0),
    "userfaultfd": (-1,),
    "perf_event_open": (0, 0, 0, 0, 0),
}
"""Calls that a host may refuse by itself, with arguments that are wrong."""


@each_user
@each_mode
def test_ways_into_the_kernel_and_other_processes_are_closed(user: int, mode: NetworkMode) -> None:
    code = "".join(
        f"call({name!r}, {number(name)}, {', '.join(map(str, arguments))})\n"
        for name, arguments in {**DANGEROUS, **BARRED_ELSEWHERE}.items()
    )
    inside, outside = tried(user, mode, code), tried(user, None, code)
    assert set(inside.values()) == {"1"}
    assert {outside[name] for name in DANGEROUS} == {"ok"}


@each_mode
def test_a_thread_and_a_process_start_as_ever_and_a_user_namespace_does_not(mode: NetworkMode) -> None:
    code = f"""
thread = threading.Thread(target=print, args=("thread", "ok")); thread.start(); thread.join()
attempt("fork", lambda: os.system("exit 3") >> 8)
call("clone3", {number("clone3")}, 0, 0)
call("clone", {number("clone")}, 0x10000000 | 17, 0, 0, 0, 0)
"""
    assert tried(os.geteuid(), mode, code) == {"thread": "ok", "fork": "ok 3", "clone3": "38", "clone": "1"}


@each_mode
def test_terminal_is_not_taken_from_others_for_good(mode: NetworkMode) -> None:
    code = f"""
_, terminal = pty.openpty()
discipline = ctypes.create_string_buffer((27).to_bytes(4, "little"))
call("current", {number("ioctl")}, terminal, 0x5424, ctypes.addressof(ctypes.create_string_buffer(4)))
call("TIOCEXCL", {number("ioctl")}, terminal, 0x540C, 0)
call("TIOCSETD", {number("ioctl")}, terminal, 0x5423, ctypes.addressof(discipline))
"""
    inside = tried(os.geteuid(), mode, code)
    assert inside == {"current": "ok", "TIOCEXCL": "1", "TIOCSETD": "1"}
    outside = tried(os.geteuid(), None, code)
    assert (outside["current"], outside["TIOCEXCL"]) == ("ok", "ok")
    # A kernel may lack this line discipline.
    assert outside["TIOCSETD"] != "1"


@each_mode
def test_nothing_is_typed_into_a_terminal(mode: NetworkMode) -> None:
    code = f"""
_, terminal = pty.openpty()
byte = ctypes.create_string_buffer(b"x")
call("window", {number("ioctl")}, terminal, 0x5413, ctypes.addressof(ctypes.create_string_buffer(8)))
call("TIOCSTI", {number("ioctl")}, terminal, 0x5412, ctypes.addressof(byte))
call("disguised", {number("ioctl")}, terminal, 0x100005412, ctypes.addressof(byte))
call("TIOCLINUX", {number("ioctl")}, terminal, 0x541C, ctypes.addressof(byte))
"""
    inside = tried(os.geteuid(), mode, code)
    assert inside == {"window": "ok", "TIOCSTI": "1", "disguised": "1", "TIOCLINUX": "1"}
    outside = tried(os.geteuid(), None, code)
    assert outside["window"] == "ok"
    # What it answers then depends on the kernel's settings, but it is not the filter's errno.
    assert outside["TIOCLINUX"] != "1"


@each_user
@each_mode
def test_no_snapshot_is_made_and_files_share_blocks_as_ever(
    user: int, mode: NetworkMode, place: Path
) -> None:
    requests = {
        "snapshot": 0x50009401,
        "snapshot-v2": 0x50009417,
        "removal": 0x5000940F,
        "removal-v2": 0x5000943F,
        "disguised": 1 << 32 | 0x50009417,
        "Bcachefs": 0x4020BC10,
        "key": 0xC0406618,
    }
    code = f"file = os.open({str(place)!r}, os.O_RDONLY)\n" + "".join(
        f"call({name!r}, {number('ioctl')}, file, {request}, 0)\n"
        for name, request in {**requests, "clone": 0x40049409}.items()
    )
    inside, outside = tried(user, mode, code), tried(user, None, code)
    assert {inside[name] for name in requests} == {"1"}
    # The file system answers, perhaps that it has no such request.
    assert inside["clone"] == outside["clone"] != "1"
    assert "1" not in outside.values()


@each_mode
def test_no_lease_is_taken_and_locks_work_as_ever(mode: NetworkMode, place: Path) -> None:
    file = place / "file"
    file.touch()
    code = f"""
import fcntl
file = os.open({str(file)!r}, os.O_RDWR)
call("lease", {number("fcntl")}, file, 1024, 1)
call("disguised", {number("fcntl")}, file, 1 << 32 | 1024, 1)
attempt("lock", lambda: fcntl.lockf(file, fcntl.LOCK_EX))
attempt("flags", lambda: fcntl.fcntl(file, fcntl.F_GETFD))
"""
    inside = tried(os.geteuid(), mode, code)
    assert inside == {"lease": "1", "disguised": "1", "lock": "ok None", "flags": "ok 1"}
    assert tried(os.geteuid(), None, code)["lease"] == "ok"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="int 0x80 is a way of x86_64")
@each_mode
def test_a_call_by_another_architecture_kills(mode: NetworkMode) -> None:
    code = (
        "import ctypes, mmap\n"
        "page = mmap.mmap(-1, 4096, prot=7)\n"
        "page.write(bytes([0xB8, 20, 0, 0, 0, 0xCD, 0x80, 0xC3]))  # getpid of i386\n"
        "print(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))() > 0)\n"
    )
    assert Start(os.geteuid(), mode=mode).run(PYTHON, "-c", code).status == 128 + signal.SIGSYS


@pytest.mark.skipif(platform.machine() != "x86_64", reason="x32 is an ABI of x86_64")
@each_mode
def test_x32_calls_are_unknown(mode: NetworkMode) -> None:
    code = "call('getpid', 0x40000000 | 39)\ncall('socket', 0x40000000 | 41, 2, 1, 0)\n"
    assert tried(os.geteuid(), mode, code) == {"getpid": "38", "socket": "38"}


# --- by mode ----------------------------------------------------------------

SOCKETS = """
def made(*arguments):
    socket.socket(*arguments).close()
attempt("inet", lambda: made(2, 1))
attempt("inet6", lambda: made(10, 2))
attempt("route", lambda: made(16, 3, 0))
attempt("uevent", lambda: made(16, 3, 15))
attempt("unix", lambda: made(1, 1))
attempt("unix-datagram", lambda: made(1, 2))
attempt("unix-raw", lambda: made(1, 3))
attempt("vsock", lambda: made(40, 1))
attempt("alg", lambda: made(38, 5))
attempt("pair", lambda: [end.close() for end in socket.socketpair()])
attempt("pair-datagram", lambda: [end.close() for end in socket.socketpair(1, 2)])
"""
OPEN = {
    RESTRICTED: {"unix", "pair"},
    LOOPBACK: {"inet", "inet6", "route", "pair"},
    PROXIED: {"inet", "inet6", "pair"},
    ENABLED: {
        "inet",
        "inet6",
        "route",
        "uevent",
        "unix",
        "unix-datagram",
        "unix-raw",
        "pair",
        "pair-datagram",
    },
}


@each_user
@each_mode
def test_a_mode_opens_the_sockets_that_belong_to_it(user: int, mode: NetworkMode) -> None:
    inside = tried(user, mode, SOCKETS)
    assert {name for name, result in inside.items() if result.startswith("ok")} == OPEN[mode]
    assert {result for name, result in inside.items() if name not in OPEN[mode]} == {"1"}
    outside = tried(user, None, SOCKETS)
    assert {name for name, result in outside.items() if result.startswith("ok")} >= OPEN[ENABLED]


@each_mode
def test_an_event_loop_is_woken_by_another_thread(mode: NetworkMode) -> None:
    # Without its socket pair the loop would sleep for good: nothing else is there to wake it.
    code = "attempt('woken', lambda: asyncio.run(asyncio.to_thread(len, 'abc')))"
    assert tried(os.geteuid(), mode, code) == {"woken": "ok 3"}


def test_a_pair_works_and_sends_to_no_address_when_the_network_is_restricted() -> None:
    code = """
left, right = socket.socketpair()
attempt("send", lambda: left.send(b"x"))
attempt("sendmsg", lambda: left.sendmsg([b"x"]))
attempt("recv", lambda: right.recv(5))
attempt("option", lambda: left.getsockopt(1, 3))
attempt("sendto", lambda: left.sendto(b"x", "/nowhere"))
attempt("shutdown", lambda: left.shutdown(2))
listener = socket.socket(1)
attempt("bind", lambda: listener.bind("u"))
attempt("connect", lambda: listener.connect("/nowhere"))
attempt("listen", lambda: listener.listen())
"""
    assert tried(os.geteuid(), RESTRICTED, code) == {
        "send": "ok 1",
        "sendmsg": "ok 1",
        "recv": "ok b'xx'",
        "option": "ok 1",
        "sendto": "1",
        "shutdown": "ok None",
        "bind": "1",
        "connect": "1",
        "listen": "1",
    }


@each_user
@pytest.mark.parametrize("mode", [RESTRICTED, LOOPBACK])
def test_no_datagram_reaches_a_socket_of_the_host(user: int, mode: NetworkMode, place: Path) -> None:
    path = place / "socket"
    code = "".join(
        f"attempt('{name}', lambda: {how}.sendmsg([b'out'], [], 0, {str(path)!r}))\n"
        for name, how in {
            "datagram": "socket.socket(1, 2)",
            "raw": "socket.socket(1, 3)",
            "pair": "socket.socketpair(1, 2)[0]",
            "raw-pair": "socket.socketpair(1, 3)[0]",
        }.items()
    )
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as host:
        host.bind(str(path))
        path.chmod(0o666)
        host.setblocking(False)
        assert set(tried(user, mode, code).values()) == {"1"}
        with pytest.raises(BlockingIOError):
            host.recv(10)
        assert set(tried(user, None, code).values()) == {"ok 3"}
        assert host.recv(10) == b"out"


@each_user
def test_servers_and_clients_meet_on_the_private_loopback_and_not_outside(user: int) -> None:
    code = """
server = socket.socket()
server.bind(("127.0.0.1", 0)); server.listen()
client = socket.create_connection(server.getsockname(), 5)
connection, _ = server.accept()
client.sendall(b"hello")
attempt("received", lambda: connection.recv(5))
attempt("outside", lambda: socket.create_connection(("127.0.0.1", %d), 5))
attempt("elsewhere", lambda: socket.create_connection(("192.0.2.1", 80), 5))
attempt("interfaces", lambda: [name for _, name in socket.if_nameindex()])
"""
    with socket.create_server(("127.0.0.1", 0)) as host:
        told = tried(user, LOOPBACK, code % host.getsockname()[1])
    assert told["received"] == "ok b'hello'"
    assert told["outside"] == "111"
    assert told["elsewhere"] == "101"
    assert told["interfaces"] == "ok ['lo']"


def test_the_init_loads_the_filter_itself_where_there_is_no_bubblewrap() -> None:
    start = Start(os.geteuid(), has_bwrap=False, mode=RESTRICTED)
    code = (
        PRELUDE
        + "attempt('inet', lambda: socket.socket())\nattempt('pair', lambda: len(socket.socketpair()))"
    )
    assert start.run(PYTHON, "-c", code).stdout == "inet 1\npair ok 2\n"
