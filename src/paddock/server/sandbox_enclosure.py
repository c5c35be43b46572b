"""The life of one sandbox in the server: started, confirmed, cleared away.

`sandboxes` prepares it, and `judgement` judges what it had to do with the end of its command.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from paddock.errors import SandboxNotMade, SandboxUnenforceable
from paddock.fs.lane import Lane
from paddock.model.host import Enforcement
from paddock.model.interceptor import Interceptor
from paddock.model.restriction import Restriction
from paddock.model.sandbox_start import SandboxStart
from paddock.process.enclosure import Ending, Judgement
from paddock.process.launch import LaunchSpec
from paddock.process.output_log import OutputLog
from paddock.process.spawn_request import FIRST_INHERITED
from paddock.process.spawner import ExitReport
from paddock.sandbox.enforce.report import Report, ReportKind
from paddock.server.judgement import Judge

if TYPE_CHECKING:
    from paddock.sandbox.enforce.confined import Confined
    from paddock.server.exec_decider import ExecDecider
    from paddock.server.process_network import ProcessNetwork
    from paddock.server.warm_sandboxes import WarmSandbox

NOT_ENTERABLE = "it has no namespaces that could be entered"

SHOWN_COMPLAINT_BYTES = 300
"""How much to show of the output of a sandbox that could not be made: one line of bubblewrap."""


class SandboxEnclosure:
    """The sandbox of one command, or one for others to enter: an `Enclosure` from before the start on.

    Start what `spec` gives, then wait for `confirmed`. In the end `cleared` or, if there was no process,
    `abandon` must be called. What takes time is done in the threads of `clearing`. The `decider`, if there is
    one, decides on what the command executes, and `network` on whom it reaches. It is there when its init has
    reported what is `awaited`.
    """

    def __init__(
        self,
        confined: Confined,
        judge: Judge,
        clearing: Lane,
        decider: ExecDecider | None = None,
        network: ProcessNetwork | None = None,
        *,
        warm: WarmSandbox | None = None,
        awaited: ReportKind = ReportKind.CONFINED,
    ) -> None:
        self.warm = warm
        """The sandbox that waits for this command and starts it; None if it has to be made."""
        self._awaited = awaited
        self._network = network
        self._decider = decider
        self._confined = confined
        self._judge = judge
        self._clearing = clearing
        self._is_listening = False
        self._heard = 0
        """Reports that were seen while it listened."""
        self._begun_end: int | None = None
        """Becomes readable when what takes time at the end has been done, if somebody does it by now."""

    @property
    def start(self) -> SandboxStart:
        """Return how the sandbox was made."""
        return SandboxStart.COLD if self.warm is None else SandboxStart.WARM

    @property
    def enforcement(self) -> Enforcement:
        """Return how much of the profile is enforced."""
        return self._confined.enforcement

    @property
    def interceptor(self) -> Interceptor | None:
        """Return the decider of the programs that the command executes; None if there is none."""
        return self._confined.interceptor

    @property
    def has_placeholders(self) -> bool:
        """Return whether the server holds placeholders in the tree for the sandbox, which others see."""
        return self._confined.has_placeholders

    def has_lost_placeholders(self) -> bool:
        """Return whether somebody has removed a placeholder of a sandbox that others enter."""
        return self._confined.has_lost_placeholders()

    def first_pid(self) -> int:
        """Return the first process in it; after `confirmed`. Raises SandboxUnenforceable."""
        pid = self._confined.first_pid()
        if pid is None:
            raise SandboxUnenforceable(NOT_ENTERABLE)
        return pid

    def restriction(self) -> Restriction:
        """Return the restriction that a process entering it must apply to itself. Raises
        SandboxUnenforceable."""
        if self._confined.restriction is None:
            raise SandboxUnenforceable(NOT_ENTERABLE)
        return self._confined.restriction

    def spec(self, command: LaunchSpec) -> LaunchSpec:
        """Return the launch to start instead of the command."""
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
        await _readable(file)
        if not any(report.kind is self._awaited for report in self._confined.reports()):
            text = said()[:SHOWN_COMPLAINT_BYTES].decode("utf-8", "replace").strip()
            raise SandboxNotMade(f"the sandbox could not be made: {text}")
        if self._network is not None:
            await self._network.serve(self._confined.listeners())

    def when_over(self, tell: Callable[[], None]) -> None:
        """See `process.enclosure`: the init reports the exit when everything in the sandbox has ended.

        The kernel takes longer to take the namespaces down than to start a small command.
        """
        file = self._confined.report_file
        if file is None or self._confined.is_followed:
            return
        asyncio.get_running_loop().add_reader(file, self._listen, tell)
        self._is_listening = True
        # `confirmed` may have read it already.
        self._listen(tell, is_readable=False)

    def _listen(self, tell: Callable[[], None], *, is_readable: bool = True) -> None:
        reports = self._confined.reports()
        has_exited = any(report.kind is ReportKind.EXITED for report in reports)
        # Readable without a report means that the init was killed. The spawner will tell.
        if has_exited or (is_readable and len(reports) == self._heard):
            self._stop_listening()
        self._heard = len(reports)
        if has_exited:
            # Others do it while this process gets around to wait for them.
            self._begun_end = self._confined.begin_to_end(was_killed=False)
            tell()

    def _stop_listening(self) -> None:
        file = self._confined.report_file
        if self._is_listening and file is not None:
            asyncio.get_running_loop().remove_reader(file)
        self._is_listening = False

    async def cleared(self, report: ExitReport | None) -> Ending:
        """See `process.enclosure`."""
        was_killed = report is not None and report.death_signal is not None
        return self._judge.ending(report, await self._end(was_killed=was_killed))

    async def judged(self, exit_code: int, output: OutputLog) -> Judgement:
        """See `process.enclosure`."""
        judgement = await self._judge.judgement(exit_code, output)
        if self._network is not None and (blocked := self._network.denials):
            judgement = replace(
                judgement,
                is_denied=judgement.is_denied or exit_code != 0,
                denials=(*blocked, *judgement.denials),
            )
        return judgement if self._decider is None else replace(judgement, executions=self._decider.summary())

    async def abandon(self) -> None:
        """Clear it away: nothing was started in it, or it was killed before anybody knew."""
        self._confined.started()
        if self.warm is not None:
            self.warm.discard()
        await self._end(was_killed=True)

    async def _end(self, *, was_killed: bool) -> list[Report]:
        self._stop_listening()
        if self._network is not None:
            await self._network.aclose()
        ending = partial(self._confined.ended, was_killed=was_killed)
        if not self._confined.takes_time_to_end:
            return ending()
        begun, self._begun_end = self._begun_end, None
        if begun is None:
            # A hop to a thread and back takes as long as the janitor's work.
            begun = self._confined.begin_to_end(was_killed=was_killed)
        if begun is not None:
            try:
                await _readable(begun)
            finally:
                os.close(begun)
                reports = ending()
            return reports
        # It runs to its end even if the caller is cancelled: otherwise placeholders and descriptors would
        # stay for ever.
        return await asyncio.shield(self._clearing.submit_surely(ending))


async def _readable(file: int) -> None:
    """Wait until a descriptor can be read, or is at its end."""
    loop = asyncio.get_running_loop()
    told = loop.create_future()

    def tell() -> None:
        if not told.done():
            told.set_result(None)

    loop.add_reader(file, tell)
    try:
        await told
    finally:
        loop.remove_reader(file)
