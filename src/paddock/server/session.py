"""One client's processes, which outlive its connection.

A session is attached to at most one connection. While it is attached, process
events go out as they happen and a slow client pauses its processes; while it is
detached they run on and their output is retained. A session that nobody comes
back to ends its processes and what they left behind, except those that were started
to be kept alive. When the last of those has ended too, the session is a memory:
nothing but output that somebody may still ask for. Questions of its processes wait for its client
or an operator.
"""

from __future__ import annotations

import asyncio
import contextlib
from bisect import insort
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine, Iterable
from functools import cached_property, partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import UNSET

from paddock.config import Settings
from paddock.errors import ProcessExists, SessionAttached, TooManyProcesses, UnknownProcess
from paddock.model.endpoint import Endpoint
from paddock.model.execution_note import ExecutionNote
from paddock.process.description import Description
from paddock.process.leftover_groups import LeftoverGroups
from paddock.process.managed import ManagedProcess
from paddock.process.output_log import Chunk
from paddock.process.wake_turns import WakeTurns
from paddock.protocol.denial import encode_denials
from paddock.protocol.intercept import ExecEvent, encode_note, encode_summary
from paddock.protocol.network import POLICY_DECISION
from paddock.protocol.process import StartResult
from paddock.protocol.process_event import ClosedEvent, ExitedEvent, FailedEvent, OutputEvent
from paddock.protocol.usage import encode_usage
from paddock.server.files import ConfirmedCloses
from paddock.server.outbox import Outbox
from paddock.server.questions import SessionQuestions
from paddock.server.record import SessionRecord
from paddock.server.session_process import SessionProcess, has_failed

if TYPE_CHECKING:
    from paddock.intercept.approvals import RememberedAnswers
    from paddock.network.authority import Authority
    from paddock.network.judge import ChangeBudget
    from paddock.network.policy import Policy, Ruling

T = TypeVar("T")

REMEMBERED_STARTS = 4096
"""Idempotency keys remembered per session: far more than a client has in flight when it reconnects."""

REMEMBERED_CLOSED = 4096
"""Closed processes remembered per session, whatever their output: each costs about 2 KiB."""

KILLED_WITHIN_S = 5.0
"""How long to wait for the exits of killed processes. They take milliseconds, unless the kernel holds a
process in a system call that can't be interrupted; the client does not learn what happens to that one.
"""


class Session:
    """Processes and the client they report to.

    It calls `on_ended` when nothing of it is left, and `on_remembered` when it has become a memory. `ttl_s`
    is how long it waits for its client to come back. All sessions of a server share the `wake_turns`.
    """

    def __init__(
        self,
        session_id: str,
        settings: Settings,
        on_ended: Callable[[Session], None],
        on_remembered: Callable[[Session], None],
        ttl_s: float,
        record: SessionRecord,
        wake_turns: WakeTurns | None = None,
    ) -> None:
        self.id = session_id
        self._wake_turns = wake_turns or WakeTurns()
        self._is_behind = False
        self._behind: list[Callable[[], None]] = []
        self.record = record
        self.client_name = ""
        """What the client calls itself, for people."""
        self.is_visited = False
        """Whether an operator visited one of its processes, and may still want to read its end."""
        self.closes = ConfirmedCloses()
        self.questions = SessionQuestions(settings.max_open_questions, record)
        """The questions asked on behalf of its processes."""
        self.network_answers: dict[tuple[str, int], Ruling] = {}
        """Answers about hosts that apply to all its processes."""
        self.network_changes: list[Policy] = []
        """Hosts allowed and denied to all its processes while they run."""
        self.network_authority: Authority | None = None
        """Opens the TLS of its processes, once one of them needs it."""
        self._settings = settings
        self._on_ended = on_ended
        self._on_remembered = on_remembered
        self._ttl_s = ttl_s
        self._loop = asyncio.get_running_loop()
        self._processes: dict[str, SessionProcess] = {}
        self._closed: deque[tuple[float, SessionProcess]] = deque()
        self._closed_bytes = 0
        self._forget_timer: asyncio.TimerHandle | None = None
        self._forget_at_s = 0.0
        self._expiry_timer: asyncio.TimerHandle | None = None
        self._outbox: Outbox | None = None
        self._starts: OrderedDict[str, asyncio.Task[StartResult]] = OrderedDict()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._live = 0
        self._leftover_groups = LeftoverGroups(on_fewer=self._finish_if_idle)
        self._is_expired = False
        self._is_ended = False

    @cached_property
    def answers(self) -> RememberedAnswers:
        """Return the answers about executions that apply to all its processes."""
        from paddock.intercept.approvals import RememberedAnswers

        return RememberedAnswers()

    @cached_property
    def lookups(self) -> asyncio.Semaphore:
        """Return the lookups of names that its processes and requests may have under way together."""
        from paddock.network.name_lookup import SESSION_LOOKUPS_LIMIT

        return asyncio.Semaphore(SESSION_LOOKUPS_LIMIT)

    # --- attachment ---------------------------------------------------------

    @property
    def is_attached(self) -> bool:
        """Return whether a connection holds the session."""
        return self._outbox is not None

    @property
    def is_waiting(self) -> bool:
        """Return whether it waits for its client to come back."""
        return self._expiry_timer is not None

    @property
    def is_resumable(self) -> bool:
        """Return whether a client may come back: it has not expired, or was told to keep a process alive."""
        return not self._is_expired or any(process.description.is_kept_alive for process in self.processes)

    def attach(self, outbox: Outbox) -> None:
        """Report to this connection from now on; nothing is replayed.

        Raises SessionAttached. The server drops a client that holds the session and does not answer pings. A
        client that asks again gets the session: it may be the same client, whose old connection is dead.
        """
        if self._outbox is not None:
            self._outbox.give_way()
            raise SessionAttached(
                f"session {self.id!r} is already attached to another connection; it must end or be lost first"
            )
        self._outbox = outbox
        self._is_expired = False
        if outbox.is_congested:
            self.pause_output()
        if self._expiry_timer is not None:
            self._expiry_timer.cancel()
            self._expiry_timer = None

    def detach(self) -> None:
        """Detach from a lost connection. The processes keep running for as long as the settings say."""
        self._outbox = None
        self.resume_output()
        self.questions.disconnect()
        if not self._is_ended:
            self.record.detached(self._ttl_s, self._live)
            self._expiry_timer = self._loop.call_later(self._ttl_s, self.expire)

    def when_caught_up(self, callback: Callable[[], None]) -> None:
        """Call back when the client has caught up, or at once if it has or if no client is attached."""
        if self._is_behind:
            self._behind.append(callback)
        else:
            callback()

    def pause_output(self) -> None:
        """Pause the processes, because the client reads too slowly."""
        self._is_behind = True
        for entry in self._processes.values():
            entry.managed.pause_output()

    def resume_output(self) -> None:
        """Resume the processes, because the client has caught up or none is attached."""
        self._is_behind = False
        for entry in self._processes.values():
            entry.managed.resume_output()
        waiting, self._behind = self._behind, []
        for callback in waiting:
            callback()

    # --- processes ----------------------------------------------------------

    @property
    def live(self) -> int:
        """Return how many processes are not closed, including those that are being started."""
        return self._live

    @property
    def processes(self) -> list[ManagedProcess]:
        """Return the processes that are still known, oldest first."""
        return [entry.managed for entry in self._processes.values()]

    def admit(self, description: Description) -> SessionProcess:
        """Reserve the process id, and count it. Raises ProcessExists or TooManyProcesses.

        The caller runs the start with `run` and calls `discard` if it fails.
        """
        if description.process_id in self._processes:
            raise ProcessExists(description.process_id)
        limit = self._settings.max_processes_per_connection
        if self._live + len(self._leftover_groups) >= limit:
            self._leftover_groups.sweep()
            if self._live + len(self._leftover_groups) >= limit:
                raise TooManyProcesses(limit)
        retained_bytes = self._settings.retained_output_bytes_per_process
        managed = ManagedProcess(description, self, retained_bytes, self._wake_turns)
        if self._outbox is not None and self._outbox.is_congested:
            managed.pause_output()
        entry = self._processes[description.process_id] = SessionProcess(managed)
        self._live += 1
        return entry

    def discard(self, entry: SessionProcess) -> None:
        """Free the id of a start that has failed."""
        self.questions.withdraw(entry.managed.description.process_id, "the process was not started")
        del self._processes[entry.managed.description.process_id]
        self._live -= 1
        self._finish_if_idle()

    def waiting_input_bytes(self) -> int:
        """Return how much input waits for the processes of this session, in all."""
        return sum(entry.managed.stdin.waiting_bytes for entry in self._processes.values())

    def find(self, process_id: str) -> SessionProcess | None:
        """Return the process of this id, or None."""
        return self._processes.get(process_id)

    def get(self, process_id: str) -> SessionProcess:
        """Return the process of this id. Raises UnknownProcess."""
        entry = self._processes.get(process_id)
        if entry is None:
            raise UnknownProcess(process_id)
        return entry

    def run(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run something that must not be cut short when the connection is lost."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def first_start(self, key: str) -> asyncio.Task[StartResult] | None:
        """Return the start that used this idempotency key first; one that failed does not count."""
        start = self._starts.get(key)
        return None if start is None or has_failed(start) else start

    def remember_start(self, key: str, start: asyncio.Task[StartResult]) -> None:
        """Remember the start that used this idempotency key first, unless it fails."""
        self._starts[key] = start
        self._starts.move_to_end(key)
        if len(self._starts) > REMEMBERED_STARTS:
            self._starts.popitem(last=False)
        start.add_done_callback(partial(self._forget_failed_start, key))

    def _forget_failed_start(self, key: str, start: asyncio.Task[StartResult]) -> None:
        # A failed task keeps the frames that its exception came through, and they keep the whole request.
        if has_failed(start) and self._starts.get(key) is start:
            del self._starts[key]

    # --- events of processes ------------------------------------------------

    def process_output(self, process: ManagedProcess, chunk: Chunk) -> None:
        """Pass output on."""
        self.record.output(chunk)
        if self._outbox is not None:
            self._outbox.notify(
                "process/output",
                OutputEvent(
                    process_id=process.description.process_id,
                    seq=chunk.seq,
                    stream=chunk.stream,
                    chunk=chunk.data,
                ),
            )

    def process_executes(self, process_id: str, note: ExecutionNote) -> None:
        """Pass a verdict on."""
        self.record.executes(process_id, note)
        if self._outbox is not None:
            event = ExecEvent(process_id=process_id, execution=encode_note(note))
            self._outbox.notify("process/exec", event, is_optional=True)

    async def process_reaches(
        self, process_id: str, endpoint: Endpoint, ruling: Ruling, *, is_told: bool
    ) -> None:
        """Record a decision on a host and notify the client; the decision may be carried out afterwards.

        With `is_told`, notify the client even if it has not asked for that. Raises AuditUnwritable.
        """
        await self.record.reaches(process_id, endpoint, ruling)
        if self._outbox is not None and not self._outbox.is_congested:
            from paddock.server.network_notice import decision_event

            event = decision_event(process_id, endpoint, ruling)
            self._outbox.notify(POLICY_DECISION, event, is_optional=not is_told)

    def change_network(self, allow: list[str], deny: list[str]) -> None:
        """Change which hosts its processes may reach, now and later. Raises ValueError."""
        more = self._network_budget.take(allow, deny)
        if not allow and not deny:
            return
        self.network_changes.append(more)
        for entry in self._processes.values():
            if entry.network is not None and entry.network.judge is not None:
                entry.network.judge.change(more)

    @cached_property
    def _network_budget(self) -> ChangeBudget:
        from paddock.network.judge import ChangeBudget

        return ChangeBudget()

    def process_exited(self, process: ManagedProcess, seq: int) -> None:
        """Pass the exit on."""
        assert process.exit_code is not None
        self.record.exited(process)
        self.questions.withdraw(process.description.process_id, "the process has ended")
        if self._outbox is not None:
            has_extensions = self._outbox.has_extensions
            self._outbox.notify(
                "process/exited",
                ExitedEvent(
                    process_id=process.description.process_id,
                    seq=seq,
                    exit_code=process.exit_code,
                    sandbox_denied=process.judgement.is_denied,
                    denials=encode_denials(process.judgement.denials) if has_extensions else UNSET,
                    cause=process.cause if has_extensions and process.cause is not None else UNSET,
                    usage=encode_usage(process.usage) if has_extensions else UNSET,
                    execs=encode_summary(process.judgement.executions) if has_extensions else UNSET,
                ),
            )

    def process_closed(self, process: ManagedProcess, seq: int) -> None:
        """Pass the end on, and forget the process after a while."""
        self.record.closed(process)
        process_id = process.description.process_id
        if self._outbox is not None:
            self._outbox.notify("process/closed", ClosedEvent(process_id=process_id, seq=seq))
        if (leftover_group := process.leftover_group) is not None:
            self._leftover_groups.add(leftover_group, is_kept=process.description.is_kept_alive)
        self._retire(process_id)

    def process_lost(self, process: ManagedProcess) -> None:
        """Record, and tell the client, that the fate of the process will never be known."""
        self.record.lost(process)
        process_id = process.description.process_id
        self.questions.withdraw(process_id, "the process is lost")
        if self._outbox is not None:
            event = FailedEvent(process_id=process_id, message=process.failure or "")
            self._outbox.notify("process/failed", event, is_optional=True)
        self._retire(process_id)

    # --- forgetting ---------------------------------------------------------

    def _retire(self, process_id: str) -> None:
        self._live -= 1
        entry = self._processes[process_id]
        # Its policy may be as large as a request, and nothing asks for it any more.
        entry.network = None
        self._closed_bytes += entry.managed.log.retained_bytes
        is_kept = entry.managed.description.is_kept_alive
        ttl_s = self._settings.kept_process_ttl_s if is_kept else self._settings.closed_process_ttl_s
        insort(self._closed, (self._loop.time() + ttl_s, entry), key=itemgetter(0))
        self._forget_due()

    @property
    def closed_bytes(self) -> int:
        """Return the size of the output that its closed processes hold."""
        return self._closed_bytes

    def _forget_due(self) -> None:
        limit = self._settings.closed_output_bytes_per_session
        while self._closed:
            due_at, entry = self._closed[0]
            is_over_bound = self._closed_bytes > limit or len(self._closed) > REMEMBERED_CLOSED
            if due_at > self._loop.time() and not is_over_bound:
                self._forget_at(due_at)
                break
            self._closed.popleft()
            self._closed_bytes -= entry.managed.log.retained_bytes
            del self._processes[entry.managed.description.process_id]
        self._finish_if_idle()

    def _forget_at(self, due_at: float) -> None:
        if self._forget_timer is not None:
            if self._forget_at_s <= due_at:
                return
            self._forget_timer.cancel()
        self._forget_at_s = due_at
        self._forget_timer = self._loop.call_at(due_at, self._forget_in_time)

    def _forget_in_time(self) -> None:
        self._forget_timer = None
        self._forget_due()

    # --- the end ------------------------------------------------------------

    def expire(self) -> None:
        """End every process that is not to be kept alive: nobody came back."""
        if self._expiry_timer is not None:
            self._expiry_timer.cancel()
            self._expiry_timer = None
        self._is_expired = True
        self.record.expired(self._live)
        self._terminate(process for process in self.processes if not process.description.is_kept_alive)
        self._finish_if_idle()

    def _finish_if_idle(self) -> None:
        """Forget a session that is over and has nothing left to end, or remember it for a while."""
        is_over = self._outbox is None and self._expiry_timer is None
        if not is_over or self._live or self._leftover_groups.is_to_be_ended or self._is_ended:
            return
        if any(self.is_visited or entry.managed.description.is_kept_alive for _, entry in self._closed):
            self._on_remembered(self)
        else:
            self._end()

    def forget(self) -> None:
        """End a session that has become a memory."""
        if not self._is_ended:
            self._end()

    def terminate(self) -> None:
        """Give every process its grace, even the kept ones, because the server itself is ending."""
        self.questions.close("the server is ending")
        self._leftover_groups.release_kept()
        self._terminate(self.processes)

    def _terminate(self, processes: Iterable[ManagedProcess]) -> None:
        grace_s = self._settings.shutdown_grace_s
        for process in processes:
            if not process.is_closed:
                # A process may be blocked until it has an answer, and could not end.
                self.questions.withdraw(process.description.process_id, "the process is being ended")
                process.terminate(grace_s)
        self._leftover_groups.terminate(grace_s)

    async def emptied(self) -> None:
        """Wait until every process is gone and nothing that it left behind lives."""
        for process in self.processes:
            while not process.is_gone:
                await process.changed()
        await self._leftover_groups.gone()

    async def aclose(self) -> None:
        """Kill the remaining processes, wait for their end, and release everything. Bounded."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        for process in self.processes:
            process.kill()
        self._leftover_groups.kill()
        # The client must learn how the killed processes ended.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(KILLED_WITHIN_S):
                await self.emptied()
        if not self._is_ended:
            self._end()

    def _end(self) -> None:
        self._is_ended = True
        self.questions.close("the session has ended")
        self._leftover_groups.close()
        self.record.ended()
        for timer in (self._expiry_timer, self._forget_timer):
            if timer is not None:
                timer.cancel()
        self._expiry_timer = self._forget_timer = None
        self._on_ended(self)
