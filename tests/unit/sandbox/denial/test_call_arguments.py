"""What a call is about, read from the task that makes it. The task is this process."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import pytest

from paddock.model.denial import DenialKind
from paddock.sandbox.denial.call_arguments import ArgumentReader, NamedFile
from paddock.sandbox.denial.mount_overlay import MountOverlay
from paddock.sandbox.denial.notification import Question
from paddock.sandbox.denial.observation import AT_SYMLINK_NOFOLLOW, FileCall, Operand

CHMODAT = FileCall("fchmodat2", DenialKind.WRITE, (Operand(path=1, directory=0, flags=3),))


def named(directory: int, path: bytes, flags: int = 0) -> list[NamedFile]:
    text = ctypes.create_string_buffer(path)
    question = Question(1, os.getpid(), 0, (directory, ctypes.addressof(text), 0, flags, 0, 0))
    found = ArgumentReader(MountOverlay(())).of_watched(question, CHMODAT)
    return [each for each in found if isinstance(each, NamedFile)]


@pytest.mark.parametrize("flags", [0, AT_SYMLINK_NOFOLLOW])
def test_path_is_where_the_descriptor_says_and_links_are_followed_unless_the_call_says_otherwise(
    tmp_path: Path, flags: int
) -> None:
    directory = os.open(tmp_path, os.O_PATH)
    (found,) = named(directory, b"x", flags)
    os.close(directory)
    assert (found.path, found.follows) == (f"{tmp_path}/x", not flags)


def test_path_from_a_descriptor_that_leads_nowhere_is_unknown() -> None:
    reading, writing = os.pipe()
    assert named(reading, b"x") == []
    os.close(reading)
    os.close(writing)
    assert named(reading, b"x") == []
    assert [found.path for found in named(reading, b"/x")] == ["/x"]
