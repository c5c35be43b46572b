"""Questions to the process that evaluates files of rules, and its answers. Pure.

Both ends are ours, but the far end has run what a stranger may have written: the near end decodes
its answer into these types and nothing else, and `ANSWER_LIMIT_BYTES` bounds its size for each
file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import msgspec

from paddock.rules.network import NetworkRule
from paddock.rules.policy import Problem
from paddock.rules.rule import PrefixRule

FILE_LIMIT_BYTES = 1024 * 1024
"""Limit for one file. The longest rule that people write has 500 bytes; this has room for 2,000 of them."""

LOAD_LIMIT_BYTES = 16 * 1024 * 1024
"""Limit for all files together. Files beyond it are not in force; the system's and the user's come first."""

ANSWER_LIMIT_BYTES = 16 * 1024 * 1024
"""Limit for the answer about one file: 16 times that of its text, because loops can make rules. The
kernel enforces it on the process that evaluates the file (RLIMIT_FSIZE)."""

LOAD_ANSWER_LIMIT_BYTES = 4 * ANSWER_LIMIT_BYTES
"""Limit for the answers about all files together, which the caller has to keep in memory."""

MEMORY_LIMIT_BYTES = 512 * 1024 * 1024
"""Address space of that process. Python with its libraries takes 100 MiB of it."""

FILE_CPU_LIMIT_S = 0.8
"""Processor time that one file may take; a thousand rules with examples take a quarter of it."""

LEAST_FILE_CPU_LIMIT_S = 0.1
"""Each file that takes too long halves the limit of those after it, down to this: however many there are,
they take less than 2 * FILE_CPU_LIMIT_S plus this much for each. Ordinary files take a few milliseconds."""


class RulesFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file to evaluate."""

    path: str
    text: str


class EvaluationRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Files to evaluate, in this order."""

    files: tuple[RulesFile, ...]


class EvaluatedFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one file declares, or why it is broken; a broken file declares nothing."""

    rules: tuple[PrefixRule, ...] = ()
    host_executables: dict[str, tuple[str, ...]] = {}
    network_rules: tuple[NetworkRule, ...] = ()
    problem: Problem | None = None


_REQUEST = msgspec.msgpack.Decoder(EvaluationRequest)
_ANSWER = msgspec.msgpack.Decoder(EvaluatedFile)
_LENGTH = struct.Struct(">I")


def encode_request(request: EvaluationRequest) -> bytes:
    """Encode the question as bytes."""
    return msgspec.msgpack.encode(request)


def decode_request(data: bytes) -> EvaluationRequest:
    """Decode the question from all of its bytes."""
    return _REQUEST.decode(data)


def encode_answer(evaluated: EvaluatedFile) -> bytes:
    """Encode the part of the answer that is about one file."""
    body = msgspec.msgpack.encode(evaluated)
    return _LENGTH.pack(len(body)) + body


def decode_answers(data: bytes) -> Iterator[EvaluatedFile]:
    """Yield the parts of an answer up to the first one that is incomplete or invalid."""
    view = memoryview(data)
    while len(view) >= _LENGTH.size:
        (length,) = _LENGTH.unpack_from(view)
        body = view[_LENGTH.size : _LENGTH.size + length]
        if len(body) < length:
            return
        try:
            evaluated = _ANSWER.decode(body)
        except msgspec.DecodeError:
            return
        yield evaluated
        view = view[_LENGTH.size + length :]
