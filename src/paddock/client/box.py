"""A server at the other end of a connection: the place where a caller runs commands."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal, Unpack, overload
from uuid import uuid4
from weakref import WeakValueDictionary

from paddock.client.capability import require
from paddock.client.command import RunOptions, checked_argv, checked_input, prepared_params, start_params
from paddock.client.connection import Connection
from paddock.client.ending import Ending
from paddock.client.inbox import Inbox
from paddock.client.output_reader import Gathered, OutputExcess
from paddock.client.process import Bytes, Process, send_kill
from paddock.client.resume import Session
from paddock.errors import (
    ConnectionLost,
    InvalidRequest,
    OutputTooLarge,
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

if TYPE_CHECKING:
    from paddock.client.completed_process import CompletedProcess
    from paddock.client.confinement import SandboxLike
    from paddock.client.files import Files
    from paddock.client.reference import BoxReference
    from paddock.client.remote_path import RemotePath
    from paddock.client.wire_path import RemotePathLike
    from paddock.model.profile import Limits
    from paddock.protocol.intercept import InterceptParams

CLOSE_GRACE_S: Final = 2.0
"""Time between SIGTERM and SIGKILL for processes that still run when their box is closed."""

CLOSE_TIMEOUT_S: Final = 5.0
"""How long `aclose` waits for the server to confirm that it ends those processes."""


class Box:
    """An open session on a server. Made by `connect`.

    While the client restores a lost connection, calls wait for it. The client repeats calls that were under
    way where that does no harm; otherwise they raise ConnectionLost, as every call does once the connection
    is closed or given up. A call that takes longer than the request timeout raises RequestTimeout. All
    methods belong to the event loop that the box was made in and may be called from many tasks.
    """

    def __init__(
        self,
        connection: Connection,
        session: Session,
        when_closed: Callable[[], Awaitable[None]] | None = None,
        *,
        url: str | None = None,
    ) -> None:
        self._url = url
        self._connection = connection
        self._session = session
        self._when_closed = when_closed
        self._handles: WeakValueDictionary[str, Process] = WeakValueDictionary()

    def __repr__(self) -> str:
        where = "a private server" if self._url is None else self._url
        state = "connected" if self.is_connected else "not connected"
        return f"<Box on {where}, session {self.session_id[:8]}, {state}>"

    @property
    def session_id(self) -> str:
        """Return the id of the session. It changes if the session is lost; see `ReconnectPolicy`."""
        return self._session.id

    @property
    def url(self) -> str | None:
        """Return the server's address; None for a private server."""
        return self._url

    @property
    def reference(self) -> BoxReference:
        """Return a reference with which another process can resume this session once this one has detached.

        Raises ValueError for a private server, which ends with its client.
        """
        if self._url is None:
            raise ValueError("a private server ends with its client; connect to a server by its url")
        from paddock.client.reference import BoxReference

        return BoxReference(
            url=self._url, provider_id=self.environment.provider_id, session_id=self.session_id
        )

    @property
    def environment(self) -> EnvironmentInfo:
        """Return the server's description of its host."""
        return self._session.environment

    @property
    def is_connected(self) -> bool:
        """Return whether the box is connected now. It is not while the client reconnects."""
        return self._connection.is_connected

    @property
    def is_open(self) -> bool:
        """Return whether calls are still taken: the connection is neither closed nor given up."""
        return self._connection.is_open

    def has(self, capability: str) -> bool:
        """Return whether the server offers a capability, such as "processResize"."""
        return self.environment.capabilities.get(capability, False)

    # --- files --------------------------------------------------------------

    @cached_property
    def fs(self) -> Files:
        """Return the files of the server's host, to read, write and watch."""
        from paddock.client.files import Files

        return Files(self._connection, self._session)

    def path(self, path: RemotePathLike, *, sandbox: SandboxLike | None = None) -> RemotePath:
        """Return an absolute path on the server's host, to work with like a `pathlib.Path`.

        A `sandbox` confines every operation on the path and on paths made from it.
        """
        from paddock.client.remote_path import RemotePath

        return RemotePath(self.fs if sandbox is None else self.fs.confined(sandbox), path)

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
        limits: Limits | None = None,
        intercept: InterceptParams | None = None,
        cwd_without_links: bool = False,
    ) -> Process:
        """Start a program; no shell is involved.

        `cwd` is an absolute path or a `file:` URI on the server's host; None is the server's own directory.
        `env` is the whole environment; None inherits the server's, without variables whose names look like
        secrets (`paddock.model.secret_name`). `extra_env` is added to either. `stdin` opens a pipe to write
        to; without it the process reads end of file at once. `tty` gives it a terminal of this size, or of 24
        x 80, instead of pipes. `arg0` is what the program sees as its own name. With `keep_alive` the process
        outlives this connection. A `sandbox` confines it: the name of a profile that the server knows, such
        as ":workspace", the path of a file with a profile, a profile as a dict, such as `{"extends":
        ":workspace", "network": "loopback"}`, or a `Sandbox`, which names its workspace; by default the
        workspace is `cwd`. `limits` bound the resources it uses, with or without a sandbox. With `intercept`,
        rules decide on each program that it executes in its sandbox, and the server asks the client about
        those that the rules leave open (`on_request` of `connect`). With `cwd_without_links`, which is for a
        program without a sandbox, nothing starts if there is a link on the way to `cwd`.

        Returns once the program runs, or raises: SpawnError, with an errno, when it can't be started,
        ProcessExists, TooManyProcesses, ExecForbidden; CapabilityMissing and TypeError or ValueError before
        anything is sent. On a server of the reference protocol the first is OperationFailed and the others
        InvalidRequest, their base classes. Raises InvalidParams for a sandbox that the server can't provide,
        and ProfileExceeded for one that it does not grant.

        If the call is cancelled or times out, the client kills a process that did start. With an
        `idempotency_key` it does not: the caller may repeat the same call, which returns the process that the
        first one started. If the connection is lost in the middle of a start, the client repeats the request,
        and the process starts once. On a server without idempotency, such a start may raise ConnectionLost
        instead, and always does with a `process_id` chosen by the caller.
        """
        params = start_params(
            self.environment,
            process_id if process_id is not None else uuid4().hex,
            argv,
            cwd=cwd,
            env=env,
            extra_env=extra_env,
            stdin=stdin,
            tty=tty,
            arg0=arg0,
            keep_alive=keep_alive,
            idempotency_key=self._idempotency_key(idempotency_key),
            sandbox=sandbox,
            limits=limits,
            intercept=intercept,
            cwd_without_links=cwd_without_links,
        )
        return await self._started(
            params, is_idempotent=idempotency_key is not None, is_unique=process_id is None
        )

    async def start_prepared(
        self,
        argv: Sequence[str],
        *,
        cwd: RemotePathLike,
        env: Mapping[str, str],
        arg0: str | None = None,
        stdin: bool = False,
        tty: bool | TerminalSize = False,
        cwd_without_links: bool = False,
    ) -> Process:
        """Start exactly this, without a sandbox: the server adds no variable and applies no policy.

        The program is a path, and `env` is the whole environment. Otherwise this works like `start`. Servers
        accept prepared starts only with the setting `allow_prepared_exec`; on any other server this raises
        CapabilityMissing.
        """
        params = prepared_params(
            self.environment,
            uuid4().hex,
            argv,
            cwd=cwd,
            env=env,
            arg0=arg0,
            stdin=stdin,
            tty=tty,
            idempotency_key=self._idempotency_key(None),
            cwd_without_links=cwd_without_links,
        )
        return await self._started(params, is_idempotent=False, is_unique=True)

    async def attach(self, process_id: str, *, after_seq: int = 0) -> Process:
        """Return the handle of a process that this client or another started earlier in this session.

        The output begins after the event numbered `after_seq` (see `Process.read_seq`), or at its beginning;
        readers get OutputGap where the server has dropped some of it. If the process already has a handle
        here, this returns that one, at its own position. `aclose` leaves an attached process alone. Raises
        UnknownProcess when the session has no such process, or its base class InvalidRequest on a server of
        the reference protocol.
        """
        known = self._handles.get(process_id)
        inbox = self._connection.find_inbox(process_id)
        if known is not None and (inbox is None or known.is_handle_of(inbox)):
            return known
        if inbox is not None:
            # Nobody holds the handle any more, and its output was dropped with it.
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

    @overload
    async def run(
        self,
        argv: Sequence[str],
        *,
        text: Literal[False] = False,
        input: Bytes | None = None,
        **options: Unpack[RunOptions],
    ) -> CompletedProcess[bytes]: ...

    @overload
    async def run(
        self,
        argv: Sequence[str],
        *,
        text: Literal[True],
        input: str | None = None,
        **options: Unpack[RunOptions],
    ) -> CompletedProcess[str]: ...

    async def run(
        self,
        argv: Sequence[str],
        *,
        text: bool = False,
        input: Bytes | str | None = None,
        timeout_s: float | None = None,
        output_limit_bytes: int | None = None,
        check: bool = False,
        cwd: RemotePathLike | None = None,
        env: Mapping[str, str] | None = None,
        extra_env: Mapping[str, str] | None = None,
        tty: bool | TerminalSize = False,
        arg0: str | None = None,
        sandbox: SandboxLike | None = None,
        limits: Limits | None = None,
        intercept: InterceptParams | None = None,
    ) -> CompletedProcess[bytes] | CompletedProcess[str]:
        """Run a command to its end, like `subprocess.run`; see `start` for the arguments.

        `input` is all of stdin. With `text`, input and output are str; bytes that are not UTF-8 become
        U+FFFD. Returns when the process has exited and its output has arrived. `is_output_complete` is false
        if a child that it left behind still holds its output open. After `timeout_s`, counted from the start,
        this kills the process group and raises RunTimeout with the output so far; after more than
        `output_limit_bytes` in one stream, it raises OutputTooLarge. In a sandbox it also kills everything
        that the process started. With `check`, a status other than 0 raises CommandFailed. Cancelling the
        call kills the process group.
        """
        from paddock.client.completed_process import CompletedProcess
        from paddock.client.completion import TimedOut, complete

        arguments = tuple(checked_argv(argv))
        data = checked_input(input, is_text=text)
        if data is not None:
            require(self.environment, "processCloseStdin", "close stdin after the input")
        process = await self.start(
            arguments,
            cwd=cwd,
            env=env,
            extra_env=extra_env,
            stdin=data is not None,
            tty=tty,
            arg0=arg0,
            sandbox=sandbox,
            limits=limits,
            intercept=intercept,
        )
        gathered = Gathered(output_limit_bytes)
        try:
            is_complete = await complete(process, gathered, data, timeout_s)
        except TimedOut:
            assert timeout_s is not None
            raise RunTimeout(arguments, timeout_s, gathered.stdout, gathered.stderr) from None
        except OutputExcess:
            assert output_limit_bytes is not None
            raise OutputTooLarge(arguments, output_limit_bytes, gathered.stdout, gathered.stderr) from None
        returncode = await process.wait()
        ending = process.ending or Ending(returncode)
        completed = CompletedProcess(
            arguments, returncode, gathered.stdout, gathered.stderr, ending, is_output_complete=is_complete
        )
        if check:
            completed.check()
        return completed.as_text() if text else completed

    async def processes(self) -> list[ProcessSummary]:
        """Return the processes of the session, oldest first. Closed ones are listed only for a while."""
        require(self.environment, "processList", "list processes")
        return (await self._connection.request("process/list", None, ListResult)).processes

    # --- the end ------------------------------------------------------------

    async def aclose(self) -> None:
        """End the processes that were started here and still run, then the connection. Idempotent.

        They get SIGTERM and, after a moment, SIGKILL; those started with `keep_alive` keep running. Output
        that has arrived can still be read. The time is bounded. Cancelling this drops the connection at once,
        and the server ends the processes in its own time.
        """
        await self._close(self._end_processes)

    async def detach(self) -> None:
        """End the connection and leave the processes running for a client that resumes in time. Idempotent.

        Give `session_id` to `connect(url, resume=...)`, in this program or another.
        """
        await self._close(None)

    async def _close(self, last_call: Callable[[], Awaitable[None]] | None) -> None:
        try:
            if last_call is not None and self._connection.is_open:
                await last_call()
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

    def _idempotency_key(self, chosen: str | None) -> str | None:
        return uuid4().hex if chosen is None and self.has("startIdempotency") else chosen

    async def _started(self, params: StartParams, *, is_idempotent: bool, is_unique: bool) -> Process:
        name = params.process_id
        inbox = self._connection.find_inbox(name) if is_idempotent else None
        # Before the request goes out: events may overtake its answer.
        inbox = inbox or self._connection.open_inbox(name, is_kept_alive=params.keep_alive)
        started_id = await self._start(params, inbox, is_idempotent=is_idempotent, is_unique=is_unique)
        if started_id != name:
            self._connection.drop_inbox(inbox)
            return self._first_of_key(started_id, stdin=params.has_open_stdin)
        self._connection.started(inbox)
        return self._handle(inbox, stdin=params.has_open_stdin)

    async def _start(self, params: StartParams, inbox: Inbox, *, is_idempotent: bool, is_unique: bool) -> str:
        """Ask for a start and return the id of the process that runs now."""
        connection = self._connection
        try:
            # No other client uses an id that was made here: at worst, a second start finds the first.
            answer = connection.submit("process/start", params, can_repeat=True if is_unique else None)
            try:
                return (await connection.result(answer, StartResult)).process_id
            except InvalidRequest as error:
                if answer.attempts == 1 or params.idempotency_key is not None:
                    raise
                return await self._find_started(params.process_id, error)
        except (asyncio.CancelledError, RequestTimeout):
            # The process may or may not have started, or may yet start.
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
        """Return the id of a process whose first start succeeded although the server refused the second."""
        params = ReadParams(process_id=process_id, max_bytes=0)
        try:
            await self._connection.request("process/read", params, ReadResult)
        except InvalidRequest as error:
            # The reference server leaves a start half done if the connection is lost in the middle of it.
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

    async def _end_processes(self) -> None:
        mode = None
        if self.has("processTerminateGraceful"):
            mode = GracefulMode(graceful=Grace(timeout_ms=round(CLOSE_GRACE_S * 1000)))
        answers = [
            self._connection.submit(
                "process/terminate", TerminateParams(process_id=inbox.process_id, mode=mode)
            )
            for inbox in self._connection.inboxes
            if not inbox.is_kept_alive
        ]
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                for answer in answers:
                    await self._connection.result(answer, TerminateResult)
        except (TimeoutError, PaddockError):
            # A server that does not answer will notice the end of the connection.
            pass
        finally:
            for answer in answers:
                self._connection.forget(answer)
