"""What somebody else chose, quoted: a shell reads the same, and a person sees a difference."""

from __future__ import annotations

import subprocess

from hypothesis import given
from hypothesis import strategies as st

from paddock.quotation import SPACES_LIMIT, in_ascii, quoted, quoted_line, quoted_words

# Every kind of character; a command has no NUL in its words, and of the surrogates only those of bytes.
WORDS = [
    *("", "a b", "it's", "a\nb", "a\\nb", "a\\", "$'a'", "\\$'", "`id`", "$HOME", "a\x1b[2J\x7f1", "\x010"),
    *("caf\u00e9", "cafe\u0301", "\u0301", "\u202eab", "a\u200b0", "\U0001f600", "\U000e0041f"),
    *("\u0915\u093f", "\udcff0", "\udcc3x", " " * 200 + "x", "\u3164", "\xa0", "\t\r"),
]


def read_by_bash(line: str) -> list[str]:
    script = f"printf '%s\\0' {line}".encode("utf-8", "surrogateescape")
    read = subprocess.run(
        ["bash", "-c", script], env={"LC_ALL": "C.UTF-8"}, stdout=subprocess.PIPE, check=True
    ).stdout
    return [word.decode("utf-8", "surrogateescape") for word in read.split(b"\0")[:-1]]


def test_bash_reads_the_same_words() -> None:
    assert read_by_bash(quoted_words(WORDS)) == WORDS
    written_out = in_ascii(WORDS)
    assert written_out is not None
    assert written_out.isascii()
    assert read_by_bash(written_out) == WORDS


def test_ordinary_words_stay_as_a_shell_has_them() -> None:
    assert quoted_words(["git", "commit", "-m", "two words", "sm\u00f6rg\u00e5s"]) == (
        "git commit -m 'two words' 'sm\u00f6rg\u00e5s'"
    )
    assert quoted_line("  it's\\n fine") == "  it's\\n fine"
    assert in_ascii(["git"]) is None


def test_marks_can_not_strike_out_or_cover() -> None:
    assert quoted("cafe\u0301") == "$'cafe\\u0301'"
    assert quoted("\u0915\u093f") == "'\u0915\u093f'"
    tower = quoted("\u0915" + "\u0301" * 9)
    assert tower.count("\\u0301") == 6


def test_no_padding_is_longer_than_a_line() -> None:
    assert " " * (SPACES_LIMIT + 1) not in quoted("a" + " " * 4000 + "b")
    assert quoted_line("a ") == "$'a '"


@given(st.lists(st.text(alphabet=st.characters(exclude_categories=())), min_size=2, max_size=2, unique=True))
def test_no_two_texts_are_written_out_alike(texts: list[str]) -> None:
    one, other = texts
    assert quoted(one).isprintable()
    assert quoted_line(one).isprintable()
    assert quoted(one) != quoted(other)
    assert quoted_line(one) != quoted_line(other)
    assert (in_ascii([one]) or quoted(one)) != (in_ascii([other]) or quoted(other))
