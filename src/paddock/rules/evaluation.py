"""Questions to the process that evaluates files of rules, and its answers. Pure.

Both ends are ours, but the far end has run what a stranger may have written: its answer is
decoded into these types and nothing else, and its size is bounded by `ANSWER_LIMIT_BYTES`
for each file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import msgspec

from paddock.rules.network import NetworkRule
from paddock.rules.policy import Problem
from paddock.rules.rule import PrefixRule

FILE_LIMIT_BYTES = 1024 * 1024
"""Of one file. The longest rule that people write has 500 bytes; this is room for 2,000 of them."""

LOAD_LIMIT_BYTES = 16 * 1024 * 1024
"""Of all files together. What is beyond is not in force; the files of the system and the user come first."""

ANSWER_LIMIT_BYTES = 16 * 1024 * 1024
"""Of the answer about one file: 16 times what its text may have, since rules can be made in loops. The
kernel enforces it on the process that evaluates the file (RLIMIT_FSIZE)."""

LOAD_ANSWER_LIMIT_BYTES = 4 * ANSWER_LIMIT_BYTES
"""Of the answers about all files together, which whoever asked has to keep in memory."""

MEMORY_LIMIT_BYTES = 512 * 1024 * 1024
"""Address space of that process. Python with its libraries takes 100 MiB of it."""

FILE_CPU_LIMIT_S = 0.8
"""Time of the processor that one file may take; a thousand rules with examples take a quarter of it."""

LEAST_FILE_CPU_LIMIT_S = 0.1
"""Each file that takes too long halves the limit of those after it, down to this: however many there are,
they take less than 2 * FILE_CPU_LIMIT_S and so much for each. Ordinary files take a few milliseconds."""


class RulesFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file to evaluate."""

    path: str
    text: str


class EvaluationRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Files to evaluate, in this order."""

    files: tuple[RulesFile, ...]


class EvaluatedFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one file declares, or why it is broken; then it declares nothing."""

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
    """Yield the parts of an answer that are whole and what they should be; what comes after them is lost."""
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
