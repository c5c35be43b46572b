"""What is wrong with a table, and where."""

from __future__ import annotations

import pytest

from paddock.toml_flaw import Flaw, flaw_of, instead, line_of

TEXT = """\
listen = "stdio"
permissions.first.network = "loopback"

[permissions.dev]  # mine
extends = ":workspace"
limits = { wallSeconds = 3 }

[permissions.dev.filesystem.":workspace_roots"]
"a.b" = "read"
'c' = "read"
"""


@pytest.mark.parametrize(
    ("key", "line"),
    [
        (("listen",), 1),
        (("permissions", "first", "network"), 2),
        (("permissions", "dev"), 4),
        (("permissions", "dev", "extends"), 5),
        (("permissions", "dev", "limits", "wallSeconds"), 6),
        (("permissions", "dev", "filesystem"), 8),
        (("permissions", "dev", "filesystem", ":workspace_roots", "a.b"), 9),
        (("permissions", "dev", "filesystem", ":workspace_roots", "c"), 10),
        (("permissions", "dev", "network"), 4),
        (("other",), None),
        ((), None),
    ],
)
def test_line_is_that_of_the_key_or_of_the_innermost_table_around_it(
    key: tuple[str, ...], line: int | None
) -> None:
    assert line_of(key, TEXT) == line


def test_message_is_taken_apart_and_put_into_the_words_of_toml() -> None:
    assert flaw_of("Expected `int | null`, got `str` - at `$.limits.wallSeconds`") == Flaw(
        "limits.wallSeconds", "Expected `int | null`, got `str`"
    )
    assert Flaw("a", "Expected `int | null`, got `str`").text == "expected an integer"
    assert flaw_of("Object contains unknown field `x` - at `$.limits`").unknown_key == "x"
    assert flaw_of("Invalid enum value 'x' - at `$.network`").unknown_word == "x"
    assert flaw_of("Expected `object`, got `str`").unknown_key is None


def test_people_are_told_what_is_near_or_else_what_there_is() -> None:
    assert instead("listne", ["listen", "log"]) == "did you mean 'listen'?"
    assert instead("xyz", ["listen", "log"]) == "there are listen, log"
