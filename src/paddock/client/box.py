"""A server at the other end of a connection: the place where a caller runs commands."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final
from uuid import uuid4
from weakref import WeakValueDictionary

from paddock.client.capability import require
from paddock.client.command import checked_argv, start_params
from paddock.client.confinement import SandboxLike
from paddock.client.connection import Connection
from paddock.client.ending import Ending
from paddock.client.files import Files
from paddock.client.inbox import Inbox
from paddock.client.place import RemotePathLike
from paddock.client.process import KILL_TIMEOUT_S, Bytes, Gathered, Process, send_kill
from paddock.client.remote_path import RemotePath
from paddock.client.resume import Session
from paddock.errors import (
    CommandFailed,
    ConnectionLost,
    InvalidRequest,
    PaddockError,
    ProcessLost,
    RequestError,
    RequestTimeout,
    RunTimeout,
)
from paddock.model.terminal import TerminalSize
from paddock.protocol.process import (
    Grace,
    GracefulMode,
    ListResult,
    ProcessSummary,
    ReadParams,
    ReadResult,
    StartParams,
    StartResult,
    TerminateParams,
    TerminateResult,
)
from paddock.protocol.session import EnvironmentInfo

FAREWELL_GRACE_S: Final = 2.0
"""Time between SIGTERM and SIGKILL for processes that still run when their box is closed."""

FAREWELL_TIMEOUT_S: Final = 5.0
"""How long `aclose` waits for the server to acknowledge that it ends them."""


@dataclass(frozen=True, slots=True)
class CompletedProcess:
    """A command that has ended, with everything it wrote. A terminal's output is all stdout."""

    argv: tuple[str, ...]
    returncode: int
    stdout: bytes
    stderr: bytes
    ending: Ending
    """What its sandbox denied, what ended it, what it used, as far as the server told."""

    def check(self) -> None:
        """Raise CommandFailed unless the status is 0."""
        if self.returncode != 0:
            raise CommandFailed(self.argv, self.returncode, self.stdout, self.stderr)


class Box:
    """An open session on a server. Made by `connect`.

    While the connection is lost and being made again, calls wait for it. Those that were
    under way are repeated where that does no harm; else they raise ConnectionLost, as
    everything does once the connection is closed or given up. A call that takes longer
    than the request timeout raises RequestTimeout. All methods belong to the event loop
    that the box was made in and may be called from many tasks.
    """

    def __init__(
        self,
        connection: Connection,
        session: Session,
        when_closed: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._connection = connection
        self._session = session
        self._when_closed = when_closed
        self._files = Files(connection, session)
        self._handles: WeakValueDictionary[str, Process] = WeakValueDictionary()

    @property
    def session_id(self) -> str:
        """The session on the server; another one after the first was lost, see `ReconnectPolicy`."""
        return self._session.id

    @property
    def environment(self) -> EnvironmentInfo:
        """What the server told about its host."""
        return self._session.environment

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection now; while it is being made again there is none."""
        return self._connection.is_connected

    def has(self, capability: str) -> bool:
        """Whether the server offers a capability, such as "processResize"."""
        return self.environment.capabilities.get(capability, False)

    # --- files --------------------------------------------------------------

    @property
    def fs(self) -> Files:
        """What can be done with the files of the server's host."""
        return self._files

    def path(self, path: RemotePathLike, *, sandbox: SandboxLike | None = None) -> RemotePath:
        """An absolute path on the server's host, to work with like a `pathlib.Path`.

        With a `sandbox`, whatever is done with it, and with paths made from it, is confined to that.
        """
        return RemotePath(self._files if sandbox is None else self._files.confined(sandbox), path)

    # --- processes ----------------------------------------------------------

    async def start(
        self,
        argv: Sequence[str],
        *,
        cwd: RemotePathLike | None = None,
        env: Mapping[str, str] | None = None,
        extra_env: Mapping[str, str] | None = None,
        stdin: bool = False,
        tty: bool | TerminalSize = False,
        arg0: str | None = None,
        process_id: str | None = None,
        keep_alive: bool = False,
        idempotency_key: str | None = None,
        sandbox: SandboxLike | None = None,
    ) -> Process:
        """Start a program; no shell is involved.

        `cwd` is an absolute path or a `file:` URI on the server's host; None is the
        server's own directory. `env` is the whole environment; None inherits the server's
        without variables whose names look like secrets (KEY, SECRET, TOKEN). `extra_env`
        goes on top of either. `stdin` opens a pipe to write to; else the process reads the
        end of file. `tty` gives it a terminal instead of pipes, of this size or 24 x 80.
        `arg0` is what the program sees as its own name. With `keep_alive` the process
        outlives this connection. A `sandbox` confines it: the name of a profile that the server
        knows, such as ":workspace", a profile as a dict, or a `Sandbox`, which says what its
        workspace is; without that it is `cwd`.

        Returns once the program runs, or raises: SpawnError, with an errno, when it can't be
        started, ProcessExists, TooManyProcesses, ExecForbidden; CapabilityMissing and TypeError
        or ValueError before anything is sent. On a server of the reference protocol the first
        is OperationFailed and the others InvalidRequest, the classes above them. A sandbox that can't
        be had is InvalidParams, one that the server does not grant ProfileExceeded.

        When cancelled or timed out, a process that did start is killed, unless an
        `idempotency_key` was given: then the same call may be made again, and gives the
        process that the first one started. A start that is cut off in the middle is repeated
        and happens once. On a server without idempotency it may raise ConnectionLost instead,
        and always does with a `process_id` of the caller's.
        """
        name = process_id if process_id is not None else uuid4().hex
        is_idempotent = idempotency_key is not None
        if idempotency_key is None and self.has("startIdempotency"):
            idempotency_key = uuid4().hex
        params = start_params(
            self.environment,
            name,
            argv,
            cwd=cwd,
            env=env,
            extra_env=extra_env,
            stdin=stdin,
            tty=tty,
            arg0=arg0,
            keep_alive=keep_alive,
            idempotency_key=idempotency_key,
            sandbox=sandbox,
        )
        inbox = self._connection.find_inbox(name) if is_idempotent else None
        # Before the request goes out: events may overtake its answer.
        inbox = inbox or self._connection.open_inbox(name, is_kept_alive=keep_alive)
        started_id = await self._start(
            params, inbox, is_idempotent=is_idempotent, is_unique=process_id is None
        )
        if started_id != name:
            self._connection.drop_inbox(inbox)
            return self._first_of_key(started_id, stdin=params.has_open_stdin)
        self._connection.started(inbox)
        return self._handle(inbox, stdin=params.has_open_stdin)

    async def attach(self, process_id: str, *, after_seq: int = 0) -> Process:
        """The handle of a process of this session that somebody else has started, or this client before.

        Its output begins after the event numbered `after_seq`, see `Process.read_seq`, or at
        its beginning; where the server has dropped some of it, readers get OutputGap. A process
        that has a handle here already gives that one, at its own position. `aclose` leaves an
        attached process alone. Raises UnknownProcess when the session has no such process, or
        InvalidRequest, the class above it, on a server of the reference protocol.
        """
        known = self._handles.get(process_id)
        inbox = self._connection.find_inbox(process_id)
        if known is not None and (inbox is None or known.is_handle_of(inbox)):
            return known
        if inbox is not None:
            # Its handle was let go of, and its output with it.
            self._connection.drop_inbox(inbox)
        inbox = self._connection.open_inbox(process_id, after_seq=after_seq, is_kept_alive=True)
        inbox.cut()
        self._connection.started(inbox)
        try:
            await self._connection.caught_up(inbox)
        except BaseException as error:
            self._connection.drop_inbox(inbox)
            if isinstance(error, ProcessLost) and isinstance(error.__cause__, RequestError):
                raise error.__cause__ from None
            raise
        return self._handle(inbox, stdin=True)

    async def run(
        self,
        argv: Sequence[str],
        *,
        input: Bytes | None = None,
        timeout_s: float | None = None,
        check: bool = False,
        cwd: RemotePathLike | None = None,
        env: Mapping[str, str] | None = None,
        extra_env: Mapping[str, str] | None = None,
        tty: bool | TerminalSize = False,
        arg0: str | None = None,
        sandbox: SandboxLike | None = None,
    ) -> CompletedProcess:
        """Run a command to its end, like `subprocess.run`; see `start` for the arguments.

        `input` is all of stdin. Returns when the process has exited and its output is at
        its end, so a child that it leaves behind with its stdout is waited for. After
        `timeout_s`, counted from the start, the process group is killed and RunTimeout
        raised, with the output so far. With `check`, a status other than 0 is
        CommandFailed. When cancelled, the process group is killed.
        """
        arguments = tuple(checked_argv(argv))
        if input is not None:
            require(self.environment, "processCloseStdin", "close stdin after the input")
        process = await self.start(
            arguments,
            cwd=cwd,
            env=env,
            extra_env=extra_env,
            stdin=input is not None,
            tty=tty,
            arg0=arg0,
            sandbox=sandbox,
        )
        gathered = Gathered()
        try:
            async with asyncio.timeout(timeout_s):
                await process.gather(gathered, input)
                returncode = await process.wait()
        except TimeoutError:
            process.kill_now()
            await self._gather_rest(process, gathered)
            assert timeout_s is not None
            raise RunTimeout(arguments, timeout_s, gathered.stdout, gathered.stderr) from None
        except BaseException:
            process.kill_now()
            raise
        ending = process.ending or Ending(returncode)
        completed = CompletedProcess(arguments, returncode, gathered.stdout, gathered.stderr, ending)
        if check:
            completed.check()
        return completed

    async def processes(self) -> list[ProcessSummary]:
        """The processes of the session, oldest first; closed ones only for a while."""
        require(self.environment, "processList", "list processes")
        return (await self._connection.request("process/list", None, ListResult)).processes

    # --- the end ------------------------------------------------------------

    async def aclose(self) -> None:
        """End the processes that were started here and still run, then the connection. Idempotent.

        They get SIGTERM and, after a moment, SIGKILL; those started with `keep_alive` go
        on. Output that has arrived can still be read. Bounded; when cancelled, the
        connection is dropped at once and the server ends the processes when it likes.
        """
        await self._close(self._end_processes)

    async def detach(self) -> None:
        """End the connection and leave the processes to whoever resumes the session in time. Idempotent.

        Give `session_id` to `connect(url, resume=...)`, in this program or another.
        """
        await self._close(None)

    async def _close(self, farewell: Callable[[], Awaitable[None]] | None) -> None:
        try:
            if farewell is not None and self._connection.is_open:
                await farewell()
            await self._session.aclose()
            await self._connection.aclose()
        except BaseException:
            self._connection.abort()
            raise
        finally:
            if self._when_closed is not None:
                await self._when_closed()

    async def __aenter__(self) -> Box:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    # --- inside -------------------------------------------------------------

    async def _start(self, params: StartParams, inbox: Inbox, *, is_idempotent: bool, is_unique: bool) -> str:
        """The id of the process that runs now."""
        connection = self._connection
        try:
            # Nobody else takes an id that was made here, so a second start finds its own first at worst.
            answer = connection.submit("process/start", params, can_repeat=True if is_unique else None)
            try:
                return (await connection.result(answer, StartResult)).process_id
            except InvalidRequest as error:
                if answer.attempts == 1 or params.idempotency_key is not None:
                    raise
                return await self._find_started(params.process_id, error)
        except (asyncio.CancelledError, RequestTimeout):
            # Whether it was or will be started is not known.
            if not is_idempotent:
                send_kill(connection, params.process_id)
                connection.drop_inbox(inbox)
            raise
        except UnicodeEncodeError as error:
            connection.drop_inbox(inbox)
            text = "an argument or variable is not valid UTF-8, and the protocol can't carry it"
            raise ValueError(f"{text}: {error.object!r}") from error
        except BaseException:
            connection.drop_inbox(inbox)
            raise

    async def _find_started(self, process_id: str, refusal: InvalidRequest) -> str:
        """The id of a process whose start was refused the second time, if the first time did it."""
        params = ReadParams(process_id=process_id, max_bytes=0)
        try:
            await self._connection.request("process/read", params, ReadResult)
        except InvalidRequest as error:
            # The reference server leaves a start half done when its connection is lost in the middle.
            problem = f"the connection was lost during the start, which can't be repeated: {refusal}; {error}"
            raise ConnectionLost(problem) from error
        return process_id

    def _handle(self, inbox: Inbox, *, stdin: bool) -> Process:
        known = self._handles.get(inbox.process_id)
        if known is not None and known.is_handle_of(inbox):
            return known
        handle = Process(self._connection, inbox, self._session, stdin=stdin)
        self._handles[inbox.process_id] = handle
        return handle

    def _first_of_key(self, process_id: str, *, stdin: bool) -> Process:
        inbox = self._connection.find_inbox(process_id)
        if inbox is not None:
            return self._handle(inbox, stdin=stdin)
        known = self._handles.get(process_id)
        if known is None:
            raise InvalidRequest(
                f"the idempotency key started process {process_id!r}, which has ended and is not held here"
            )
        return known

    async def _gather_rest(self, process: Process, gathered: Gathered) -> None:
        try:
            async with asyncio.timeout(KILL_TIMEOUT_S):
                async for output in process:
                    gathered.add(output)
        except (TimeoutError, PaddockError):
            # The timeout is what the caller must hear about.
            pass

    async def _end_processes(self) -> None:
        mode = None
        if self.has("processTerminateGraceful"):
            mode = GracefulMode(graceful=Grace(timeout_ms=round(FAREWELL_GRACE_S * 1000)))
        answers = [
            self._connection.submit(
                "process/terminate", TerminateParams(process_id=inbox.process_id, mode=mode)
            )
            for inbox in self._connection.inboxes
            if not inbox.is_kept_alive
        ]
        try:
            async with asyncio.timeout(FAREWELL_TIMEOUT_S):
                for answer in answers:
                    await self._connection.result(answer, TerminateResult)
        except (TimeoutError, PaddockError):
            # A server that does not answer will notice the end of the connection.
            pass
        finally:
            for answer in answers:
                self._connection.forget(answer)
