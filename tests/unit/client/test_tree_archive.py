"""Archives of a server, filtered for whoever exports a directory."""

from __future__ import annotations

import io
import tarfile

import pytest

from paddock.client.tree_archive import copy_archive


def archive_of(*names: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in names:
            archive.addfile(tarfile.TarInfo(name))
    return buffer.getvalue()


def test_held_names_and_what_is_left_out_are_not_in_the_copy() -> None:
    sink = io.BytesIO()

    copy_archive(io.BytesIO(archive_of(".git", "kept", "left")), sink, set(), lambda path: path == "left")

    sink.seek(0)
    with tarfile.open(fileobj=sink) as copied:
        assert copied.getnames() == ["kept"]


def _without_frombuf(cls: type[tarfile.TarInfo], archive: tarfile.TarFile) -> tarfile.TarInfo:
    """As newer versions of tarfile do, which call no `frombuf` of a subclass."""
    assert archive.fileobj is not None
    header = archive.fileobj.read(tarfile.BLOCKSIZE)
    entry: tarfile.TarInfo = vars(tarfile.TarInfo)["frombuf"].__func__(
        cls, header, archive.encoding, archive.errors
    )
    entry.offset = archive.fileobj.tell() - tarfile.BLOCKSIZE
    return entry._proc_member(archive)  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize("is_newer", [False, True])
@pytest.mark.parametrize("damage", ["header", "last header", "end", "cut"])
def test_a_part_of_an_archive_is_never_taken_for_all_of_it(
    damage: str, is_newer: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_newer:
        monkeypatch.setattr(tarfile.TarInfo, "fromtarfile", classmethod(_without_frombuf))
    whole = archive_of("first", "second")
    at = whole.index(b"second")
    broken = {
        "header": whole[:at] + b"S" + whole[at + 1 :],
        "last header": whole[:at] + b"\xff" * tarfile.BLOCKSIZE + bytes(2 * tarfile.BLOCKSIZE),
        "end": whole[:at] + bytes(tarfile.BLOCKSIZE) + whole[at:],
        "cut": whole[:at],
    }

    with pytest.raises(tarfile.ReadError):
        copy_archive(io.BytesIO(broken[damage]), io.BytesIO(), set(), None)
