"""Patches in the format that Codex models write."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.agent.patch import AddFile, Chunk, DeleteFile, UpdateFile, parse_patch
from paddock.agent.patch_match import STEPS_LIMIT, patched
from paddock.errors import InvalidPatch, PatchMismatch, PatchTooLong


def patch(*lines: str) -> str:
    return "\n".join(("*** Begin Patch", *lines, "*** End Patch"))


def updated(text: str, *lines: str) -> str:
    (change,) = parse_patch(patch("*** Update File: a", *lines))
    assert isinstance(change, UpdateFile)
    return patched("a", text, change.chunks)


def test_all_kinds_of_changes_are_read() -> None:
    text = patch(
        *("*** Add File: new", "+one", "+", "*** Delete File: old", "*** Update File: a", "*** Move to: b/c"),
        *("@@ def f():", " x", "-y", "+z", "*** End of File"),
    )
    assert parse_patch(text) == (
        AddFile("new", "one\n\n"),
        DeleteFile("old"),
        UpdateFile("a", (Chunk(("x", "y"), ("x", "z"), ("def f():",), is_at_end=True),), "b/c"),
    )


@pytest.mark.parametrize("opening", ["<<EOF", "<<'EOF'", '<<"EOF"'])
def test_here_document_around_a_patch_is_taken_off(opening: str) -> None:
    assert parse_patch(f"{opening}\n{patch('*** Delete File: a')}\nEOF\n") == (DeleteFile("a"),)


def test_blanks_around_the_markers_do_not_matter() -> None:
    assert parse_patch("  *** Begin Patch \n*** Delete File: a  \n *** End Patch  \n") == (DeleteFile("a"),)


REFUSED = {
    "nothing": ("", 1, "begins with"),
    "no end": ("*** Begin Patch\n*** Delete File: a", 2, "ends with"),
    "no change": (patch(), 1, "changes no file"),
    "unknown header": (patch("*** Rename File: a"), 2, "begins no change"),
    "no path": (patch("*** Delete File: "), 2, "begins no change"),
    "update without chunks": (patch("*** Update File: a"), 2, "changes nothing"),
    "line without a sign in an addition": (patch("*** Add File: a", "text"), 3, "begins no change"),
    "line without a sign in a chunk": (patch("*** Update File: a", "@@", "text"), 4, "neither"),
    "chunk without lines": (patch("*** Update File: a", "@@"), 4, "empty"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_the_line(name: str) -> None:
    text, line, problem = REFUSED[name]
    with pytest.raises(InvalidPatch, match=problem) as refusal:
        parse_patch(text)
    assert refusal.value.line == line


FITTING = {
    "replaces": ("one\ntwo\n", ("@@", "-two", "+TWO"), "one\nTWO\n"),
    "needs no marker at the first chunk": ("one\ntwo\n", (" one", "-two", "+TWO"), "one\nTWO\n"),
    "adds a line end": ("one\ntwo", ("@@", "-two", "+TWO"), "one\nTWO\n"),
    "keeps line ends of DOS": ("a\r\nb\r\n", ("@@", "-a", "+A"), "A\r\nb\r\n"),
    "ignores blanks at the ends": ("  one  \ntwo\n", ("@@", "-one", "+ONE"), "ONE\ntwo\n"),
    "takes typographic signs for plain ones": (
        "say “hi” \u2013 ok\n",
        ("@@", '-say "hi" - ok', "+bye"),
        "bye\n",
    ),
    "prefers the exact line": ("  a\na\n", ("@@", "-a", "+b"), "  a\nb\n"),
    "finds the end first": ("a\nb\na\nb\n", ("@@", "-b", "+B", "*** End of File"), "a\nb\na\nB\n"),
    "adds at the end": ("a\nb", ("@@", "+tail"), "a\nb\ntail\n"),
    "adds behind an empty last line": ("a\n\n", ("@@", "+tail"), "a\n\ntail\n"),
    "follows a context": (
        "class A:\n  x = 1\nclass B:\n  x = 1\n",
        ("@@ class B:", "-  x = 1", "+  x = 2"),
        "class A:\n  x = 1\nclass B:\n  x = 2\n",
    ),
    "follows several contexts": (
        "class B:\n  def f():\n    1\nclass C:\n  def g():\n    1\n  def f():\n    1\n",
        ("@@ class C:", "@@   def f():", "-    1", "+    2"),
        "class B:\n  def f():\n    1\nclass C:\n  def g():\n    1\n  def f():\n    2\n",
    ),
    "takes several chunks": ("a\nb\nc\n", ("@@", "-a", "+A", "@@", "-c", "+C"), "A\nb\nC\n"),
    "leaves a line whole at what Python takes for its end": (
        "a\x0cb\n\u2028\n",
        ("@@", "-a\x0cb", "+A\x0cB\x85\x1c"),
        "A\x0cB\x85\x1c\n\u2028\n",
    ),
    "deletes": ("a\nb\nc\n", ("@@", " a", "-b", " c"), "a\nc\n"),
    "makes an empty file": ("a\n", ("@@", "-a"), ""),
    "fills an empty file": ("", ("@@", "+a"), "a\n"),
}


@pytest.mark.parametrize("name", FITTING)
def test_update(name: str) -> None:
    text, lines, expected = FITTING[name]
    assert updated(text, *lines) == expected


@pytest.mark.parametrize(
    "lines",
    [("@@", "-nope", "+x"), ("@@ nope", "-a", "+x"), ("@@", "-c", "+C", "@@", "-a", "+A")],
    ids=["lines", "context", "order"],
)
def test_lines_that_are_not_there_are_told(lines: tuple[str, ...]) -> None:
    with pytest.raises(PatchMismatch, match="read it again") as refusal:
        updated("a\nb\nc\n", *lines)
    assert refusal.value.path == "a"


def test_lines_are_found_among_many_that_begin_alike() -> None:
    # Compared from each line on, they take minutes.
    count = 20_000
    text = "a\n" * count + "b\n"
    half = [" a"] * (count // 2)
    assert updated(text, "@@", *half, "-b", "+c") == "a\n" * count + "c\n"
    with pytest.raises(PatchMismatch):
        updated(text, "@@", *half, "-b", "-b")


def test_patch_that_takes_too_long_to_find_is_refused() -> None:
    text = " z\n y\n" * 100 + "z\nx\ny\n" * (STEPS_LIMIT // 100)
    chunk = ("@@", "-z", "-y")
    assert updated(text, *chunk).startswith(" z\n y\n")
    with pytest.raises(PatchTooLong, match="give fewer"):
        updated(text, *chunk * 100)


lines_of_text = st.lists(
    st.text(st.characters(codec="ascii", exclude_categories=["C"]), max_size=6), max_size=8
)


@given(lines_of_text, lines_of_text)
def test_patch_that_replaces_everything_does(old: list[str], new: list[str]) -> None:
    text = "".join(f"{line}\n" for line in old)
    marked = [*(f"-{line}" for line in old), *(f"+{line}" for line in new)]
    if marked:
        assert updated(text, "@@", *marked) == "".join(f"{line}\n" for line in new)


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    for tried in (text, patch(text), patch("*** Update File: a", text)):
        with contextlib.suppress(InvalidPatch):
            assert parse_patch(tried)
