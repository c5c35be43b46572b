"""The socket by which wrappers ask: what a confined command sends there costs the server nothing for good."""

from __future__ import annotations

import errno
import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from paddock.intercept import wire
from paddock.intercept.wire import ExecRequest, WireError
from paddock.sandbox.denial.exec_answer import (
    NOT_BEGUN,
    Deny,
    Escalate,
    ExecAnswer,
    ExecPolicy,
    OnExec,
    Run,
    Settle,
    Withdraw,
)
from paddock.sandbox.denial.exec_call import ExecCall
from paddock.server import wrapper_server
from paddock.server.wrapper_server import VALUES_LIMIT, WrapperServer
from tests.interop.escalation_reference import frame, send
from tests.processes import open_descriptors

TIMEOUT_S = 20.0


@pytest.fixture(name="arrivals")
def door_of_a_server() -> Iterator[socket.socket]:
    served = WrapperServer(ExecPolicy(lambda call, settle: Run()), None)
    served.begin()
    with socket.socket(fileno=served.file) as arrivals:
        yield arrivals
    served.finish()


def ask(arrivals: socket.socket, said: bytes) -> bytes:
    """Say something on a new stream, and wait for its end: all that came before it was served by then."""
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            send(arrivals, b"\0", [theirs.fileno()])
        ours.sendall(said)
        return ours.recv(100)


def test_what_is_no_stream_leaves_no_descriptor_open(arrivals: socket.socket) -> None:
    ask(arrivals, frame({}))
    before = len(os.listdir("/proc/self/fd"))
    file, (datagrams, other) = os.open("/dev/null", os.O_RDONLY), socket.socketpair(type=socket.SOCK_DGRAM)
    for _ in range(20):
        send(arrivals, b"\0", [file])
        send(arrivals, b"\0", [datagrams.fileno()])
        send(arrivals, b"\0", [file, file])
        send(arrivals, b"\0", [file] * (wire.FILES_LIMIT + 4))
        send(arrivals, b"x", [file])
    os.close(file)
    datagrams.close()
    other.close()
    assert ask(arrivals, frame({})) == b""
    assert len(os.listdir("/proc/self/fd")) == before


def test_no_objects_are_made_of_a_message_with_too_many_values(
    arrivals: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[bytes] = []

    def read_request(message: bytes) -> ExecRequest:
        read.append(message)
        raise WireError("it is only counted here")

    monkeypatch.setattr(wire, "read_request", read_request)
    few, many = (b"[" + b"[]," * count + b"[]]" for count in (VALUES_LIMIT // 2, VALUES_LIMIT))
    for message in (many, few):
        assert ask(arrivals, len(message).to_bytes(4, "little") + message) == b""
    assert [len(message) for message in read] == [len(few)]


def test_more_descriptors_than_a_message_may_carry_end_a_stream(arrivals: socket.socket) -> None:
    ask(arrivals, frame({}))
    before = open_descriptors()
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            send(arrivals, b"\0", [theirs.fileno()])
        send(ours, b"x", [ours.fileno()] * (wire.FILES_LIMIT + 4))
        assert ours.recv(100) == b""
    assert ask(arrivals, frame({})) == b""
    assert open_descriptors() == before


def test_bytes_of_one_message_bring_no_more_descriptors_than_a_message(arrivals: socket.socket) -> None:
    ask(arrivals, frame({}))
    before = open_descriptors()
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            send(arrivals, b"\0", [theirs.fileno()])
        ours.sendall((100).to_bytes(4, "little"))
        for _ in range(2):
            send(ours, b"x", [ours.fileno()] * wire.FILES_LIMIT)
        assert ours.recv(100) == b""
    assert ask(arrivals, frame({})) == b""
    assert open_descriptors() == before


def request(file: str = "/bin/true", **env: str) -> bytes:
    return frame({"file": file, "argv": [file], "workdir": "/", "env": env})


@pytest.fixture(name="inside")
def count_this_process_as_confined(monkeypatch: pytest.MonkeyPatch) -> None:
    def enter(served: WrapperServer, process: int) -> None:
        served._calls.enter(process)

    monkeypatch.setattr(WrapperServer, "_require_root", enter)


@contextmanager
def deciding(on_exec: OnExec) -> Iterator[tuple[WrapperServer, socket.socket]]:
    served = WrapperServer(ExecPolicy(on_exec), None)
    served.begin()
    with socket.socket(fileno=served.file) as arrivals:
        yield served, arrivals
    served.finish()


def test_wrapper_outside_of_the_sandbox_is_not_served(arrivals: socket.socket) -> None:
    """Its number may belong to another process by now."""
    assert ask(arrivals, request()) == b""


@pytest.mark.usefixtures("inside")
def test_program_that_is_not_there_is_left_to_the_kernel(arrivals: socket.socket) -> None:
    assert b"Run" in ask(arrivals, request("/nowhere/program"))


@pytest.mark.usefixtures("inside")
def test_decision_that_fails_denies() -> None:
    def fail(_: ExecCall, __: Settle) -> ExecAnswer:
        raise RuntimeError("a bug")

    with deciding(fail) as (_, arrivals):
        assert b'"Deny"' in ask(arrivals, request())


@pytest.mark.usefixtures("inside")
def test_answer_for_a_wrapper_that_is_gone_is_said_to_be_in_vain() -> None:
    is_asked, is_withdrawn, is_heard = threading.Event(), threading.Event(), threading.Event()
    settles: list[Settle] = []
    heard: list[str | None] = []

    def ask_somebody(_: ExecCall, settle: Settle) -> ExecAnswer | Withdraw:
        settles.append(settle)
        is_asked.set()
        return is_withdrawn.set

    def hear(problem: str | None) -> None:
        heard.append(problem)
        is_heard.set()

    with deciding(ask_somebody) as (_, arrivals):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            send(arrivals, b"\0", [theirs.fileno()])
            ours.sendall(request())
            assert is_asked.wait(TIMEOUT_S)
        assert is_withdrawn.wait(TIMEOUT_S)
        settles[0](Escalate((), hear))
        assert is_heard.wait(TIMEOUT_S)
    settles[0](Escalate((), hear))
    assert heard == [NOT_BEGUN] * 2


class Undecided:
    """Decides nothing by itself: a test settles the calls."""

    def __init__(self) -> None:
        self.is_asked, self.is_withdrawn = threading.Event(), threading.Event()
        self.settle: Settle = lambda _: None

    def on_exec(self, _: ExecCall, settle: Settle) -> ExecAnswer | Withdraw:
        self.settle = settle
        self.is_asked.set()
        return self.is_withdrawn.set

    def stream(self, arrivals: socket.socket, asks: bytes | None = None) -> socket.socket:
        """A new wrapper, which has asked."""
        self.is_asked.clear()
        ours, theirs = socket.socketpair()
        with theirs:
            send(arrivals, b"\0", [theirs.fileno()])
        ours.sendall(asks or request())
        assert self.is_asked.wait(TIMEOUT_S)
        return ours


@pytest.mark.usefixtures("inside")
def test_answer_that_comes_later_is_carried_out() -> None:
    undecided = Undecided()
    with deciding(undecided.on_exec) as (_, arrivals), undecided.stream(arrivals) as ours:
        undecided.settle(Deny("Execution denied: so\n"))
        assert b'{"Deny":{"reason":"so"}}' in ours.recv(100)


@pytest.mark.usefixtures("inside")
def test_wrapper_that_hears_no_answer_is_dropped_and_the_next_is_served(
    caplog: pytest.LogCaptureFixture,
) -> None:
    undecided = Undecided()
    with deciding(undecided.on_exec) as (_, arrivals), undecided.stream(arrivals) as deaf:
        deaf.shutdown(socket.SHUT_RD)
        undecided.settle(Run())
        with undecided.stream(arrivals) as ours:
            undecided.settle(Run())
            assert b"Run" in ours.recv(100)
    assert "Broken pipe" in caplog.text


@pytest.mark.usefixtures("inside")
def test_wrapper_with_no_space_for_its_answer_is_dropped() -> None:
    """The wrapper has made the stream, and may leave it as little memory as the kernel permits."""
    with deciding(lambda call, settle: Deny("x" * wrapper_server.REASON_CHARACTERS)) as (_, arrivals):
        ours, theirs = socket.socketpair()
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
        with ours:
            with theirs:
                send(arrivals, b"\0", [theirs.fileno()])
            ours.sendall(request())
            received = b"".join(iter(lambda: ours.recv(1 << 16), b""))
    assert len(received) < int.from_bytes(received[:4], "little")


@pytest.mark.usefixtures("inside")
def test_longest_reason_reaches_a_wrapper() -> None:
    reason = "\N{OX}" * wrapper_server.REASON_CHARACTERS
    with deciding(lambda call, settle: Deny(reason)) as (_, arrivals):
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                send(arrivals, b"\0", [theirs.fileno()])
            ours.sendall(request())
            length = int.from_bytes(ours.recv(4, socket.MSG_WAITALL), "little")
            received = json.loads(ours.recv(length, socket.MSG_WAITALL))
    assert received == {"action": {"Deny": {"reason": reason}}}


@pytest.mark.usefixtures("inside")
def test_calls_that_wait_for_answers_hold_a_bounded_part_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """One may always wait; others are denied, until that one has its answer."""
    monkeypatch.setattr(wrapper_server, "HELD_BYTES_LIMIT", 3000)
    undecided = Undecided()
    large, larger = request(A="x" * 2000), request(A="x" * 4000)
    with deciding(undecided.on_exec) as (_, arrivals), undecided.stream(arrivals, larger) as first:
        settle = undecided.settle
        assert b"too many executions" in ask(arrivals, large)
        settle(Run())
        assert b"Run" in first.recv(100)
        # It has its answer, though its wrapper does not end.
        with undecided.stream(arrivals, large) as second:
            undecided.settle(Run())
            assert b"Run" in second.recv(100)


@pytest.mark.usefixtures("inside")
def test_wrapper_that_asks_twice_gets_no_answer() -> None:
    undecided = Undecided()
    with deciding(undecided.on_exec) as (_, arrivals), undecided.stream(arrivals) as ours:
        ours.sendall(request())
        assert ours.recv(100) == b""
        assert undecided.is_withdrawn.wait(TIMEOUT_S)


@pytest.mark.usefixtures("inside")
def test_program_whose_wrapper_ends_before_it_sends_descriptors_is_said_not_to_have_begun() -> None:
    is_heard = threading.Event()
    heard: list[str | None] = []

    def hear(problem: str | None) -> None:
        heard.append(problem)
        is_heard.set()

    program = os.path.realpath("/bin/true")
    before = open_descriptors()
    with deciding(lambda call, settle: Escalate((), hear)) as (_, arrivals):
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                send(arrivals, b"\0", [theirs.fileno()])
            ours.sendall(frame({"file": program, "argv": ["true"], "workdir": os.getcwd(), "env": {}}))
            assert b"Escalate" in ours.recv(100)
            assert not heard
        assert is_heard.wait(TIMEOUT_S)
    assert heard == [NOT_BEGUN]
    assert open_descriptors() == before


@pytest.mark.usefixtures("inside")
def test_program_that_the_host_does_not_have_is_denied_and_said_not_to_be_let_out(tmp_path: Path) -> None:
    """A circle of links: only the command's own kernel call could say what it is."""
    circle = tmp_path / "circle"
    circle.symlink_to(circle)
    heard: list[str | None] = []
    with deciding(lambda call, settle: Escalate((), heard.append)) as (_, arrivals):
        said = ask(arrivals, request(str(circle)))
    assert b"it can't be let out of the sandbox: the host does not have" in said
    assert heard == ["the host does not have the program"]


@pytest.mark.usefixtures("inside")
def test_server_that_fails_decides_nothing_more() -> None:
    undecided = Undecided()

    def on_exec(call: ExecCall, settle: Settle) -> ExecAnswer | Withdraw:
        undecided.on_exec(call, settle)
        return fail

    def fail() -> None:
        raise RuntimeError("a bug")

    with deciding(on_exec) as (_, arrivals):
        first = undecided.stream(arrivals)
        second, theirs = socket.socketpair()
        with theirs:
            send(arrivals, b"\0", [theirs.fileno()])
        with second:
            first.close()
            assert second.recv(100) == b""
        with pytest.raises(BrokenPipeError):
            arrivals.send(b"\0")


@pytest.mark.usefixtures("inside")
def test_server_does_not_wait_for_a_thread_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program may lie in a file system that does not answer."""
    monkeypatch.setattr(wrapper_server, "FINISH_TIMEOUT_S", 0.0)
    undecided, may_go_on = Undecided(), threading.Event()
    heard: list[str | None] = []

    def hang(call: ExecCall, settle: Settle) -> ExecAnswer | Withdraw:
        withdraw = undecided.on_exec(call, settle)
        may_go_on.wait(TIMEOUT_S)
        return withdraw

    before = open_descriptors()
    served = WrapperServer(ExecPolicy(hang), None)
    served.begin()
    with socket.socket(fileno=served.file) as arrivals, undecided.stream(arrivals) as ours:
        served.finish()
        undecided.settle(Escalate((), heard.append))
        may_go_on.set()
        assert ours.recv(100) == b""
    served._thread.join(TIMEOUT_S)
    assert not heard
    served.finish()
    assert heard == [NOT_BEGUN]
    assert open_descriptors() == before


def test_wrappers_that_say_too_much_at_once_are_dropped(
    arrivals: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wrapper_server, "HELD_BYTES", 10)
    assert ask(arrivals, b"\xff\0\0\0" + b"x" * 10) == b""


def test_next_wrapper_waits_while_too_many_are_served(
    arrivals: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wrapper_server, "STREAMS_LIMIT", 1)
    first, theirs = socket.socketpair()
    with theirs:
        send(arrivals, b"\0", [theirs.fileno()])
    second, theirs = socket.socketpair()
    with theirs:
        send(arrivals, b"\0", [theirs.fileno()])
    with first, second:
        second.sendall(frame({}))
        # The first is served: its end comes from the server, though the second has spoken before.
        first.sendall(frame({}))
        assert first.recv(100) == b""
        assert second.recv(100) == b""


def test_server_without_a_thread_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    before = open_descriptors()
    served = WrapperServer(ExecPolicy(lambda call, settle: Run()), None)
    with monkeypatch.context() as short:
        short.setattr(threading.Thread, "start", fail)
        served.begin()
    with socket.socket(fileno=served.file) as arrivals, pytest.raises(BrokenPipeError):
        arrivals.send(b"\0")
    served.finish()
    WrapperServer(ExecPolicy(lambda call, settle: Run()), None).discard()
    assert open_descriptors() == before


def test_server_without_a_socket_leaves_no_descriptor_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    before = open_descriptors()
    monkeypatch.setattr(socket, "socketpair", fail)
    with pytest.raises(OSError, match="Too many open files"):
        WrapperServer(ExecPolicy(lambda call, settle: Run()), None)
    assert open_descriptors() == before
