"""Typed events about running tools, for a user interface, a log or a test.

Events of one agent come in order. A slow reader holds up nobody: beyond a bound it misses pieces of output,
and an event says how many. A reader that does not read at all gets nothing more, and its last event says so.
It misses nothing else. `to_json` returns an event as one line.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from collections.abc import AsyncIterator
from typing import Final, Literal

import msgspec
from msgspec import Struct

from paddock.agent.permission import Permissions

WAITING_DELTAS_LIMIT: Final = 1024
"""Pieces of output that wait for one reader: 8 MiB with their size."""


WAITING_EVENTS_LIMIT: Final = 4096
"""Events that wait for one reader; beyond them it gets no more."""

WAITING_TEXT_LIMIT: Final = 64 << 20
"""Characters of output in them: the ends of 64 commands that wrote more than is kept."""


class AgentEvent(Struct, frozen=True, kw_only=True, tag_field="type"):
    """Something that happened."""

    def to_json(self) -> str:
        """Return the event as one line of JSON, without its end."""
        return msgspec.json.encode(self).decode()

    @staticmethod
    def from_json(line: str | bytes) -> AgentEvent:
        """Read what `to_json` has written. Raises msgspec.ValidationError."""
        event: AgentEvent = msgspec.json.decode(line, type=AnyEvent)
        return event


class CallEvent(AgentEvent, frozen=True, kw_only=True):
    """Something that happened in one call."""

    call_id: str
    """The id that the caller passed to `Tools.call`."""


class ExecCommandBegin(CallEvent, frozen=True, kw_only=True, tag="exec_command_begin"):
    """A command runs. A retry begins again, as the next attempt."""

    process_id: str
    """The number that the model gets if the command outlives the call."""
    started_at_ms: int
    command: tuple[str, ...]
    cwd: str
    attempt: int
    """1, or 2 for a retry."""
    is_sandboxed: bool
    parsed_cmd: tuple[tuple[str, ...], ...] = ()
    """The commands of the line, as far as their words are known without a shell."""
    source: Literal["unified_exec_startup"] = "unified_exec_startup"


class ExecCommandOutputDelta(CallEvent, frozen=True, kw_only=True, tag="exec_command_output_delta"):
    """Output, in pieces of at most 8 KiB that split no character."""

    chunk: bytes
    """base64 in JSON."""
    stream: Literal["stdout"] = "stdout"


class TerminalInteraction(CallEvent, frozen=True, kw_only=True, tag="terminal_interaction"):
    """The model wrote to a command, or looked for new output. `call_id` is that of the start."""

    process_id: str
    stdin: str


class ExecCommandEnd(CallEvent, frozen=True, kw_only=True, tag="exec_command_end"):
    """A command has ended, with the beginning and the end of everything it wrote."""

    process_id: str
    started_at_ms: int
    completed_at_ms: int
    command: tuple[str, ...]
    cwd: str
    attempt: int
    is_sandboxed: bool
    exit_code: int
    """-1 if unknown."""
    aggregated_output: str
    stdout: str
    stderr: str
    """Why the end is unknown, if it is. All output is in `stdout`."""
    formatted_output: str
    """The output as a model reads it."""
    duration_s: float
    status: Literal["completed", "failed"]
    parsed_cmd: tuple[tuple[str, ...], ...] = ()
    source: Literal["unified_exec_startup"] = "unified_exec_startup"
    unsent_bytes: int = 0
    """Output that no delta carried: a command has a bounded number of deltas."""


class ApprovalAsked(CallEvent, frozen=True, kw_only=True, tag="approval_request"):
    """The agent asks somebody for approval."""

    approval_id: str
    started_at_ms: int
    command: tuple[str, ...]
    cwd: str
    reason: str
    changes: tuple[str, ...]
    """The changes that a yes makes, one sentence each."""
    environment_id: str | None = None
    """The host and user that the question is about."""
    additional_permissions: Permissions | None = None
    """The permissions that a yes grants on top of the profile."""
    proposed_execpolicy_amendment: tuple[str, ...] | None = None
    """The first words of the commands that a yes for always would allow."""
    available_decisions: tuple[str, ...] = ()


class ApprovalAnswered(CallEvent, frozen=True, kw_only=True, tag="approval_answer"):
    """An answer has come, or none will come."""

    approval_id: str
    decision: str
    reason: str | None = None


class DeltasMissed(AgentEvent, frozen=True, kw_only=True, tag="deltas_missed"):
    """The reader of the events was too slow and missed this many pieces of output."""

    count: int


class ReaderOverrun(AgentEvent, frozen=True, kw_only=True, tag="reader_overrun"):
    """The reader of the events did not read them, and gets no more."""


AnyEvent = (
    ExecCommandBegin
    | ExecCommandOutputDelta
    | TerminalInteraction
    | ExecCommandEnd
    | ApprovalAsked
    | ApprovalAnswered
    | DeltasMissed
    | ReaderOverrun
)


class EventReader:
    """One reader of the events that happen after it was made. Iteration ends with the agent, or with `close`.

    You need not close a reader: one that nobody holds any more costs nothing.
    """

    def __init__(self) -> None:
        self._waiting: deque[AgentEvent] = deque()
        self._deltas = 0
        self._text = 0
        self._missed = 0
        self._is_closed = False
        self._changed = asyncio.Event()

    def put(self, event: AgentEvent) -> None:
        """Hand over an event."""
        if self._is_closed:
            return
        if isinstance(event, ExecCommandOutputDelta):
            if self._deltas == WAITING_DELTAS_LIMIT:
                self._missed += 1
                return
            self._deltas += 1
        self._tell_missed()
        if len(self._waiting) >= WAITING_EVENTS_LIMIT or self._text > WAITING_TEXT_LIMIT:
            self._waiting.append(ReaderOverrun())
            self.close()
            return
        self._waiting.append(event)
        self._text += _text_size(event)
        self._changed.set()

    @property
    def is_closed(self) -> bool:
        """Return whether no events will follow those that wait."""
        return self._is_closed

    def close(self) -> None:
        """Let the iteration end after the events that wait."""
        self._tell_missed()
        self._is_closed = True
        self._changed.set()

    def _tell_missed(self) -> None:
        if self._missed:
            self._waiting.append(DeltasMissed(count=self._missed))
            self._missed = 0

    def __aiter__(self) -> AsyncIterator[AgentEvent]:
        return self

    async def __anext__(self) -> AgentEvent:
        while not self._waiting:
            if self._is_closed:
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        event = self._waiting.popleft()
        self._deltas -= isinstance(event, ExecCommandOutputDelta)
        self._text -= _text_size(event)
        return event


def _text_size(event: AgentEvent) -> int:
    return len(event.aggregated_output) if isinstance(event, ExecCommandEnd) else 0


class EventHub:
    """Gives every event to every reader."""

    def __init__(self) -> None:
        self._readers: list[weakref.ref[EventReader]] = []
        self._is_closed = False

    def emit(self, event: AgentEvent) -> None:
        """Tell all readers; never waits."""
        for reader in self._present():
            reader.put(event)

    @property
    def is_read(self) -> bool:
        """Return whether anybody would notice an event."""
        return bool(self._present())

    def _present(self) -> list[EventReader]:
        """Return the readers that somebody holds and has not closed, and forget the others."""
        held = [(each, reader) for each in self._readers if (reader := each()) and not reader.is_closed]
        if len(held) < len(self._readers):
            self._readers = [each for each, _ in held]
        return [reader for _, reader in held]

    def reader(self) -> EventReader:
        """Return a new reader of what happens from now on."""
        reader = EventReader()
        if self._is_closed:
            reader.close()
        else:
            self._readers.append(weakref.ref(reader))
        return reader

    def close(self) -> None:
        """End all readers after the events that wait for them."""
        self._is_closed = True
        for reader in self._present():
            reader.close()
        self._readers.clear()
