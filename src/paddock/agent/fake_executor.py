"""An executor that starts nothing: for tests of agents, approvers and the tools themselves.

A test scripts what a command does, from inside (`behave`) or from outside (`started`), and sees what a real
executor would have started, in which sandbox. Files are a dictionary. Whatever a test does not script behaves
as with a server.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from paddock.agent.executor import Command, FileAccess, PreparedExecSpec, RunningCommand
from paddock.agent.fake_files import FakeFiles
from paddock.client.confinement import Sandbox
from paddock.client.ending import Ending
from paddock.client.event_sequence import Gap
from paddock.client.inbox import Output
from paddock.errors import PaddockError, StdinClosed
from paddock.model.stream import Stream
from paddock.protocol.question import ExecApprovalParams, ExecApprovalResult


class FakeCommand:
    """A command that does what a test says."""

    def __init__(self, command: Command) -> None:
        self.command = command
        self.written = bytearray()
        self.was_written = asyncio.Event()
        self.is_stdin_closed = False
        self.interrupts = 0
        self.is_killed = False
        self.when_closed: Callable[[], object] | None = None
        """Called at the end of its input."""
        self._items: asyncio.Queue[Output | Gap | PaddockError | None] = asyncio.Queue()
        self._ending: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()

    # --- for the test ---------------------------------------------------------

    def say(self, data: bytes | Gap) -> None:
        """Write output, or lose some, for which the reader gets a Gap."""
        self._items.put_nowait(data if isinstance(data, Gap) else Output(Stream.STDOUT, data))

    def end(self, ending: Ending | int = 0, *, closes_output: bool = True) -> None:
        """Exit. Unless `closes_output`, a child goes on writing."""
        if not self._ending.done():
            self._ending.set_result(ending if isinstance(ending, Ending) else Ending(ending))
        if closes_output:
            self._items.put_nowait(None)

    def lose(self, failure: PaddockError) -> None:
        """Lose the command: nobody ever knows how it ends."""
        self._ending.set_exception(failure)
        self._items.put_nowait(failure)

    async def ask(self, params: ExecApprovalParams) -> ExecApprovalResult:
        """Ask the agent about a program, as a server does."""
        assert self.command.programs is not None
        return await self.command.programs.decide(params)

    # --- RunningCommand -------------------------------------------------------

    async def output(self) -> AsyncIterator[Output | Gap]:
        """Yield what the test says."""
        while (item := await self._items.get()) is not None:
            if isinstance(item, PaddockError):
                raise item
            yield item

    async def wait(self) -> Ending:
        """Return the end that the test says."""
        return await asyncio.shield(self._ending)

    async def write(self, data: bytes) -> None:
        """Keep what is written. Raises StdinClosed."""
        has_input = self.command.has_stdin or self.command.is_terminal
        if not has_input or self.is_stdin_closed or self._ending.done():
            raise StdinClosed("fake")
        self.written += data
        self.was_written.set()

    async def close_stdin(self) -> None:
        """Record the end of the input."""
        self.is_stdin_closed = True
        if self.when_closed is not None:
            self.when_closed()

    async def interrupt(self) -> None:
        """Count the signal, and end as most programs do."""
        if not self._ending.done():
            self.interrupts += 1
            self.end(130)

    def kill(self) -> None:
        """End as a killed process does."""
        if not self._ending.done():
            self.is_killed = True
            self.end(137)


class FakeExecutor:
    """Starts nothing. Calls `behave` with each command; without it, the test drives those in `started`."""

    identity = "fake"
    shell = "/bin/sh"
    cwd = "/work"
    temporary_directory: str | None = None
    intercepts = True

    def __init__(self, behave: Callable[[FakeCommand], None] | None = None) -> None:
        self.started: list[FakeCommand] = []
        self.contents: dict[str, bytes] = {"/work/README": b"hello\n"}
        self.refused: set[str] = set()
        """Paths that can't be written."""
        self.directories: set[str] = {self.cwd}
        self.modes: dict[str, int] = {}
        """Permissions of files that differ from the usual."""
        self.links: dict[str, str] = {}
        """Symbolic links, and where they lead."""
        self.linked: set[str] = set()
        """Files that have hard links."""
        self.sandboxes: list[Sandbox | None] = []
        """The sandboxes for which the agent asked for files."""
        self.behave = behave
        self.takes_prepared = False
        """Whether it accepts prepared starts. If so, every program is found below /real."""

    async def search_path(self, sandbox: Sandbox | None) -> str | None:
        """Return a usual PATH."""
        return "/usr/bin:/bin"

    async def prepare(self, command: Command, sandbox: Sandbox | None) -> PreparedExecSpec | None:
        """Return the command with another path of its program, which a test can recognise."""
        if not self.takes_prepared:
            return None
        argv = (f"/real{command.argv[0]}", *command.argv[1:])
        return PreparedExecSpec(argv, command.argv[0], command.cwd, {"HOME": "/", **command.env})

    async def start(self, command: Command) -> RunningCommand:
        """Record the command."""
        fake = FakeCommand(command)
        self.started.append(fake)
        if self.behave is not None:
            self.behave(fake)
        return fake

    def files(self, sandbox: Sandbox | None, *, without_links: bool = False) -> FileAccess:
        """Return the files, whatever the sandbox."""
        self.sandboxes.append(sandbox)
        return FakeFiles(
            self.contents,
            self.refused,
            self.directories,
            self.modes,
            self.links,
            self.linked,
            follows_links=not without_links,
        )

    async def aclose(self) -> None:
        """Do nothing."""
