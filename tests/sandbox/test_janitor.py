"""Places that must exist on the host while a sandbox runs, and nobody else's trouble afterwards."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import resource
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from paddock.errors import SandboxUnavailable
from paddock.sandbox.enforce import janitor as janitor_module
from paddock.sandbox.enforce.janitor import (
    JOURNALS,
    PROGRAM,
    Janitor,
    Masking,
    NotMasked,
    PlaceholderTaken,
    locate,
    lock,
)
from paddock.sandbox.host.facts import FileFacts
from paddock.sandbox.host.look import Kind
from paddock.sandbox.host.placeholder import LocatedPlaceholder, Placeholder, PlaceholderKind
from tests.processes import children_of, open_descriptors
from tests.sandbox.helper_process import janitors_stopped, kill_janitors, wait_until
from tests.sandbox.storm import janitors


@pytest.fixture
def other_janitor(runtime: Path) -> Iterator[Janitor]:
    janitor = Janitor(runtime)
    yield janitor
    janitor.close()


def _directory(path: Path) -> LocatedPlaceholder:
    (placeholder,) = locate([Placeholder(str(path), PlaceholderKind.DIRECTORY)])
    return placeholder


def _file(path: Path) -> LocatedPlaceholder:
    (placeholder,) = locate([Placeholder(str(path), PlaceholderKind.FILE)])
    return placeholder


def _item(placeholder: LocatedPlaceholder) -> bytes:
    """A placeholder as it is named to the helper and in journals."""
    kind = "d" if placeholder.kind is PlaceholderKind.DIRECTORY else "f"
    return (
        f"{kind}{placeholder.device:x}:{placeholder.inode:x}:".encode()
        + os.fsencode(placeholder.path)
        + b"\0"
    )


def test_places_are_there_while_held_and_gone_afterwards(janitor: Janitor, tmp_path: Path) -> None:
    placeholders = [_directory(tmp_path / ".git"), _file(tmp_path / "secret")]
    janitor.hold(placeholders)
    assert (tmp_path / ".git").is_dir()
    assert (tmp_path / "secret").is_file()
    janitor.release(placeholders, was_killed=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mask", [0o177, 0o477, 0o777])
def test_places_do_not_depend_on_the_umask_of_the_launcher(
    other_janitor: Janitor, tmp_path: Path, mask: int
) -> None:
    placeholders = [_directory(tmp_path / ".git"), _file(tmp_path / "secret")]
    before = os.umask(mask)
    try:
        other_janitor.hold(placeholders)
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {".git": 0o1700, "secret": 0o1400}
    other_janitor.release(placeholders, was_killed=False)
    assert list(tmp_path.iterdir()) == []


def _socket(path: Path) -> LocatedPlaceholder:
    (placeholder,) = locate([Placeholder(str(path), PlaceholderKind.SOCKET)])
    return placeholder


def test_sockets_come_and_go_with_the_git_beside_them(janitor: Janitor, tmp_path: Path) -> None:
    placeholders = [
        _directory(tmp_path / ".git"),
        _socket(tmp_path / "refs"),
        _socket(tmp_path / "commondir"),
    ]
    janitor.hold(placeholders)
    janitor.hold(placeholders)
    assert (tmp_path / "refs").is_socket()
    assert FileFacts().at(str(tmp_path / "refs")).kind is Kind.MISSING
    janitor.release(placeholders, was_killed=False)
    assert (tmp_path / "commondir").is_socket()
    janitor.release(placeholders, was_killed=False)
    assert list(tmp_path.iterdir()) == []


def test_socket_is_not_held_without_git_nor_where_something_is(janitor: Janitor, tmp_path: Path) -> None:
    with pytest.raises(PlaceholderTaken):
        janitor.hold([_socket(tmp_path / "refs")])
    (tmp_path / "refs").touch()
    with pytest.raises(PlaceholderTaken):
        janitor.hold([_directory(tmp_path / ".git"), _socket(tmp_path / "refs")])
    assert [path.name for path in tmp_path.iterdir()] == ["refs"]


@pytest.mark.parametrize("is_git_left", [True, False])
def test_sockets_that_killed_janitors_left_are_cleared_away(
    tmp_path: Path, runtime: Path, is_git_left: bool
) -> None:
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    project.mkdir()
    elsewhere.mkdir()
    first, second = Janitor(runtime), Janitor(runtime)
    first.hold([_directory(project / ".git"), _socket(project / "refs")])
    kill_janitors(runtime)
    if not is_git_left:
        (project / ".git" / "PADDOCK").unlink()
        (project / ".git").rmdir()
    second.hold([_directory(elsewhere / ".git")])
    wait_until(lambda: not list(project.iterdir()))
    first.close()
    second.close()


@pytest.mark.parametrize("mode", [0o1600, 0o755, 0o644])
def test_places_go_though_somebody_has_changed_their_modes(
    janitor: Janitor, tmp_path: Path, mode: int
) -> None:
    placeholders = [_directory(tmp_path / ".git"), _socket(tmp_path / "refs"), _file(tmp_path / "secret")]
    janitor.hold(placeholders)
    for name in (".git", "refs", "secret"):
        (tmp_path / name).chmod(mode | 0o700 if name == ".git" else mode)
    janitor.release(placeholders, was_killed=False)
    wait_until(lambda: not list(tmp_path.iterdir()))


def test_sockets_go_though_their_git_is_a_repository_when_the_janitors_were_killed(
    tmp_path: Path, runtime: Path
) -> None:
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    project.mkdir()
    elsewhere.mkdir()
    first, second = Janitor(runtime), Janitor(runtime)
    first.hold([_directory(project / ".git"), _socket(project / "refs"), _socket(project / "commondir")])
    (project / ".git/HEAD").write_text("ref: refs/heads/main")
    kill_janitors(runtime)
    second.hold([_directory(elsewhere / ".git")])
    wait_until(lambda: os.listdir(project) == [".git"])
    wait_until(lambda: (project / ".git").stat().st_mode & 0o7777 == 0o755)
    assert os.listdir(project / ".git") == ["HEAD"]
    first.close()
    second.close()


def test_socket_that_was_left_without_a_placeholder_of_git_makes_room(
    janitor: Janitor, tmp_path: Path
) -> None:
    (tmp_path / ".git").mkdir()
    os.mknod(tmp_path / "refs", stat.S_IFSOCK | 0o600)
    (tmp_path / "refs").chmod(0o1400)
    placeholder = _file(tmp_path / "refs")
    janitor.hold([placeholder])
    assert (tmp_path / "refs").is_file()
    janitor.release([placeholder], was_killed=False)
    assert os.listdir(tmp_path) == [".git"]


def test_file_with_another_name_is_no_place(janitor: Janitor, tmp_path: Path) -> None:
    (tmp_path / "HEAD").touch()
    (tmp_path / "HEAD").chmod(0o1400)
    assert FileFacts().at(str(tmp_path / "HEAD")).kind is Kind.MISSING
    (tmp_path / "name").hardlink_to(tmp_path / "HEAD")
    assert FileFacts().at(str(tmp_path / "HEAD")).kind is Kind.FILE
    with pytest.raises(PlaceholderTaken):
        janitor.hold([_file(tmp_path / "HEAD")])
    assert sorted(os.listdir(tmp_path)) == ["HEAD", "name"]


def test_who_finds_a_placeholder_is_told_what_it_is(janitor: Janitor, tmp_path: Path) -> None:
    janitor.hold([_directory(tmp_path / ".git")])
    (note,) = (tmp_path / ".git").iterdir()
    assert "while a sandboxed command runs" in os.readlink(note)


def test_placeholder_stays_until_the_last_command_that_needs_it(janitor: Janitor, tmp_path: Path) -> None:
    placeholder = _directory(tmp_path / ".git")
    janitor.hold([placeholder])
    janitor.hold([placeholder])
    janitor.release([placeholder], was_killed=False)
    assert (tmp_path / ".git").exists()
    janitor.release([placeholder], was_killed=False)
    assert not (tmp_path / ".git").exists()


def test_placeholder_stays_until_the_last_launcher_that_needs_it(
    janitor: Janitor, other_janitor: Janitor, tmp_path: Path
) -> None:
    placeholder = _directory(tmp_path / ".git")
    janitor.hold([placeholder])
    other_janitor.hold([placeholder])
    janitor.release([placeholder], was_killed=False)
    assert (tmp_path / ".git").exists()
    other_janitor.release([placeholder], was_killed=False)
    assert not (tmp_path / ".git").exists()


def test_placeholder_of_another_command_counts_as_missing(janitor: Janitor, tmp_path: Path) -> None:
    janitor.hold([_directory(tmp_path / ".git"), _file(tmp_path / "secret")])
    for name in (".git", "secret"):
        assert FileFacts().at(str(tmp_path / name)).kind is Kind.MISSING


def test_placeholder_that_its_owner_has_removed_is_made_again_for_the_next(
    janitor: Janitor, tmp_path: Path
) -> None:
    placeholder = _directory(tmp_path / ".agents")
    janitor.hold([placeholder])
    (tmp_path / ".agents").rmdir()
    janitor.hold([placeholder])
    janitor.release([placeholder], was_killed=False)
    assert (tmp_path / ".agents").is_dir()
    janitor.release([placeholder], was_killed=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch, lambda path: path.symlink_to("/etc")])
def test_what_is_really_there_is_never_held_nor_removed(
    make: Callable[[Path], object], janitor: Janitor, tmp_path: Path
) -> None:
    make(tmp_path / ".git")
    with pytest.raises(PlaceholderTaken):
        janitor.hold([_directory(tmp_path / ".git"), _directory(tmp_path / ".aws")])
    assert os.path.lexists(tmp_path / ".git")
    assert not (tmp_path / ".aws").exists()


def test_placeholder_that_its_owner_begins_to_use_stays_his(janitor: Janitor, tmp_path: Path) -> None:
    placeholder = _directory(tmp_path / ".git")
    janitor.hold([placeholder])
    (tmp_path / ".git" / "HEAD").write_text("ref")
    janitor.release([placeholder], was_killed=False)
    assert [path.name for path in (tmp_path / ".git").iterdir()] == ["HEAD"]
    assert FileFacts().at(str(tmp_path / ".git")).kind is Kind.DIRECTORY


def test_what_became_its_owners_is_not_locked_while_the_janitor_has_more_to_do(
    runtime: Path, tmp_path: Path
) -> None:
    item = _item(_directory(tmp_path / ".git"))
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    # In a group of its own, so that no other test continues it once it is stopped.
    with subprocess.Popen([PROGRAM, runtime], stdin=theirs.fileno(), process_group=0) as helper, ours:
        theirs.close()
        ours.send(b"h" + item)
        assert ours.recv(1) == b"\0"
        (tmp_path / ".git" / "HEAD").write_text("ref")
        # Both are there when it looks.
        helper.send_signal(signal.SIGSTOP)
        ours.send(b"d" + item)
        ours.send(b"h" + item)
        helper.send_signal(signal.SIGCONT)
        assert (ours.recv(1), ours.recv(1)) == (b"\0", bytes([errno.EEXIST]))


def test_directory_of_the_same_mode_that_holds_something_is_no_place(
    janitor: Janitor, tmp_path: Path
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref")
    (tmp_path / ".git").chmod(0o1700)
    assert FileFacts().at(str(tmp_path / ".git")).kind is Kind.DIRECTORY
    with pytest.raises(PlaceholderTaken):
        janitor.hold([_directory(tmp_path / ".git")])


def test_note_that_its_owner_has_replaced_is_not_removed(janitor: Janitor, tmp_path: Path) -> None:
    placeholder = _directory(tmp_path / ".git")
    janitor.hold([placeholder])
    (tmp_path / ".git" / "PADDOCK").unlink()
    (tmp_path / ".git" / "PADDOCK").write_text("mine")
    janitor.release([placeholder], was_killed=False)
    assert (tmp_path / ".git" / "PADDOCK").read_text() == "mine"


def test_placeholder_that_somebody_else_has_locked_is_not_waited_for(
    janitor: Janitor, tmp_path: Path
) -> None:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws").chmod(0o1700)
    file = os.open(tmp_path / ".aws", os.O_RDONLY)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(PlaceholderTaken):
            janitor.hold([_directory(tmp_path / ".aws")])
    finally:
        os.close(file)


def test_many_that_somebody_has_locked_keep_nobody_else_waiting(janitor: Janitor, tmp_path: Path) -> None:
    """A command makes what looks like placeholders, and locks them; all launches share a helper."""
    janitor.hold([_file(tmp_path / "first")])
    placeholders = [_file(tmp_path / f"{number}") for number in range(50)]
    with contextlib.ExitStack() as opened:
        for placeholder in placeholders:
            file = os.open(placeholder.path, os.O_RDONLY | os.O_CREAT, 0o400)
            opened.callback(os.close, file)
            os.fchmod(file, 0o1400)
            fcntl.flock(file, fcntl.LOCK_EX)
        before = _waits(janitor)
        with pytest.raises(PlaceholderTaken):
            janitor.hold(placeholders)
        assert _waits(janitor) - before < 30
    janitor.hold(placeholders)
    janitor.release(placeholders, was_killed=False)


def _waits(janitor: Janitor) -> int:
    """How often the helper has waited for something so far."""
    status = Path(f"/proc/{janitor._pid}/status").read_text()
    return int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])


def test_placeholder_that_a_killed_janitor_left_is_not_forgotten_though_somebody_has_locked_it(
    janitor: Janitor, other_janitor: Janitor, runtime: Path, tmp_path: Path
) -> None:
    left = _file(tmp_path / "left")
    janitor.hold([left])
    kill_janitors(runtime)
    file = os.open(left.path, os.O_RDONLY)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        other_janitor.hold([_file(tmp_path / "other")])
        # When it answers again, it has looked at what others have left.
        other_janitor.hold([_file(tmp_path / "another")])
        assert any(_item(left) in path.read_bytes() for path in (runtime / JOURNALS).iterdir())
    finally:
        os.close(file)


def test_placeholder_that_nobody_needs_but_somebody_has_locked_is_cleared_away_later(
    janitor: Janitor, runtime: Path, tmp_path: Path
) -> None:
    placeholder = _directory(tmp_path / ".git")
    janitor.hold([placeholder])
    (file,) = lock([placeholder])
    janitor.release([placeholder], was_killed=False)
    assert (tmp_path / ".git").exists()
    assert [path.read_bytes() for path in (runtime / JOURNALS).iterdir()] == [_item(placeholder)]
    os.close(file)
    wait_until(lambda: not (tmp_path / ".git").exists())


def test_placeholder_of_a_killed_command_lingers_but_not_for_ever(janitor: Janitor, tmp_path: Path) -> None:
    placeholder = _directory(tmp_path / ".git")
    janitor.hold([placeholder])
    janitor.release([placeholder], was_killed=True)
    assert (tmp_path / ".git").exists()
    wait_until(lambda: not (tmp_path / ".git").exists())


def test_places_of_a_killed_launcher_are_cleared_away(tmp_path: Path, runtime: Path) -> None:
    script = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from paddock.sandbox.enforce.janitor import Janitor, locate\n"
        "from paddock.sandbox.host.placeholder import Placeholder, PlaceholderKind\n"
        "placeholder = Placeholder(sys.argv[1], PlaceholderKind.DIRECTORY)\n"
        "Janitor(Path(sys.argv[2])).hold(locate([placeholder]))\n"
        "print('held', flush=True)\n"
        "time.sleep(60)\n"
    )
    argv = [sys.executable, "-c", script, str(tmp_path / ".git"), str(runtime)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as launcher:
        assert launcher.stdout is not None
        assert launcher.stdout.readline() == b"held\n"
        assert (tmp_path / ".git").is_dir()
        launcher.send_signal(signal.SIGKILL)
    wait_until(lambda: not (tmp_path / ".git").exists())


def test_placeholder_that_a_crash_left_behind_is_taken_over(janitor: Janitor, tmp_path: Path) -> None:
    left_behind = tmp_path / ".git"
    left_behind.mkdir(mode=0o1700)
    left_behind.chmod(0o1700)
    janitor.hold([_directory(left_behind)])
    janitor.release([_directory(left_behind)], was_killed=False)
    wait_until(lambda: not left_behind.exists())


def test_placeholder_that_a_sandbox_has_locked_outlives_its_janitor(
    janitor: Janitor, other_janitor: Janitor, runtime: Path, tmp_path: Path
) -> None:
    placeholder = _directory(tmp_path / ".git")
    janitor.hold([placeholder])
    (file,) = lock([placeholder])
    kill_janitors(runtime)
    other_janitor.hold([placeholder])
    other_janitor.release([placeholder], was_killed=False)
    other_janitor.close()
    wait_until(lambda: not janitors(runtime))
    assert (tmp_path / ".git").exists()
    os.close(file)
    janitor.release([placeholder], was_killed=False)
    wait_until(lambda: not (tmp_path / ".git").exists())


def test_placeholder_that_is_gone_can_not_be_locked(tmp_path: Path) -> None:
    with pytest.raises(PlaceholderTaken):
        lock([_directory(tmp_path / ".git")])


def test_placeholder_that_is_exchanged_while_it_is_locked_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the lock is there, anybody may remove it."""
    place, real = tmp_path / "secret", fcntl.flock
    place.touch()

    def exchange_and_lock(file: int, how: int) -> None:
        (tmp_path / "new").touch()
        (tmp_path / "new").rename(place)
        real(file, how)

    monkeypatch.setattr(fcntl, "flock", exchange_and_lock)
    before = open_descriptors()
    with pytest.raises(PlaceholderTaken):
        lock([_file(place)])
    assert open_descriptors() == before


def test_directory_out_of_reach_is_a_problem_of_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: str) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(janitor_module, "identity_without_links", refuse)
    with pytest.raises(SandboxUnavailable, match="Permission denied"):
        _directory(tmp_path / ".git")


def test_janitor_that_never_lives_holds_nothing(
    runtime: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(janitor_module, "PROGRAM", Path("/bin/true"))
    janitor = Janitor(runtime)
    with pytest.raises(SandboxUnavailable, match="the janitor of mount points ends"):
        janitor.hold([_directory(tmp_path / ".git")])
    janitor.close()
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def no_namespaces() -> Iterator[list[int]]:
    """Two descriptors that are none of namespaces."""
    with open("/dev/null", "rb") as file:
        yield [file.fileno()] * 2


def _begun(janitor: Janitor, placeholders: list[LocatedPlaceholder], files: list[int]) -> Masking:
    masking = janitor.begin_masking(placeholders, files, waits=True)
    assert masking is not None
    return masking


def test_mask_that_can_not_be_mounted_is_told_and_nothing_is_held(
    janitor: Janitor, runtime: Path, tmp_path: Path, no_namespaces: list[int]
) -> None:
    placeholder = _directory(tmp_path / ".git")
    # It would have to be started.
    assert janitor.begin_masking([placeholder], no_namespaces) is None
    with pytest.raises(NotMasked, match="Invalid argument"):
        janitor.finish_masking(_begun(janitor, [placeholder], no_namespaces))
    assert list(tmp_path.iterdir()) == []
    janitor.undo_masking(_begun(janitor, [placeholder], no_namespaces))
    assert list(tmp_path.iterdir()) == []
    janitor.hold([placeholder])
    janitor.undo_masking(_begun(janitor, [placeholder], no_namespaces))
    assert (tmp_path / ".git").exists()
    janitor.release([placeholder], was_killed=False)
    assert list(tmp_path.iterdir()) == []
    kill_janitors(runtime)
    assert janitor.begin_masking([placeholder], no_namespaces) is None


def test_nothing_is_masked_where_a_placeholder_is_taken(
    janitor: Janitor, tmp_path: Path, no_namespaces: list[int]
) -> None:
    (tmp_path / ".git").mkdir()
    placeholders = [_directory(tmp_path / ".aws"), _directory(tmp_path / ".git")]
    with pytest.raises(PlaceholderTaken):
        janitor.finish_masking(_begun(janitor, placeholders, no_namespaces))
    assert [path.name for path in tmp_path.iterdir()] == [".git"]


def test_masks_of_a_janitor_that_is_killed_meanwhile_are_not_counted_on(
    janitor: Janitor, runtime: Path, tmp_path: Path, no_namespaces: list[int]
) -> None:
    first, second = _directory(tmp_path / ".aws"), _directory(tmp_path / ".git")
    janitor.hold([first])
    with janitors_stopped(runtime):
        masking = _begun(janitor, [second], no_namespaces)
        kill_janitors(runtime)
    with pytest.raises(NotMasked):
        janitor.finish_masking(masking)
    janitor.release([first], was_killed=False)
    wait_until(lambda: not list(tmp_path.iterdir()))


def test_who_does_not_wait_is_told_when_the_places_are_gone(janitor: Janitor, tmp_path: Path) -> None:
    placeholders = [_directory(tmp_path / ".git"), _file(tmp_path / "secret")]
    assert janitor.begin_release(placeholders, was_killed=False) is None
    janitor.hold(placeholders)
    janitor.hold(placeholders)
    for is_last in (False, True):
        file = janitor.begin_release(placeholders, was_killed=False)
        assert file is not None
        with os.fdopen(file, "rb") as gone:
            assert gone.read() == bytes(2)
        assert bool(list(tmp_path.iterdir())) is not is_last


def test_who_does_not_wait_is_told_when_the_janitor_is_gone(
    janitor: Janitor, runtime: Path, tmp_path: Path
) -> None:
    placeholder = _directory(tmp_path / ".git")
    janitor.hold([placeholder])
    with janitors_stopped(runtime):
        file = janitor.begin_release([placeholder], was_killed=False)
        assert file is not None
        kill_janitors(runtime)
    with os.fdopen(file, "rb") as gone:
        assert gone.read() == b""
    janitor.hold([_file(tmp_path / "secret")])
    wait_until(lambda: not (tmp_path / ".git").exists())


def test_who_may_not_wait_does_not_wait_for_another_thread(
    janitor: Janitor, tmp_path: Path, no_namespaces: list[int]
) -> None:
    placeholder = _directory(tmp_path / ".git")
    with janitor.holding([placeholder]):
        assert janitor.begin_release([placeholder], was_killed=False) is None
        assert janitor.begin_masking([placeholder], no_namespaces) is None
    janitor.release([placeholder], was_killed=False)


def test_janitor_that_was_killed_is_replaced_by_one_that_knows_what_is_held(
    janitor: Janitor, runtime: Path, tmp_path: Path
) -> None:
    first, second = _directory(tmp_path / ".git"), _directory(tmp_path / ".aws")
    janitor.hold([first])
    kill_janitors(runtime)
    janitor.hold([first, second])
    janitor.release([first, second], was_killed=False)
    assert (tmp_path / ".git").exists()
    janitor.release([first], was_killed=False)
    wait_until(lambda: not list(tmp_path.iterdir()))


def test_places_are_made_while_the_launcher_does_something_else(janitor: Janitor, tmp_path: Path) -> None:
    placeholder = _directory(tmp_path / ".git")
    with janitor.holding([placeholder]):
        wait_until((tmp_path / ".git").exists)
    janitor.release([placeholder], was_killed=False)
    assert not (tmp_path / ".git").exists()


def test_nothing_is_held_if_the_launcher_fails_meanwhile(janitor: Janitor, tmp_path: Path) -> None:
    (tmp_path / ".aws").mkdir()
    with (
        pytest.raises(KeyError),
        janitor.holding([_directory(tmp_path / ".git"), _directory(tmp_path / ".aws")]),
    ):
        raise KeyError
    assert [path.name for path in tmp_path.iterdir()] == [".aws"]
    janitor.hold([_directory(tmp_path / ".codex")])
    assert (tmp_path / ".codex").exists()


def test_places_are_held_though_the_janitor_is_killed_while_it_makes_them(
    janitor: Janitor, runtime: Path, tmp_path: Path
) -> None:
    placeholder = _directory(tmp_path / ".git")
    with janitor.holding([placeholder]):
        kill_janitors(runtime)
    assert (tmp_path / ".git").exists()
    janitor.release([placeholder], was_killed=False)
    wait_until(lambda: not list(tmp_path.iterdir()))


def test_what_killed_janitors_left_is_cleared_away_by_the_next_wherever_it_works(
    janitor: Janitor, other_janitor: Janitor, runtime: Path, tmp_path: Path
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    janitor.hold([_directory(here / ".git"), _file(here / "secret")])
    kill_janitors(runtime)
    other_janitor.hold([_directory(there / ".git")])
    wait_until(lambda: not list(here.iterdir()))
    assert (there / ".git").exists()


def test_what_its_owner_has_begun_to_use_is_not_cleared_away_by_the_next(
    janitor: Janitor, other_janitor: Janitor, runtime: Path, tmp_path: Path
) -> None:
    placeholder = _directory(tmp_path / ".git")
    janitor.hold([placeholder])
    kill_janitors(runtime)
    (tmp_path / ".git" / "HEAD").write_text("ref")
    other_janitor.hold([_directory(tmp_path / ".aws")])
    other_janitor.release([_directory(tmp_path / ".aws")], was_killed=False)
    other_janitor.close()
    wait_until(lambda: not janitors(runtime))
    assert (tmp_path / ".git" / "HEAD").read_text() == "ref"


def test_launchers_that_do_not_know_each_other_agree(
    janitor: Janitor, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    stranger = Janitor(tmp_path_factory.mktemp("another-runtime"))
    placeholder = _directory(tmp_path / ".git")
    janitor.hold([placeholder])
    stranger.hold([placeholder])
    janitor.release([placeholder], was_killed=False)
    assert (tmp_path / ".git").exists()
    stranger.release([placeholder], was_killed=False)
    stranger.close()
    wait_until(lambda: not (tmp_path / ".git").exists())


def test_journal_names_only_what_may_be_there(janitor: Janitor, runtime: Path, tmp_path: Path) -> None:
    placeholder = _directory(tmp_path / ".git")
    janitor.hold([placeholder])
    (journal,) = (runtime / JOURNALS).iterdir()
    for _ in range(3):
        janitor.hold([placeholder])
        assert journal.read_bytes() == _item(placeholder)
    janitor.release([placeholder] * 4, was_killed=False)
    wait_until(lambda: journal.read_bytes() == b"")
    janitor.close()
    wait_until(lambda: not list((runtime / JOURNALS).iterdir()))


def test_places_are_held_where_no_journal_can_be_written(tmp_path: Path) -> None:
    janitor = Janitor(tmp_path / "missing")
    placeholder = _directory(tmp_path / ".git")
    janitor.hold([placeholder])
    assert (tmp_path / ".git").exists()
    janitor.release([placeholder], was_killed=False)
    assert not (tmp_path / ".git").exists()
    janitor.close()


def test_more_places_than_can_be_open_are_refused_and_none_is_left(
    janitor: Janitor, runtime: Path, tmp_path: Path
) -> None:
    janitor.hold([_file(tmp_path / "first")])
    (pid,) = janitors(runtime)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (20, 20))
    with pytest.raises(SandboxUnavailable, match="Too many open files"):
        janitor.hold([_directory(tmp_path / str(number)) for number in range(20)])
    assert [path.name for path in tmp_path.iterdir()] == ["first"]


def test_more_places_than_fit_a_packet_are_held(janitor: Janitor, tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 200) / ("e" * 200)
    deep.mkdir(parents=True)
    placeholders = [_file(deep / f"{number:0200}") for number in range(200)]
    janitor.hold(placeholders)
    assert len(list(deep.iterdir())) == 200
    janitor.release(placeholders, was_killed=False)
    assert list(deep.iterdir()) == []


@pytest.mark.parametrize("room", [0, 1, 2])
def test_descriptors_for_which_a_janitor_has_no_room_confuse_no_later_answer(
    janitor: Janitor, runtime: Path, tmp_path: Path, no_namespaces: list[int], room: int
) -> None:
    first, second = _directory(tmp_path / ".git"), _directory(tmp_path / ".aws")
    janitor.hold([first])
    (pid,) = janitors(runtime)
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    limit = len(os.listdir(f"/proc/{pid}/fd")) + room
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, limits[1]))
    with pytest.raises(NotMasked):
        janitor.finish_masking(_begun(janitor, [second, first], no_namespaces))
    if (file := janitor.begin_release([first], was_killed=False)) is not None:
        os.close(file)
    wait_until(lambda: not list(tmp_path.iterdir()))
    resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
    (tmp_path / ".codex").mkdir()
    with pytest.raises(PlaceholderTaken):
        janitor.hold([_directory(tmp_path / ".codex")])
    janitor.hold([first])
    assert (tmp_path / ".git").is_dir()
    janitor.release([first], was_killed=False)
    assert [path.name for path in tmp_path.iterdir()] == [".codex"]


def test_who_goes_on_leaves_no_zombie_and_starts_no_other_janitor_to_let_go(
    runtime: Path, tmp_path: Path
) -> None:
    before = set(children_of(os.getpid()))
    janitor, placeholder = Janitor(runtime), _directory(tmp_path / ".git")
    groups = [runtime / "removed", runtime / "left"]
    janitor.hold([placeholder])
    for group in groups:
        janitor.keep_group(group)
    janitor.close()
    janitor.release([placeholder], was_killed=False)
    for group in groups:
        janitor.release_group(group, is_removed=group.name == "removed")
    janitor.bury()
    assert list(tmp_path.iterdir()) == []
    assert set(children_of(os.getpid())) == before
