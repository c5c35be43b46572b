"""The connection itself: listening, connecting, and its end."""

from __future__ import annotations

from paddock.errors.base import PaddockError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import ClassVar, Literal


class TransportError(PaddockError):
    """The connection itself, not a request on it."""


class ListenError(TransportError):
    """The address can't be listened on."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(address, reason)
        self.address = address
        self.reason = reason

    def __str__(self) -> str:
        return f"can't listen on {self.address}: {self.reason}"


class NoRuntimeDirectory(ListenError):
    """There is no private directory for control sockets and for files that sandboxes share."""

    def __init__(self, reason: str) -> None:
        super().__init__("a control socket", reason)

    def __str__(self) -> str:
        return f"Paddock has no private directory that it can use: {self.reason}"


class ConnectError(TransportError):
    """No connection could be made."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(address, reason)
        self.address = address
        self.reason = reason

    def __str__(self) -> str:
        return f"can't connect to {self.address}: {self.reason}"


class HandshakeRefused(ConnectError):
    """The server answered the websocket upgrade with an HTTP error.

    `body` is the raw body of the answer: it may be a whole page, or text that disturbs a terminal. The
    error's own text quotes its beginning, in one line of printable characters.
    """

    QUOTED_CHARS: ClassVar = 200
    """More than any Paddock server sends."""

    def __init__(self, address: str, status: int, body: str) -> None:
        line = "".join(filter(str.isprintable, " ".join(body.split())))
        if len(line) > self.QUOTED_CHARS:
            line = f"{line[: self.QUOTED_CHARS]}…"
        super().__init__(address, f"the server refused with HTTP {status} {line}".rstrip())
        self.status = status
        self.body = body


class MessageTooLarge(TransportError):
    """A message is over the limit; the connection is dropped."""

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(limit_bytes)
        self.limit_bytes = limit_bytes

    def __str__(self) -> str:
        return f"a message exceeds the limit of {self.limit_bytes} bytes"


class ConnectionLost(TransportError):
    """The connection ended before the answer came; whether the request took effect is not known."""


class WriteLost(ConnectionLost):
    """The connection ended while a file or directory was written; `outcome` says what is there now.

    "unchanged" means the old content: nothing replaced it. "incomplete" means a part of the new content.
    "unknown" means either the old or the new content: the last answer did not come.
    """

    def __init__(
        self, path: str, outcome: Literal["unchanged", "incomplete", "unknown"], reason: str
    ) -> None:
        super().__init__(path, outcome, reason)
        self.path = path
        self.outcome = outcome
        self.reason = reason

    def __str__(self) -> str:
        states = {
            "unchanged": f"{self.path!r} was not written, and what was there is unchanged",
            "incomplete": f"{self.path!r} was not written to its end",
            "unknown": f"it is not known whether {self.path!r} was written",
        }
        return f"{states[self.outcome]}: {self.reason}; write it again"


class RequestTimeout(TransportError, TimeoutError):
    """No answer came within the caller's time; whether the request took effect is not known."""
