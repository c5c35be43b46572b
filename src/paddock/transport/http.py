"""The HTTP request that precedes a websocket, and the answer that replaces the upgrade.

Values only: the caller that passes an `HttpPolicy` to `websocket.listen` decides
which paths, origins and credentials are welcome.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct, field

HEAD_LINES: Final = 128
"""Lines that the head of a request or of an answer may have. Browsers and proxies send some thirty. The
shortest take as long to read as others do, and 16 KiB of them are four thousand."""


class Headers(Mapping[str, str]):
    """The header fields of one head. Ignores the case of names; of a repeated header it gives the first.

    Iterating gives each name once, in lower case.
    """

    def __init__(self, fields: Iterable[tuple[str, str]] = ()) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in fields:
            self._values.setdefault(name.lower(), []).append(value)

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower()][0]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def all(self, name: str) -> Sequence[str]:
        """Return every value of a header, in order."""
        return self._values.get(name.lower(), ())

    def tokens(self, name: str) -> frozenset[str]:
        """Return the members of a header that is a list, in lower case, over all lines (RFC 9110, 5.6.1)."""
        members = ",".join(self.all(name)).split(",")
        return frozenset(member.strip(" \t").lower() for member in members) - {""}


class HttpRequest(Struct, frozen=True):
    """One request head."""

    method: str
    path: str
    """The request target without its query."""
    headers: Headers


class HttpResponse(Struct, frozen=True, kw_only=True):
    """A whole answer, after which the connection is closed."""

    status: int
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)
    """Further headers."""


HttpPolicy = Callable[[HttpRequest], HttpResponse | None]
"""Gives the answer to send, or None to go on with the websocket upgrade."""
