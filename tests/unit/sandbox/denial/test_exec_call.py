"""What a task executes is found as the task itself would find it. The task is this process."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from paddock.sandbox.denial.exec_call import ExecCall, ExecCallReader, caller_of
from paddock.sandbox.denial.notification import Question

AT_FDCWD = -100 & 0xFFFFFFFF


@pytest.fixture(name="reader")
def reader_of_this_process() -> Iterator[ExecCallReader]:
    reader = ExecCallReader()
    reader.enter(os.getpid())
    yield reader
    reader.close()


def execveat(reader: ExecCallReader, directory: int, path: bytes) -> ExecCall:
    """Read a call that this process could make."""
    text = ctypes.create_string_buffer(path)
    question = Question(1, os.getpid(), 322, (directory, ctypes.addressof(text), 0, 0, 0, 0))
    return reader.read(question, is_at=True)


def told(reader: ExecCallReader, path: Path | str) -> ExecCall:
    return reader.told(os.getpid(), os.fsencode(path), [b"x"], b"/", [])


def script(path: Path, interpreter: Path | str) -> Path:
    path.write_text(f"#!{interpreter}\n")
    path.chmod(0o755)
    return path


def test_program_in_an_open_directory_is_named_by_the_path_of_that(
    reader: ExecCallReader, tmp_path: Path
) -> None:
    made = script(tmp_path / "tool", "/bin/sh")
    directory = os.open(tmp_path, os.O_PATH)
    call = execveat(reader, directory, b"tool")
    assert call.program is not None
    assert (call.called, call.path, call.program.path) == (os.fsencode(made),) * 2 + (str(made),)
    call.close()
    os.close(directory)


@pytest.mark.parametrize("path", [b"/proc/self/exe", b"/proc/thread-self/exe"])
def test_own_program_of_a_task_is_named_as_everybody_finds_it(reader: ExecCallReader, path: bytes) -> None:
    call = execveat(reader, AT_FDCWD, path)
    assert call.program is not None
    assert call.called == path
    assert os.fsdecode(call.path) == call.program.path == os.path.realpath(sys.executable)
    call.close()


def test_program_behind_a_circle_of_links_is_unknown(reader: ExecCallReader, tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    call = told(reader, tmp_path / "a")
    assert (call.program, call.is_permitted, call.is_executable) == (None, False, False)


def test_interpreters_are_named_in_turn_as_far_as_they_are_there(
    reader: ExecCallReader, tmp_path: Path
) -> None:
    first = script(tmp_path / "first", "/bin/sh")
    second = script(tmp_path / "second", first)
    call = told(reader, second)
    found, is_whole = call.interpreters()
    assert [each.file.path for each in found] == [str(first), os.path.realpath("/bin/sh")]
    assert [each.line.path for each in found] == [os.fsencode(first), b"/bin/sh"]
    assert is_whole
    call.close()
    call = told(reader, script(tmp_path / "broken", tmp_path / "missing"))
    assert call.interpreters() == ([], False)
    call.close()
    endless = tmp_path / "endless"
    call = told(reader, script(endless, endless))
    assert not call.interpreters()[1]
    call.close()


def test_file_that_is_another_by_now_is_not_genuine(reader: ExecCallReader, tmp_path: Path) -> None:
    made = script(tmp_path / "tool", "/bin/sh")
    call = told(reader, made)
    assert call.program is not None
    answers = [call.program.is_genuine]
    made.unlink()
    answers.append(call.program.is_genuine)
    script(made, "/bin/sh")
    answers.append(call.program.is_genuine)
    assert answers == [True, False, False]
    call.close()


def test_what_is_no_file_has_no_first_bytes(reader: ExecCallReader, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        for path in (tmp_path, tmp_path / "socket"):
            call = told(reader, path)
            assert call.program is not None
            assert (call.program.head(), call.is_permitted) == (b"", False)
            call.close()


def test_program_that_is_not_there_is_the_kernels_own_error(reader: ExecCallReader, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file") as raised:
        told(reader, tmp_path / "missing")
    assert raised.value.errno == errno.ENOENT


def test_caller_that_is_gone_is_unknown() -> None:
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    assert caller_of(child) is None
    assert caller_of(os.getpid()) == os.path.realpath(sys.executable)
