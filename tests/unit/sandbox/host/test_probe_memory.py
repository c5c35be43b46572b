"""What is remembered about a bubblewrap, and what a broken memory costs: nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from paddock.model.host import BwrapCapabilities
from paddock.sandbox.host import probe_memory
from paddock.sandbox.host.probe_memory import Answer, Key, Memory

ANSWER = Answer(version="1", capabilities=BwrapCapabilities(perms=True), can_mount_proc=True, landlock_abi=6)


def key(number: int) -> Key:
    return Key(path="/usr/bin/bwrap", inode=number, modified_ns=1, user=1, boot="one", filters="")


@pytest.mark.parametrize("text", [b"", b"{", b"[{}]", b"null", b'[{"key": 1}]', b"\xff"])
def test_a_file_that_makes_no_sense_is_as_if_there_were_none(tmp_path: Path, text: bytes) -> None:
    (tmp_path / probe_memory.FILE_NAME).write_bytes(text)
    kept = Memory(tmp_path)
    assert kept.recall(key(1)) is None
    kept.keep(key(1), ANSWER)
    assert Memory(tmp_path).recall(key(1)) == ANSWER


def test_a_directory_that_is_not_there_costs_only_the_next_process_time(tmp_path: Path) -> None:
    kept = Memory(tmp_path / "missing")
    kept.keep(key(1), ANSWER)
    assert kept.recall(key(1)) == ANSWER


def test_old_answers_make_room_and_nothing_is_left_lying_about(tmp_path: Path) -> None:
    kept = Memory(tmp_path)
    for number in range(probe_memory.ENTRIES_LIMIT + 1):
        kept.keep(key(number), ANSWER)
    again = Memory(tmp_path)
    assert again.recall(key(0)) is None
    assert again.recall(key(probe_memory.ENTRIES_LIMIT)) == ANSWER
    assert os.listdir(tmp_path) == [probe_memory.FILE_NAME]
