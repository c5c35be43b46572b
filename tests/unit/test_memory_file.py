"""Files in memory hold everything that was written, or there is none."""

from __future__ import annotations

import errno
import mmap
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from paddock.memory_file import memory_file

LIMIT_BYTES = 10_000


@contextmanager
def _limit() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT_BYTES, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_content_is_read_from_its_beginning() -> None:
    content = bytes(range(256)) * 1000
    file = memory_file("test", content)
    try:
        assert not os.get_inheritable(file)
        assert os.read(file, len(content) + 1) == content
        # As paddock-init reads its words.
        with mmap.mmap(file, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE) as mapped:
            mapped[:1] = b"x"
    finally:
        os.close(file)


def test_content_can_not_be_changed_by_whoever_gets_the_descriptor() -> None:
    file = memory_file("test", b"content")
    try:
        for change in (lambda: os.pwrite(file, b"x", 0), lambda: os.ftruncate(file, 0)):
            with pytest.raises(PermissionError):
                change()
        with pytest.raises(PermissionError):
            Path(f"/proc/self/fd/{file}").write_bytes(b"x")
        assert os.pread(file, 100, 0) == b"content"
    finally:
        os.close(file)


def test_limit_on_the_size_of_files_cuts_nothing_off() -> None:
    before = os.listdir("/proc/self/fd")
    with _limit():
        os.close(memory_file("test", bytes(LIMIT_BYTES)))
        with pytest.raises(OSError, match="ulimit -f") as caught:
            memory_file("test", bytes(LIMIT_BYTES + 1))
    assert caught.value.errno == errno.EFBIG
    assert os.listdir("/proc/self/fd") == before
