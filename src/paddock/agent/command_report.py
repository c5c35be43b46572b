"""Reports one attempt at a command as events: its beginning, its output in pieces, its end."""

from __future__ import annotations

import time

from paddock.agent.delta import DeltaSplitter
from paddock.agent.event import EventHub, ExecCommandBegin, ExecCommandEnd, ExecCommandOutputDelta
from paddock.agent.live_process import LiveProcess
from paddock.agent.truncation import cut


class CommandReport:
    """Tells of the beginning when it is made; `output` and `end` are for the process to call."""

    def __init__(self, events: EventHub, begin: ExecCommandBegin, limit_tokens: int) -> None:
        self._events = events
        self._begin = begin
        self._limit_tokens = limit_tokens
        self._began = time.monotonic()
        self._splitter = DeltaSplitter()
        events.emit(begin)

    def output(self, data: bytes) -> None:
        """Tell of output. It costs nothing if nobody reads."""
        if self._events.is_read:
            for piece in self._splitter.feed(data):
                self._events.emit(ExecCommandOutputDelta(call_id=self._begin.call_id, chunk=piece))

    def end(self, live: LiveProcess) -> None:
        """Tell of the end, behind all output."""
        if not self._events.is_read:
            return
        for piece in self._splitter.finish():
            self._events.emit(ExecCommandOutputDelta(call_id=self._begin.call_id, chunk=piece))
        self._events.emit(self._end_event(live, time.monotonic() - self._began))

    def _end_event(self, live: LiveProcess, duration_s: float) -> ExecCommandEnd:
        begin = self._begin
        exit_code = -1 if live.ending is None else live.ending.exit_code
        whole = cut(live.transcript, len(live.transcript.head) + len(live.transcript.tail)).text
        failure = "" if live.failure is None else str(live.failure)
        return ExecCommandEnd(
            call_id=begin.call_id,
            process_id=begin.process_id,
            started_at_ms=begin.started_at_ms,
            completed_at_ms=begin.started_at_ms + round(duration_s * 1000),
            command=begin.command,
            cwd=begin.cwd,
            parsed_cmd=begin.parsed_cmd,
            source=begin.source,
            attempt=begin.attempt,
            is_sandboxed=begin.is_sandboxed,
            exit_code=exit_code,
            aggregated_output=whole + failure,
            stdout=whole,
            stderr=failure,
            formatted_output=cut(live.transcript, self._limit_tokens).text,
            duration_s=duration_s,
            status="completed" if exit_code == 0 else "failed",
            unsent_bytes=self._splitter.unsent_bytes,
        )
