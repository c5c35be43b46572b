"""Encodes instructions to paddock-stub. Pure.

The other side is native/instruction.h. The two are built and shipped together: change both.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Final

_HEAD: Final = struct.Struct("=3I")


class _Kind(IntEnum):
    DENY = 1
    RUN = 2


def deny(message: str) -> bytes:
    """Encode: write a message to standard error, and end with status 1."""
    # A NUL would cut the message short; no text of ours has one, but rules come from clients.
    return _instruction(_Kind.DENY, message.encode("utf-8", "replace").replace(b"\0", b"?"))


def run(path: bytes, argv: Sequence[bytes], environment: Sequence[bytes]) -> bytes:
    """Encode: execute a program by this path, relative to the caller's working directory."""
    return _instruction(_Kind.RUN, path, argv, environment)


def _instruction(
    kind: _Kind, text: bytes, argv: Sequence[bytes] = (), environment: Sequence[bytes] = ()
) -> bytes:
    strings = b"\0".join((text, *argv, *environment, b""))
    return _HEAD.pack(kind, len(argv), len(environment)) + strings
