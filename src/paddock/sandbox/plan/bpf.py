"""Classic BPF for seccomp(2): conditions on a system call in, bytes for the kernel out.

A filter is a list of `Refusal`s and `Notice`s, tried in order; a call that none of them fits
is allowed. That is all the language there is, so what a filter refuses can be read
off its list. The module knows neither names of system calls nor what is dangerous.

The kernel notices calls that a filter always allows and does not run it for
them (since Linux 5.11), so the length of the list costs the others nothing. A call that is on
it costs what stands before its first case, and its own cases.
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
"""Ask the process that holds the listener of the filter. A refusal by any other filter takes precedence."""

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

    The kernel looks at no more than the low half of an `int`, and so must a filter: one
    that compares all 64 bits is bypassed by setting one that is not looked at.
    """

    argument: int
    is_high: bool = False

    @property
    def offset(self) -> int:
        """Return the offset in struct seccomp_data, on the little-endian machines that have filters."""
        return ARGUMENTS_OFFSET + ARGUMENT_BYTES * self.argument + (4 if self.is_high else 0)


class Condition(Struct, frozen=True):
    """Holds when the word, masked, is one of the values, or, if `is_negated`, none of them."""

    word: Word
    values: tuple[int, ...]
    mask: int = WHOLE_WORD
    is_negated: bool = False

    def __post_init__(self) -> None:
        if not self.values:
            raise ValueError("a condition needs a value to compare with")

    def holds(self, arguments: Sequence[int]) -> bool:
        """Return whether the program would find that the condition holds."""
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
    """A call with this number waits for the word of a listener when every condition holds."""

    number: int
    conditions: tuple[Condition, ...] = ()

    @property
    def verdict(self) -> int:
        """Return what the program returns."""
        return RETURN_NOTIFY


def assemble(architecture: int, cases: Iterable[Refusal | Notice], *, foreign_abi_bit: int = 0) -> bytes:
    """Return the program, as the kernel takes it and as `bwrap --seccomp` reads it.

    A call of another `architecture` kills the process: its numbers mean other
    calls, so no list of ours says anything about them. A number that has `foreign_abi_bit`
    set is one of a second ABI under the same architecture, and is answered as if
    the kernel did not have it.
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
        # Backwards, for a condition that does not hold jumps over all that follows it.
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
    """Return code that falls through if the condition holds, else skips the instructions after it."""
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
