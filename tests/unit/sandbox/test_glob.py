from __future__ import annotations

import fnmatch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.errors import ProfileRefused
from paddock.sandbox.glob import Pattern, coarse_glob, deepest_match, parse_pattern, regular_expression


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("*.env", ["a.env", ".env"], ["d/a.env", "a.envs"]),
        ("**/*.env", ["a.env", "d/a.env", "d/e/.env"], ["a.env/x"]),
        ("d/**", ["d/a", "d/e/f"], ["d", "x/d/a"]),
        ("d/**/f", ["d/f", "d/e/f"], ["f", "d/e/g"]),
        ("?.key", ["a.key"], ["ab.key", "/.key"]),
        ("[ab].key", ["a.key"], ["c.key"]),
        ("[!ab].key", ["c.key"], ["a.key"]),
        ("[a-c]x", ["bx"], ["dx", "-x"]),
        ("[]]x", ["]x"], ["x"]),
        ("a[b", ["a[b"], ["ab"]),
        ("a{b,c}\\d", ["a{b,c}\\d"], ["ab"]),
    ],
)
def test_pattern_names_these_paths_and_no_others(
    pattern: str, matching: list[str], others: list[str]
) -> None:
    expression = regular_expression([pattern])
    assert [path for path in matching if expression.fullmatch(path)] == matching
    assert [path for path in others if expression.fullmatch(path)] == []


@given(st.text("ab*?[]!-.", min_size=1, max_size=6), st.text("ab-.[]!", min_size=1, max_size=4))
def test_one_name_matches_as_the_standard_library_says(pattern: str, name: str) -> None:
    # Its translation of a range that runs backwards differs between versions.
    if "**" in pattern or pattern in (".", "..") or "-" in pattern or "[" in pattern:
        return
    assert bool(regular_expression([pattern]).fullmatch(name)) == fnmatch.fnmatchcase(name, pattern)


@given(st.text(min_size=1, max_size=12).filter(lambda text: "\0" not in text))
def test_every_text_is_a_pattern(pattern: str) -> None:
    regular_expression([pattern])


def test_pattern_is_searched_from_its_last_plain_directory() -> None:
    assert parse_pattern("/a/b/**/*.env") == Pattern("/a/b", "**/*.env")
    assert parse_pattern("/a/b/x?y/z") == Pattern("/a/b", "x?y/z")
    assert parse_pattern("/a/b/plain") == Pattern("/a/b", "plain")


@pytest.mark.parametrize("pattern", ["/**/*.env", "/*", "/x?/y"])
def test_pattern_that_searches_everything_is_refused(pattern: str) -> None:
    with pytest.raises(ProfileRefused, match="whole file system"):
        parse_pattern(pattern)


def test_expression_of_several_patterns_matches_what_any_of_them_names() -> None:
    expression = regular_expression(["*.env", "d/**"])
    assert [path for path in ("a.env", "d/x", "x") if expression.fullmatch(path)] == ["a.env", "d/x"]


@pytest.mark.parametrize(
    ("pattern", "depth"), [("*.env", 1), ("a/./b//c?", 3), ("a/**/b", None), ("a**b", 1)]
)
def test_pattern_tells_how_deep_its_matches_are(pattern: str, depth: int | None) -> None:
    assert deepest_match(pattern) == depth


@pytest.mark.parametrize(
    ("pattern", "glob"),
    [
        ("**/*.env", "/**/*.env"),
        ("d//./[ab]?x.k[!e]y", "/d/*x.k*y"),
        ("!a/{b}, c\\d[", "/*a/*b*c*d*"),
        ("é**.env", "/*.env"),
        ("d/**", None),
        ("*/?", None),
        ("", None),
    ],
)
def test_ripgrep_is_asked_for_more_in_words_that_it_understands_alike(pattern: str, glob: str | None) -> None:
    assert coarse_glob(pattern) == glob
