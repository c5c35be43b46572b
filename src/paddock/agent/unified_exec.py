"""The tools `exec_command` and `write_stdin`: commands that a model starts, leaves running and comes back to.

A call returns when its command has ended, when what it waits for has happened, or when its time is over; the
command runs on then, under a small number. Calls about one command take turns. A call that is cancelled
leaves its command running; `aclose` ends them all.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from msgspec import UNSET, Struct, UnsetType

from paddock.agent.command_report import CommandReport
from paddock.agent.command_rules import CommandRules
from paddock.agent.command_session import CommandSession
from paddock.agent.danger import looks_dangerous
from paddock.agent.event import EventHub, ExecCommandBegin, TerminalInteraction
from paddock.agent.exec_arguments import ExecArguments, StdinArguments
from paddock.agent.exec_request import (
    MAX_POLL_S,
    ExecRequest,
    exec_yield_s,
    permissions_of,
    shell_words,
    token_budget,
    wake_of,
    write_yield_s,
)
from paddock.agent.executor import Command, Executor
from paddock.agent.head_tail import HeadTail
from paddock.agent.live_process import LiveProcess, Wake
from paddock.agent.orchestrator import Attempt, Launch, Orchestrator, denial_note
from paddock.agent.process_table import FIRST_ID, LAST_ID, PROCESS_LIMIT, Entry, ProcessTable
from paddock.agent.proposal import Proposal
from paddock.agent.reply import ExecReply
from paddock.agent.tool import joined_path
from paddock.agent.truncation import BYTES_PER_TOKEN, DEFAULT_TOKENS, cut
from paddock.agent.yield_clock import YieldClock
from paddock.errors import InvalidToolCall, StdinClosed
from paddock.model.decision import Action, Decision

PAUSE_AFTER_WRITE_S: Final = 0.1
"""Time for a command to react to what was typed; the wall time does not count it."""
EARLY_EXIT_S: Final = 0.15
"""A command that ends so soon takes nobody's place among those that are kept."""

START_S: Final = 5.0
"""How long a cancelled call waits for a start that is under way, to keep its command."""

CLOSE_S: Final = 1.0
"""Time for killed commands to be reported as ended when the agent is closed."""

MESSAGE_FACTOR: Final = 1.2
"""The ratio of the whole text of a reply to the tokens of output."""

INTERRUPT: Final = "\x03"

ENVIRONMENT: Final = {
    "NO_COLOR": "1",
    "TERM": "dumb",
    "LANG": "C.UTF-8",
    "LC_CTYPE": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "COLORTERM": "",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GH_PAGER": "cat",
    "PADDOCK_CI": "1",
}
"""Variables that keep programs from using colours, pagers and prompts."""


class _Collected(Struct, frozen=True):
    """The part of a command that one call has seen."""

    session: CommandSession
    output: HeadTail
    wall_time_s: float


class UnifiedExec:
    """The commands of one agent. `choose_number` gives session ids to try.

    `when_ended` is called with a command that ends while no call waits for it.
    """

    def __init__(
        self,
        executor: Executor,
        orchestrator: Orchestrator,
        events: EventHub,
        *,
        cwd: str,
        rules: CommandRules | None = None,
        limit_tokens: int = DEFAULT_TOKENS,
        max_poll_s: float = MAX_POLL_S,
        allow_login: bool = False,
        choose_number: Callable[[], int] | None = None,
        when_ended: Callable[[CommandSession], None] | None = None,
    ) -> None:
        self._executor = executor
        self._orchestrator = orchestrator
        self._events = events
        self._cwd = cwd
        self._rules = rules
        self._limit_tokens = limit_tokens
        self._max_poll_s = max_poll_s
        self._allow_login = allow_login
        self._table: ProcessTable[CommandSession] = ProcessTable(choose_number or _random_number)
        self._gone: OrderedDict[int, str] = OrderedDict()
        self._beginning: set[asyncio.Task[CommandSession]] = set()
        self._following: dict[asyncio.Task[None], LiveProcess] = {}
        self._when_ended = when_ended

    @property
    def sessions(self) -> list[CommandSession]:
        """Return the commands that are kept, the least recently used first."""
        return [entry.process for entry in self._table]

    async def exec_command(self, call_id: str, arguments: ExecArguments) -> ExecReply:
        """Run a command. Raises ToolError, and RequestError or TransportError if it could not be started."""
        number = self._table.reserve()
        try:
            if self._rules is not None:
                await self._rules.look_at(arguments.cmd)
            wanted = self._wanted(call_id, number, arguments)
            settled = await self._orchestrator.run(
                wanted.proposal, lambda launch, attempt: self._attempt(wanted, launch, attempt)
            )
        finally:
            if number not in self._table:
                self._table.release(number)
        return self._reply(settled.value, arguments.max_output_tokens, settled.notes)

    async def write_stdin(self, arguments: StdinArguments) -> ExecReply:
        """Type to a command, or wait for it. Raises InvalidToolCall for one that is not there."""
        entry = self._table.use(arguments.session_id)
        if entry is None:
            raise InvalidToolCall("write_stdin", self._absence(arguments.session_id))
        session = entry.process
        wake = wake_of("write_stdin", arguments.wait_for)
        async with session.live.lock:
            if arguments.chars and not session.live.has_exited and await self._type(session, arguments.chars):
                self._tell_interaction(session, arguments.chars)
                await session.live.exited_within(PAUSE_AFTER_WRITE_S)
            collected = await self._collect(session, write_yield_s(arguments, self._max_poll_s), wake)
            if not arguments.chars and not session.live.has_exited:
                self._tell_interaction(session, "")
        return self._reply(collected, arguments.max_output_tokens, _ending_notes(session.live))

    def _tell_interaction(self, session: CommandSession, chars: str) -> None:
        self._events.emit(
            TerminalInteraction(call_id=session.call_id, process_id=str(session.session_id), stdin=chars)
        )

    def terminate(self, number: int) -> bool:
        """End a command; return whether there was one."""
        entry = self._table.use(number)
        if entry is None:
            return False
        entry.process.live.command.kill()
        return True

    async def aclose(self) -> None:
        """Kill all commands, and wait a moment for their ends, so that events and calls report them."""
        if self._beginning:
            await asyncio.wait(self._beginning, timeout=CLOSE_S)
        following = dict(self._following)
        for live in following.values():
            if not live.has_exited:
                live.command.kill()
        if following:
            _, left = await asyncio.wait(following, timeout=CLOSE_S)
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    # --- a command ----------------------------------------------------------

    def _wanted(self, call_id: str, number: int, arguments: ExecArguments) -> ExecRequest:
        shell = self._executor.shell if arguments.shell is UNSET else arguments.shell
        cwd = joined_path("exec_command", self._cwd, arguments.workdir)
        command = shell_words(shell, arguments, allow_login=self._allow_login)
        verdict = None if self._rules is None else self._rules.decide(command, arguments.cmd, cwd)
        proposal = Proposal(
            call_id=call_id,
            tool="exec_command",
            command=command,
            shell_line=arguments.cmd,
            cwd=cwd,
            verdict=verdict,
            wish=arguments.sandbox_permissions,
            permissions=permissions_of(arguments),
            justification=None if arguments.justification is UNSET else arguments.justification,
            prefix=self._prefix(arguments),
            is_terminal=arguments.tty,
            stdin=None if arguments.stdin is UNSET else arguments.stdin,
            line=arguments.cmd if shell == self._executor.shell else None,
            programs=self._programs(verdict, arguments.cmd),
            is_dangerous=looks_dangerous(arguments.cmd),
            env=ENVIRONMENT,
        )
        return ExecRequest(
            call_id=call_id,
            number=number,
            cwd=cwd,
            proposal=proposal,
            is_terminal=arguments.tty,
            stdin=None if arguments.stdin is UNSET else arguments.stdin.encode("utf-8", "replace"),
            yield_s=exec_yield_s(arguments),
            wake=wake_of("exec_command", arguments.wait_for),
            parsed=self._parsed(arguments.cmd),
        )

    def _programs(self, verdict: Decision | None, line: str) -> tuple[str, ...]:
        """Return what a line runs, where a rule allows it."""
        if self._rules is None or verdict is None or verdict.action is not Action.ALLOW:
            return ()
        return tuple(words[0] for words in self._rules.commands_of(line))

    def _parsed(self, line: str) -> tuple[tuple[str, ...], ...]:
        """Return the commands of a line for readers of events; empty without rules or readers."""
        return () if self._rules is None or not self._events.is_read else self._rules.commands_of(line)

    def _prefix(self, arguments: ExecArguments) -> tuple[str, ...]:
        if self._rules is None:
            return ()
        if arguments.prefix_rule is not UNSET:
            return self._rules.fitting_prefix(arguments.prefix_rule, arguments.cmd)
        return self._rules.proposed_prefix(arguments.cmd)

    async def _attempt(self, wanted: ExecRequest, launch: Launch, attempt: int) -> Attempt[_Collected]:
        beginning = asyncio.create_task(self._begin(wanted, launch, attempt))
        self._beginning.add(beginning)
        beginning.add_done_callback(self._beginning.discard)
        try:
            session = await asyncio.shield(beginning)
        except asyncio.CancelledError:
            await self._keep_late(beginning)
            raise
        live, began = session.live, time.monotonic()
        async with live.lock:
            try:
                is_short = await live.exited_within(min(EARLY_EXIT_S, wanted.yield_s))
            except asyncio.CancelledError:
                self._keep(session)
                raise
            if not is_short:
                self._keep(session)
            left_s = wanted.yield_s - (time.monotonic() - began)
            collected = await self._collect(session, left_s, wanted.wake, began)
        ending = live.ending
        return Attempt(collected, live.was_denied, () if ending is None else ending.denials)

    async def _begin(self, wanted: ExecRequest, launch: Launch, attempt: int) -> CommandSession:
        """Start a command and follow it. Raises as `Executor.start`."""
        clock = YieldClock()
        argv, cwd = launch.argv, launch.cwd
        command = await self._executor.start(
            Command(
                argv=argv,
                cwd=cwd,
                env=launch.env,
                sandbox=launch.sandbox,
                prepared=launch.prepared,
                cwd_without_links=launch.cwd_without_links,
                programs=self._orchestrator.program_rules(wanted.proposal, launch, clock),
                is_terminal=wanted.is_terminal,
                has_stdin=wanted.stdin is not None,
            )
        )
        begin = ExecCommandBegin(
            call_id=wanted.call_id,
            process_id=str(wanted.number),
            started_at_ms=round(time.time() * 1000),
            command=argv,
            cwd=cwd,
            attempt=attempt,
            is_sandboxed=launch.sandbox is not None,
            parsed_cmd=wanted.parsed,
        )
        report = CommandReport(self._events, begin, self._limit_tokens)
        live = LiveProcess(command, report.output, lambda live: self._ended(live, report), clock)
        self._follow(live, wanted.stdin)
        return CommandSession(wanted.number, wanted.call_id, live, argv, cwd, wanted.is_terminal)

    async def _keep_late(self, beginning: asyncio.Task[CommandSession]) -> None:
        """Keep the command of a call that was cancelled during the start, if it runs soon."""
        try:
            await asyncio.wait((beginning,), timeout=START_S)
        finally:
            # Without effect on a start that is done. Any other kills what it has started.
            beginning.cancel()
        if beginning.done() and not beginning.cancelled() and beginning.exception() is None:
            self._keep(beginning.result())

    def _ended(self, live: LiveProcess, report: CommandReport) -> None:
        report.end(live)
        if self._when_ended is None or live.lock.locked():
            return
        for session in self.sessions:
            if session.live is live:
                # The loop calls it, so that the loop's handler hears of an exception.
                asyncio.get_running_loop().call_soon(self._when_ended, session)

    def _keep(self, session: CommandSession) -> None:
        live = session.live
        entry = Entry(session.session_id, session, live.lock.locked, lambda: live.has_exited)
        victim = self._table.add(entry)
        if victim is not None:
            why = f"it made room for another: no more than {PROCESS_LIMIT} are kept"
            self._forget(victim.session_id, why)
            victim.live.command.kill()

    def _follow(self, live: LiveProcess, stdin: bytes | None) -> None:
        task = asyncio.create_task(live.follow(stdin))
        self._following[task] = live
        task.add_done_callback(self._following.pop)

    # --- a call -------------------------------------------------------------

    async def _type(self, session: CommandSession, chars: str) -> bool:
        """Type, or interrupt; return whether the command was there for it. Raises InvalidToolCall."""
        try:
            if session.is_terminal:
                await session.live.command.write(chars.encode("utf-8", "replace"))
            elif chars == INTERRUPT:
                await session.live.command.interrupt()
            else:
                problem = "this session has no open stdin; start the command with tty, or give it stdin"
                raise InvalidToolCall("write_stdin", problem)
        except StdinClosed:
            # It has just ended, which the reply reports.
            return False
        return True

    async def _collect(
        self, session: CommandSession, timeout_s: float, wake: Wake, began: float | None = None
    ) -> _Collected:
        start = time.monotonic() if began is None else began
        await session.live.settled_within(max(timeout_s, 0.0), wake)
        if session.live.has_exited:
            # A call that has waited for its turn may find that the number is somebody else's by now.
            is_kept = self._table.drop(session.session_id, session)
            if is_kept and began is None:
                self._table.release(session.session_id)
            if is_kept or began is not None:
                self._remember_end(session)
        return _Collected(session, session.live.drain(), time.monotonic() - start)

    def _reply(
        self, collected: _Collected, wanted_tokens: float | UnsetType, notes: tuple[str, ...]
    ) -> ExecReply:
        session = collected.session
        live = session.live
        budget = token_budget(wanted_tokens, self._limit_tokens)
        ending = live.ending
        if live.failure is not None:
            notes = (*notes, f"It is not known how the command ended: {live.failure}")
        if live.has_exited and not live.is_output_complete and live.failure is None:
            notes = (
                *notes,
                "Its output is still open, perhaps held by a program that it started; the rest is not shown.",
            )
        chunk_id = secrets.token_hex(3)
        limit_bytes = int(self._limit_tokens * BYTES_PER_TOKEN * MESSAGE_FACTOR)
        while True:
            shown = cut(collected.output, budget)
            reply = ExecReply(
                output=shown.text,
                wall_time_s=collected.wall_time_s,
                chunk_id=chunk_id,
                exit_code=None if ending is None else ending.exit_code,
                session_id=None if live.has_exited else session.session_id,
                original_tokens=shown.original_tokens,
                notes=notes,
            )
            excess_bytes = len(reply.text.encode()) - limit_bytes
            if excess_bytes <= 0 or budget == 0:
                return reply
            budget = max(0, budget - -(-excess_bytes // BYTES_PER_TOKEN))

    # --- commands that are gone ---------------------------------------------

    def _remember_end(self, session: CommandSession) -> None:
        ending = session.live.ending
        if ending is None:
            self._forget(session.session_id, "it is not known how it ended")
        else:
            self._forget(session.session_id, f"it has ended with exit code {ending.exit_code}")

    def _forget(self, number: int, why: str) -> None:
        self._gone[number] = why
        self._gone.move_to_end(number)
        while len(self._gone) > PROCESS_LIMIT:
            self._gone.popitem(last=False)

    def _absence(self, number: float) -> str:
        why = self._gone.get(int(number)) if float(number).is_integer() else None
        return f"there is no session {number:g}" + (f": {why}" if why is not None else "")


def _random_number() -> int:
    return FIRST_ID + secrets.randbelow(LAST_ID - FIRST_ID + 1)


def _ending_notes(live: LiveProcess) -> tuple[str, ...]:
    return (denial_note(live.ending.denials),) if live.ending is not None and live.was_denied else ()
