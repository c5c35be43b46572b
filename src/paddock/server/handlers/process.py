"""`process/*`, except how a start is planned (see `start`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from signal import Signals
from typing import Any, Literal, TypeVar

from msgspec import Struct, structs

from paddock.errors import OperationFailed, StdinClosed, StdinFull, UnknownProcess
from paddock.model.signal_name import parse_signal
from paddock.model.stream import Stream
from paddock.model.terminal import TerminalSize
from paddock.process.managed import ManagedProcess, Status
from paddock.process.output_log import Reading
from paddock.protocol.call import Call
from paddock.protocol.denial import encode_denials
from paddock.protocol.envelope import RequestId, begin_list
from paddock.protocol.intercept import encode_summary
from paddock.protocol.long_list import LongList
from paddock.protocol.process import (
    GracefulMode,
    ListResult,
    OmittedBytes,
    OutputChunk,
    OutputGap,
    ProcessParams,
    ProcessSummary,
    ReadParams,
    ReadResult,
    ResizeParams,
    SignalParams,
    SnapshotResult,
    TerminateParams,
    TerminateResult,
    WaitParams,
    WaitResult,
    WriteParams,
    WriteResult,
)
from paddock.protocol.structure import Empty, NoParams
from paddock.protocol.usage import encode_usage
from paddock.server.connection import ClientConnection, HandlerTable
from paddock.server.dispatch import Encoded, Parked
from paddock.server.handlers.start import start
from paddock.server.long_answer import AT_ONCE, answer_in_steps
from paddock.server.record import SessionRecord
from paddock.server.session import Session
from paddock.server.session_process import SessionProcess

LONGEST_WAIT_MS = 24 * 60 * 60 * 1000
"""Longer waits end after a day; the caller asks again."""

CLOCK_ERROR_S = 0.0005
"""How much too early a timer of uvloop may seem to end: it counts milliseconds."""

SESSION_INPUT_BYTES = 512 * 1024 * 1024
"""Input that the processes of a session have not read, in all: as much as eight have that read nothing."""

UNCOUNTED_INPUT_BYTES = 64 * 1024
"""Input of one process that is not counted. All that a session may have by default take 64 MiB."""

E = TypeVar("E", ReadResult, WaitResult, SnapshotResult)

EMPTY = Empty()
ACCEPTED = WriteResult(status="accepted")


# --- watching ---------------------------------------------------------------


def read(connection: ClientConnection, call: Call[ReadParams]) -> ReadResult | Parked:
    """Return retained output, or a long poll for it."""
    params = call.params
    session = connection.session_of(params.session_id)
    entry = session.get(params.process_id)
    if entry.is_starting or (params.wait_ms and not _has_news(entry.managed, params.after_seq or 0)):
        return Parked(_read_later(connection, session, entry, params))
    return _read_now(connection, session, entry.managed, params)


async def _read_later(
    connection: ClientConnection, session: Session, entry: SessionProcess, params: ReadParams
) -> ReadResult:
    await entry.started()
    process = entry.managed
    if params.wait_ms:
        after_seq = params.after_seq or 0
        await _changed(process, params.wait_ms, lambda: _has_news(process, after_seq))
    await connection.answer_turns.take()
    return _read_now(connection, session, process, params)


def _read_now(
    connection: ClientConnection, session: Session, process: ManagedProcess, params: ReadParams
) -> ReadResult:
    reading = process.log.read(params.after_seq or 0, params.max_bytes)
    if reading.gap is not None:
        session.record.gap(process, reading.gap)
    return _read_result(connection, process, reading)


def _has_news(process: ManagedProcess, after_seq: int) -> bool:
    return (
        process.log.has_after(after_seq)
        or process.is_closed
        or (process.has_exited and after_seq < process.log.next_seq - 1)
    )


def _read_result(connection: ClientConnection, process: ManagedProcess, reading: Reading) -> ReadResult:
    result = ReadResult(
        chunks=[OutputChunk(seq=c.seq, stream=c.stream, chunk=c.data) for c in reading.chunks],
        next_seq=reading.next_seq,
        exited=process.has_exited,
        exit_code=process.exit_code,
        closed=process.is_closed,
        failure=process.failure,
        sandbox_denied=process.judgement.is_denied,
    )
    if not connection.has_extensions:
        return result
    gap = reading.gap
    gaps = [OutputGap(from_seq=gap.from_seq, to_seq=gap.to_seq, bytes_=gap.size_bytes)] if gap else []
    return structs.replace(_explained(connection, process, result), gaps=gaps)


def wait(connection: ClientConnection, call: Call[WaitParams]) -> WaitResult | Parked:
    """Wait for the exit; a timeout is an answer like any other."""
    params = call.params
    entry = connection.session_of(params.session_id).get(params.process_id)
    if entry.managed.is_running:
        return Parked(_wait_later(connection, entry, params))
    return _wait_result(connection, entry.managed)


async def _wait_later(connection: ClientConnection, entry: SessionProcess, params: WaitParams) -> WaitResult:
    await entry.started()
    process = entry.managed
    timeout_ms = LONGEST_WAIT_MS if params.timeout_ms is None else params.timeout_ms
    await _changed(process, timeout_ms, lambda: not process.is_running)
    await connection.answer_turns.take()
    return _wait_result(connection, process)


async def _changed(process: ManagedProcess, timeout_ms: int, is_enough: Callable[[], bool]) -> None:
    """Wait until something holds, or until the time is over."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + min(timeout_ms, LONGEST_WAIT_MS) / 1000
    while not is_enough() and deadline_s - loop.time() > CLOCK_ERROR_S:
        await process.changed(deadline_s)


def _wait_result(connection: ClientConnection, process: ManagedProcess) -> WaitResult:
    if process.status is Status.LOST:
        process_id = process.description.process_id
        raise OperationFailed(f"what became of process {process_id!r} is not known: {process.failure}")
    result = WaitResult(
        exited=process.has_exited,
        exit_code=process.exit_code,
        closed=process.is_closed,
        sandbox_denied=process.judgement.is_denied,
    )
    return _explained(connection, process, result)


async def snapshot(connection: ClientConnection, call: Call[ProcessParams]) -> SnapshotResult:
    """Return what is retained of each stream."""
    params = call.params
    entry = connection.session_of(params.session_id).get(params.process_id)
    await entry.started()
    await connection.answer_turns.take()
    process = entry.managed
    stdout, stderr, terminal = (process.log.kept(s) for s in (Stream.STDOUT, Stream.STDERR, Stream.PTY))
    omitted = OmittedBytes(
        stdout=stdout.omitted_bytes, stderr=stderr.omitted_bytes, terminal=terminal.omitted_bytes
    )
    result = SnapshotResult(
        stdout=stdout.data,
        stderr=stderr.data,
        terminal=terminal.data,
        truncated=any((omitted.stdout, omitted.stderr, omitted.terminal)),
        omitted_bytes=omitted,
        exit_code=process.exit_code,
        running=process.is_running,
        sandbox_denied=process.judgement.is_denied,
    )
    return _explained(connection, process, result)


def _explained(connection: ClientConnection, process: ManagedProcess, result: E) -> E:
    """Add the details of its end for clients with extensions, if the process has ended."""
    if not connection.has_extensions or not process.has_exited:
        return result
    return structs.replace(
        result,
        denials=encode_denials(process.judgement.denials),
        cause=process.cause,
        usage=encode_usage(process.usage),
        execs=encode_summary(process.judgement.executions),
    )


def list_processes(
    connection: ClientConnection, call: Call[NoParams]
) -> ListResult | Coroutine[Any, Any, Encoded]:
    """Return the session's processes that have been started."""
    processes = [process for process in connection.session.processes if process.status is not Status.STARTING]
    if len(processes) <= AT_ONCE:
        return ListResult(processes=[_summary(process) for process in processes])
    answer = begin_list(call.id, ListResult(processes=[]))
    return answer_in_steps(connection, answer, _written(answer, processes), len(processes))


def _written(answer: LongList, processes: list[ManagedProcess]) -> Iterator[None]:
    """Write a process in each step."""
    for process in processes:
        answer.add(_summary(process))
        yield


def _summary(process: ManagedProcess) -> ProcessSummary:
    return ProcessSummary(
        process_id=process.description.process_id,
        argv=list(process.description.argv),
        cwd=process.description.cwd,
        tty=process.description.is_terminal,
        running=process.is_running,
        exit_code=process.exit_code,
        started_at_ms=int(process.started_at_s * 1000),
    )


# --- input ------------------------------------------------------------------


def write(
    connection: ClientConnection, call: Call[WriteParams]
) -> WriteResult | Coroutine[Any, Any, WriteResult]:
    """Queue input at once, so that writes keep their order; answers late while the process does not read."""
    params = call.params
    session = connection.session_of(params.session_id)
    entry = session.find(params.process_id)
    if entry is None:
        return _refuse_write(params, "unknownProcess")
    write_id = params.write_id
    if write_id is not None and write_id in entry.write_ids:
        has_room = entry.managed.stdin.has_room
    else:
        _refuse_too_much(session, entry, params)
        try:
            has_room = entry.managed.stdin.write(params.chunk)
        except StdinClosed:
            return _refuse_write(params, "stdinClosed")
        connection.services.metrics.input_bytes += len(params.chunk)
        if write_id is not None:
            entry.remember_write(write_id)
    return ACCEPTED if has_room and not entry.is_starting else _accept_later(entry, params)


def _refuse_too_much(session: Session, entry: SessionProcess, params: WriteParams) -> None:
    """Raise StdinFull if the processes of a session leave too much unread.

    A client that waits for its answers seldom comes so far; one that connects again need not wait for those
    of before.
    """
    # A little for each process is not worth counting.
    size_bytes = len(params.chunk)
    if size_bytes + entry.managed.stdin.waiting_bytes > UNCOUNTED_INPUT_BYTES:
        waiting_bytes = session.waiting_input_bytes()
        if waiting_bytes + size_bytes > SESSION_INPUT_BYTES:
            raise StdinFull(params.process_id)


async def _accept_later(entry: SessionProcess, params: WriteParams) -> WriteResult:
    try:
        await entry.started()
    except UnknownProcess:
        return _refuse_write(params, "unknownProcess")
    await entry.managed.stdin.drain()
    return ACCEPTED


def _refuse_write(params: WriteParams, status: Literal["unknownProcess", "stdinClosed"]) -> WriteResult:
    """Return a status for the idempotent form; raise an error for the plain one."""
    if params.write_id is not None:
        return WriteResult(status=status)
    raise UnknownProcess(params.process_id) if status == "unknownProcess" else StdinClosed(params.process_id)


def close_stdin(
    connection: ClientConnection, call: Call[ProcessParams]
) -> Empty | Coroutine[Any, Any, Empty]:
    """End the input after everything that was written before.

    A terminal has no end. It gets its end-of-file character, twice in the middle of a line, and once more
    should a program switch canonical mode off later, as shells do that edit their lines. It ends the input of
    the program that reads at that moment; a program that edits lines takes it for the end only on an empty
    line.
    """
    params = call.params
    entry = connection.session_of(params.session_id).get(params.process_id)
    entry.managed.stdin.end()
    return _when_started(entry) if entry.is_starting else EMPTY


async def _when_started(entry: SessionProcess) -> Empty:
    await entry.started()
    return EMPTY


async def resize(connection: ClientConnection, call: Call[ResizeParams]) -> Empty:
    """Set a new window size."""
    params = call.params
    entry = connection.session_of(params.session_id).get(params.process_id)
    await entry.started()
    entry.managed.resize(TerminalSize(rows=params.rows, cols=params.cols))
    return EMPTY


# --- the end ----------------------------------------------------------------


def signal(connection: ClientConnection, call: Call[SignalParams]) -> Empty | Coroutine[Any, Any, Empty]:
    """Send a signal to the group. An unknown or ended process is not an error."""
    params = call.params
    session = connection.session_of(params.session_id)
    entry = session.find(params.process_id)
    if entry is None:
        return EMPTY
    sender = Sender(session.record, connection.number, call.id)
    if entry.is_starting:
        return _signal_later(entry, params, sender)
    _signal_now(entry, params, sender)
    return sender.record.paced(EMPTY)


def _signal_now(entry: SessionProcess, params: SignalParams, sender: Sender) -> None:
    number = parse_signal(params.signal)
    if entry.managed.is_running:
        sender.signalled(entry, number)
    entry.managed.signal(number)


async def _signal_later(entry: SessionProcess, params: SignalParams, sender: Sender) -> Empty:
    try:
        await entry.started()
    except UnknownProcess:
        return EMPTY
    _signal_now(entry, params, sender)
    await sender.record.drain()
    return EMPTY


def terminate(
    connection: ClientConnection, call: Call[TerminateParams]
) -> TerminateResult | Coroutine[Any, Any, TerminateResult]:
    """End the group, at once or after a grace. An unknown process was not running."""
    params = call.params
    session = connection.session_of(params.session_id)
    entry = session.find(params.process_id)
    if entry is None:
        return TerminateResult(running=False)
    sender = Sender(session.record, connection.number, call.id)
    if entry.is_starting:
        return _terminate_later(entry, params, sender)
    return sender.record.paced(_terminate_now(entry, params, sender))


def _terminate_now(entry: SessionProcess, params: TerminateParams, sender: Sender) -> TerminateResult:
    is_graceful = isinstance(params.mode, GracefulMode)
    if entry.managed.is_running:
        sender.signalled(entry, Signals.SIGTERM if is_graceful else Signals.SIGKILL)
    if isinstance(params.mode, GracefulMode):
        grace_s = min(params.mode.graceful.timeout_ms, LONGEST_WAIT_MS) / 1000
        return TerminateResult(running=entry.managed.terminate(grace_s))
    return TerminateResult(running=entry.managed.kill())


async def _terminate_later(entry: SessionProcess, params: TerminateParams, sender: Sender) -> TerminateResult:
    try:
        await entry.started()
    except UnknownProcess:
        return TerminateResult(running=False)
    result = _terminate_now(entry, params, sender)
    await sender.record.drain()
    return result


class Sender(Struct, frozen=True):
    """The client that requested a signal, for the record."""

    record: SessionRecord
    connection: int
    request: RequestId

    def signalled(self, entry: SessionProcess, number: Signals) -> None:
        """Record that the server sends the signal."""
        self.record.signalled(entry.managed, number.name, self.connection, self.request)


HANDLERS: HandlerTable = {
    "process/start": start,
    "process/read": read,
    "process/wait": wait,
    "process/snapshot": snapshot,
    "process/list": list_processes,
    "process/write": write,
    "process/closeStdin": close_stdin,
    "process/resize": resize,
    "process/signal": signal,
    "process/terminate": terminate,
}
