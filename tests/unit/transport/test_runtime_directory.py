"""The directory of control sockets: where it is, whom it is safe from, and how it stays clean."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from paddock.errors import ListenError
from paddock.transport.runtime_directory import (
    candidates,
    everywhere,
    fault_of,
    new_socket_path,
    pid_of,
    provide,
    remove_stale,
    reserve,
    socket_paths,
    trusted,
)

UID = os.geteuid()
STRANGER = 65534

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory to another user")


@pytest.fixture
def parent(tmp_path: Path) -> Path:
    """A directory that only this user can write to, whatever the umask."""
    tmp_path.chmod(0o700)
    return tmp_path


def test_the_runtime_directory_of_the_login_comes_first_and_the_shared_one_last(parent: Path) -> None:
    (parent / "run" / "7").mkdir(parents=True)
    found = candidates(
        {"XDG_RUNTIME_DIR": "/somewhere"}, 7, run_root=str(parent / "run"), shared_root="/shared"
    )
    assert found == ["/somewhere/paddock", str(parent / "run/7/paddock"), "/shared/paddock-7"]


def test_a_server_without_a_login_finds_the_directory_of_its_user(parent: Path) -> None:
    (parent / "7").mkdir()
    assert candidates({}, 7, run_root=str(parent))[0] == str(parent / "7" / "paddock")
    told = candidates({"XDG_RUNTIME_DIR": str(parent / "7")}, 7, run_root=str(parent))
    assert told == candidates({}, 7, run_root=str(parent))


def test_without_any_of_them_the_shared_directory_is_left() -> None:
    environment = {"XDG_RUNTIME_DIR": "not/absolute"}
    assert candidates(environment, 7, run_root="/nowhere") == ["/tmp/paddock-7"]


def test_a_root_that_can_not_be_looked_into_is_passed_over(
    parent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    # Root may look anywhere, so the refusal is made up.
    monkeypatch.setattr(os, "stat", refuse)
    assert candidates({}, 7, run_root=str(parent)) == ["/tmp/paddock-7"]


def test_a_directory_of_ones_own_excludes_the_others() -> None:
    environment = {"PADDOCK_RUNTIME_DIR": "//mine/./", "XDG_RUNTIME_DIR": "/run/user/7"}
    assert candidates(environment, 7) == ["/mine"]


def test_everywhere_is_where_others_of_the_user_may_be_as_well(parent: Path) -> None:
    (parent / "7").mkdir()
    environment = {"PADDOCK_RUNTIME_DIR": "/mine", "XDG_RUNTIME_DIR": "/told"}
    assert everywhere(environment, 7, run_root=str(parent)) == [
        "/mine",
        "/told/paddock",
        str(parent / "7" / "paddock"),
        "/tmp/paddock-7",
    ]
    assert everywhere({}, 7, run_root=str(parent)) == candidates({}, 7, run_root=str(parent))


def test_the_directory_is_made_for_its_user_alone(parent: Path) -> None:
    place = provide([str(parent / "paddock")], UID)
    assert os.stat(place).st_mode & 0o777 == 0o700
    assert provide([place], UID) == place
    assert trusted([place, str(parent / "missing")], UID) == [Path(place)]


def test_every_place_that_can_be_made_is_reserved_before_somebody_else_makes_it(parent: Path) -> None:
    places = [str(parent / name) for name in ("first", "no/parent", "last")]
    reserve(places, os.getuid())
    assert trusted(places, os.getuid()) == [Path(places[0]), Path(places[2])]


def test_what_can_not_be_used_is_passed_over(parent: Path) -> None:
    good = str(parent / "good")
    assert provide([str(parent / "missing" / "paddock"), good], UID) == good


def test_a_directory_that_is_open_to_others_is_refused_with_the_way_out(parent: Path) -> None:
    place = parent / "paddock"
    place.mkdir()
    place.chmod(0o755)
    with pytest.raises(ListenError, match=f"its mode is 0755, open to others; run `chmod 700 {place}`"):
        provide([str(place)], UID)
    assert trusted([str(place)], UID) == []


def test_a_link_to_a_good_directory_is_refused(parent: Path) -> None:
    (parent / "good").mkdir(0o700)
    (parent / "link").symlink_to(parent / "good")
    with pytest.raises(ListenError, match="it is not a directory"):
        provide([str(parent / "link")], UID)


@needs_root
def test_a_directory_that_somebody_else_made_before_us_is_refused(parent: Path) -> None:
    place = parent / "paddock"
    place.mkdir(0o700)
    os.chown(place, STRANGER, STRANGER)
    with pytest.raises(ListenError, match=f"it belongs to uid {STRANGER}; somebody else made it"):
        provide([str(place)], UID)
    assert trusted([str(place)], UID) == []


@needs_root
def test_a_directory_in_a_place_of_somebody_else_is_refused(parent: Path) -> None:
    place = parent / "theirs" / "paddock"
    place.mkdir(0o700, parents=True)
    os.chown(place.parent, STRANGER, STRANGER)
    assert fault_of(str(place), UID) == f"{place.parent} belongs to uid {STRANGER}"


def test_a_place_where_anybody_may_exchange_directories_is_refused_unless_it_is_sticky(parent: Path) -> None:
    shared = parent / "shared"
    (shared / "paddock").mkdir(0o700, parents=True)
    shared.chmod(0o777)
    assert fault_of(str(shared / "paddock"), UID) == f"{shared} can be written by others and is not sticky"
    shared.chmod(0o1777)
    assert fault_of(str(shared / "paddock"), UID) is None


# --- sockets ----------------------------------------------------------------


@pytest.fixture
def listening(short_directory: Path) -> Iterator[Path]:
    path = Path(new_socket_path(short_directory))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.fspath(path))
        server.listen()
        yield path


@pytest.fixture
def short_directory(own_runtime_directory: str) -> Iterator[Path]:
    directory = Path(own_runtime_directory) / "sockets"
    directory.mkdir(0o700)
    yield directory
    for path in directory.iterdir():
        path.unlink()
    directory.rmdir()


def dead_socket(path: Path) -> Path:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.fspath(path))
    return path


def test_names_tell_the_pid_and_are_never_the_same(tmp_path: Path) -> None:
    first, second = new_socket_path(tmp_path), new_socket_path(tmp_path)
    assert first != second
    assert pid_of(first) == pid_of(second) == os.getpid()


@pytest.mark.parametrize("name", ["12.sock", "x-00000000.sock", "12-0000000.sock", ".1234abcd", "notes"])
def test_other_files_are_not_taken_for_sockets_of_servers(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    assert socket_paths(tmp_path) == []


def test_only_the_sockets_of_dead_servers_are_removed(short_directory: Path, listening: Path) -> None:
    # No process has the number 0, nor one beyond the kernel's limit of 2^22 (proc(5), pid_max).
    gone = dead_socket(short_directory / "4194305-00000000.sock")
    other = dead_socket(short_directory / "of-somebody-else.sock")
    elsewhere = short_directory / "4194306-00000000.sock"
    elsewhere.hardlink_to(listening)

    remove_stale(short_directory)

    assert not gone.exists()
    assert {listening, elsewhere, other} <= set(short_directory.iterdir())
