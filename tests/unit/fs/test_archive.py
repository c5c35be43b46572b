"""Whole trees as one stream: packed, unpacked, and what a hostile or broken archive can't do."""

from __future__ import annotations

import io
import os
import signal
import stat
import subprocess
import sys
import tarfile
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from paddock.errors import InvalidRequest, OperationFailed
from paddock.fs.tree_reader import END, TreeReader
from paddock.fs.tree_writer import MAX_DESCRIPTION_BYTES, TreeWriter
from tests.processes import open_descriptors


@pytest.fixture(autouse=True)
def _no_descriptor_is_left_open() -> Iterator[None]:
    before = open_descriptors()
    yield
    assert open_descriptors() == before


def pack(path: Path, length: int = 1 << 20) -> bytes:
    reader = TreeReader(os.fsencode(path))
    try:
        pieces = []
        while piece := reader.read(length):
            pieces.append(piece)
        assert reader.offset == sum(map(len, pieces))
        return b"".join(pieces)
    finally:
        reader.close()


def unpack(archive: bytes, path: Path, length: int = 1 << 20) -> None:
    writer = TreeWriter(os.fsencode(path))
    try:
        for start in range(0, len(archive), length):
            writer.write(archive[start : start + length])
    except BaseException:
        writer.discard()
        raise
    writer.publish()


def describe(root: Path) -> dict[bytes, tuple[int, int, bytes]]:
    """Everything below a directory: kind and mode, time, content or target."""
    found = {}
    for directory, names, files in os.walk(os.fsencode(root)):
        for name in [b".", *names, *files]:
            path = os.path.join(directory, name)
            status = os.lstat(path)
            content = b""
            if stat.S_ISLNK(status.st_mode):
                found[os.path.relpath(path, os.fsencode(root))] = (stat.S_IFLNK, 0, os.readlink(path))
                continue
            if stat.S_ISREG(status.st_mode):
                content = Path(os.fsdecode(path)).read_bytes()
            key = os.path.relpath(path, os.fsencode(root))
            found[key] = (status.st_mode, int(status.st_mtime), content)
    return found


def plant(root: Path, seed: int) -> None:
    """A tree with everything that a transfer must keep."""
    random = Random(seed)
    root.mkdir()
    places = [root]
    for number in range(30):
        place = random.choice(places)
        name = os.fsdecode(random.choice([b"plain", b"with space", b"\xff\xfe", "ü".encode(), b"n" * 150]))
        path = place / f"{number}-{name}"
        match random.randrange(4):
            case 0 if len(places) < 8:
                path.mkdir()
                places.append(path)
            case 1:
                path.symlink_to(random.choice(["nowhere", "/etc/passwd", "../..", "x" * 180]))
            case _:
                path.write_bytes(random.randbytes(random.choice([0, 1, 511, 512, 513, 300_000])))
                path.chmod(random.choice([0o600, 0o644, 0o755, 0o400]))
    for place in reversed(places):
        os.utime(place, (1_600_000_000, 1_600_000_000))
        place.chmod(random.choice([0o700, 0o755, 0o555]))


@pytest.mark.parametrize("seed", range(8))
def test_a_tree_that_is_packed_and_unpacked_is_the_same_tree(tmp_path: Path, seed: int) -> None:
    plant(tmp_path / "source", seed)
    random = Random(seed)
    archive = pack(tmp_path / "source", random.choice([1, 511, 4096, 1 << 20]) * 3)
    unpack(archive, tmp_path / "copy", random.choice([700, 65_536, 1 << 20]))
    assert describe(tmp_path / "copy") == describe(tmp_path / "source")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "source"]


def test_an_archive_is_one_that_tar_understands(tmp_path: Path) -> None:
    plant(tmp_path / "source", 1)
    with tarfile.open(fileobj=io.BytesIO(pack(tmp_path / "source"))) as archive:
        assert {entry.name for entry in archive} == {
            os.path.normpath(os.fsdecode(path)) for path in describe(tmp_path / "source")
        }


def test_a_tree_deeper_than_the_limit_of_descriptors_can_be_packed(tmp_path: Path) -> None:
    deep = tmp_path / "source"
    for _ in range(300):
        deep /= "d"
    deep.mkdir(parents=True)
    unpack(pack(tmp_path / "source"), tmp_path / "copy")
    assert describe(tmp_path / "copy").keys() == describe(tmp_path / "source").keys()


def test_what_is_no_file_is_refused_by_its_name(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidRequest, match="pipe' is neither a file"):
        pack(tmp_path)


def test_a_file_that_shrinks_while_it_is_read_is_an_error_and_not_padded(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(1 << 20))
    reader = TreeReader(os.fsencode(tmp_path))
    try:
        # The headers are out: the size is told.
        reader.read(2048)
        (tmp_path / "file").write_bytes(b"")
        with pytest.raises(OperationFailed, match="shrank"):
            reader.read(1 << 20)
    finally:
        reader.close()


def test_a_directory_that_was_swapped_for_a_link_is_not_entered(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("secret")
    tree = tmp_path / "tree"
    (tree / "sub").mkdir(parents=True)
    (tree / "z").write_bytes(bytes(100_000))
    reader = TreeReader(os.fsencode(tree))
    try:
        reader.read(1024)
        (tree / "sub").rmdir()
        (tree / "sub").symlink_to(secret)
        with pytest.raises(NotADirectoryError):
            reader.read(1 << 20)
    finally:
        reader.close()


# --- what an archive may not do ---------------------------------------------


def archive_of(*entries: tuple[tarfile.TarInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for entry, content in entries:
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def entry(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.mode = kind, target, 0o644
    return made


def link_then_file(outside: Path) -> bytes:
    link = entry("way", tarfile.SYMTYPE, str(outside))
    return archive_of((link, b""), (entry("way/escaped"), b"x"))


def link_in_place_of_file(outside: Path) -> bytes:
    link = entry("file", tarfile.SYMTYPE, str(outside / "escaped"))
    return archive_of((link, b""), (entry("file"), b"x"))


def described_by(kind: bytes) -> bytes:
    """An entry with a description that says it is longer than any memory."""
    made = tarfile.TarInfo("long")
    made.type, made.size = kind, 1 << 40
    return made.tobuf(tarfile.GNU_FORMAT) + bytes(2 * MAX_DESCRIPTION_BYTES)


def sparse(size: int) -> bytes:
    """A file of so many zeros that the archive does not have."""
    made = entry("zeros")
    made.pax_headers = {"GNU.sparse.map": "0,0", "GNU.sparse.size": str(size)}
    return made.tobuf(tarfile.PAX_FORMAT) + END


def damaged(replacement: bytes) -> bytes:
    """Two files, and something else in place of the header of the second."""
    archive = archive_of((entry("first"), b"1"), (entry("second"), b"2"))
    start = archive.index(b"second")
    return archive[:start] + replacement + archive[start + len(replacement) :]


def at(modified_at_s: float) -> bytes:
    """A directory of that age."""
    made = entry("directory", tarfile.DIRTYPE)
    made.pax_headers = {"mtime": str(modified_at_s)}
    return made.tobuf(tarfile.PAX_FORMAT) + END


HOSTILE: dict[str, Callable[[Path], bytes]] = {
    "upwards": lambda outside: archive_of((entry("../escaped"), b"x")),
    "upwards-inside": lambda outside: archive_of((entry("a/../../escaped"), b"x")),
    "absolute": lambda outside: archive_of((entry(f"{outside}/escaped"), b"x")),
    "through-a-link": link_then_file,
    "onto-a-link": link_in_place_of_file,
    "hard-link": lambda outside: archive_of((entry("h", tarfile.LNKTYPE, f"{outside}/victim"), b"")),
    "device": lambda outside: archive_of((entry("null", tarfile.CHRTYPE), b"")),
    "fifo": lambda outside: archive_of((entry("pipe", tarfile.FIFOTYPE), b"")),
    "twice": lambda outside: archive_of((entry("a"), b"1"), (entry("a"), b"2")),
    "endless-name": lambda outside: described_by(tarfile.GNUTYPE_LONGNAME),
    "endless-attributes": lambda outside: described_by(tarfile.XHDTYPE),
    "zeros-that-are-not-there": lambda outside: sparse(1 << 22),
    "after-all-times": lambda outside: at(1e300),
    "before-all-times": lambda outside: at(-1e20),
    "damage-in-the-middle": lambda outside: damaged(b"Second"),
    "end-in-the-middle": lambda outside: damaged(bytes(tarfile.BLOCKSIZE)),
    "garbage": lambda outside: b"\xffgarbage" * 1000,
    "empty": lambda outside: b"",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_archive_leaves_nothing_anywhere(tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "victim").write_text("as before")
    place = tmp_path / "place"
    place.mkdir()
    with pytest.raises((InvalidRequest, OSError)):
        unpack(HOSTILE[name](outside), place / "copy")
    assert list(place.iterdir()) == []
    assert {path.name: path.read_text() for path in outside.iterdir()} == {"victim": "as before"}


def test_a_description_without_end_is_not_held_in_memory(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="an entry in the archive is too long"):
        unpack(described_by(tarfile.XHDTYPE), tmp_path / "copy")


def test_entries_that_were_unpacked_are_not_remembered(tmp_path: Path) -> None:
    def unpacked_with_peak(count: int) -> int:
        archive = archive_of(*((entry(f"{number:04}"), b"") for number in range(count)))
        tracemalloc.start()
        try:
            unpack(archive, tmp_path / f"copy-{count}")
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    unpacked_with_peak(1)
    # An entry takes about half a kilobyte.
    assert unpacked_with_peak(1500) < unpacked_with_peak(500) + 200_000


def test_what_is_said_of_all_entries_does_not_pile_up_in_memory(tmp_path: Path) -> None:
    parts = []
    for number in range(4):
        common = {f"{number}": "x" * (MAX_DESCRIPTION_BYTES // 2)}
        parts += [tarfile.TarInfo.create_pax_global_header(common), entry(f"{number}").tobuf()]
    with pytest.raises(InvalidRequest, match="entries are too long together"):
        unpack(b"".join([*parts, END]), tmp_path / "copy")
    assert list(tmp_path.iterdir()) == []


def test_what_is_said_of_all_entries_counts(tmp_path: Path) -> None:
    common = tarfile.TarInfo.create_pax_global_header({"comment": "of git archive", "mtime": "7"})
    unpack(common + entry("a").tobuf() + entry("b").tobuf() + END, tmp_path / "copy")
    assert [(tmp_path / "copy" / name).stat().st_mtime for name in "ab"] == [7, 7]


def test_the_directory_itself_may_be_described_without_end(tmp_path: Path) -> None:
    def unpacked_with_peak(count: int) -> int:
        archive = entry(".", tarfile.DIRTYPE).tobuf() * count + END
        tracemalloc.start()
        try:
            unpack(archive, tmp_path / f"copy-{count}", length=1 << 16)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    unpacked_with_peak(1)
    # To remember one takes about a hundred bytes. Some pieces of the archive wait, more or fewer each time.
    assert unpacked_with_peak(6000) < unpacked_with_peak(1000) + 250_000


def test_set_id_bits_are_not_kept(tmp_path: Path) -> None:
    made = entry("tool")
    made.mode = 0o6755
    unpack(archive_of((made, b"x")), tmp_path / "copy")
    assert stat.S_IMODE((tmp_path / "copy" / "tool").stat().st_mode) == 0o755


@pytest.mark.parametrize("share", [0.1, 0.5, 0.999])
def test_an_archive_that_ends_too_early_leaves_nothing(tmp_path: Path, share: float) -> None:
    plant(tmp_path / "source", 3)
    archive = pack(tmp_path / "source")
    with pytest.raises(InvalidRequest, match=r"unpacked|ends in the middle"):
        unpack(archive[: int(len(archive) * share)], tmp_path / "copy")
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_a_directory_that_is_not_empty_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    copy = tmp_path / "copy"
    copy.mkdir()
    archive = pack(tmp_path / "source")
    unpack(archive, copy)
    writer = TreeWriter(os.fsencode(copy))
    writer.write(archive)
    (copy / "later").write_text("keep me")
    with pytest.raises(OSError, match="not empty"):
        writer.publish()
    with pytest.raises(InvalidRequest, match="not empty"):
        TreeWriter(os.fsencode(copy))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "source"]
    assert (copy / "later").read_text() == "keep me"


def test_a_tree_that_is_given_up_leaves_nothing(tmp_path: Path) -> None:
    plant(tmp_path / "source", 5)
    writer = TreeWriter(os.fsencode(tmp_path / "copy"))
    writer.write(pack(tmp_path / "source")[:100_000])
    writer.discard()
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


# --- what a killed writer leaves --------------------------------------------


def test_what_a_killed_writer_left_is_removed_by_the_next_one_and_nothing_else_is(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "below").mkdir(parents=True)
    (source / "below" / "file").write_text("content")
    (tmp_path / ".paddock-notes").mkdir()
    program = (
        "import os, sys; from paddock.fs.tree_writer import TreeWriter;"
        "TreeWriter(os.fsencode(sys.argv[1])); os.kill(os.getpid(), 9)"
    )
    killed = subprocess.run([sys.executable, "-c", program, str(tmp_path / "killed")], check=False)
    assert killed.returncode == -signal.SIGKILL
    (left,) = {path.name for path in tmp_path.iterdir()} - {"source", ".paddock-notes"}

    working = TreeWriter(os.fsencode(tmp_path / "working"))
    unpack(pack(source), tmp_path / "copy")

    # The tree that is still being put together has a name like the one that was left.
    names = {path.name for path in tmp_path.iterdir()}
    assert left not in names
    assert len(names - {"source", "copy", ".paddock-notes"}) == 1
    working.discard()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".paddock-notes", "copy", "source"]
    assert describe(tmp_path / "copy") == describe(source)


@pytest.fixture
def swapped(tmp_path: Path) -> Iterator[tuple[TreeWriter, Path, Path]]:
    """A writer whose directory was swapped for a link: where it is now, and where the link leads."""
    place, moved, outside = tmp_path / "place", tmp_path / "moved", tmp_path / "outside"
    place.mkdir()
    writer = TreeWriter(os.fsencode(place / "copy"))
    writer.write(archive_of((entry("file"), b"content")))
    (beside,) = place.iterdir()
    # Of the same name, for a command that swaps directories can know it.
    (outside / beside.name).mkdir(parents=True)
    (outside / beside.name / "precious").touch()
    place.rename(moved)
    place.symlink_to(outside)
    yield writer, moved, outside
    assert [path.name for path in outside.iterdir()] == [beside.name]
    assert (outside / beside.name / "precious").exists()


def test_a_tree_is_published_in_the_directory_that_was_opened(
    swapped: tuple[TreeWriter, Path, Path],
) -> None:
    writer, moved, _ = swapped
    writer.publish()
    assert [path.name for path in moved.iterdir()] == ["copy"]
    assert (moved / "copy" / "file").read_bytes() == b"content"


def test_a_tree_is_given_up_in_the_directory_that_was_opened(swapped: tuple[TreeWriter, Path, Path]) -> None:
    writer, moved, _ = swapped
    writer.discard()
    assert list(moved.iterdir()) == []


def test_a_tree_that_was_exchanged_before_it_got_its_name_is_not_said_to_be_there(tmp_path: Path) -> None:
    writer = TreeWriter(os.fsencode(tmp_path / "copy"))
    writer.write(archive_of((entry("file"), b"content")))
    (beside,) = tmp_path.iterdir()
    beside.rename(tmp_path / "taken")
    beside.mkdir()
    (beside / "hostile").touch()
    with pytest.raises(OperationFailed, match="exchanged"):
        writer.publish()
    assert list((tmp_path / "taken").iterdir()) == []


def test_a_tree_for_which_there_is_no_thread_says_so_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(OperationFailed, match="ulimit -u"):
        TreeWriter(bytes(tmp_path / "new"))
    assert os.listdir(tmp_path) == []
