"""What a managed process promises beyond what its parts do."""

from __future__ import annotations

import os
import signal

from paddock.process.group import ProcessGroup
from paddock.process.inlet import Inlet
from paddock.process.managed import Description, ManagedProcess
from paddock.process.output_log import Chunk


class Nobody:
    """A listener that is not interested."""

    def process_output(self, process: ManagedProcess, chunk: Chunk) -> None: ...
    def process_exited(self, process: ManagedProcess, seq: int) -> None: ...
    def process_closed(self, process: ManagedProcess, seq: int) -> None: ...
    def process_lost(self, process: ManagedProcess) -> None: ...


class Witness(ProcessGroup):
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
    inlet = Inlet(writing, is_terminal=False)
    group = Witness(reading)
    process = ManagedProcess(Description("p", ["/bin/true"], "/", False, has_stdin=True), Nobody(), 1000)
    process.adopt(group, [], inlet, window_fd=-1)

    process.write(b"first ")
    process.write(b"this")
    process.signal(signal.SIGINT)

    assert group.seen == [(signal.SIGINT, b"first this")]
    inlet.close()
    os.close(reading)
