"""Runs a seccomp program as the kernel would, for any machine.

Written from the kernel's documentation of classic BPF, apart from the assembler: it
knows every instruction that seccomp accepts and libseccomp emits, not only ours.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable
from dataclasses import dataclass

WORD = 0xFFFFFFFF

_JUMPS: dict[int, Callable[[int, int], int]] = {
    0x15: operator.eq,
    0x25: operator.gt,
    0x35: operator.ge,
    0x45: operator.and_,
}


@dataclass(frozen=True)
class Call:
    """What struct seccomp_data holds."""

    architecture: int
    number: int
    arguments: tuple[int, ...] = ()

    def encode(self) -> bytes:
        padded = (*self.arguments, *(0,) * (6 - len(self.arguments)))
        return struct.pack("=IIQ6Q", self.number & WORD, self.architecture, 0, *padded)


def run(program: bytes, call: Call) -> int:
    """The value that the program returns for a call."""
    code = list(struct.iter_unpack("=HBBI", program))
    data = call.encode()
    accumulator = 0
    position = 0
    while True:
        operation, if_true, if_false, constant = code[position]
        position += 1
        if operation == 0x20:
            assert constant % 4 == 0, "the kernel refuses loads that are not aligned"
            (accumulator,) = struct.unpack_from("=I", data, constant)
        elif operation == 0x54:
            accumulator &= constant
        elif operation == 0x05:
            position += constant
        elif operation in _JUMPS:
            position += if_true if _JUMPS[operation](accumulator, constant) else if_false
        elif operation == 0x06:
            return int(constant)
        else:
            raise AssertionError(f"instruction {operation:#x} is not one of classic BPF that seccomp takes")
