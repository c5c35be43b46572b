"""TOML of others: read as the library reads it, and never for long."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from paddock.discovery.toml_text import DOTS_LIMIT, PARTS_LIMIT, parse_toml

DEEP = "a." * (DOTS_LIMIT + 1) + "a"


@pytest.mark.parametrize(
    "text",
    [
        f"{DEEP} = 1",
        f"[{DEEP}]",
        f"x = 1 # it's\n{DEEP} = 1",
        f'x = "\\"" # "\n{DEEP} = 1',
        f'x = """a\\""" b"""\n{DEEP} = 1',
        f"x = '''a''''\n{DEEP} = 1",
        f'x = """a"""""\n{DEEP} = 1',
        ".".join(['"q"'] * (DOTS_LIMIT + 2)) + " = 1",
        f"x = {{{DEEP} = 1}}",
    ],
)
def test_key_of_many_parts_is_refused_wherever_it_is(text: str) -> None:
    tomllib.loads(text)
    with pytest.raises(ValueError, match="dots outside of strings"):
        parse_toml(text)


DOTS = "." * 1000


@pytest.mark.parametrize(
    "text",
    [
        f'x = "{DOTS}"',
        f"x = '{DOTS}'",
        f'x = """\n{DOTS}\n\\"""{DOTS}"""',
        f"x = '''{DOTS}''' # {DOTS}",
        "[a.b.c]\nd.e = 1.5",
    ],
)
def test_strings_and_comments_have_any_number_of_dots(text: str) -> None:
    assert parse_toml(text) == tomllib.loads(text)


PIECES = st.sampled_from(
    ['"', '"""', "'", "'''", "#", "\\", "\n", "=", "x", ".", "[", "]", "{", "}", " ", DEEP]
)


@given(st.lists(PIECES, max_size=20).map("".join))
@example(f"x=''''''''\n{DEEP}=1")
def test_no_text_hides_such_a_key(text: str) -> None:
    """Where the library finds a table as deep as that, it was refused."""
    try:
        table = tomllib.loads(text)
    except ValueError:
        return
    value: object = table
    while isinstance(value, dict) and "a" in value:
        value = value["a"]
        if not isinstance(value, dict):
            with pytest.raises(ValueError, match="dots outside of strings"):
                parse_toml(text)


@pytest.mark.parametrize("hostile", ['"\\', '"', "'", "'''", '"""', '"""\\', "a."])
def test_mebibyte_of_anything_is_refused_at_once(hostile: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_toml(hostile * (2**20 // len(hostile)))


@pytest.mark.parametrize("item", ["k{} = 1", "[t{}]", "k{} = []", "k{} = {{}}"])
def test_a_text_of_very_many_keys_is_refused(item: str) -> None:
    few, many = ("\n".join(map(item.format, range(count))) for count in (PARTS_LIMIT // 2, PARTS_LIMIT + 1))
    assert len(parse_toml(few)) == PARTS_LIMIT // 2
    with pytest.raises(ValueError, match="keys, tables and arrays"):
        parse_toml(many)


@pytest.mark.parametrize(
    "text", ['x = "{}"', "x = '{}'", 'x = """{}"""', "x = '''{}'''"], ids=["basic", "literal", "long", "raw"]
)
def test_strings_have_any_number_of_signs(text: str) -> None:
    whole = text.format("={[#." * PARTS_LIMIT)
    assert parse_toml(whole) == tomllib.loads(whole)
