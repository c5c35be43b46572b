"""Tasks that die or turn aside on their way to the stub: nothing is kept for them, and nothing runs.

The kernel's answers are only recorded, so that each step can be taken alone.
"""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from paddock.sandbox.denial import stubs as stubs_module
from paddock.sandbox.denial.escalation import Escalation
from paddock.sandbox.denial.exec_answer import NOT_BEGUN
from paddock.sandbox.denial.notification import Listener, Memory, Question
from paddock.sandbox.denial.redirection import AT_EMPTY_PATH, EXECVEAT
from paddock.sandbox.denial.stubs import ASK, Stubs

GIVEN = 1000
"""The number that a task has the stub under: nothing, in this process."""


class RecordedAnswers(Listener):
    """A listener whose answers nobody hears."""

    def __init__(self, number: int = GIVEN) -> None:
        self.told: list[object] = []
        self._number = number

    def let(self, question: Question) -> None:
        self.told.append("let")

    def refuse(self, question: Question, error: int) -> None:
        self.told.append(error)

    def give(self, question: Question, file: int) -> int:
        return self._number


@pytest.fixture(name="stubs")
def stubs_of_a_command() -> Iterator[Stubs]:
    stubs = Stubs(Memory(), None, is_strict=False)
    yield stubs
    stubs.close()


@pytest.fixture(name="on_their_way")
def let_redirections_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks are taken to execute the stub next, though none was made to."""
    monkeypatch.setattr(stubs_module, "redirect", lambda *_: None)


def execveat(task: int, file: int = GIVEN, flags: int = AT_EMPTY_PATH) -> Question:
    return Question(1, task, EXECVEAT, (file, 0, 0, 0, flags, 0))


def escalation(heard: list[str | None], told: bytes = b"") -> Escalation:
    return Escalation(heard.append, os.open("/", os.O_PATH), os.open("/", os.O_PATH), told, is_script=False)


@contextmanager
def child() -> Iterator[int]:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        yield process.pid


def test_task_that_can_not_be_redirected_is_told_why_and_forgotten(stubs: Stubs) -> None:
    heard: list[str | None] = []
    # No process may trace itself.
    with pytest.raises(PermissionError):
        stubs.redirect(RecordedAnswers(), execveat(os.getpid()), escalation(heard))
    assert heard == [os.strerror(errno.EPERM)]
    assert not stubs.serve(RecordedAnswers(), execveat(os.getpid()))


@pytest.mark.usefixtures("on_their_way")
def test_what_was_for_a_task_that_died_makes_room_for_another(
    stubs: Stubs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stubs_module, "HELD_BYTES_LIMIT", 10)
    first: list[str | None] = []
    second: list[str | None] = []
    with child() as task, child() as other:
        stubs.redirect(RecordedAnswers(), execveat(task), escalation(first, b"x" * 10))
        with pytest.raises(OSError, match="too much waits to be executed"):
            stubs.redirect(RecordedAnswers(), execveat(other), escalation(second, b"x"))
        assert (first, second) == ([], ["too much waits to be executed"])
    with child() as other:
        stubs.redirect(RecordedAnswers(), execveat(other), escalation(second, b"x"))
    assert (first, second[1:]) == ([NOT_BEGUN], [])


@pytest.mark.usefixtures("on_their_way")
def test_what_is_still_on_its_way_in_the_end_is_said_not_to_have_begun() -> None:
    heard: list[str | None] = []
    stubs = Stubs(Memory(), None, is_strict=False)
    stub = os.open(stubs_module.STUB, os.O_RDONLY)
    with child() as task:
        stubs.redirect(RecordedAnswers(), execveat(task), escalation(heard))
        stubs.redirect(RecordedAnswers(stub), execveat(os.getpid()), escalation(heard))
        assert stubs.serve(RecordedAnswers(), execveat(os.getpid(), stub))
        stubs.close()
    assert heard == [NOT_BEGUN] * 2
    os.close(stub)


@pytest.mark.usefixtures("on_their_way")
@pytest.mark.parametrize("file", [GIVEN, GIVEN + 1, 0], ids=["closed", "another number", "exchanged"])
def test_task_that_executes_something_else_than_the_stub_is_decided_on_anew(stubs: Stubs, file: int) -> None:
    heard: list[str | None] = []
    listener = RecordedAnswers(0 if file == 0 else GIVEN)
    stubs.redirect(listener, execveat(os.getpid()), escalation(heard))
    assert not stubs.serve(listener, execveat(os.getpid(), file))
    assert (heard, listener.told) == ([NOT_BEGUN], [])


@pytest.mark.usefixtures("on_their_way")
def test_task_that_asks_as_the_stub_without_being_it_is_told_nothing(stubs: Stubs) -> None:
    heard: list[str | None] = []
    stub = os.open(stubs_module.STUB, os.O_RDONLY)
    listener = RecordedAnswers(stub)
    stubs.redirect(listener, execveat(os.getpid()), escalation(heard))
    assert stubs.serve(listener, execveat(os.getpid(), stub))
    assert (heard, listener.told) == ([], ["let"])
    # The kernel would say so of the stub, but of another program that takes its place as well.
    assert stubs.serve(listener, execveat(os.getpid(), stub, ASK))
    assert (heard, listener.told) == ([NOT_BEGUN], ["let", errno.EPERM])
    os.close(stub)
