"""The ways to get the sandbox of a command: made for it, spare and there already, or made as the last one.

Cold is the reference. Warm, a spare is made just before each start that may have one, and must be taken, so
that no test depends on when the server has made one by itself.
"""

from __future__ import annotations

import os
import select
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from paddock.cli import confined as confined_start
from paddock.cli import remembered_start
from paddock.cli import sandbox as sandbox_verb
from paddock.cli.confined_streams import ConfinedStreams
from paddock.model.profile import Profile
from paddock.process.launch import LaunchSpec
from paddock.sandbox import remembered
from paddock.sandbox.enforce.command import Command
from paddock.sandbox.enforce.confined import Confined
from paddock.sandbox.enforce.mount_source import FileMoved
from paddock.sandbox.enforce.report import ReportKind
from paddock.sandbox.enforce.spare import Spare, Unsuitable
from paddock.sandbox.launch import Sandbox
from paddock.sandbox.profile.enforced import EnforcedProfile, is_enforced
from paddock.sandbox.spares import Spares
from paddock.server import sandboxes
from paddock.server.confinement import Confinement
from paddock.server.sandbox_enclosure import SandboxEnclosure
from paddock.server.sandboxes import Sandboxes
from paddock.server.warm_sandboxes import WarmSandboxes

Start = Callable[[SandboxEnclosure], Awaitable[Any]]

WAYS = ("cold", "warm")
LAUNCHER_WAYS = (*WAYS, "remembered")
"""Of command lines: remembered, what a plan led to is there already, and must be used."""


class NotRemembered(AssertionError):
    """A start has left how its sandbox was made, and the next one in the same place did not use it."""


class SpareNotTaken(AssertionError):
    """There was a spare sandbox for a command, and it was given another."""


def go(way: str, patch: pytest.MonkeyPatch) -> None:
    """Let the servers of this process start commands in one of the ways alone, where they can."""
    if way == "warm":
        patch.setattr(Sandboxes, "enclose", _with_a_spare(Sandboxes.enclose))
    else:
        patch.setattr(sandboxes, "_may_be_warm", lambda *_: False)


def _with_a_spare(enclose: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    async def enclose_warm(
        self: Sandboxes, wanted: Confinement, command: LaunchSpec, argv: list[str], start: Start
    ) -> Any:
        is_provided = await provide(self, wanted, command, argv)

        async def start_warm(enclosure: SandboxEnclosure) -> Any:
            if is_provided and enclosure.warm is None:
                await enclosure.abandon()
                raise SpareNotTaken(argv)
            return await start(enclosure)

        return await enclose(self, wanted, command, argv, start_warm)

    return enclose_warm


async def provide(of: Sandboxes, wanted: Confinement, command: LaunchSpec, argv: list[str]) -> bool:
    """Make a spare for a command if it may have one, and return whether there is one."""
    await of._ready()
    pool = of._warm
    if pool is None or not argv or not sandboxes._may_be_warm(wanted, command):
        return False
    key = wanted, command.cwd
    pool.ask(key, partial(of._make_spare, replace(wanted, client=sandboxes.NOBODY), command))
    if key in pool._wanted and not pool._spares.get(key):
        await pool._make_one(key)
    return bool(pool._spares.get(key))


async def made(pool: WarmSandboxes) -> None:
    """Wait until the server has made the spares that it wants."""
    while pool._making is not None:
        await pool._making


# --- the command line --------------------------------------------------------


def go_in_launchers(patch: pytest.MonkeyPatch) -> None:
    """Let what `Sandbox.prepare` makes ready in this process wait for its command, where it can."""
    prepare = Sandbox.prepare

    def prepare_warm(self: Sandbox, profile: Profile, command: Command, **more: Any) -> Any:
        is_plain = more.get("has_proc", True) and not more.get("is_traced") and not more.get("proxy_ports")
        if not command.argv or not is_plain or not is_enforced(profile):
            return prepare(self, profile, command, **more)
        try:
            spare = Spares(self).prepare(profile, command)
        except (Unsuitable, FileMoved):
            return prepare(self, profile, command, **more)
        return LateConfined(self, spare, profile, command)

    make_streams = ConfinedStreams.__init__

    def note_streams(self: ConfinedStreams, confined: Any) -> None:
        make_streams(self, confined)
        if isinstance(confined, LateConfined):
            confined.streams = self.numbers

    patch.setattr(Sandbox, "prepare", prepare_warm)
    patch.setattr(ConfinedStreams, "__init__", note_streams)


def remember_in_launchers(patch: pytest.MonkeyPatch) -> None:
    """Let `paddock sandbox` make each sandbox from what an earlier start has left, if that left anything."""
    run = remembered_start.run

    def run_again(scene: Any, arguments: Any, argv: Sequence[str]) -> int | None:
        # Tests beside this one may change the host between the two starts.
        for _ in range(TRIES):
            if argv and not _leave_start(arguments):
                return None
            status = run(scene, arguments, argv)
            if status is not None or not argv:
                return status
        raise NotRemembered(argv)

    patch.setattr(remembered_start, "run", run_again)


TRIES = 3

PLANNED = "[planned]"
REMEMBERED = "[remembered]"


def tell_in_launchers(patch: pytest.MonkeyPatch) -> None:
    """Let `paddock sandbox` tell on standard error which way it went."""
    run = remembered_start.run

    def run_and_tell(scene: Any, arguments: Any, argv: Sequence[str]) -> int | None:
        status = run(scene, arguments, argv)
        os.write(2, (PLANNED if status is None else REMEMBERED).encode())
        return status

    patch.setattr(remembered_start, "run", run_and_tell)


def _leave_start(arguments: Any) -> bool:
    """Prepare the command in another process, and return whether it has left something for the next."""
    child = os.fork()
    if child == 0:
        os._exit(0 if _prepared_alone(arguments) else 1)
    return os.waitpid(child, 0)[1] == 0


def _prepared_alone(arguments: Any) -> bool:
    """Go the ordinary way up to the start of the command."""
    kept: list[bool] = []
    keep = remembered.keep

    def note(scene: remembered.Scene, *more: Any, **named: Any) -> None:
        keep(scene, *more, **named)
        kept.append(any(facts == scene.facts for facts, _ in scene.read()))

    def run_nothing(confined: Confined, _: object, meanwhile: Callable[[], None], **_more: Any) -> Any:
        meanwhile()
        confined.started()
        confined.ended(was_killed=False)
        raise SystemExit

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(remembered, "keep", note)
        patch.setattr(remembered_start, "run", lambda *_: None)
        patch.setattr(confined_start, "run_confined", run_nothing)
        for fd in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), fd)
        try:
            sandbox_verb.run(arguments)
        except BaseException:
            return kept == [True]
    return False


class LateConfined:
    """A `Confined` whose sandbox is started first, and takes its command when it waits."""

    def __init__(self, sandbox: Sandbox, spare: Spare, profile: EnforcedProfile, command: Command) -> None:
        self._sandbox = sandbox
        self._spare = spare
        self._profile = profile
        self._command = command
        self._taken: Confined | None = None
        self._has_started = False
        self.streams: Sequence[int] = ()
        """What the command has as 0, 1 and 2; they are the caller's."""
        self.plan = spare.facts.plan

    def __getattr__(self, name: str) -> Any:
        return getattr(self._spare.confined if self._taken is None else self._taken, name)

    def argv(self, numbers: Sequence[int]) -> list[str]:
        return self._spare.confined.argv(numbers)

    @property
    def files(self) -> Sequence[int]:
        return self._spare.confined.files

    def first_pid(self) -> int | None:
        return self._spare.confined.first_pid()

    def started(self) -> None:
        """Put the command in, once."""
        confined = self._spare.confined
        confined.started()
        if self._has_started or not self.streams:
            return
        self._has_started = True
        assert confined.report_file is not None
        select.select([confined.report_file], [], [])
        if not any(report.kind is ReportKind.WAITING for report in confined.reports()):
            return
        self._spare.settle()
        self._taken = Spares(self._sandbox).take(self._spare, self._profile, self._command)
        if self._taken is None:
            # It ends, and whoever has started it says that there was no sandbox.
            self._spare.close()
            return
        self._spare.send(self._taken.files[0], self.streams)
        self._taken.started()

    def ended(self, *, was_killed: bool) -> Any:
        self._spare.close()
        reports = self._spare.confined.ended(was_killed=was_killed)
        return reports if self._taken is None else self._taken.ended(was_killed=was_killed)
