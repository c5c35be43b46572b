from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterator

import pytest

from paddock.sandbox.denial.escalation import Leader, escalation_of, open_numbers
from paddock.sandbox.denial.exec_answer import NOT_BEGUN, Deny, Escalate, leave
from paddock.sandbox.denial.exec_call import ExecCall, ExecCallReader


def test_bits_tell_of_the_lowest_numbers_and_all_others_are_tried() -> None:
    assert list(open_numbers((0b1011, 1 << 63, 1), 64)) == [0, 1, 3, 127, 128]
    assert list(open_numbers((1, 0, 0), 195)) == [0, 192, 193, 194]
    assert list(open_numbers((), 3)) == [0, 1, 2]


def test_a_table_that_is_too_large_is_refused() -> None:
    with pytest.raises(OSError, match="can't be carried out") as raised:
        open_numbers((1, 0, 0), 8192)
    assert raised.value.errno == errno.EMFILE


@pytest.fixture(name="control")
def sockets_of_a_leader() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        yield ours, theirs


def request(number: int) -> bytes:
    return struct.pack("=Q", number)


def test_each_request_hears_the_answer_of_its_number(control: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = control
    first: list[str | None] = []
    second: list[str | None] = []
    leader = Leader(ours)
    leader.request(request, [], first.append)
    leader.request(request, [], second.append)
    theirs.send(struct.pack("=QQ", 2, errno.ENOENT))
    theirs.send(struct.pack("=QQ", 1, 0))
    assert leader.serve()
    assert (first, second) == ([None], [os.strerror(errno.ENOENT)])


def test_who_waits_for_a_leader_that_is_gone_hears_that(control: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = control
    leader = Leader(ours)
    heard: list[str | None] = []
    leader.request(request, [], heard.append)
    # It has not read the request, so the connection is reset.
    theirs.close()
    assert not leader.serve()
    leader.close()
    assert heard == ["the leader of its session ended before it was started"]


def test_program_that_only_its_caller_can_find_is_not_let_out() -> None:
    call = ExecCall(os.getpid(), b"/a", b"/a", [], b"/", None, ExecCallReader(), 0)
    with pytest.raises(FileNotFoundError):
        escalation_of(call, [], lambda _: None)


def test_escalation_that_comes_too_late_is_said_to_whoever_decided() -> None:
    heard: list[str | None] = []
    leave(Escalate((), heard.append))
    leave(Deny("no\n"))
    assert heard == [NOT_BEGUN]
