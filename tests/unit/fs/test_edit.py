"""Edits: all or none, everything else untouched, and told as a diff that is right."""

from __future__ import annotations

import asyncio
import difflib
import os
import re
import stat
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle, repeat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.errors import InvalidRequest, NotFound, RequestError
from paddock.fs import diff as diff_module
from paddock.fs import edit as edit_module
from paddock.fs.content import write_file
from paddock.fs.diff import unified_diff
from paddock.fs.operation import Edit, TextEdit, WriteFile
from paddock.fs.operations import Operations
from tests.unit.fs.places import threads, worker


async def edit(files: Operations, path: Path, *edits: TextEdit, max_bytes: int = 1000) -> str:
    return (await files.perform(Edit(path=bytes(path), edits=list(edits), max_bytes=max_bytes))).diff


def change(old: bytes, new: bytes, count: int = 1) -> TextEdit:
    return TextEdit(old=old, new=new, count=count)


async def test_edits_are_made_one_after_the_other_and_everything_else_is_kept(
    files: Operations, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one\r\ntwo\r\n\xff three two\r\nlast")
    path.chmod(0o640)
    diff = await edit(files, path, change(b"one", b"1"), change(b"two", b"2", 2), change(b"1\r\n2", b"12"))

    assert path.read_bytes() == b"12\r\n\xff three 2\r\nlast"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["file"]
    assert diff == (
        f"--- {path}\n+++ {path}\n@@ -1,4 +1,3 @@\n"
        "-one\r\n-two\r\n-\ufffd three two\r\n+12\r\n+\ufffd three 2\r\n last\n\\ No newline at end of file\n"
    )


@pytest.mark.parametrize(
    ("edits", "problem"),
    [
        (
            [change(b"b", b"x"), change(b"a", b"y")],
            r"edit 2: its old text occurs 2 times and must occur once",
        ),
        ([change(b"a", b"y", 3)], r"edit 1: its old text occurs 2 times and must occur 3 times"),
        ([change(b"nothing", b"y")], r"edit 1: its old text occurs 0 times.*read the file again"),
        ([change(b"f", b"y")], r"edit 1: its old text occurs at least 101 times and must occur once"),
        ([change(b"a\nb", b"y")], r"the lines of the file end with CR LF"),
        ([change(b"cc", b"y", 2)], r"overlap"),
        ([change(b"b", b"x" * 2000)], r"too large to edit"),
    ],
)
async def test_an_edit_that_does_not_fit_changes_nothing(
    tmp_path: Path, edits: list[TextEdit], problem: str
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"a\r\nb a ccc" + b"f" * 500)
    before = path.stat()
    with pytest.raises(InvalidRequest, match=problem):
        edit_module.edit(Edit(path=bytes(path), edits=edits, max_bytes=1000))
    assert path.read_bytes() == b"a\r\nb a ccc" + b"f" * 500
    assert path.stat() == before or path.stat().st_mtime_ns == before.st_mtime_ns


def test_an_edit_that_changes_nothing_leaves_the_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"same")
    before = path.stat().st_ino
    operation = Edit(path=bytes(path), edits=[change(b"same", b"same")], max_bytes=1000)
    assert edit_module.edit(operation).diff == ""
    assert path.stat().st_ino == before


def test_a_link_is_followed_and_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    edit_module.edit(Edit(path=bytes(link), edits=[change(b"old", b"new")], max_bytes=1000))
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def interfering(monkeypatch: pytest.MonkeyPatch, changes: Iterator[Callable[[], object]]) -> None:
    """Let somebody else change something while edits are made, at the last moment before it is noticed."""
    fsync = os.fsync

    def interfere(descriptor: int) -> None:
        fsync(descriptor)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            next(changes, lambda: None)()

    monkeypatch.setattr(os, "fsync", interfere)


def replace(path: Path, data: bytes) -> None:
    """Do what most editors do."""
    path.with_name("other").write_bytes(data)
    path.with_name("other").replace(path)


def rewrite_unseen(path: Path, data: bytes) -> None:
    """Write as many bytes as there are, within one tick of the clock."""
    path.write_bytes(data)
    os.utime(path, ns=(0, 0))


@pytest.mark.parametrize("change_it", [Path.write_bytes, replace, rewrite_unseen])
def test_a_change_of_somebody_else_meanwhile_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change_it: Callable[[Path, bytes], object]
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old one")
    os.utime(path, ns=(0, 0))
    if change_it is rewrite_unseen:
        monkeypatch.setattr(edit_module, "_version", lambda status: status.st_mtime_ns)
    interfering(monkeypatch, iter([lambda: change_it(path, b"old two")]))
    edit_module.edit(Edit(path=bytes(path), edits=[change(b"old", b"new")], max_bytes=1000))
    assert path.read_bytes() == b"new two"
    assert os.listdir(tmp_path) == ["file"]


def test_an_edit_that_no_longer_fits_what_somebody_else_has_made_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    interfering(monkeypatch, iter([lambda: path.write_bytes(b"theirs")]))
    with pytest.raises(InvalidRequest, match="occurs 0 times"):
        edit_module.edit(Edit(path=bytes(path), edits=[change(b"old", b"new")], max_bytes=1000))
    assert path.read_bytes() == b"theirs"
    assert os.listdir(tmp_path) == ["file"]


def test_a_mode_that_somebody_else_sets_meanwhile_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    interfering(monkeypatch, iter([lambda: path.chmod(0o711)]))
    edit_module.edit(Edit(path=bytes(path), edits=[change(b"old", b"new")], max_bytes=1000))
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"new", 0o711)


def test_a_file_that_never_stands_still_is_not_edited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    interfering(monkeypatch, repeat(lambda: path.write_bytes(path.read_bytes() + b".")))
    with pytest.raises(InvalidRequest, match=r"has changed in the meantime.*nothing was written"):
        edit_module.edit(Edit(path=bytes(path), edits=[change(b"old", b"new")], max_bytes=1000))
    assert path.read_bytes() == b"old" + b"." * edit_module.ATTEMPTS


async def test_edits_of_one_file_at_one_time_are_all_made_whoever_makes_them(tmp_path: Path) -> None:
    path = tmp_path / "file"
    async with threads() as here, worker() as (there, _), worker() as (elsewhere, _):
        for _ in range(5):
            path.write_bytes(b"".join(b"line %d\n" % number for number in range(9)))
            makers: Iterator[Operations] = cycle([here, there, elsewhere])
            edits = [
                edit(next(makers), path, change(b"line %d\n" % number, b"done %d\n" % number))
                for number in range(9)
            ]
            await asyncio.gather(*edits)
            assert path.read_bytes() == b"".join(b"done %d\n" % number for number in range(9))
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("is_atomic", [True, False])
async def test_an_edit_and_a_whole_content_at_one_time_leave_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_atomic: bool
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old a")
    whole = WriteFile(path=bytes(path), data=b"old b", is_atomic=is_atomic)
    interfering(monkeypatch, iter([lambda: write_file(whole)]))
    edit_module.edit(Edit(path=bytes(path), edits=[change(b"old", b"new")], max_bytes=1000))
    assert path.read_bytes() == b"new b"


@pytest.mark.parametrize(
    ("name", "kind"), [("missing", NotFound), ("fifo", InvalidRequest), (".", RequestError)]
)
def test_what_is_no_file_can_not_be_edited(tmp_path: Path, name: str, kind: type[RequestError]) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(kind):
        edit_module.edit(Edit(path=bytes(tmp_path / name), edits=[change(b"a", b"b")], max_bytes=1000))


async def test_a_file_that_may_not_be_written_is_not_replaced(
    ordinary_files: Operations, open_place: Path
) -> None:
    path = open_place / "file"
    path.write_bytes(b"old")
    path.chmod(0o444)
    with pytest.raises(InvalidRequest, match="Permission denied"):
        await edit(ordinary_files, path, change(b"old", b"new"))
    assert path.read_bytes() == b"old"


@given(
    data=st.text("ab", max_size=30).map(str.encode),
    old=st.text("ab", min_size=1, max_size=5).map(str.encode),
    piece_bytes=st.integers(1, 8),
)
def test_text_is_found_wherever_pieces_of_the_search_end(data: bytes, old: bytes, piece_bytes: int) -> None:
    occurs = sum(data.startswith(old, at) for at in range(len(data)))
    overlaps = data.count(old) != occurs
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edit_module, "PIECE_BYTES", piece_bytes)
        if occurs and not overlaps:
            assert edit_module.apply(data, [change(old, b"-", occurs)], len(data)) == data.replace(old, b"-")
        else:
            with pytest.raises(InvalidRequest, match="overlap" if overlaps else "occurs 0 times"):
                edit_module.apply(data, [change(old, b"-", occurs or 1)], len(data))


def test_edits_that_would_take_long_are_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edit_module, "REPLACED_TEXTS", 501)
    count = 250
    data, back_and_forth = b"x" * (count + 1), [change(b"x", b"y", count + 1), change(b"y", b"x", count + 1)]
    assert edit_module.apply(data, back_and_forth[:1], len(data)) == b"y" * len(data)
    with pytest.raises(InvalidRequest, match=r"edit 2: .*one request may replace 501; nothing was changed"):
        edit_module.apply(data, back_and_forth, len(data))
    monkeypatch.setattr(edit_module, "SEARCHED_BYTES", 100)
    edits = [change(b"a", b"b"), change(b"b", b"a")] * 5
    assert edit_module.apply(b"a" + b"-" * 9, edits, 10) == b"a" + b"-" * 9
    with pytest.raises(InvalidRequest, match=r"edit 10: .*send fewer edits at once"):
        edit_module.apply(b"a" + b"-" * 10, edits, 11)


def test_a_file_that_never_stands_still_is_not_tried_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    monkeypatch.setattr(edit_module, "ATTEMPTS_S", 0.0)
    interfering(monkeypatch, repeat(lambda: path.write_bytes(path.read_bytes() + b".")))
    with pytest.raises(InvalidRequest, match="has changed in the meantime"):
        edit_module.edit(Edit(path=bytes(path), edits=[change(b"old", b"new")], max_bytes=1000))
    assert path.read_bytes() == b"old."


def test_edits_take_memory_for_the_file_alone() -> None:
    count = 50_000
    grow = change(b"a", b"b" * 1000, count)
    tracemalloc.start()
    try:
        data = b"a" * count
        assert edit_module.apply(data, [change(b"a", b"bc", count)], 2 * count) == b"bc" * count
        with pytest.raises(InvalidRequest, match="edit 1: the file would become too large"):
            edit_module.apply(data, [grow, change(b"b", b"", 1000 * count)], 2 * count)
        assert tracemalloc.get_traced_memory()[1] < 8 * count
    finally:
        tracemalloc.stop()


# --- the diff ---------------------------------------------------------------

HUNK = re.compile(r"@@ -(\d+),(\d+) \+(\d+),(\d+) @@\n")


def patched(old: str, diff: str) -> str:
    """What a diff makes of a text; checks its context and its counts."""
    lines = old.splitlines(keepends=True)
    result: list[str] = []
    at = 0
    body = diff.split("\n", 2)[2] if diff else ""
    for head, hunk in zip(HUNK.finditer(body), HUNK.split(body)[5::5], strict=True):
        start, old_count, new_start, new_count = map(int, head.groups())
        begin = start - 1 if old_count else start
        result += lines[at:begin]
        at = begin
        assert len(result) == (new_start - 1 if new_count else new_start)
        counts = [0, 0]
        for line in (
            hunk.replace("\n\\ No newline at end of file\n", "\0").replace("\0", "\1\n").splitlines(True)
        ):
            sign, text = line[0], line[1:].replace("\1\n", "")
            if sign in " -":
                assert lines[at] == text
                at += 1
                counts[0] += 1
            if sign in " +":
                result.append(text)
                counts[1] += 1
        assert counts == [old_count, new_count]
    return "".join(result + lines[at:])


@contextmanager
def counted_lines() -> Iterator[list[int]]:
    """The lengths of the lists of lines that a diff makes."""
    counts: list[int] = []
    lines = diff_module._lines

    def counted(data: bytes) -> list[bytes]:
        found = lines(data)
        counts.append(len(found))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(diff_module, "_lines", counted)
        yield counts


texts = st.lists(st.sampled_from(["a\n", "b\n", "\n", "c"]), max_size=25).map("".join)


@given(old=texts, new=texts, compared=st.sampled_from([0, 2000]))
def test_the_diff_turns_the_old_text_into_the_new(old: str, new: str, compared: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(diff_module, "COMPARED_LINES", compared)
        diff = unified_diff("f", old.encode(), new.encode())
    assert patched(old, diff) == new
    assert (diff == "") == (old == new)


def test_a_change_among_millions_of_lines_lists_only_a_few() -> None:
    lines = 1_000_000
    old = b"\n" * lines
    with counted_lines() as listed:
        assert unified_diff("f", old, old[:-1] + b"x\n").endswith(" \n \n \n-\n+x\n")
        assert unified_diff("f", old, b"x\n" * lines).count("\n+x") == lines
    assert max(listed) <= diff_module.CONTEXT_LINES


EQUAL_LINES = diff_module.COMPARED_LINES - 10


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x\n" * EQUAL_LINES, "x\ny\n" * (EQUAL_LINES // 2)),
        (
            "".join(f"x\nold {number}\n" for number in range(EQUAL_LINES // 2)),
            "".join(f"x\nnew {number}\n" for number in range(EQUAL_LINES // 2)),
        ),
    ],
)
def test_many_equal_lines_are_replaced_as_a_whole_after_a_bounded_number_of_steps(old: str, new: str) -> None:
    old, new = f"first\n{old}last\n", f"1st\n{new}end\n"
    searched: list[int] = []
    search = difflib.SequenceMatcher.find_longest_match

    def counted(matcher: Any, *part: int) -> difflib.Match:
        searched.append(sum(len(matcher.b2j.get(line, ())) for line in matcher.a[part[0] : part[1]]))
        return search(matcher, *part)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(difflib.SequenceMatcher, "find_longest_match", counted)
        diff = unified_diff("f", old.encode(), new.encode())
    assert sum(searched) <= diff_module.COMPARED_STEPS
    assert patched(old, diff) == new
    assert diff.count("\n-") == old.count("\n")


@given(old=texts, new=texts, steps=st.integers(0, 300))
def test_the_diff_is_right_however_many_steps_it_may_take(old: str, new: str, steps: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(diff_module, "COMPARED_STEPS", steps)
        assert patched(old, unified_diff("f", old.encode(), new.encode())) == new


def test_lines_that_all_differ_are_compared_up_to_the_limit() -> None:
    lines = [f"line {number}\n" for number in range(diff_module.COMPARED_LINES * 3 // 5)]
    new = ["first\n", *(f"{line}more\n" if number % 2 else line for number, line in enumerate(lines))]
    diff = unified_diff("f", "".join(lines).encode(), "".join(new).encode())
    assert "\n+more\n line " in diff
    assert patched("".join(lines), diff) == "".join(new)
