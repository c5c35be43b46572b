"""A command that is ready to be started in its sandbox, as data.

Knows descriptors and places, not how they came about: that is `launch`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from paddock.model.host import Enforcement
from paddock.model.restriction import Restriction
from paddock.own_program import ROOT, own_environment
from paddock.sandbox.cgroup import Group
from paddock.sandbox.init import Report, read_reports
from paddock.sandbox.janitor import Janitor
from paddock.sandbox.mount import LocatedPlaceholder, MountedFile
from paddock.sandbox.mounted_file import is_at
from paddock.sandbox.plan import Plan
from paddock.sandbox.trace import Trace

if TYPE_CHECKING:
    from paddock.sandbox.tracer import Tracer

Words = Callable[[Sequence[int]], list[str]]
"""An argument list, given the numbers that its descriptors will have."""

_READ_BYTES: Final = 4096
"""The reports of one paddock-init and what bubblewrap tells of the sandbox are a few hundred bytes."""


@dataclass(frozen=True, slots=True)
class Readers:
    """Our ends of the pipes by which a sandbox tells of itself."""

    report: int
    pid: int | None = None
    """Only of a sandbox whose first process is not the program itself."""


class Confined:
    """A command that is ready to be started in its sandbox, once.

    Start `argv(numbers)` so that the descriptors `files` have those numbers there and no
    others are inherited but the standard ones, with the variables `environment`, in the directory
    `cwd`: both are the command's own only if nothing confines it. Then call `started`, and `ended` when it
    is gone. If it can't be started, call both all the same.
    """

    def __init__(
        self,
        words: Words,
        files: Sequence[int] = (),
        enforcement: Enforcement = Enforcement.NONE,
        *,
        plan: Plan | None = None,
        janitor: Janitor | None = None,
        placeholders: Sequence[LocatedPlaceholder] = (),
        readers: Readers | None = None,
        tracer: Tracer | None = None,
        group: Group | None = None,
        restriction: Restriction | None = None,
        places: Sequence[MountedFile] = (),
        environment: Mapping[str, str] | None = None,
        cwd: str = ROOT,
    ) -> None:
        self._words = words
        self.environment = own_environment() if environment is None else environment
        self.cwd = cwd
        self.files = tuple(files)
        self.enforcement = enforcement
        self.plan = plan
        self.restriction = restriction
        """What a process that enters the sandbox has to take on; None if it can't be entered."""
        self._places = places
        self._janitor = janitor
        self._placeholders = placeholders
        self._readers = readers
        self._tracer = tracer
        self.is_traced = tracer is not None
        self.trace = Trace()
        """What a traced command was refused; after `ended`."""
        self._group = group
        self._first_pid: int | None = None
        self._is_pid_known = readers is None or readers.pid is None
        self._reports: list[Report] = []

    def argv(self, numbers: Sequence[int]) -> list[str]:
        """The program and its arguments, if `files` have these numbers there."""
        return self._words(numbers)

    def started(self) -> None:
        """The program has its descriptors, or never will: close ours."""
        if self._tracer is not None and self.files:
            self._tracer.begin()
        files, self.files = self.files, ()
        for file in files:
            os.close(file)

    def first_pid(self) -> int | None:
        """The first process of the sandbox, which passes signals on to the command; None if there is none.

        Waits until bubblewrap has made it or has given up. Call it only before the
        program was waited for, for later the number may belong to another process.
        """
        if not self._is_pid_known and self._readers is not None and self._readers.pid is not None:
            self._is_pid_known = True
            # It is told in several pieces, after which bubblewrap closes its end.
            told = b"".join(iter(partial(os.read, self._readers.pid, _READ_BYTES), b""))
            # Nothing, or not all of it, from one that has given up or was killed.
            with contextlib.suppress(msgspec.DecodeError):
                self._first_pid = int(msgspec.json.decode(told)["child-pid"])
        return self._first_pid

    @property
    def report_file(self) -> int | None:
        """Can be read when `reports` tells more, or never will; None without a sandbox, and in the end."""
        return self._readers.report if self._readers is not None else None

    def reports(self) -> list[Report]:
        """What was told of the command so far."""
        if self._readers is not None:
            # A process that was killed may hold the other end and not be quite dead.
            os.set_blocking(self._readers.report, False)
            with contextlib.suppress(BlockingIOError):
                self._reports += read_reports(os.read(self._readers.report, _READ_BYTES))
        return self._reports

    @property
    def has_places(self) -> bool:
        """Whether places are held for it, which others see."""
        return bool(self._placeholders)

    def has_lost_places(self) -> bool:
        """Whether somebody has taken away a place that is held for a sandbox which others enter.

        One that is in use by a command notices that by itself, and ends (native/mask.h).
        """
        return any(not is_at(place) for place in self._places)

    @property
    def takes_time_to_end(self) -> bool:
        """Whether `ended` has to wait: for places to be removed, or a tracer to end."""
        return self.has_places or self._tracer is not None

    def ended(self, *, was_killed: bool) -> list[Report]:
        """The program is gone, by a signal if `was_killed`. What it told of the command is returned.

        Nothing at all from a program that ran in a sandbox means that there was no
        sandbox, or that everything was killed.
        """
        reports = self.reports()
        if self._tracer is not None:
            self.trace = self._tracer.finish()
            self._tracer = None
        readers, self._readers = self._readers, None
        if readers is not None:
            for reader in (readers.report, readers.pid):
                if reader is not None:
                    os.close(reader)
        if self._janitor is not None:
            self._janitor.release(self._placeholders, was_killed=was_killed)
            self._janitor = None
        if self._group is not None:
            self._group.remove()
            self._group = None
        return reports
