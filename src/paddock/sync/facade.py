"""Wraps an asynchronous object that lives in a portal in blocking methods."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from paddock.sync.portal import Portal

A = TypeVar("A")
P = ParamSpec("P")
T = TypeVar("T")


class Facade(Generic[A]):
    """Represents `inner`, which belongs to the portal's loop."""

    def __init__(self, portal: Portal, inner: A) -> None:
        self._portal = portal
        self._inner = inner

    def __repr__(self) -> str:
        return repr(self._inner)


def blocking(
    method: Callable[Concatenate[A, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Facade[A], P], T]:
    """Return the blocking form of an asynchronous method: same arguments, same result, same errors."""

    @wraps(method)
    def call(self: Facade[A], /, *arguments: P.args, **options: P.kwargs) -> T:
        return self._portal.call(method(self._inner, *arguments, **options))

    return call
