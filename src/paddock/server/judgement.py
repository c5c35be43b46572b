"""Judges what a sandbox had to do with the end of its command: which limit ended it, what it was denied.

It brings together the command's output and the reports of its init; `sandbox.denial` decides what they mean.
It does not know how the sandbox was made and cleared away.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from paddock.fs.lane import Lane
from paddock.journal import Journal
from paddock.model.cause import Cause
from paddock.model.denial import Denial
from paddock.model.stream import Stream
from paddock.process.enclosure import Ending, Judgement
from paddock.process.output_log import OutputLog
from paddock.process.spawner import ExitReport
from paddock.sandbox.denial.exhaustion import LAST_WORDS_BYTES, End, exhausted, spent
from paddock.sandbox.denial.keyword import is_denial
from paddock.sandbox.enforce.report import Report, ReportKind

if TYPE_CHECKING:
    from paddock.sandbox.enforce.confined import Confined

journal = Journal(logging.getLogger(__name__))

SIGNAL_STATUS = 128
"""The exit status for a death by signal n is this much more than n."""

EXPLANATION_TIMEOUT_S = 5.0
"""If no explanation finishes for this long, although each takes milliseconds, the server gives up the
next: some file system must be dead. It waits for all of many explanations that queue on a busy host."""


class Judge:
    """Judges the end of one command, which is `confined`. First `ending`, then `judgement`.

    Failures are explained in the threads of `explaining`.
    """

    def __init__(self, confined: Confined, argv: Sequence[str], explaining: Lane) -> None:
        self._confined = confined
        self._argv = argv
        self._explaining = explaining
        self._end: End | None = None

    def ending(self, report: ExitReport | None, told: Iterable[Report]) -> Ending:
        """Return how the command itself ended, according to its init.

        `report` is that of the process that the spawner waits for. It is None if the init has told first.
        """
        is_full = False
        for part in told:
            match part.kind:
                case ReportKind.WALL_LIMIT if report is not None:
                    return Ending(report, Cause.WALL)
                case ReportKind.BREACH if report is not None:
                    return Ending(report, Cause.BREACH)
                case ReportKind.PROCESS_LIMIT:
                    is_full = True
                case ReportKind.EXITED:
                    usage = part.user_us / 1e6, part.system_us / 1e6, part.max_rss_kib * 1024
                    itself = ExitReport(part.value, *usage)
                    self._end = End(
                        itself.exit_code,
                        itself.death_signal,
                        itself.max_rss_bytes,
                        is_full=is_full,
                        is_starved=self._confined.has_starved,
                    )
                    return Ending(itself, spent(self._confined.limits, self._end))
        assert report is not None
        # The init itself was killed, and everything with it. bubblewrap then exits as a shell would.
        number = report.exit_code - SIGNAL_STATUS
        if report.death_signal is None and number > 0:
            report = replace(report, wait_status=number)
        return Ending(report, Cause.MEMORY if self._confined.has_starved else None)

    async def judgement(self, exit_code: int, output: OutputLog) -> Judgement:
        """Return what the sandbox denied the command, as far as it can be known. Never fails."""
        trace = self._confined.trace
        if exit_code == 0 and not trace.denials:
            return Judgement()
        streams = {stream: output.kept(stream).data for stream in Stream}
        everything = b"".join(chunk.data for chunk in output.read(0, None).chunks)
        is_denied = is_denial(exit_code, [*streams.values(), everything])
        limit = self._exhausted(streams)
        explain = partial(self._explain, exit_code, streams, is_denied)
        try:
            denials = await self._explaining.done(explain, EXPLANATION_TIMEOUT_S)
        except TimeoutError:
            denials = trace.denials
        except Exception as error:
            # Whatever a command has written, its exit must be reported.
            journal.error("could not explain what a command was denied", error=error)
            denials = trace.denials
        return Judgement(is_denied, denials, limit)

    def _exhausted(self, streams: Mapping[Stream, bytes]) -> Cause | None:
        if self._end is None:
            return None
        # Errors go to stderr, or to the terminal if there is one.
        last_words = [streams[stream][-LAST_WORDS_BYTES:] for stream in (Stream.STDERR, Stream.PTY)]
        return exhausted(self._confined.limits, self._end, b"".join(last_words))

    def _explain(
        self, exit_code: int, streams: Mapping[Stream, bytes], is_denied: bool
    ) -> tuple[Denial, ...]:
        from paddock.server.explanation import denials_of

        return denials_of(self._confined, self._argv, exit_code, streams, is_suspected=is_denied)
