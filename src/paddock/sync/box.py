"""A server at the other end of a connection, for programs that block."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, Literal, ParamSpec, Unpack, overload

from paddock.client.box import Box as AsyncBox
from paddock.client.command import RunOptions
from paddock.client.completed_process import CompletedProcess
from paddock.client.confinement import SandboxLike
from paddock.client.connect import Connecting
from paddock.client.connect import connect as async_connect
from paddock.client.process import Bytes
from paddock.client.process import Process as AsyncProcess
from paddock.client.wire_path import RemotePathLike
from paddock.protocol.session import EnvironmentInfo
from paddock.sync.answering import in_thread
from paddock.sync.facade import Facade, blocking
from paddock.sync.files import Files, RemotePath
from paddock.sync.portal import Portal
from paddock.sync.process import Process

P = ParamSpec("P")


def _handle(
    method: Callable[Concatenate[AsyncBox, P], Coroutine[Any, Any, AsyncProcess]],
) -> Callable[Concatenate[Box, P], Process]:
    """Return the blocking form of a method that returns a process."""

    @wraps(method)
    def call(self: Box, /, *arguments: P.args, **options: P.kwargs) -> Process:
        return Process(self._portal, self._portal.call(method(self._inner, *arguments, **options)))

    return call


class Box(Facade[AsyncBox]):
    """An open session on a server. Made by `connect`; see `paddock.Box`.

    All methods may be called from many threads. Dropping a box closes it in the background. If a program ends
    with an open box, the server notices by itself.
    """

    processes = blocking(AsyncBox.processes)
    start = _handle(AsyncBox.start)
    attach = _handle(AsyncBox.attach)

    @overload
    def run(
        self,
        argv: Sequence[str],
        *,
        text: Literal[False] = False,
        input: Bytes | None = None,
        **options: Unpack[RunOptions],
    ) -> CompletedProcess[bytes]: ...

    @overload
    def run(
        self,
        argv: Sequence[str],
        *,
        text: Literal[True],
        input: str | None = None,
        **options: Unpack[RunOptions],
    ) -> CompletedProcess[str]: ...

    def run(self, argv: Sequence[str], **options: Any) -> Any:
        """Run a command to its end, like `subprocess.run`; see `paddock.Box.run`."""
        return self._portal.call(self._inner.run(argv, **options))

    def __init__(self, portal: Portal, inner: AsyncBox) -> None:
        super().__init__(portal, inner)
        # At the end of the program nobody would wait for the close.
        weakref.finalize(self, portal.drop, inner.aclose).atexit = False

    @property
    def session_id(self) -> str:
        """Return the id of the session. It changes if the session is lost."""
        return self._inner.session_id

    @property
    def environment(self) -> EnvironmentInfo:
        """Return the server's description of its host."""
        return self._inner.environment

    @property
    def is_connected(self) -> bool:
        """Return whether the box is connected now. It is not while the client reconnects."""
        return self._inner.is_connected

    @property
    def is_open(self) -> bool:
        """Return whether calls are still taken; see `paddock.Box.is_open`."""
        return self._inner.is_open

    def has(self, capability: str) -> bool:
        """Return whether the server offers a capability, such as "processResize"."""
        return self._inner.has(capability)

    @property
    def fs(self) -> Files:
        """Return the files of the server's host, to read, write and watch."""
        return Files(self._portal, self._inner.fs)

    def path(self, path: RemotePathLike, *, sandbox: SandboxLike | None = None) -> RemotePath:
        """Return an absolute path on the server's host that works like a `pathlib.Path`; `sandbox`
        confines it."""
        return RemotePath(self._portal, self._inner.path(path, sandbox=sandbox))

    def close(self) -> None:
        """End the processes that were started here and still run, then the connection. Idempotent."""
        self._end(self._inner.aclose)

    def detach(self) -> None:
        """End the connection and leave the processes running for a client that resumes in time.
        Idempotent."""
        self._end(self._inner.detach)

    def _end(self, end: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if not self._portal.is_open:
            return
        try:
            self._portal.call(end())
        finally:
            self._portal.close()

    def __enter__(self) -> Box:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _connecting(make: Callable[P, Connecting]) -> Callable[P, Box]:
    @wraps(make)
    def connect(*arguments: P.args, **options: P.kwargs) -> Box:
        handlers = options.get("on_request")
        if isinstance(handlers, Mapping):
            options["on_request"] = {name: in_thread(handler) for name, handler in handlers.items()}
        connecting = make(*arguments, **options)
        portal = Portal()
        try:
            return Box(portal, portal.call(_open(connecting)))
        except BaseException:
            portal.close()
            raise

    connect.__doc__ = """Connect to a server and open a session, with the arguments of `paddock.connect`.

    Returns an open box, which is a context manager. When interrupted, nothing is left open.
    The functions of `on_request` may block: each question has a thread of its own, and the result of one
    that is needed no more is ignored.
    """
    return connect


async def _open(connecting: Connecting) -> AsyncBox:
    return await connecting


connect = _connecting(async_connect)
