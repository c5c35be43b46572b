"""A confined directory on a server, for programs that block."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Coroutine, Mapping
from functools import wraps
from threading import Lock
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from paddock.client.connect import Connecting
from paddock.client.reference import BoxReference
from paddock.client.workspace import PROFILE
from paddock.client.workspace import Workspace as AsyncWorkspace
from paddock.sync.box import Box
from paddock.sync.portal import Portal

P = ParamSpec("P")
T = TypeVar("T")

Target = str | Connecting | Box | None
"""The URL of a server, a connection to be made, an open box, or a private server."""


def _blocking(
    method: Callable[Concatenate[AsyncWorkspace, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Workspace, P], T]:
    @wraps(method)
    def call(self: Workspace, /, *arguments: P.args, **options: P.kwargs) -> T:
        return self.call(method(self.inner, *arguments, **options))

    return call


class Workspace:
    """A confined directory; see `paddock.Workspace`. All methods may be called from many threads.

    There is no thread and no connection before the first call.
    """

    open = _blocking(AsyncWorkspace.open)
    run = _blocking(AsyncWorkspace.run)
    read_bytes = _blocking(AsyncWorkspace.read_bytes)
    write_bytes = _blocking(AsyncWorkspace.write_bytes)
    export_tree = _blocking(AsyncWorkspace.export_tree)
    import_tree = _blocking(AsyncWorkspace.import_tree)
    destroy = _blocking(AsyncWorkspace.destroy)

    def __init__(
        self,
        target: Target = None,
        *,
        directory: str | None = None,
        profile: str | Mapping[str, Any] = PROFILE,
        env: Mapping[str, str] | None = None,
        inherits_env: bool = True,
    ) -> None:
        inner = AsyncWorkspace(
            _inner_of(target), directory=directory, profile=profile, env=env, inherits_env=inherits_env
        )
        self._set_up(inner, target)

    @classmethod
    def attach(
        cls, reference: BoxReference, target: Target = None, *, env: Mapping[str, str] | None = None
    ) -> Self:
        """Return the workspace that a reference names; see `paddock.Workspace.attach`."""
        workspace = cls.__new__(cls)
        workspace._set_up(AsyncWorkspace.attach(reference, _inner_of(target), env=env), target)
        return workspace

    def _set_up(self, inner: AsyncWorkspace, target: Target) -> None:
        self.inner = inner
        """The asynchronous workspace, for the coroutines that `call` runs."""
        self._starting = Lock()
        self._portal: Portal | None = target._portal if isinstance(target, Box) else None
        self._is_owner = self._portal is None

    @property
    def reference(self) -> BoxReference | None:
        """Return the reference with which another process attaches; None before the first use."""
        return self.inner.reference

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine that uses `inner`, and wait for it."""
        with self._starting:
            if self._portal is None:
                self._portal = Portal()
                weakref.finalize(self, self._portal.drop, self.inner.aclose).atexit = False
        return self._portal.call(work)

    def close(self) -> None:
        """End the commands that run here, and the connection unless it is the caller's. Idempotent."""
        portal = self._portal
        if portal is None or not self._is_owner or not portal.is_open:
            return
        try:
            portal.call(self.inner.aclose())
        finally:
            portal.close()

    def __enter__(self) -> Self:
        try:
            self.open()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.call(self.inner.__aexit__(kind, error, trace))
        finally:
            self.close()


def _inner_of(target: Target) -> Any:
    return target._inner if isinstance(target, Box) else target
