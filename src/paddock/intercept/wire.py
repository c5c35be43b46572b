"""The decider's side of the escalation protocol: bytes in, values out, and back. Pure.

A program in a sandbox that executes others (a Bash with the patch of `patches/`) runs a wrapper in place of
each. The wrapper opens a stream to the decider, and over it:

    wrapper   {"file": F, "argv": [...], "workdir": W, "env": {...}}
    decider   {"action": "Run" | "Escalate" | {"Deny": {"reason": TEXT | null}}}
    wrapper   {"fds": [0, 1, 2]}, with those descriptors; after Escalate only
    wrapper   {"signal": N}, any number of times: for the program; only a wrapper of ours to a decider of ours
    decider   {"exit_code": N}

Each message is its length, in four bytes with the lowest first, followed by JSON. Text has lone surrogates
for bytes that are not UTF-8, as Python decodes file names. The other side is native/wrapper_message.h, or the
program that the protocol is from; everything from there comes from a confined command and is not trusted.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import Meta

HELLO: Final = b"\0"
"""The byte that accompanies the descriptor of a new stream."""

REQUEST_BYTES: Final = 16 << 20
"""The largest request that is read. The kernel takes 2 MiB of arguments and variables by default
(execve(2)), and JSON needs at most six bytes for each."""

FILES_LIMIT: Final = 16
"""The most descriptors that one message can carry."""

_DIGITS_LIMIT: Final = 10
"""The most digits of a number; descriptors and signals have fewer."""

_LENGTH: Final = struct.Struct("<I")

Message = TypeVar("Message")


class WireError(Exception):
    """The other side does not keep to the protocol."""


class ExecRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A program that is to be executed."""

    file: Annotated[str, Meta(min_length=1)]
    """The path that the shell found; it may be relative to `workdir`."""
    argv: list[str]
    workdir: Annotated[str, Meta(pattern="^/")]
    env: Mapping[str, str]


class PassedFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers that the passed descriptors have in the program."""

    fds: Annotated[list[Annotated[int, Meta(ge=0, le=1023)]], Meta(max_length=FILES_LIMIT)]


class Signal(msgspec.Struct, frozen=True, kw_only=True):
    """A signal for the program outside."""

    signal: Annotated[int, Meta(ge=1, le=64)]


class FrameReader:
    """Finds the messages in a stream of bytes."""

    def __init__(self, limit_bytes: int = REQUEST_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._received = bytearray()

    @property
    def held_bytes(self) -> int:
        """Return how many bytes of an unfinished message are held."""
        return len(self._received)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Take more bytes, and return every message that is now complete. Raises WireError."""
        self._received += data
        while len(self._received) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._received)
            if length > self._limit_bytes:
                raise WireError(f"a message of {length} bytes is longer than {self._limit_bytes}")
            end = _LENGTH.size + length
            if len(self._received) < end:
                return
            message = bytes(self._received[_LENGTH.size : end])
            del self._received[:end]
            yield message


def read_request(message: bytes) -> ExecRequest:
    """Read the request for an execution. Raises WireError."""
    request = _read(message, ExecRequest)
    texts = (request.file, request.workdir, *request.argv, *request.env, *request.env.values())
    if any("\0" in text for text in texts) or any("=" in name or not name for name in request.env):
        raise WireError("no program can take these texts")
    try:
        "".join(texts).encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise WireError("a text that stands for no bytes") from error
    return request


def read_files(message: bytes, received: int) -> list[int]:
    """Read the numbers of the descriptors that came with the message. Raises WireError."""
    numbers = _read(message, PassedFiles).fds
    if len(numbers) != received or len(set(numbers)) != received:
        raise WireError(f"{received} descriptors came for the numbers {numbers}")
    return numbers


def read_signal(message: bytes) -> int:
    """Read a signal for the program outside. Raises WireError."""
    return _read(message, Signal).signal


def run() -> bytes:
    """Let the program run where it is."""
    return _frame({"action": "Run"})


def escalate() -> bytes:
    """Take the program out of the sandbox; its descriptors come next."""
    return _frame({"action": "Escalate"})


def deny(reason: str | None) -> bytes:
    """Refuse the program, and say why."""
    return _frame({"action": {"Deny": {"reason": None if reason is None else _shown(reason)}}})


def exited(code: int) -> bytes:
    """Tell how a program outside has ended."""
    return _frame({"exit_code": code})


def _shown(text: str) -> str:
    """Return text that every JSON reader accepts: other readers can't represent a byte that is not UTF-8."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _frame(message: Mapping[str, object]) -> bytes:
    data = json.dumps(message, separators=(",", ":")).encode()
    return _LENGTH.pack(len(data)) + data


def _read(message: bytes, kind: type[Message]) -> Message:
    try:
        # msgspec's own reader refuses lone surrogates.
        text = message.decode()
        return msgspec.convert(json.loads(text, parse_int=_number, parse_float=_number), kind)
    except (ValueError, RecursionError) as error:
        raise WireError(str(error)) from error


def _number(text: str) -> int:
    """Read a number. Reject long ones, which are slow in Python and mean nothing here, and fractions."""
    if len(text) > _DIGITS_LIMIT:
        raise ValueError(f"a number of {len(text)} digits is not valid")
    return int(text)
