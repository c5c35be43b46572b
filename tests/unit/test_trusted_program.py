"""Programs that Paddock runs for itself: from where they are taken, and what they import."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

import paddock
from paddock import installation, own_program
from tests.sandbox.shortage import MOST, open_files, room_for

OTHER_USER = 61235
NAME = "helper"


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Nothing is known of programs before a test, or after it."""
    own_program._find.cache_clear()
    yield
    own_program._find.cache_clear()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory with a program, that nobody else can write."""
    path = tmp_path / "bin"
    path.mkdir(mode=0o755)
    _program(path / NAME, "genuine")
    return path


def _program(path: Path, word: str) -> None:
    path.write_text(f"#!/bin/sh\necho {word}\n")
    path.chmod(0o755)


def _found(*directories: Path | str) -> list[str]:
    own_program._find.cache_clear()
    found = own_program.find(NAME, ":".join(map(str, directories)))
    return [program.path for program in found.others]


def test_a_program_in_a_directory_of_the_user_is_found(directory: Path) -> None:
    assert _found(directory) == [str(directory / NAME)]


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o777, 0o1777])
def test_none_is_taken_from_a_directory_that_others_can_write(directory: Path, mode: int) -> None:
    directory.chmod(mode)
    assert _found(directory) == []
    [reason] = own_program.find(NAME, str(directory)).passed_over
    assert reason.startswith(f"{directory}/{NAME}: ")
    assert "can be written by others" in reason


def test_every_directory_above_counts_unless_it_is_sticky(directory: Path) -> None:
    above = directory.parent / "above"
    above.mkdir()
    directory.rename(above / "bin")
    above.chmod(0o777)
    assert _found(above / "bin") == []
    above.chmod(0o1777)
    assert _found(above / "bin") == [str(above / "bin" / NAME)]


@pytest.mark.parametrize("mode", [0o775, 0o757])
def test_none_is_taken_that_others_can_write(directory: Path, mode: int) -> None:
    (directory / NAME).chmod(mode)
    assert _found(directory) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make files of another user")
@pytest.mark.parametrize("what", ["file", "directory", "above", "link"])
def test_nothing_of_another_user_is_on_the_way(directory: Path, what: str) -> None:
    linked = directory.parent / "linked"
    linked.symlink_to(directory)
    above = directory.parent
    place = {"file": directory / NAME, "directory": directory, "above": above, "link": linked}[what]
    assert _found(linked) == [str(directory / NAME)]
    os.chown(place, OTHER_USER, OTHER_USER, follow_symlinks=False)
    assert _found(linked) == []


def test_a_link_counts_where_it_lies_and_where_it_leads(directory: Path) -> None:
    open_place, closed = directory.parent / "open", directory.parent / "closed"
    for place in (open_place, closed):
        place.mkdir()
        (place / NAME).symlink_to(f"../bin/{NAME}")
    open_place.chmod(0o777)
    assert _found(open_place, closed) == [str(directory / NAME)]
    assert _found(open_place) == []


def test_links_in_a_circle_lead_nowhere(tmp_path: Path) -> None:
    (tmp_path / NAME).symlink_to(tmp_path / NAME)
    assert _found(tmp_path) == []


@pytest.mark.parametrize("element", ["", ".", "bin"])
def test_relative_elements_are_not_searched(
    directory: Path, element: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(directory.parent if element == "bin" else directory)
    assert _found(element) == []


def test_what_was_opened_first_is_executed_whatever_has_its_name_later(directory: Path) -> None:
    [program] = own_program.find(NAME, str(directory)).others
    (directory / NAME).unlink()
    _program(directory / NAME, "planted")
    [again] = own_program.find(NAME, str(directory)).others
    for each in (program, again):
        done = subprocess.run([each.command], pass_fds=[each.fd], capture_output=True, text=True, check=True)
        assert done.stdout == "genuine\n"


def test_what_is_put_there_later_is_not_found(directory: Path) -> None:
    first = directory.parent / "first"
    first.mkdir()
    search_path = f"{first}:{directory}"
    own_program.find(NAME, search_path)
    _program(first / NAME, "planted")
    assert [program.path for program in own_program.find(NAME, search_path).others] == [str(directory / NAME)]


def test_a_shortage_of_descriptors_is_neither_taken_for_an_answer_nor_remembered(directory: Path) -> None:
    """Tried with room for none, for one and so on, until there is enough for both programs."""
    second = directory.parent / "second"
    second.mkdir()
    _program(second / NAME, "genuine")
    before = open_files()
    failures: list[int | None] = []
    found: own_program.Found | None = None
    for descriptors in range(MOST):
        try:
            with room_for(descriptors):
                found = own_program.find(NAME, f"{directory}:{second}")
            break
        except OSError as error:
            failures.append(error.errno)
        assert open_files() == before
    assert found is not None
    assert [program.path for program in found.others] == [str(directory / NAME), str(second / NAME)]
    assert set(failures) == {errno.EMFILE}
    assert len(failures) > 3


def test_none_is_taken_from_where_commands_write(directory: Path) -> None:
    found = own_program.find(NAME, str(directory)).others
    assert list(own_program.outside(found, ["/", str(directory.parent / "elsewhere")])) == list(found)
    assert list(own_program.outside(found, [str(directory.parent)])) == []


# --- Python -----------------------------------------------------------------

PLANTED = "import os; os.write(2, b'PLANTED'); raise SystemExit(9)\n"
MODULES = ("paddock", "msgspec", "uvloop", "yaml", "hashlib", "secrets", "sitecustomize")


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A directory with modules that a command has put there, under names that Paddock imports."""
    directory = tmp_path / "trap"
    directory.mkdir()
    for name in MODULES:
        (directory / f"{name}.py").write_text(PLANTED)
    return directory


def test_a_helper_imports_nothing_from_its_directory_or_environment(trap: Path) -> None:
    python = own_program.python()
    done = subprocess.run(
        own_program.python_command("paddock.cli.main", "version"),
        executable=f"/proc/self/fd/{python}",
        pass_fds=[python],
        cwd=trap,
        env={**os.environ, "PYTHONPATH": str(trap), "PYTHONSTARTUP": str(trap / "paddock.py")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert paddock.__version__ in done.stdout


def test_a_private_server_imports_nothing_from_where_the_agent_works(trap: Path) -> None:
    script = (
        "import asyncio, os, paddock\n"
        f"os.chdir({str(trap)!r}); os.environ['PYTHONPATH'] = {str(trap)!r}\n"
        "async def main():\n"
        "    async with paddock.connect() as box:\n"
        "        print((await box.run(['echo', 'served'])).stdout.decode(), end='')\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", script], capture_output=True, text=True, check=False, cwd="/"
    )
    assert "PLANTED" not in done.stderr
    assert done.stdout == "served\n", done.stderr


def test_the_command_line_imports_nothing_later_from_where_it_was_started(tmp_path: Path) -> None:
    """`python -m` puts the directory in front: a command there must not provide what is loaded on demand."""
    for name in ("argparse", "hashlib", "uvloop", "httpx"):
        (tmp_path / f"{name}.py").write_text(PLANTED)
    script = (
        "import sys; sys.argv[1:] = ['version']\n"
        "import paddock.cli.main as entrance\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "status = entrance.main()\n"
        "import hashlib, uvloop\n"
        "sys.exit(status)\n"
    )
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_whatever_paddock_needs_is_there_so_that_nobody_can_provide_it(trap: Path) -> None:
    """A directory in which only a command could have put what is missing is not imported from."""
    assert [name for name in installation._IMPORTED if find_spec(name) is None] == []
    assert str(trap) not in installation._import_path((*sys.path, str(trap)))


def test_the_installation_is_what_is_imported_from(tmp_path: Path) -> None:
    places = installation.own_paths()
    for path in (Path(paddock.__file__), Path(sys.executable).resolve(), Path(os.__file__)):
        assert any(path.resolve().is_relative_to(place) for place in places), path
    assert not any(tmp_path.is_relative_to(place) for place in places)
    assert not any(place in ("/", "/usr", str(Path.home())) for place in places)
