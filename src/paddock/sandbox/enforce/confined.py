"""A command that is ready to start in its sandbox, as data.

This module knows descriptors and placeholders, but not how they are made: `launch` does.
"""

from __future__ import annotations

import contextlib
import os
from functools import partial

from paddock.own_program import ROOT, own_environment
from paddock.sandbox.host.linkless import is_at
from paddock.sandbox.profile.path import ancestors

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping, Sequence
    from typing import Final

    from paddock.model.denial import Trace
    from paddock.model.host import Enforcement
    from paddock.model.interceptor import Interceptor
    from paddock.model.profile import Limits
    from paddock.model.restriction import Restriction
    from paddock.sandbox.enforce.cgroup import Groups
    from paddock.sandbox.enforce.janitor import Janitor
    from paddock.sandbox.enforce.report import Report, ReportKind
    from paddock.sandbox.enforce.service import Tracing, WrapperService
    from paddock.sandbox.host.mounted_file import MountedFile
    from paddock.sandbox.host.placeholder import LocatedPlaceholder
    from paddock.sandbox.plan.plan import Plan

    Words = Callable[[Sequence[int]], list[str]]
    """An argument list, given the numbers that its descriptors will have."""

_READ_BYTES: Final = 4096
"""The reports of one paddock-init, and bubblewrap's about the sandbox, are a few hundred bytes."""


class Readers:
    """Our ends of the pipes by which a sandbox reports."""

    __slots__ = ("listeners", "pid", "report")

    def __init__(self, report: int, pid: int | None = None, listeners: int | None = None) -> None:
        self.report = report
        self.pid = pid
        """None if the sandbox's first process is the program itself."""
        self.listeners = listeners
        """A socket by which the listeners of a sandbox with a proxy come out; None without a proxy."""


class Confined:
    """A command that can be started in its sandbox, once.

    Start `argv(numbers)` with the variables `environment` in the directory `cwd`; both are the command's own
    only if nothing confines it. The program must inherit the descriptors `files` under those numbers and,
    apart from the standard streams, no others. Then call `started`, and call `ended` when the program has
    ended. If it can't be started, call both all the same.
    """

    def __init__(
        self,
        words: Words,
        files: Sequence[int] = (),
        *,
        enforcement: Enforcement | None = None,
        plan: Plan | None = None,
        limits: Limits | None = None,
        janitor: Janitor | None = None,
        placeholders: Sequence[LocatedPlaceholder] = (),
        readers: Readers | None = None,
        tracer: Tracing | None = None,
        wrappers: WrapperService | None = None,
        interceptor: Interceptor | None = None,
        groups: Groups | None = None,
        restriction: Restriction | None = None,
        watched_placeholders: Sequence[MountedFile] = (),
        environment: Mapping[str, str] | None = None,
        cwd: str = ROOT,
        grants: Mapping[str, bool] | None = None,
    ) -> None:
        self._words = words
        self.environment = own_environment() if environment is None else environment
        self.cwd = cwd
        self.files = tuple(files)
        self._enforcement = enforcement
        self.is_confined = readers is not None
        """Whether anything confines it."""
        self.has_view = readers is not None and readers.pid is not None
        """Whether bubblewrap makes a sandbox for it."""
        self.plan = plan
        """None for a command that has no view, or has that of a plan which an earlier process has made."""
        self._grants = grants
        self._limits = limits
        self.restriction = restriction
        """Restriction that a process must apply to itself on entry; None if nothing can enter."""
        self._watched_placeholders = watched_placeholders
        self._janitor = janitor
        self._placeholders = placeholders
        self._readers = readers
        self._tracer = tracer
        self._wrappers = wrappers
        self.interceptor = interceptor
        """The back-end that decides which programs the command may execute; None if there is none."""
        self.is_traced = tracer is not None and tracer.is_traced
        self._trace: Trace | None = None
        self._groups = groups
        self.has_starved = False
        """Whether the kernel killed a process because all used too much memory; valid after `ended`."""
        self._first_pid: int | None = None
        self._is_pid_known = readers is None or readers.pid is None
        self._reports: list[Report] = []

    @property
    def enforcement(self) -> Enforcement:
        """Return the level that is reached."""
        from paddock.model.host import Enforcement

        return Enforcement.NONE if self._enforcement is None else self._enforcement

    @property
    def limits(self) -> Limits:
        """Return how much the command may use."""
        from paddock.model.profile import Limits

        return Limits() if self._limits is None else self._limits

    @property
    def trace(self) -> Trace:
        """Return the record of what a traced command was refused; valid after `ended`."""
        from paddock.model.denial import Trace

        return Trace() if self._trace is None else self._trace

    def may_write(self, path: str) -> bool:
        """Return whether the profile lets the command write to a path of the host, which has no links."""
        if self._grants is None:
            self._grants = {} if self.plan is None else self.plan.grants
        nearest = (above for above in (path, *ancestors(path)) if above in self._grants)
        return self._grants.get(next(nearest, ""), False)

    def argv(self, numbers: Sequence[int]) -> list[str]:
        """Return the program and its arguments, for a program that has `files` under these numbers."""
        return self._words(numbers)

    def started(self) -> None:
        """Close our copies of the descriptors: the program has its own, or never will."""
        if self._tracer is not None and self.files:
            self._tracer.begin()
        if self._wrappers is not None and self.files:
            self._wrappers.begin()
        files, self.files = self.files, ()
        for file in files:
            os.close(file)

    def first_pid(self) -> int | None:
        """Return the sandbox's first process, which passes signals on to the command; None if there is none.

        Waits until bubblewrap has made that process or has given up. Call it before you wait for the program:
        later the number may belong to another process.
        """
        if not self._is_pid_known and self._readers is not None and self._readers.pid is not None:
            self._is_pid_known = True
            # bubblewrap reports the pid in several pieces, and then closes its end.
            told = b"".join(iter(partial(os.read, self._readers.pid, _READ_BYTES), b""))
            self._first_pid = _child_pid(told)
        return self._first_pid

    def signalled_pid(self) -> int | None:
        """Return the first process as `first_pid` does, once it passes signals on; None if it never will.

        Until then the kernel drops signals for it, as for the first process of any pid namespace.
        """
        from paddock.sandbox.enforce.report import ReportKind

        pid = self.first_pid()
        return pid if pid is not None and self._await_report(ReportKind.CONFINED, 1) else None

    @property
    def report_file(self) -> int | None:
        """Return a file that becomes readable when `reports` has more, or never will have.

        Returns None without a sandbox, and in the end.
        """
        return self._readers.report if self._readers is not None else None

    def reports(self) -> list[Report]:
        """Return the sandbox's reports about the command so far."""
        if self._readers is not None:
            from paddock.sandbox.enforce.report import read_reports

            # A killed process that is not quite dead may still hold the other end.
            os.set_blocking(self._readers.report, False)
            with contextlib.suppress(BlockingIOError):
                self._reports += read_reports(os.read(self._readers.report, _READ_BYTES))
        return self._reports

    def suspend(self) -> None:
        """Stop everything in the sandbox until `resume`, and wait until nothing runs.

        Returns at once if there is no first process (`first_pid`), or nothing left of the command. What runs
        before `resume` ends the command.
        """
        import signal

        from paddock.sandbox.enforce.report import ReportKind

        pid = self.signalled_pid()
        reports = self.reports()
        if pid is None or _is_over(reports):
            return
        times = _count(reports, ReportKind.SUSPENDED) + 1
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTTIN)
        self._await_report(ReportKind.SUSPENDED, times)

    def resume(self) -> None:
        """Let everything in the sandbox go on after `suspend`."""
        import signal

        pid = self.first_pid()
        if pid is not None and not _is_over(self.reports()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def _await_report(self, kind: ReportKind, times: int) -> bool:
        """Wait for a report, and return whether it came: an init that has ended reports no more."""
        import select

        news = select.poll()
        if self.report_file is not None:
            news.register(self.report_file, select.POLLIN)
        while True:
            # Each turn reads once: a report that a second look took would not end the wait.
            reports = self.reports()
            has_come = _count(reports, kind) >= times
            if has_come or self.report_file is None or _is_over(reports):
                return has_come
            if not any(event & select.POLLIN for _, event in news.poll()):
                return False

    def leave_reports(self) -> int:
        """Hand the reports' descriptor to the caller. This object gets no more reports."""
        assert self._readers is not None
        readers, self._readers = self._readers, None
        for reader in (readers.pid, readers.listeners):
            if reader is not None:
                os.close(reader)
        return readers.report

    @property
    def listener_file(self) -> int | None:
        """Return a file that becomes readable when `listeners` has more, or never will have.

        Returns None without a proxy, and in the end.
        """
        return self._readers.listeners if self._readers is not None else None

    def listeners(self) -> list[socket.socket]:
        """Take the listeners that have come out by now, so that somebody outside can accept their
        connections.

        All of them have come out when the sandbox reports that the command is confined. The caller owns them.
        """
        way_out = self.listener_file
        if way_out is None:
            return []
        import socket

        taken = []
        with socket.socket(fileno=os.dup(way_out)) as control:
            control.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while (received := socket.recv_fds(control, 1, 1))[0]:
                    taken += [socket.socket(fileno=number) for number in received[1]]
        return taken

    @property
    def has_placeholders(self) -> bool:
        """Return whether the launcher holds placeholders for the command, which others can see."""
        return bool(self._placeholders)

    def has_lost_placeholders(self) -> bool:
        """Return whether somebody has removed a placeholder of a sandbox that others enter.

        A sandbox with a command of its own notices that by itself, and ends (native/mask.h).
        """
        return any(not is_at(placeholder) for placeholder in self._watched_placeholders)

    @property
    def is_followed(self) -> bool:
        """Return whether something outside follows the sandbox to its very end: a tracer, or groups."""
        return self._tracer is not None or self._wrappers is not None or self._groups is not None

    @property
    def takes_time_to_end(self) -> bool:
        """Return whether `ended` has to wait until placeholders or groups are removed, or a thread ends."""
        return self.has_placeholders or self.is_followed

    def begin_to_end(self, *, was_killed: bool) -> int | None:
        """Begin the part of `ended` that takes time, so that nobody has to wait for it in a thread.

        Return a descriptor for the caller to close. Call `ended` when it is readable, or earlier: `ended`
        does not wait any more. Return None if `ended` has to do everything.
        """
        if self._janitor is None or not self.has_placeholders or self.is_followed:
            return None
        file = self._janitor.begin_release(self._placeholders, was_killed=was_killed)
        if file is not None:
            self._janitor = None
        return file

    def ended(self, *, was_killed: bool) -> list[Report]:
        """Clean up after the program and return its reports. `was_killed` says that a signal ended it.

        If nothing follows the sandbox, this may be called as soon as the init has reported the exit.

        No report from a program that ran in a sandbox means that the sandbox was never made, or that
        everything in it was killed.
        """
        reports = self.reports()
        if self._tracer is not None:
            self._trace = self._tracer.finish()
            self._tracer = None
        if self._wrappers is not None:
            self._wrappers.finish()
            self._wrappers = None
        readers, self._readers = self._readers, None
        if readers is not None:
            for reader in (readers.report, readers.pid, readers.listeners):
                if reader is not None:
                    os.close(reader)
        if self._janitor is not None:
            self._janitor.release(self._placeholders, was_killed=was_killed)
            self._janitor = None
        if self._groups is not None:
            self.has_starved = self._groups.has_starved()
            self._groups.remove()
            self._groups = None
        return reports


def _child_pid(told: bytes) -> int | None:
    """Read what bubblewrap tells about a sandbox (bwrap(1), --info-fd). None if it is not all there: a
    bubblewrap that gave up or was killed reports nothing, or only a part.

    It is an object in JSON, of numbers only. To load what decodes that takes as long as to make the sandbox.
    """
    digits = told.partition(b'"child-pid":')[2].partition(b",")[0].strip(b"} \n")
    return int(digits) if told.rstrip().endswith(b"}") and digits.isdigit() else None


def _count(reports: Sequence[Report], kind: ReportKind) -> int:
    return sum(report.kind is kind for report in reports)


def _is_over(reports: Sequence[Report]) -> bool:
    from paddock.sandbox.enforce.report import ReportKind

    return any(report.kind is ReportKind.EXITED or report.kind.ends_command for report in reports)
