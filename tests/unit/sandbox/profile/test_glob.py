from __future__ import annotations

import contextlib
import fnmatch
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.errors import InvalidProfile, ProfileRefused
from paddock.sandbox.profile.glob import Matcher, Pattern, coarse_glob, deepest_match, parse_pattern


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("*.env", ["a.env", ".env"], ["d/a.env", "a.envs"]),
        ("**/*.env", ["a.env", "d/a.env", "d/e/.env"], ["a.env/x"]),
        ("d/**", ["d/a", "d/e/f"], ["d", "x/d/a"]),
        ("d/**/f", ["d/f", "d/e/f"], ["f", "d/e/g"]),
        ("a/**/b/c/**/d", ["a/b/c/d", "a/x/b/c/y/d"], ["a/x/b/d", "a/b/x/c/d", "a/x/y/z/d"]),
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
    matcher = Matcher([pattern])
    assert [path for path in matching if matcher.matches(path)] == matching
    assert [path for path in others if matcher.matches(path)] == []


@given(st.text("ab*?[]!-.", min_size=1, max_size=6), st.text("ab-.[]!", min_size=1, max_size=4))
def test_one_name_matches_as_the_standard_library_says(pattern: str, name: str) -> None:
    # Its translation of a range that runs backwards differs between versions.
    if "**" in pattern or pattern in (".", "..") or "-" in pattern or "[" in pattern:
        return
    assert Matcher([pattern]).matches(name) == fnmatch.fnmatchcase(name, pattern)


def expression_of(rest: str) -> re.Pattern[str]:
    """What a pattern means, in the words of Python's engine, which may take for ever to match it."""
    names = [name for name in rest.split("/") if name not in ("", ".")]
    text = ""
    for place, name in enumerate(names, 1):
        if name == "**":
            text += ".+" if place == len(names) else "(?:[^/]+/)*"
            continue
        for part in re.findall(r"\[[!^]?.[^]]*\]|.", name, re.DOTALL):
            if len(part) > 1:
                negated = part[1] in "!^"
                members = re.sub(r"([\\\]\[^&~|])", r"\\\1", part[1 + negated : -1])
                text += f"[^/{members}]" if negated else f"(?!/)[{members}]"
            else:
                text += {"*": "[^/]*", "?": "[^/]"}.get(part, re.escape(part))
        text += "" if place == len(names) else "/"
    return re.compile(text, re.DOTALL)


PIECES = st.sampled_from(
    [
        "a",
        "b",
        ".",
        "\n",
        "é",
        "*",
        "?",
        "[ab]",
        "[!a]",
        "[^b]",
        "[a-c]",
        "[!a-b]",
        "[]a]",
        "[!]]",
        "[a-]",
        "[",
        "]",
    ]
)
NAMES = st.one_of(st.just("**"), st.lists(PIECES, min_size=1, max_size=5).map("".join))
RESTS = (
    st.lists(NAMES, min_size=1, max_size=4)
    .filter(lambda names: ".." not in names and set(names) != {"."})
    .map("/".join)
)
PATHS = st.lists(st.text("abc.-]\né", min_size=1, max_size=5), min_size=1, max_size=5).map("/".join)


@settings(max_examples=300)
@given(RESTS, PATHS)
def test_pattern_means_what_a_regular_expression_would_say(rest: str, path: str) -> None:
    assert Matcher([rest]).matches(path) == (expression_of(rest).fullmatch(path) is not None)


@given(
    st.lists(st.sampled_from("ab*"), min_size=1, max_size=6).map("".join),
    st.text("ab", min_size=1, max_size=8),
)
def test_stars_mean_what_a_regular_expression_would_say(name: str, path: str) -> None:
    rest = f"**/{name}"
    assert Matcher([rest]).matches(path) == (expression_of(rest).fullmatch(path) is not None)


@pytest.mark.parametrize(
    ("pattern", "path", "ending"),
    [
        ("**/" + "*a" * 30 + "b", "a" * 255, "b"),
        ("**/" + "*[ab]?" * 30 + "c", "a" * 255, "c"),
        ("**/a/" * 30 + "b", "a/" * 2000 + "a", "/b"),
        ("**/*/" * 30 + "*b", "a/" * 2000 + "a", "b"),
        ("**/" * 30 + "b", "a/" * 2000 + "a", "/b"),
    ],
)
def test_pattern_never_takes_longer_than_its_length_times_that_of_the_path(
    pattern: str, path: str, ending: str
) -> None:
    assert not Matcher([pattern]).matches(path)
    assert Matcher([pattern]).matches(path + ending)


def test_set_never_stands_for_the_slash_between_two_names() -> None:
    matcher = Matcher(["a[.-0]b"])
    assert (matcher.matches("a.b"), matcher.matches("a0b"), matcher.matches("a/b")) == (True, True, False)


@given(st.text(min_size=1, max_size=12).filter(lambda text: "\0" not in text))
def test_every_text_is_a_pattern_or_is_refused(pattern: str) -> None:
    with contextlib.suppress(InvalidProfile):
        Matcher([pattern])


@pytest.mark.parametrize("pattern", ["**/[z-a]", "[!b-a]", "[--+]"])
def test_range_that_runs_backwards_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidProfile, match="runs backwards"):
        Matcher([pattern])


@pytest.mark.parametrize("pattern", ["", "/", ".", "./", "../x", "**/../x", "a*/..", "x/../../y*"])
def test_pattern_that_would_match_nothing_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidProfile, match=r"names nothing|matches nothing"):
        Matcher([pattern])


def test_pattern_is_searched_from_its_last_plain_directory() -> None:
    assert parse_pattern("/a/b/**/*.env") == Pattern("/a/b", "**/*.env")
    assert parse_pattern("/a/b/x?y/z") == Pattern("/a/b", "x?y/z")
    assert parse_pattern("/a/b/plain") == Pattern("/a/b", "plain")


@pytest.mark.parametrize("pattern", ["/**/*.env", "/*", "/x?/y"])
def test_pattern_that_searches_everything_is_refused(pattern: str) -> None:
    with pytest.raises(ProfileRefused, match="whole file system"):
        parse_pattern(pattern)


def test_matcher_of_several_patterns_matches_what_any_of_them_names() -> None:
    matcher = Matcher(["*.env", "d/**"])
    assert [path for path in ("a.env", "d/x", "x") if matcher.matches(path)] == ["a.env", "d/x"]


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
