"""Waiting for what an init reports."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

import pytest

from paddock.sandbox.enforce import confined
from paddock.sandbox.enforce.confined import Confined, Readers
from paddock.sandbox.enforce.report import ReportKind

FIRST_PID = 1_000_000


class LateInit:
    """An init whose next report comes just after the launcher has looked for one."""

    def __init__(self) -> None:
        self.reader, self._writer = os.pipe()
        self._late: list[ReportKind] = []

    def report_after_next_look(self, kind: ReportKind) -> None:
        self._late.append(kind)

    def look(self, file: int, count: int) -> bytes:
        try:
            return os.read(file, count)
        finally:
            if self._late:
                os.write(self._writer, struct.pack("<Ii3Q", self._late.pop(), 0, 0, 0, 0))

    def close(self) -> None:
        os.close(self._writer)


@pytest.fixture
def late_init(monkeypatch: pytest.MonkeyPatch) -> Iterator[LateInit]:
    init = LateInit()

    class Os:
        """The module, as far as `Confined` reads reports with it."""

        read = staticmethod(init.look)

        def __getattr__(self, name: str) -> object:
            return getattr(os, name)

    monkeypatch.setattr(confined, "os", Os())
    yield init
    init.close()


@pytest.fixture
def command(late_init: LateInit) -> Iterator[Confined]:
    told, pid = os.pipe()
    os.write(pid, b'{"child-pid": %d}' % FIRST_PID)
    os.close(pid)
    command = Confined(lambda _: [], readers=Readers(late_init.reader, told))
    command.first_pid()
    yield command
    command.ended(was_killed=False)


def test_report_that_comes_between_two_looks_ends_the_wait(command: Confined, late_init: LateInit) -> None:
    late_init.report_after_next_look(ReportKind.CONFINED)
    assert command.signalled_pid() == FIRST_PID


def test_end_that_comes_between_two_looks_ends_the_wait(command: Confined, late_init: LateInit) -> None:
    late_init.report_after_next_look(ReportKind.EXITED)
    assert command.signalled_pid() is None
