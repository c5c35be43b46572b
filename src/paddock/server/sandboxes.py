"""The sandboxes of a server: made when they are asked for, and cleared away when they are empty.

What confines a command is decided here, on the server's side. What can't be enforced is an
error, and nothing was started then. What this host can do is found out once.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from paddock.config import Settings
from paddock.errors import (
    ListenError,
    ProfileRefused,
    SandboxNotMade,
    SandboxUnavailable,
    SandboxUnenforceable,
)
from paddock.fs.lane import Lane
from paddock.host_text import utf8_environment
from paddock.model.cause import Cause
from paddock.model.host import Enforcement
from paddock.model.profile import Profile
from paddock.model.restriction import Restriction
from paddock.model.stream import Stream
from paddock.process.enclosure import Ending
from paddock.process.launch import LaunchSpec
from paddock.process.output_log import OutputLog
from paddock.process.spawn_request import FIRST_INHERITED
from paddock.process.spawner import ExitReport
from paddock.sandbox.denial import is_denial
from paddock.sandbox.init import Report, ReportKind

if TYPE_CHECKING:
    from paddock.sandbox.confined import Confined
    from paddock.sandbox.launch import Sandbox
    from paddock.sandbox.plan import Plan

T = TypeVar("T")

ATTEMPTS = 3
"""Sandboxes for one command, should what they are made of vanish meanwhile."""

THREADS = 4
"""Commands that are made ready at once, which is a matter of milliseconds unless trees are searched."""

NOT_ENTERABLE = "it has no namespaces that could be entered"

SHOWN_COMPLAINT_BYTES = 300
"""Of what a sandbox that could not be made has written: one line of bubblewrap."""


@dataclass(frozen=True, slots=True)
class Confinement:
    """What a request wants a command or an operation to be confined to."""

    profile: Profile
    project_roots: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class View:
    """How a sandbox would be made at one moment, and which files its mounts would be on."""

    plan: Plan
    files: tuple[tuple[int, int] | None, ...]
    """Device and inode of each place."""


class Enclosure:
    """The sandbox of one command, from before its start until after its end.

    Start what `spec` gives, then wait for `confirmed`; one that could not be made may be tried anew, up to
    ATTEMPTS, because files may have changed since it was planned. In the end `cleared` or, if there was no
    process, `abandon` must be called.
    """

    def __init__(self, confined: Confined, lane: Lane) -> None:
        self._confined = confined
        self._lane = lane

    @property
    def enforcement(self) -> Enforcement:
        """How much of the profile is enforced."""
        return self._confined.enforcement

    @property
    def has_places(self) -> bool:
        """Whether places are held in the tree for it, which others see."""
        return self._confined.has_places

    def first_pid(self) -> int:
        """The first process in it; after `confirmed`. Raises SandboxUnenforceable."""
        pid = self._confined.first_pid()
        if pid is None:
            raise SandboxUnenforceable(NOT_ENTERABLE)
        return pid

    def restriction(self) -> Restriction:
        """What a process that enters it has to take on. Raises SandboxUnenforceable."""
        if self._confined.restriction is None:
            raise SandboxUnenforceable(NOT_ENTERABLE)
        return self._confined.restriction

    def spec(self, command: LaunchSpec) -> LaunchSpec:
        """What to start in place of the command."""
        files = self._confined.files
        argv = self._confined.argv(range(FIRST_INHERITED, FIRST_INHERITED + len(files)))
        return replace(command, program=argv[0], argv=argv, inherited=files, is_shielded=True)

    async def confirmed(self, said: Callable[[], bytes]) -> None:
        """See `process.enclosure`. Raises SandboxNotMade; the command will not run then."""
        self._confined.started()
        file = self._confined.report_file
        if file is None:
            return
        loop = asyncio.get_running_loop()
        told = asyncio.Event()
        loop.add_reader(file, told.set)
        try:
            await told.wait()
        finally:
            loop.remove_reader(file)
        if not any(report.kind is ReportKind.CONFINED for report in self._confined.reports()):
            text = said()[:SHOWN_COMPLAINT_BYTES].decode("utf-8", "replace").strip()
            raise SandboxNotMade(f"the sandbox could not be made: {text}")

    async def cleared(self, report: ExitReport) -> Ending:
        """See `process.enclosure`."""
        limit: Cause | None = None
        for told in await self._end(was_killed=report.death_signal is not None):
            if told.kind is ReportKind.WALL_LIMIT:
                return Ending(report, Cause.WALL)
            if told.kind is ReportKind.PROCESS_LIMIT:
                limit = Cause.PROCESSES
            if told.kind is ReportKind.EXITED:
                usage = told.user_us / 1e6, told.system_us / 1e6, told.max_rss_kib * 1024
                itself = ExitReport(told.value, *usage)
                return Ending(itself, Cause.CPU if self._is_out_of_time(itself) else limit)
        return Ending(report)

    def _is_out_of_time(self, report: ExitReport) -> bool:
        plan = self._confined.plan
        is_limited = plan is not None and plan.limits.cpu_seconds is not None
        return is_limited and report.death_signal == signal.SIGXCPU

    def is_denial(self, exit_code: int, output: OutputLog) -> bool:
        """See `process.enclosure`."""
        if exit_code == 0:
            return False
        streams = [output.kept(stream).data for stream in Stream]
        everything = b"".join(chunk.data for chunk in output.read(0, None).chunks)
        return is_denial(exit_code, [*streams, everything])

    async def abandon(self) -> None:
        """Nothing was started in it, or it was killed before anybody knew."""
        self._confined.started()
        await self._end(was_killed=True)

    async def _end(self, *, was_killed: bool) -> list[Report]:
        ending = partial(self._confined.ended, was_killed=was_killed)
        return await self._lane.submit(ending) if self._confined.has_places else ending()


class Sandboxes:
    """Confines what a server starts. `aclose` must follow."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lane = Lane("paddock-sandbox", THREADS)
        self._making = asyncio.Lock()
        self._sandbox: Sandbox | None = None

    async def enclose(self, wanted: Confinement, command: LaunchSpec, argv: list[str]) -> Enclosure:
        """A sandbox for a command, or without one for others to enter.

        Raises SandboxUnenforceable or InvalidProfile.
        """
        from paddock.sandbox.launch import Command

        sandbox = await self._ready()
        arg0 = command.argv[0] if argv and command.argv[0] != argv[0] else None
        environment = command.env if argv else utf8_environment()
        inside = Command(argv, command.cwd, wanted.project_roots, environment, arg0)
        confined = await self._attempt(partial(sandbox.prepare, wanted.profile, inside))
        return Enclosure(confined, self._lane)

    async def view(self, wanted: Confinement) -> View:
        """How such a sandbox would be made now, for nothing in particular. Raises as `enclose`."""
        sandbox = await self._ready()
        return await self._attempt(partial(_view, sandbox, wanted))

    async def aclose(self) -> None:
        """Clear away what is left of sandboxes whose commands have ended. Bounded."""
        if self._sandbox is not None:
            self._lane.submit(self._sandbox.close)
        await self._lane.aclose()

    async def _ready(self) -> Sandbox:
        async with self._making:
            if self._sandbox is None:
                self._sandbox = await self._attempt(self._make)
            return self._sandbox

    def _make(self) -> Sandbox:
        from paddock.sandbox import probe
        from paddock.sandbox.launch import Sandbox
        from paddock.transport import runtime_directory

        places = runtime_directory.candidates(os.environ, os.getuid())
        directory = runtime_directory.provide(places, os.getuid())
        # Every command already leads a session of its own, with a terminal of its own if it has one.
        return Sandbox(
            probe.host(),
            directory,
            [*places, *_secrets(self._settings)],
            use_legacy_landlock=self._settings.use_legacy_landlock,
            has_own_session=False,
        )

    async def _attempt(self, work: Callable[[], T]) -> T:
        try:
            return await self._lane.submit(work)
        except ProfileRefused as error:
            raise SandboxUnenforceable(f"{error.place} {error.problem}; {error.remedy}") from error
        except SandboxUnavailable as error:
            raise SandboxUnenforceable(f"{error.problem}; {error.remedy}") from error
        except (ListenError, OSError) as error:
            raise SandboxUnenforceable(str(error)) from error


def _view(sandbox: Sandbox, wanted: Confinement) -> View:
    from paddock.sandbox.launch import Command, is_enforced

    assert is_enforced(wanted.profile)
    plan = sandbox.plan(wanted.profile, Command([], "/", wanted.project_roots, utf8_environment()))
    held = {place.path for place in plan.placeholders}
    places = dict.fromkeys(mount.path for mount in plan.mounts if mount.path not in held)
    return View(plan, tuple(_identity(path) for path in places))


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _secrets(settings: Settings) -> list[Path]:
    """Files of the server itself, which no confined command may read or change."""
    named = (
        settings.audit_log,
        settings.ws_token_file,
        settings.ws_shared_secret_file,
        settings.tls_key,
    )
    return [Path(name).absolute() for name in named if name is not None]
