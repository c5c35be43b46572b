"""Assembles classic BPF for seccomp(2): conditions on a system call in, bytes for the kernel out.

A filter is a list of `Refusal`s and `Notice`s, tried in order; it allows a call that none of them fits. The
language has nothing else, so the list shows what a filter refuses. The module knows neither the names of
system calls nor which are dangerous.

Since Linux 5.11 the kernel knows which calls a filter always allows, and does not run the filter for them;
the length of the list costs those calls nothing. Any other call costs what stands before its first case, and
its own cases.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

RETURN_ALLOW: Final = 0x7FFF0000
RETURN_KILL_PROCESS: Final = 0x80000000
RETURN_ERRNO: Final = 0x00050000
"""With an errno in the low 16 bits (linux/seccomp.h)."""
RETURN_NOTIFY: Final = 0x7FC00000
"""Asks the process that holds the filter's listener. A refusal by any other filter takes precedence."""

NUMBER_OFFSET: Final = 0
ARCHITECTURE_OFFSET: Final = 4
ARGUMENTS_OFFSET: Final = 16
ARGUMENT_BYTES: Final = 8
"""struct seccomp_data: number, architecture, instruction pointer, then six arguments of 64 bits."""

INSTRUCTION: Final = struct.Struct("=HBBI")
"""struct sock_filter: code, jumps if true and if false, constant."""

INSTRUCTIONS_LIMIT: Final = 4096
"""BPF_MAXINSNS of the kernel."""

JUMP_LIMIT: Final = 255
"""A conditional jump is a byte, forward only."""

WHOLE_WORD: Final = 0xFFFFFFFF

_LOAD_WORD: Final = 0x20
_AND: Final = 0x54
_JUMP_IF_EQUAL: Final = 0x15
_JUMP_IF_SET: Final = 0x45
_RETURN: Final = 0x06


class Word(Struct, frozen=True):
    """Half of an argument: the low one, unless `is_high`.

    The kernel reads only the low half of an `int`, and so must a filter: a call could bypass one that
    compares all 64 bits by setting a bit that the kernel ignores.
    """

    argument: int
    is_high: bool = False

    @property
    def offset(self) -> int:
        """Return the offset in struct seccomp_data, on the little-endian machines that have filters."""
        return ARGUMENTS_OFFSET + ARGUMENT_BYTES * self.argument + (4 if self.is_high else 0)


class Condition(Struct, frozen=True):
    """Holds when the masked word is one of the values or, if `is_negated`, none of them."""

    word: Word
    values: tuple[int, ...]
    mask: int = WHOLE_WORD
    is_negated: bool = False

    def __post_init__(self) -> None:
        if not self.values:
            raise ValueError("a condition needs a value to compare with")

    def holds(self, arguments: Sequence[int]) -> bool:
        """Return whether the condition holds, as the program computes it."""
        argument = arguments[self.word.argument]
        word = argument >> 32 if self.word.is_high else argument & WHOLE_WORD
        return (word & self.mask in self.values) is not self.is_negated


class Refusal(Struct, frozen=True):
    """A call with this number fails with `errno` when every condition holds."""

    number: int
    errno: int
    conditions: tuple[Condition, ...] = ()

    @property
    def verdict(self) -> int:
        """Return what the program returns."""
        return RETURN_ERRNO | self.errno


class Notice(Struct, frozen=True):
    """A call with this number waits for the listener's answer when every condition holds."""

    number: int
    conditions: tuple[Condition, ...] = ()

    @property
    def verdict(self) -> int:
        """Return what the program returns."""
        return RETURN_NOTIFY


def assemble(architecture: int, cases: Iterable[Refusal | Notice], *, foreign_abi_bit: int = 0) -> bytes:
    """Return the program in the form that the kernel and `bwrap --seccomp` read.

    A call of another `architecture` kills the process: there the numbers mean other calls, about which our
    lists say nothing. A number with `foreign_abi_bit` belongs to a second ABI of the same architecture, and
    gets the answer of a kernel that lacks the call.
    """
    code = [
        *_load(ARCHITECTURE_OFFSET),
        _instruction(_JUMP_IF_EQUAL, architecture, if_true=1),
        *_return(RETURN_KILL_PROCESS),
        *_load(NUMBER_OFFSET),
    ]
    if foreign_abi_bit:
        code += [
            _instruction(_JUMP_IF_SET, foreign_abi_bit, if_false=1),
            *_return(RETURN_ERRNO | errno.ENOSYS),
        ]
    of_numbers: dict[int, list[Refusal | Notice]] = {}
    for case in cases:
        of_numbers.setdefault(case.number, []).append(case)
    for number, of_number in of_numbers.items():
        code += _decide(number, of_number)
    code += _return(RETURN_ALLOW)
    if len(code) > INSTRUCTIONS_LIMIT:
        raise ValueError(f"{len(code)} instructions, but the kernel takes {INSTRUCTIONS_LIMIT}")
    return b"".join(code)


def _decide(number: int, cases: Iterable[Refusal | Notice]) -> list[bytes]:
    """Return code that expects the call's number in the accumulator, and leaves it there if it is another."""
    block: list[bytes] = []
    for case in cases:
        # Backwards, because a condition that does not hold jumps over everything after it.
        code = _return(case.verdict)
        for condition in reversed(case.conditions):
            code = [*_test(condition, skipped=len(code)), *code]
        block += code
        if not case.conditions:
            break
    else:
        # No other case is about this number.
        block += _return(RETURN_ALLOW)
    return [_instruction(_JUMP_IF_EQUAL, number, if_false=len(block)), *block]


def _test(condition: Condition, skipped: int) -> list[bytes]:
    """Return code that falls through if the condition holds, and otherwise skips what follows."""
    code = _load(condition.word.offset)
    if condition.mask != WHOLE_WORD:
        code.append(_instruction(_AND, condition.mask))
    last = len(condition.values) - 1
    for position, value in enumerate(condition.values):
        following = last - position
        if condition.is_negated:
            code.append(_instruction(_JUMP_IF_EQUAL, value, if_true=following + skipped))
        else:
            miss = skipped if position == last else 0
            code.append(_instruction(_JUMP_IF_EQUAL, value, if_true=following, if_false=miss))
    return code


def _load(offset: int) -> list[bytes]:
    return [_instruction(_LOAD_WORD, offset)]


def _return(verdict: int) -> list[bytes]:
    return [_instruction(_RETURN, verdict)]


def _instruction(code: int, constant: int, *, if_true: int = 0, if_false: int = 0) -> bytes:
    if max(if_true, if_false) > JUMP_LIMIT:
        raise ValueError(f"a jump over {max(if_true, if_false)} instructions; the kernel allows {JUMP_LIMIT}")
    return INSTRUCTION.pack(code, if_true, if_false, constant)
