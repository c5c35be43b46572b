"""Each mount of a plan in the words of bubblewrap."""

from __future__ import annotations

import pytest

from paddock.sandbox.enforce.bwrap import HostFiles, _words
from paddock.sandbox.plan.mount import (
    READY_DEVICES,
    Bind,
    Devices,
    EmptyDirectory,
    InitProgram,
    Mount,
    Processes,
    Seal,
    Shortcut,
    UnreadableFile,
)

FILES = HostFiles("/init", "/void")


@pytest.mark.parametrize(
    ("mount", "words"),
    [
        (Bind("/a", is_writable=False, reason=""), ["--ro-bind", "/a", "/a"]),
        (Bind("/a", is_writable=True, reason=""), ["--bind", "/a", "/a"]),
        (Bind("/a", is_writable=True, reason="", has_devices=True), ["--dev-bind", "/a", "/a"]),
        (EmptyDirectory("/a", mode=0o700, reason=""), ["--perms", "0700", "--tmpfs", "/a"]),
        (UnreadableFile("/a", ""), ["--ro-bind", "/void", "/a"]),
        (InitProgram("/a"), ["--ro-bind", "/init", "/a"]),
        (Seal("/a"), ["--remount-ro", "/a"]),
        (Shortcut("/a", "usr/a"), ["--symlink", "usr/a", "/a"]),
        (Devices("/dev", is_ready=False), ["--dev", "/dev"]),
        (
            Devices("/dev", is_ready=True),
            ["--dev-bind", READY_DEVICES, "/dev", "--perms", "1777", "--tmpfs", "/dev/shm"],
        ),
        (Processes("/proc"), ["--proc", "/proc"]),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, list) else "",
)
def test_mount_is_worded(mount: Mount, words: list[str]) -> None:
    assert list(_words(mount, FILES)) == words
