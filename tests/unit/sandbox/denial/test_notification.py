"""Strings are read from the memory of a task as the kernel counts them."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import struct

import pytest

from paddock.sandbox.denial.notification import Memory, Strings

PAGE_BYTES = os.sysconf("SC_PAGESIZE")


def read(array: ctypes.Array[ctypes.c_char_p], limit_bytes: int) -> list[bytes]:
    """Read an array of this process, which may read itself."""
    return Strings(Memory(), os.getpid(), limit_bytes).strings(ctypes.addressof(array))


def array_of(*texts: bytes) -> ctypes.Array[ctypes.c_char_p]:
    return (ctypes.c_char_p * (len(texts) + 1))(*texts, None)


def test_strings_of_any_length_are_given_in_order() -> None:
    texts = [b"", b"one", b"x" * (3 * PAGE_BYTES + 1), b"", b"last"]
    assert read(array_of(*texts), limit_bytes=1 << 20) == texts


def test_array_at_an_odd_address_is_read_over_the_end_of_its_page() -> None:
    text = ctypes.create_string_buffer(b"text")
    words = struct.pack("=3Q", ctypes.addressof(text), ctypes.addressof(text), 0)
    room = mmap.mmap(-1, 2 * PAGE_BYTES)
    start = PAGE_BYTES - 3
    room[start : start + len(words)] = words
    base = ctypes.addressof(ctypes.c_char.from_buffer(room))
    assert Strings(Memory(), os.getpid(), 1000).strings(base + start) == [b"text", b"text"]


def test_no_array_is_an_empty_one() -> None:
    assert Strings(Memory(), os.getpid(), 0).strings(0) == []


@pytest.mark.unmeasured
@pytest.mark.parametrize("texts", [[b"x" * 99_999] * 40, [b""] * 450_000], ids=["long", "many"])
def test_one_string_under_many_pointers_counts_for_each(texts: list[bytes]) -> None:
    # Each takes a pointer and a NUL beside its bytes.
    size_bytes = sum(len(text) + 9 for text in texts)
    array = array_of(*texts)
    assert read(array, size_bytes) == texts
    with pytest.raises(OSError, match=os.strerror(errno.E2BIG)) as caught:
        read(array, size_bytes - 1)
    assert caught.value.errno == errno.E2BIG


def test_pages_are_not_kept_for_ever() -> None:
    spread = ctypes.create_string_buffer(1000 * PAGE_BYTES)
    base = ctypes.addressof(spread)
    array = (ctypes.c_void_p * 1001)(*[base + index * PAGE_BYTES for index in range(1000)], None)
    strings = Strings(Memory(), os.getpid(), 9000)
    assert strings.strings(ctypes.addressof(array)) == [b""] * 1000
    assert len(strings._pages) <= 256


def test_what_can_not_be_read_is_an_error() -> None:
    for address in (8, (1 << 64) - PAGE_BYTES):
        with pytest.raises(OSError, match=os.strerror(errno.EFAULT)):
            Strings(Memory(), os.getpid(), 100).string(address)
