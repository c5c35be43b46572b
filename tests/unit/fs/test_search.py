"""Searching: the same answers with and without ripgrep, and those of a plain model."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paddock import own_program
from paddock.errors import InvalidRequest, NotFound, OperationFailed
from paddock.fs import search as engine
from paddock.fs.answer import Found
from paddock.fs.operation import Search, SearchKind
from paddock.fs.operations import Operations
from paddock.fs.pattern import compile_pattern
from paddock.fs.ripgrep import find_ripgrep
from paddock.fs.scan import scan

needs_ripgrep = pytest.mark.skipif(shutil.which("rg") is None, reason="needs ripgrep")
ENGINES = [False, pytest.param(True, marks=needs_ripgrep)]


def wanted(path: Path, pattern: str, **more: Any) -> Search:
    limits: dict[str, Any] = {"max_matches": 1000, "max_file_bytes": 1 << 20, "timeout_s": 30.0}
    return Search(path=bytes(path), pattern=pattern, **(limits | more))


def lines(found: Found) -> list[tuple[str, int, int, str]]:
    return [(os.path.basename(os.fsdecode(m.path)), m.line, m.column, m.text) for m in found.matches]


def put(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


@pytest.mark.parametrize("use_ripgrep", ENGINES)
def test_lines_are_found_with_their_place_in_a_fixed_order(tmp_path: Path, use_ripgrep: bool) -> None:
    put(tmp_path / "b", b"x\r\n  caf\xc3\xa9 needle\r\n")
    put(tmp_path / "a/z", b"needle needle")
    put(tmp_path / "a.b", b"\xff needle\n")
    found = engine.search(wanted(tmp_path, "needle", use_ripgrep=use_ripgrep))
    assert lines(found) == [
        ("z", 1, 1, "needle needle"),
        ("a.b", 1, 3, "\ufffd needle"),
        ("b", 2, 8, "  caf\u00e9 needle"),
    ]
    assert not found.is_truncated


@pytest.mark.parametrize("use_ripgrep", ENGINES)
def test_hidden_binary_large_and_linked_files_are_left_out_and_ignored_ones_are_not(
    tmp_path: Path, use_ripgrep: bool
) -> None:
    root = tmp_path / "root"
    put(root / ".hidden/file", b"needle")
    put(root / ".gitignore", b"ignored")
    put(root / "ignored", b"needle")
    put(root / "binary", b"\0needle")
    put(root / "late-nul", b"needle\n" + b"x" * 9000 + b"\0needle")
    put(root / "large", b"needle" + b"x" * 20_000)
    put(tmp_path / "outside", b"needle")
    (root / "link").symlink_to(tmp_path / "outside")
    (root / "loop").symlink_to(root)

    found = engine.search(wanted(root, "needle", max_file_bytes=15_000, use_ripgrep=use_ripgrep))
    assert [name for name, *_ in lines(found)] == ["ignored", "late-nul", "late-nul"]
    every = engine.search(
        wanted(root, "needle", max_file_bytes=15_000, is_hidden_included=True, use_ripgrep=use_ripgrep)
    )
    assert [name for name, *_ in lines(every)] == ["file", "ignored", "late-nul", "late-nul"]


@pytest.mark.parametrize("use_ripgrep", ENGINES)
def test_limits_are_kept_and_said(tmp_path: Path, use_ripgrep: bool) -> None:
    put(tmp_path / "f", b"needle\n" * 10 + b"n" * 5000)
    some = engine.search(wanted(tmp_path, "needle", max_matches=3, use_ripgrep=use_ripgrep))
    assert (len(some.matches), some.is_truncated) == (3, True)
    all_of_them = engine.search(wanted(tmp_path, "needle", max_matches=10, use_ripgrep=use_ripgrep))
    assert (len(all_of_them.matches), all_of_them.is_truncated) == (10, False)
    assert engine.search(wanted(tmp_path, "needle", timeout_s=0.0, use_ripgrep=use_ripgrep)).is_truncated
    (long,) = engine.search(wanted(tmp_path, "nn", use_ripgrep=use_ripgrep)).matches
    assert (len(long.text), long.is_cut) == (1000, True)


def test_names_of_files_and_directories_are_found(tmp_path: Path) -> None:
    put(tmp_path / "Alpha/beta.py", b"")
    put(tmp_path / "gamma/alphabet", b"")
    found = engine.search(
        wanted(tmp_path, "^alpha", kind=SearchKind.NAME, is_regex=True, is_case_sensitive=False)
    )
    assert [os.path.basename(match.path) for match in found.matches] == [b"Alpha", b"alphabet"]
    assert {match.line for match in found.matches} == {0}


async def test_searching_works_in_every_place(files: Operations, tmp_path: Path) -> None:
    put(tmp_path / "f", b"needle")
    assert lines(await files.perform(wanted(tmp_path, "needle"))) == [("f", 1, 1, "needle")]


@pytest.mark.parametrize("use_ripgrep", ENGINES)
async def test_what_can_not_be_read_is_said(
    ordinary_files: Operations, open_place: Path, use_ripgrep: bool
) -> None:
    put(open_place / "secret", b"needle")
    put(open_place / "open", b"needle")
    (open_place / "secret").chmod(0)
    found = await ordinary_files.perform(wanted(open_place, "needle", use_ripgrep=use_ripgrep))
    assert [name for name, *_ in lines(found)] == ["open"]
    assert found.errors == [f"{open_place}/secret: Permission denied (os error 13)"]


@pytest.mark.parametrize("blank", ["\n", "\r", "\u2028"])
@pytest.mark.parametrize("use_ripgrep", ENGINES)
async def test_name_that_can_not_be_read_ends_no_search(
    ordinary_files: Operations, open_place: Path, use_ripgrep: bool, blank: str
) -> None:
    put(open_place / f"a{blank}b/secret", b"needle")
    put(open_place / "open", b"needle")
    (open_place / f"a{blank}b/secret").chmod(0)
    found = await ordinary_files.perform(wanted(open_place, "needle", use_ripgrep=use_ripgrep))
    assert [name for name, *_ in lines(found)] == ["open"]
    assert "\n".join(sorted(found.errors)).endswith("b/secret: Permission denied (os error 13)")


def test_a_root_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    put(tmp_path / "file", b"")
    with pytest.raises(NotFound):
        engine.search(wanted(tmp_path / "missing", "x"))
    with pytest.raises(OperationFailed, match="Not a directory"):
        engine.search(wanted(tmp_path / "file", "x"))


def test_a_program_from_the_searched_directory_is_never_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "repo/bin/rg", b"#!/bin/sh\nexit 0\n")
    (tmp_path / "repo/bin/rg").chmod(0o755)
    (tmp_path / "outside").symlink_to(tmp_path / "repo/bin")
    monkeypatch.setenv("PATH", f"{tmp_path}/repo/bin:{tmp_path}/outside:bin:.")
    assert find_ripgrep(b"/nonexistent") is None
    monkeypatch.setattr(own_program, "SYSTEM_PATH", f"{tmp_path}/repo/bin")
    assert find_ripgrep(bytes(tmp_path / "repo")) is None
    monkeypatch.chdir(tmp_path / "repo")
    assert find_ripgrep(b"/nonexistent") is None
    monkeypatch.chdir("/")
    found = find_ripgrep(b"/nonexistent")
    assert found is not None
    assert found.path == str(tmp_path / "repo/bin/rg")


def test_a_program_that_path_leads_to_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "bin/rg", f"#!/bin/sh\ntouch {tmp_path}/ran\n".encode())
    (tmp_path / "bin/rg").chmod(0o755)
    put(tmp_path / "root/file", b"needle\n")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    assert [match.path for match in engine.search(wanted(tmp_path / "root", "needle")).matches] == [
        bytes(tmp_path / "root/file")
    ]
    assert not (tmp_path / "ran").exists()


def test_a_ripgrep_that_does_not_work_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "bin/rg", b"#!/bin/sh\necho 'rg: no such flag' >&2\nexit 2\n")
    (tmp_path / "bin/rg").chmod(0o755)
    (tmp_path / "root").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(own_program, "SYSTEM_PATH", str(tmp_path / "bin"))
    with pytest.raises(OperationFailed, match="ripgrep failed: no such flag"):
        engine.search(wanted(tmp_path / "root", "x"))


@pytest.mark.parametrize(
    "pattern",
    [
        "(a",
        "a)",
        "[a",
        "[]",
        "[a&&b]",
        "[[:alpha:]]",
        r"\p{L}",
        r"\1",
        r"(a)\1",
        "(?=a)",
        "(?i)a",
        "(?P<n>a)",
        "a{,3}",
        "a{2",
        "a**",
        "*a",
        "(a+)+",
        "(a|b)*",
        "((a|b))+",
        "(a*){2}",
        "[é]",
        r"a\n",
        "a{5000}",
        "(" * 101 + ")" * 101,
        "\\",
        "a\nb",
        "^*",
    ],
)
def test_what_engines_disagree_about_is_refused_in_words(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(InvalidRequest, match="can't be searched for"):
        engine.search(wanted(tmp_path, pattern, is_regex=True))


@pytest.mark.parametrize(
    ("pattern", "text", "start"),
    [
        (r"a\/b", "xa/b", 1),
        ("é+$", "caféé", 3),
        (r"[\w\-.]+@", "-- a.b-c@d", 3),
        ("(?:ab|cd)?e", "cde", 0),
        (r"\bfoo\b", "a foo", 2),
        ("a{2,3}?", "caaa", 1),
        ("]}", "x]}", 1),
        ("[^a-c]", "abcd", 3),
    ],
)
def test_the_common_subset_means_what_it_says(pattern: str, text: str, start: int) -> None:
    found = compile_pattern(pattern, is_regex=True, is_case_sensitive=True).search(text.encode())
    assert found is not None
    assert len(text.encode()[: found.start()].decode()) == start


@pytest.mark.parametrize("kind", SearchKind)
def test_a_pattern_that_takes_for_ever_ends_and_is_said(tmp_path: Path, kind: SearchKind) -> None:
    line = "a" * 200
    put(tmp_path / line, line.encode())
    pattern = "a*" * 20 + "b"
    found = engine.search(
        wanted(tmp_path, pattern, kind=kind, is_regex=True, timeout_s=0.01, use_ripgrep=False)
    )
    assert found.is_truncated
    assert not found.matches
    assert "takes too long" in found.errors[0]


@pytest.mark.parametrize("kind", SearchKind)
def test_a_search_in_a_process_of_its_own_finds_the_same(tmp_path: Path, kind: SearchKind) -> None:
    put(tmp_path / "dir/Needle 1", b"\xff Needle 12\n")
    put(tmp_path / "needle", b"needle")
    operation = wanted(tmp_path, r"N\w+ \d", kind=kind, is_regex=True, use_ripgrep=False)
    found = engine.search(operation)
    assert len(found.matches) == 1
    assert found == scan(operation)


# --- models -----------------------------------------------------------------

NAMES = ["a", "b", "A", "a.b", ".h", "z-1"]
PIECES = [
    b"foo",
    b"Foo",
    b"\xc3\xa9t",
    b"\xff",
    b" ",
    b"(a)",
    b"aaa",
    b"-z",
    b"\r",
    b"\t",
    b"\xef\xbb\xbf",
    b"\0",
]
PATTERNS = ["foo", "(a)", "ét", "É", "-z", "--files", "a", " ", "#"]
EXPRESSIONS = [
    "^f.o",
    "aa$",
    "é+t",
    r"\bFoo\b",
    "[a-z]+ ",
    "(?:foo|-)?z",
    "x*",
    r"\W",
    "a{2,3}?",
    r"[^\s]f",
    ".",
]

contents = st.lists(st.lists(st.sampled_from(PIECES), max_size=4).map(b"".join), max_size=5).map(b"\n".join)
trees = st.dictionaries(
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map("/".join), contents, max_size=6
)
searches = st.tuples(
    st.one_of(
        st.tuples(st.sampled_from(PATTERNS), st.just(False)),
        st.tuples(st.sampled_from(EXPRESSIONS), st.just(True)),
    ),
    st.booleans(),
    st.booleans(),
    st.sampled_from([3, 1000]),
)


def model(root: Path, operation: Search) -> list[tuple[bytes, int, int]]:
    """What a search should find, in the plainest way."""
    source = operation.pattern if operation.is_regex else re.escape(operation.pattern)
    # One character is repeated as a whole, and only ASCII has cases.
    encoded = "".join(c if c.isascii() else f"(?:{c})" for c in source).encode()
    pattern = re.compile(encoded, 0 if operation.is_case_sensitive else re.IGNORECASE)
    found = []
    files = [path for path in root.rglob("*") if path.is_file()]
    for path in sorted(files, key=lambda path: [os.fsencode(part) for part in path.relative_to(root).parts]):
        is_hidden = any(part.startswith(".") for part in path.relative_to(root).parts)
        data = path.read_bytes()
        if b"\0" in data or (is_hidden and not operation.is_hidden_included):
            continue
        for number, line in enumerate(data.split(b"\n"), 1):
            is_line = number <= data.count(b"\n") or line
            if is_line and (match := pattern.search(line)):
                column = len(line[: match.start()].decode("utf-8", "replace")) + 1
                found.append((os.fsencode(path), number, column))
    return found


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(tree=trees, asked=searches)
def test_every_engine_finds_what_a_plain_model_finds(tree: dict[str, bytes], asked: Any) -> None:
    (pattern, is_regex), is_case_sensitive, is_hidden_included, max_matches = asked
    with tempfile.TemporaryDirectory(prefix="paddock-") as name:
        root = Path(name)
        for path, content in tree.items():
            if (
                not any((root / parent).is_file() for parent in Path(path).parents)
                and not (root / path).is_dir()
            ):
                put(root / path, content)
        operation = wanted(
            root,
            pattern,
            is_regex=is_regex,
            is_case_sensitive=is_case_sensitive,
            is_hidden_included=is_hidden_included,
            max_matches=max_matches,
            use_ripgrep=False,
        )
        expected = model(root, operation)
        found = scan(operation)
        assert [(m.path, m.line, m.column) for m in found.matches] == expected[:max_matches]
        assert found.is_truncated == (len(expected) > max_matches)
        if shutil.which("rg") is not None:
            with_ripgrep = engine.search(
                wanted(
                    root,
                    pattern,
                    is_regex=is_regex,
                    is_case_sensitive=is_case_sensitive,
                    is_hidden_included=is_hidden_included,
                    max_matches=max_matches,
                )
            )
            assert with_ripgrep == found
