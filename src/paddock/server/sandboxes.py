"""The sandboxes of a server: made when they are asked for, and cleared away when they are empty.

What confines a command is decided here, on the server's side. What can't be enforced is an
error, and nothing was started then. What this host can do is found out once.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    SpawnError,
)
from paddock.fs.lane import Lane
from paddock.fs.sight import Sight
from paddock.host_text import local_text, utf8_environment
from paddock.journal import Journal
from paddock.model.cause import Cause
from paddock.model.denial import Denial
from paddock.model.host import Enforcement
from paddock.model.profile import Access, Limits, ManagedProfile, Profile
from paddock.model.restriction import Restriction
from paddock.model.stream import Stream
from paddock.process.enclosure import Ending, Judgement
from paddock.process.launch import LaunchSpec
from paddock.process.output_log import OutputLog
from paddock.process.spawn_request import FIRST_INHERITED, SpawnStage, encoded_strings
from paddock.process.spawner import ExitReport
from paddock.sandbox.exhaustion import LAST_WORDS_BYTES, End, exhausted, spent
from paddock.sandbox.init import Report, ReportKind
from paddock.sandbox.keyword import is_denial

if TYPE_CHECKING:
    from paddock.sandbox.cap import Cap
    from paddock.sandbox.command import Command
    from paddock.sandbox.confined import Confined
    from paddock.sandbox.launch import Sandbox
    from paddock.sandbox.plan import Plan

T = TypeVar("T")

journal = Journal(logging.getLogger(__name__))

ATTEMPTS = 3
"""Sandboxes for one command, should what they are made of vanish meanwhile."""

THREADS = 4
"""Commands that are made ready at once, which is a matter of milliseconds unless trees are searched."""

EXPLAINING_THREADS = 2
"""Failures that are explained at once: apart from the above, for an exit must not wait for a tree."""

EXPLANATION_TIMEOUT_S = 5.0
"""How long no explanation may come to an end, though each takes milliseconds, before the next is given up:
some file system is dead then. Many that wait for each other on a busy host are all waited for."""

PROBING_DESCRIPTORS = 16
"""What a trial of bubblewrap may need: three pipes with both ends, its program, and files that are read."""

NOT_ENTERABLE = "it has no namespaces that could be entered"

SHOWN_COMPLAINT_BYTES = 300
"""Of what a sandbox that could not be made has written: one line of bubblewrap."""


@dataclass(frozen=True, slots=True)
class Confinement:
    """What a request wants a command or an operation to be confined to."""

    profile: Profile
    project_roots: tuple[str, ...] = ()
    name: str | None = field(default=None, compare=False)
    """What the profile was asked for as, if it was by name."""
    is_traced: bool = False
    """Whether it is to be noted what a command is refused."""


@dataclass(frozen=True, slots=True)
class View:
    """How a sandbox would be made at one moment, and which files its mounts would be on."""

    plan: Plan
    files: tuple[tuple[int, int] | None, ...]
    """Device and inode of each place."""

    def sight(self) -> Sight:
        """What somebody in such a sandbox may see, for what is done outside of it on his behalf."""
        from paddock.sandbox.access import AccessTable

        table = AccessTable(self.plan.rules)
        return lambda path: table.access_of(os.fsdecode(path)) is not Access.DENY


@dataclass(frozen=True, slots=True)
class Lanes:
    """Threads for what blocks."""

    making: Lane
    explaining: Lane


class Enclosure:
    """The sandbox of one command, from before its start until after its end.

    Start what `spec` gives, then wait for `confirmed`; one that could not be made may be tried anew, up to
    ATTEMPTS, because files may have changed since it was planned. In the end `cleared` or, if there was no
    process, `abandon` must be called.
    """

    def __init__(self, confined: Confined, lanes: Lanes, argv: Sequence[str], limits: Limits) -> None:
        self._confined = confined
        self._lanes = lanes
        self._argv = argv
        self._limits = limits
        self._ended: End | None = None

    @property
    def enforcement(self) -> Enforcement:
        """How much of the profile is enforced."""
        return self._confined.enforcement

    @property
    def has_places(self) -> bool:
        """Whether places are held in the tree for it, which others see."""
        return self._confined.has_places

    def has_lost_places(self) -> bool:
        """Whether somebody has taken away such a place from a sandbox that others enter."""
        return self._confined.has_lost_places()

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
        return replace(
            command,
            program=argv[0],
            argv=argv,
            cwd=self._confined.cwd,
            env=self._confined.environment,
            inherited=files,
            is_shielded=True,
        )

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
        is_full = False
        for told in await self._end(was_killed=report.death_signal is not None):
            if told.kind is ReportKind.WALL_LIMIT:
                return Ending(report, Cause.WALL)
            if told.kind is ReportKind.BREACH:
                return Ending(report, Cause.BREACH)
            if told.kind is ReportKind.PROCESS_LIMIT:
                is_full = True
            if told.kind is ReportKind.EXITED:
                usage = told.user_us / 1e6, told.system_us / 1e6, told.max_rss_kib * 1024
                itself = ExitReport(told.value, *usage)
                self._ended = End(
                    itself.exit_code, itself.death_signal, itself.max_rss_bytes, is_full=is_full
                )
                return Ending(itself, spent(self._limits, self._ended))
        return Ending(report)

    async def judged(self, exit_code: int, output: OutputLog) -> Judgement:
        """See `process.enclosure`."""
        if exit_code == 0 and not self._confined.trace.denials:
            return Judgement()
        streams = {stream: output.kept(stream).data for stream in Stream}
        everything = b"".join(chunk.data for chunk in output.read(0, None).chunks)
        is_denied = is_denial(exit_code, [*streams.values(), everything])
        limit = self._exhausted(streams)
        explaining = partial(self._explain, exit_code, streams, is_denied)
        try:
            denials = await self._lanes.explaining.done(explaining, EXPLANATION_TIMEOUT_S)
        except TimeoutError:
            denials = self._confined.trace.denials
        except Exception as error:
            # Whatever a command has written, its exit must be told.
            journal.error("what a command was denied could not be explained", error=error)
            denials = self._confined.trace.denials
        return Judgement(is_denied, denials, limit)

    def _exhausted(self, streams: Mapping[Stream, bytes]) -> Cause | None:
        if self._ended is None:
            return None
        # Errors go to stderr, or to the terminal if there is one.
        last_words = [streams[stream][-LAST_WORDS_BYTES:] for stream in (Stream.STDERR, Stream.PTY)]
        return exhausted(self._limits, self._ended, b"".join(last_words))

    def _explain(
        self, exit_code: int, streams: Mapping[Stream, bytes], is_denied: bool
    ) -> tuple[Denial, ...]:
        from paddock.server.explanation import denials_of

        return denials_of(self._confined, self._argv, exit_code, streams, is_suspected=is_denied)

    async def abandon(self) -> None:
        """Nothing was started in it, or it was killed before anybody knew."""
        self._confined.started()
        await self._end(was_killed=True)

    async def _end(self, *, was_killed: bool) -> list[Report]:
        ending = partial(self._confined.ended, was_killed=was_killed)
        if not self._confined.takes_time_to_end:
            return ending()
        # To the end, though the caller is cancelled: places and descriptors would stay for ever.
        return await asyncio.shield(self._lanes.making.submit_surely(ending))


class Sandboxes:
    """Confines what a server starts. `aclose` must follow."""

    def __init__(self, settings: Settings, cap: Cap | None = None) -> None:
        self._settings = settings
        self._cap = cap
        self._lanes = Lanes(
            making=Lane("paddock-sandbox", THREADS),
            explaining=Lane("paddock-denial", EXPLAINING_THREADS),
        )
        self._making = asyncio.Lock()
        self._sandbox: Sandbox | None = None

    async def enclose(self, wanted: Confinement, command: LaunchSpec, argv: list[str]) -> Enclosure:
        """A sandbox for a command, or without one for others to enter.

        Raises SandboxUnenforceable, InvalidProfile, ProfileExceeded or SpawnError.
        """
        from paddock.sandbox.command import Command

        if argv:
            # The spawner is not given them, and so does not refuse what no program can be given.
            encoded_strings(command.program, command.argv, command.cwd, command.env)
        sandbox = await self._ready()
        arg0 = command.argv[0] if argv and command.argv[0] != argv[0] else None
        inside = _local_command(
            Command(
                argv,
                command.cwd,
                wanted.project_roots,
                command.env if argv else utf8_environment(),
                arg0,
            )
        )
        confined = await self._attempt(partial(_prepared, sandbox, wanted, inside), self._give_up)
        profile = wanted.profile
        limits = profile.limits if isinstance(profile, ManagedProfile) else Limits()
        return Enclosure(confined, self._lanes, argv, limits)

    async def view(self, wanted: Confinement) -> View:
        """How such a sandbox would be made now, for nothing in particular. Raises as `enclose`."""
        sandbox = await self._ready()
        return await self._attempt(partial(_view, sandbox, wanted))

    async def level(self, wanted: Confinement) -> Enforcement:
        """How much of such a profile can be enforced here; nothing if there are no sandboxes to be had."""
        try:
            return (await self._ready()).level_of(wanted.profile)
        except SandboxUnenforceable:
            return Enforcement.NONE

    async def admit(self, wanted: Confinement) -> None:
        """Refuse what exceeds the cap of the server, if it has one. Raises as `enclose`."""
        if self._cap is not None:
            await self.view(wanted)

    async def aclose(self) -> None:
        """Clear away what is left of sandboxes whose commands have ended. Bounded."""
        if self._sandbox is not None:
            self._lanes.making.submit_surely(self._sandbox.close)
        await self._lanes.making.aclose()
        await self._lanes.explaining.aclose()

    async def _ready(self) -> Sandbox:
        async with self._making:
            if self._sandbox is None:
                self._sandbox = await self._attempt(self._make)
            return self._sandbox

    def _make(self) -> Sandbox:
        from paddock.sandbox import probe
        from paddock.sandbox.launch import Sandbox
        from paddock.transport import runtime_directory

        _require_descriptors()
        directory = runtime_directory.provide(
            runtime_directory.candidates(os.environ, os.getuid()), os.getuid()
        )
        places = runtime_directory.everywhere(os.environ, os.getuid())
        runtime_directory.reserve(places, os.getuid())
        # Every command already leads a session of its own, with a terminal of its own if it has one.
        return Sandbox(
            probe.host(memory_directory=directory),
            directory,
            [*places, *_secrets(self._settings)],
            use_legacy_landlock=self._settings.use_legacy_landlock,
            has_own_session=False,
            cap=self._cap,
        )

    def _give_up(self, confined: Confined) -> None:
        """Nobody waits any more for what was made ready."""
        confined.started()
        self._lanes.making.submit_surely(partial(confined.ended, was_killed=False))

    async def _attempt(self, work: Callable[[], T], give_up: Callable[[T], None] | None = None) -> T:
        """Have a thread do it. `give_up` gets the result if the caller is cancelled before it is there."""
        job = self._lanes.making.submit(work)
        try:
            return await asyncio.shield(job)
        except asyncio.CancelledError:
            job.add_done_callback(partial(_too_late, give_up))
            raise
        except ProfileRefused as error:
            raise SandboxUnenforceable(f"{error.place} {error.problem}; {error.remedy}") from error
        except SandboxUnavailable as error:
            raise SandboxUnenforceable(f"{error.problem}; {error.remedy}") from error
        except (ListenError, OSError) as error:
            raise SandboxUnenforceable(str(error)) from error


def _local_command(command: Command) -> Command:
    """A command whose text is UTF-8, as the wire has it, with text as the engine has it."""
    return replace(
        command,
        argv=[local_text(word) for word in command.argv],
        cwd=local_text(command.cwd),
        project_roots=tuple(local_text(root) for root in command.project_roots),
        environment={local_text(name): local_text(value) for name, value in command.environment.items()},
        arg0=None if command.arg0 is None else local_text(command.arg0),
    )


def _prepared(sandbox: Sandbox, wanted: Confinement, command: Command) -> Confined:
    if command.argv:
        _require_directory(sandbox, wanted.profile, command)
    return sandbox.prepare(wanted.profile, command, is_traced=wanted.is_traced)


def _require_directory(sandbox: Sandbox, profile: Profile, command: Command) -> None:
    """Refuse a command whose working directory it could not enter. Raises SpawnError.

    It is entered inside the sandbox alone; where it is hidden there, the sandbox is not made, and nothing
    is told of it.
    """
    from paddock.sandbox.launch import is_enforced

    try:
        # The dot, because to search a directory is what entering it takes.
        os.close(os.open(os.path.join(command.cwd, "."), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
    except OSError as error:
        number = error.errno or errno.ENOENT
        if is_enforced(profile):
            sandbox.refuse_hidden_directory(profile, command)
        raise SpawnError(SpawnStage.CWD, number, command.argv[0], command.cwd) from error


def _too_late(give_up: Callable[[T], None] | None, job: asyncio.Future[T]) -> None:
    if not job.cancelled() and job.exception() is None and give_up is not None:
        give_up(job.result())


def _require_descriptors() -> None:
    """Raise OSError if there are too few to find out about the host: what is found is believed for good."""
    with contextlib.ExitStack() as opened:
        for _ in range(PROBING_DESCRIPTORS):
            opened.callback(os.close, os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))


def _view(sandbox: Sandbox, wanted: Confinement) -> View:
    from paddock.sandbox.command import Command
    from paddock.sandbox.launch import is_enforced

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
