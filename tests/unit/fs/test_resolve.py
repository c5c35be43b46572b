"""Paths to descriptors without links: with openat2, and without it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from paddock.fs import resolve
from tests.processes import open_descriptors

KERNELS = ("openat2", "no openat2", "openat2 filtered out")


@pytest.fixture(params=KERNELS, autouse=True)
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    number = {"no openat2": errno.ENOSYS, "openat2 filtered out": errno.EPERM}.get(request.param)
    if number is None:
        return

    def refuse(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(resolve, "openat2", refuse)


@pytest.fixture(autouse=True)
def nothing_is_left_open() -> Iterator[None]:
    before = open_descriptors()
    yield
    assert open_descriptors() == before


@pytest.fixture
def place(tmp_path: Path) -> Path:
    # The directory of pytest itself may lie behind a link.
    root = tmp_path.resolve()
    (root / "d" / "e").mkdir(parents=True)
    (root / "d" / "file").write_text("hello")
    (root / "dl").symlink_to("d")
    (root / "d" / "fl").symlink_to("file")
    (root / "loop").symlink_to("loop")
    return root


@contextmanager
def failing_with(number: int) -> Iterator[None]:
    with pytest.raises(OSError, match=f"Errno {number}"):
        yield


def content(path: bytes) -> bytes:
    descriptor = resolve.open_path(path, os.O_RDONLY, follow=False)
    try:
        return os.read(descriptor, 100)
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("name", ["d/file", "d/e/../file", "./d/./file", "d//file", "d/file/"])
def test_a_path_without_links_is_opened(place: Path, name: str) -> None:
    assert content(bytes(place) + b"/" + name.encode()) == b"hello"


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("dl/file", errno.ENOTDIR),
        ("dl/../d/file", errno.ENOTDIR),
        ("d/fl", errno.ELOOP),
        ("loop", errno.ELOOP),
        ("loop/x", errno.ENOTDIR),
        ("d/file/x", errno.ENOTDIR),
        ("no/x", errno.ENOENT),
        ("d/no", errno.ENOENT),
        ("d/fl/", errno.ELOOP),
    ],
)
def test_a_link_or_a_gap_on_the_way_is_told(place: Path, name: str, number: int) -> None:
    with failing_with(number):
        content(bytes(place) + b"/" + name.encode())


@pytest.mark.parametrize("path", [b"/", b"/.", b"/..", b"//"])
def test_the_root_is_its_own_parent(path: bytes) -> None:
    with resolve.parent_of(path) as (directory, name):
        assert name == b"."
        assert os.path.samestat(os.fstat(directory), os.stat("/"))


def test_a_directory_is_opened_beneath_another(place: Path) -> None:
    root = os.open(place, os.O_RDONLY)
    try:
        found = resolve.open_beneath(root, b"d/e")
        assert os.path.samestat(os.fstat(found), os.stat(place / "d" / "e"))
        assert os.listdir(found) == []
        os.close(found)
        for name, number in ((b"dl/e", errno.ENOTDIR), (b"no", errno.ENOENT)):
            with failing_with(number):
                resolve.open_beneath(root, name)
        # Also where it stays below: the kernel can't tell while anybody renames, and would say EAGAIN.
        for name in (b"d/../../x", b"d/../d/e", b".."):
            with failing_with(errno.EXDEV):
                resolve.open_beneath(root, name)
    finally:
        os.close(root)
