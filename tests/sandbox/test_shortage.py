"""A host that is out of descriptors: what can't be started leaves nothing, and what is denied stays so."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from paddock.sandbox.host import facts, hard_link, kernel_file, linkless, tree_search
from paddock.sandbox.host.facts import FileFacts
from paddock.sandbox.host.hard_link import files_with_several_names
from paddock.sandbox.host.tree_search import Bounds, TreeSearch


@pytest.mark.parametrize("kind", ["pipes", "terminal", "traced", "counted"])
def test_a_start_for_which_there_are_too_few_descriptors_leaves_none_open_and_no_place(
    new_directory: Path, user: int, kind: str
) -> None:
    """Tried with room for none, for one, for two and so on, until there are enough."""
    leaves_nothing(new_directory, user, kind)


def test_a_file_operation_for_which_there_are_too_few_descriptors_leaves_none_open(
    new_directory: Path,
) -> None:
    # Another user may not reach the interpreter, of which its worker is a copy.
    leaves_nothing(new_directory, os.geteuid(), "file")


def leaves_nothing(new_directory: Path, user: int, kind: str) -> None:
    new_directory.chmod(0o1777)
    child = subprocess.run(
        [sys.executable, "-m", "tests.sandbox.shortage", str(new_directory), str(user), kind],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    told = json.loads(child.stdout)
    assert told["left"] is None
    assert told["successes"] == 2
    # Each descriptor that it needs was missing once.
    assert len(told["failures"]) >= 10
    assert all("Too many open files" in failure for failure in told["failures"])


@pytest.mark.parametrize(
    "options", [(), ("--allow-host", "localhost"), ("--trace",)], ids=lambda each: "".join(each)
)
def test_a_command_whose_streams_can_get_no_thread_is_killed_and_leaves_nothing(
    new_directory: Path, user: int, options: tuple[str, ...]
) -> None:
    new_directory.chmod(0o1777)
    child = subprocess.run(
        [sys.executable, "-m", "tests.sandbox.threadless", str(new_directory), str(user), *options],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    told = json.loads(child.stdout)
    assert told["statuses"] == [0, 125, 125]
    problem = (
        "no thread can be started; raise the limit of processes (ulimit -u, pids.max of the control group)"
    )
    assert told["lines"] == [f"paddock sandbox: {problem}"] * 2
    assert told["left"] == []


WORDS = [f"{number:07}" for number in range(6000)]


def test_a_limit_on_the_size_of_files_takes_no_arguments_from_a_command(new_directory: Path) -> None:
    counting = ["sh", "-c", "echo $#", "sh", *WORDS]
    prefix = [sys.executable, "-P", "-m", "paddock", "sandbox", "--"]

    def run(limit_bytes: int, *argv: str) -> subprocess.CompletedProcess[str]:
        limited = ["prlimit", f"--fsize={limit_bytes}", *argv]
        return subprocess.run(limited, cwd=new_directory, capture_output=True, text=True, check=False)

    # Eight in a row: an argument has eight bytes with its NUL, and what ends with a NUL looks whole.
    for limit_bytes in range(40_000, 40_008):
        done = run(limit_bytes, *prefix, *counting)
        assert (done.returncode, done.stdout) == (125, "")
        assert "ulimit -f" in done.stderr
    assert run(400_000, *prefix, *counting).stdout == run(40_000, *counting).stdout == "6000\n"


@pytest.fixture(name="without_descriptors")
def open_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object, **_more: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    for module in (facts, hard_link, kernel_file, linkless, tree_search):
        for name in ("open", "scandir", "listdir"):
            monkeypatch.setattr(module.os, name, refuse)


def test_a_search_that_can_not_open_a_directory_does_not_say_that_nothing_is_to_be_denied(
    tmp_path: Path, without_descriptors: None
) -> None:
    with pytest.raises(OSError, match="Too many open files"):
        TreeSearch(Bounds(str(tmp_path)), lambda _path, _entry: True, {}).run()
    with pytest.raises(OSError, match="Too many open files"):
        files_with_several_names([str(tmp_path)], frozenset())


def test_a_pointer_to_a_repository_that_can_not_be_opened_is_not_taken_for_none(
    tmp_path: Path, without_descriptors: None
) -> None:
    with pytest.raises(OSError, match="Too many open files"):
        FileFacts().gitdir(str(tmp_path / ".git"))


def test_files_of_the_kernel_that_can_not_be_listed_are_not_taken_for_none(without_descriptors: None) -> None:
    with pytest.raises(OSError, match="Too many open files"):
        kernel_file._Entries().closed()
    with pytest.raises(OSError, match="Too many open files"):
        kernel_file._Mounts().in_kernel_objects()
