"""The HTTP request that precedes a websocket, and the answer that replaces the upgrade.

Values only: which paths, origins and credentials are welcome is decided by
whoever passes an `HttpPolicy` to `websocket.listen`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request head.

    `headers` ignores the case of names; of a repeated header it gives the first.
    """

    method: str
    path: str
    """The request target without its query."""
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """A whole answer, after which the connection is closed."""

    status: int
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)
    """Further headers."""


HttpPolicy = Callable[[HttpRequest], HttpResponse | None]
"""Gives the answer to send, or None to go on with the websocket upgrade."""
