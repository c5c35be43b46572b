"""What can't be looked at is not taken for missing."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from paddock.errors import ProfileRefused
from paddock.sandbox.host import facts, glob_scan, hard_link, kernel_file, question, tree_search
from paddock.sandbox.host.facts import FileFacts
from paddock.sandbox.host.hard_link import file_id, files_with_several_names
from paddock.sandbox.host.look import Kind
from paddock.sandbox.host.tree_search import Bounds, TreeSearch


@contextmanager
def leased(path: Path) -> Iterator[None]:
    """Whoever opens the file meanwhile has to wait, or fails; a signal asks us to give it back."""
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        yield
    finally:
        os.close(file)
        signal.signal(signal.SIGIO, before)


def test_file_with_a_lease_on_it_is_not_taken_for_missing(tmp_path: Path) -> None:
    (tmp_path / "pointer").write_text("gitdir: /elsewhere")
    (tmp_path / "commondir").write_text("..")
    (tmp_path / "index").write_bytes(b"DIRC")
    here = str(tmp_path)
    questions: dict[str, Callable[[], object]] = {
        "pointer": lambda: FileFacts().gitdir(str(tmp_path / "pointer")),
        "commondir": lambda: FileFacts().commondir(here),
        "index": lambda: FileFacts().gitlinks(here),
    }
    for name, ask in questions.items():
        with leased(tmp_path / name), pytest.raises(ProfileRefused, match=name):
            ask()
    assert [ask() for ask in questions.values()] == ["/elsewhere", f"{tmp_path}/..", ()]


def test_pipe_socket_and_link_are_no_file_and_nobody_waits_for_them(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        for name in ("pipe", "socket", "link", "missing", "pipe/below", "x" * 300):
            assert FileFacts().gitdir(str(tmp_path / name)) is None


@pytest.fixture(name="damaged")
def fail_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: object, **_more: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    for module in (question, facts, glob_scan, hard_link, kernel_file, tree_search):
        for name in ("open", "scandir", "listdir", "stat", "lstat"):
            monkeypatch.setattr(module.os, name, fail)
    monkeypatch.setattr(question, "status_at", lambda _path: errno.EIO)


@pytest.mark.usefixtures("damaged")
def test_damaged_disk_has_no_missing_files() -> None:
    questions: list[Callable[[], object]] = [
        lambda: FileFacts().at("/x"),
        lambda: FileFacts().gitlinks("/x"),
        lambda: question.holds_nothing("/x"),
        lambda: glob_scan._may_exist("/x", "/y"),
        lambda: files_with_several_names(["/x"], frozenset()),
        lambda: file_id("/x"),
        lambda: TreeSearch(Bounds("/x"), lambda _path, _entry: True, {}).run(),
        lambda: kernel_file._Entries().closed(),
        lambda: kernel_file._Mounts().in_kernel_objects(),
    ]
    for ask in questions:
        with pytest.raises(ProfileRefused, match="Input/output error"):
            ask()


def test_directory_too_deep_to_be_named_is_refused_and_one_that_is_gone_is_not(tmp_path: Path) -> None:
    def search(top: Path) -> None:
        TreeSearch(Bounds(str(top)), lambda _path, _entry: False, {}).run()

    search(tmp_path / "gone")
    deep = os.open(tmp_path, os.O_RDONLY)
    for _ in range(20):
        os.mkdir("d" * 250, dir_fd=deep)
        below = os.open("d" * 250, os.O_RDONLY, dir_fd=deep)
        os.close(deep)
        deep = below
    os.close(deep)
    with pytest.raises(ProfileRefused, match="File name too long"):
        search(tmp_path)
    # What can't be named can't be there either, for a profile that names it.
    assert FileFacts().at(str(tmp_path / "/".join(["d" * 250] * 19))).kind is Kind.MISSING
