"""What a managed process promises beyond what its parts do."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from paddock.model.stream import Stream
from paddock.process import managed
from paddock.process.description import Description
from paddock.process.enclosure import Ending, Judgement
from paddock.process.group import ProcessGroup
from paddock.process.input_stream import InputStream
from paddock.process.leftover_groups import LeftoverGroups
from paddock.process.managed import ManagedProcess
from paddock.process.output_log import Chunk, OutputLog
from paddock.process.output_stream import OutputStream
from paddock.process.spawner import ExitReport


class Nobody:
    """A listener that is not interested."""

    def process_output(self, process: ManagedProcess, chunk: Chunk) -> None: ...
    def process_exited(self, process: ManagedProcess, seq: int) -> None: ...
    def process_closed(self, process: ManagedProcess, seq: int) -> None: ...
    def process_lost(self, process: ManagedProcess) -> None: ...


class RecordingGroup(ProcessGroup):
    """A group that reads its input when a signal comes."""

    def __init__(self, stdin: int) -> None:
        super().__init__(pid=0, pidfd=-1)
        self.seen: list[tuple[int, bytes]] = []
        self._stdin = stdin

    def signal(self, number: int) -> bool:
        self.seen.append((number, os.read(self._stdin, 100)))
        return True


async def test_a_signal_does_not_overtake_the_input_before_it() -> None:
    reading, writing = os.pipe()
    for end in (reading, writing):
        os.set_blocking(end, False)
    input_stream = InputStream(writing, is_terminal=False)
    group = RecordingGroup(reading)
    process = ManagedProcess(Description("p", ["/bin/true"], "/", False, has_stdin=True), Nobody(), 1000)
    process.adopt(group, [], input_stream, window_fd=-1)

    process.stdin.write(b"first ")
    process.stdin.write(b"this")
    process.signal(signal.SIGINT)

    assert group.seen == [(signal.SIGINT, b"first this")]
    input_stream.close()
    os.close(reading)


class Gone(ProcessGroup):
    """A group without members."""

    def signal(self, number: int) -> bool:
        return False


EXIT = ExitReport(wait_status=0, user_s=0, system_s=0, max_rss_bytes=0)
"""What the surroundings themselves say of the end."""


class Surroundings:
    """An enclosure that notes what was written when it is asked."""

    def __init__(self) -> None:
        self.heard = b""
        self.tell: Callable[[], None] = lambda: None

    async def confirmed(self, said: Callable[[], bytes]) -> None: ...

    def when_over(self, tell: Callable[[], None]) -> None:
        self.tell = tell

    async def cleared(self, report: ExitReport | None) -> Ending:
        return Ending(report or EXIT)

    async def judged(self, exit_code: int, output: OutputLog) -> Judgement:
        self.heard = output.kept(Stream.STDERR).data
        return Judgement()


async def test_what_was_written_before_the_end_is_judged_though_nobody_had_time_to_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(managed, "DENIAL_GRACE_S", 0)
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    process = ManagedProcess(Description("p", ["/bin/false"], "/", False), Nobody(), 1000)
    output_stream = OutputStream(reading, Stream.STDERR, 4, process.output_received, process.output_ended)
    surroundings = Surroundings()
    process.adopt(Gone(pid=0, pidfd=-1), [output_stream], None, window_fd=-1, enclosure=surroundings)
    os.write(writing, b"permission denied")
    process.begin()
    process.exited(ExitReport(wait_status=1 << 8, user_s=0, system_s=0, max_rss_bytes=0))
    while not process.has_exited:
        await process.changed()
    assert surroundings.heard == b"permission denied"
    os.close(writing)
    while not process.is_closed:
        await process.changed()


class Dying(ProcessGroup):
    """A group whose last member ends between the first look and the second."""

    def __init__(self, pidfd: int) -> None:
        super().__init__(pid=0, pidfd=pidfd)
        self._looks = 0

    def signal(self, number: int) -> bool:
        self._looks += 1
        return self._looks == 1


class Heir(Nobody):
    """A listener that takes over what is left, as a session does."""

    def __init__(self) -> None:
        self.leftover_groups = LeftoverGroups(on_fewer=lambda: None)

    def process_closed(self, process: ManagedProcess, seq: int) -> None:
        if process.leftover_group is not None:
            self.leftover_groups.add(process.leftover_group, is_kept=False)


async def test_a_group_whose_last_member_ends_between_two_looks_is_let_go_of() -> None:
    pidfd = os.open(os.devnull, os.O_RDONLY)
    heir = Heir()
    process = ManagedProcess(Description("p", ["/bin/true"], "/", False), heir, 1000)
    process.adopt(Dying(pidfd), [], None, window_fd=-1)
    process.begin()
    process.exited(ExitReport(0, 0.0, 0.0, 0))
    heir.leftover_groups.sweep()
    assert process.is_closed
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(pidfd)
    heir.leftover_groups.close()


def enclosed_process(surroundings: Surroundings, group: ProcessGroup) -> ManagedProcess:
    process = ManagedProcess(Description("p", ["/bin/true"], "/", False), Nobody(), 1000)
    process.adopt(group, [], None, window_fd=-1, enclosure=surroundings)
    process.begin()
    return process


class Unwinding(ProcessGroup):
    """The group of an enclosure that outlives its command."""

    def __init__(self, pidfd: int) -> None:
        super().__init__(pid=0, pidfd=pidfd)
        self.signals: list[int] = []

    def signal(self, number: int) -> bool:
        self.signals.append(number)
        return True


async def test_an_exit_that_the_enclosure_tells_of_does_not_wait_for_the_end_of_the_enclosure() -> None:
    pidfd = os.pidfd_open(os.getpid())
    surroundings = Surroundings()
    process = enclosed_process(surroundings, Unwinding(pidfd))
    surroundings.tell()
    while not process.is_closed:
        await process.changed()
    assert process.exit_code == 0
    assert process.leftover_group is None
    assert not process.has_survivors, "what encloses it is not something that it has left behind"
    os.fstat(pidfd)
    before = process.is_gone
    process.exited(ExitReport(wait_status=9, user_s=1, system_s=1, max_rss_bytes=1))
    assert (before, process.is_gone) == (False, True)
    assert process.exit_code == 0
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(pidfd)


async def test_an_enclosure_that_tells_too_late_is_not_listened_to() -> None:
    surroundings = Surroundings()
    process = enclosed_process(surroundings, Unwinding(os.pidfd_open(os.getpid())))
    process.exited(ExitReport(wait_status=3 << 8, user_s=0, system_s=0, max_rss_bytes=0))
    surroundings.tell()
    while not process.is_closed:
        await process.changed()
    assert process.exit_code == 3
    assert process.leftover_group is not None
    process.leftover_group.close()


async def test_a_spawner_that_is_lost_after_the_enclosure_has_told_of_the_end_takes_nothing_away() -> None:
    pidfd = os.pidfd_open(os.getpid())
    surroundings = Surroundings()
    process = enclosed_process(surroundings, Unwinding(pidfd))
    surroundings.tell()
    while not process.is_closed:
        await process.changed()
    process.lose("the spawner has ended")
    assert process.is_gone
    assert process.exit_code == 0
    assert process.failure is None
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(pidfd)


async def test_no_signal_stops_an_enclosure_whose_command_has_ended() -> None:
    group = Unwinding(os.pidfd_open(os.getpid()))
    surroundings = Surroundings()
    process = enclosed_process(surroundings, group)
    process.signal(signal.SIGSTOP)
    surroundings.tell()
    process.signal(signal.SIGSTOP)
    while not process.is_closed:
        await process.changed()
    process.signal(signal.SIGSTOP)
    assert group.signals == [signal.SIGSTOP, signal.SIGCONT]
    process.exited(EXIT)
