"""Long scripts are read elsewhere, in bounded time, with the same result."""

from __future__ import annotations

import resource

import pytest

from paddock.errors import RulesError
from paddock.rules import script_reading
from paddock.rules.script import SCRIPT_LIMIT_BYTES, parse_script
from paddock.rules.script_reading import COMMANDS_LIMIT, SHORT_CHARS, look_at, read_script
from tests.turn_count import counted

LONG = 'for f in *.c; do cc -c "$f" || exit 1; done\n' * 40 + "bash -c 'make all; caf\udce9'\n"


def test_a_long_script_is_read_as_a_short_one_is() -> None:
    assert len(LONG) > SHORT_CHARS
    assert read_script(LONG) == parse_script(LONG)
    assert read_script("make all") == parse_script("make all")


@pytest.mark.parametrize("text", ["a|" * 50_000, "${" * 50_000, "a=(" * 40_000])
def test_a_script_that_would_take_minutes_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script_reading, "TIME_LIMIT_S", 0.3)
    script_reading._read.cache_clear()
    with pytest.raises(RulesError, match=r"takes more than 0\.3 s to take apart"):
        read_script(text)


def test_a_script_with_too_many_commands_is_refused() -> None:
    with pytest.raises(RulesError, match="more than 4096 commands"):
        read_script(f"eval '{'a;' * (COMMANDS_LIMIT + 1)}'")
    assert len(read_script("a\n" * COMMANDS_LIMIT).commands) == COMMANDS_LIMIT


def test_a_script_that_is_too_large_is_refused_without_another_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(script_reading, "answer_of")
    with pytest.raises(RulesError, match="larger than"):
        read_script("x" * (SCRIPT_LIMIT_BYTES + 1))


def test_a_shortage_is_not_remembered_as_a_flaw_of_the_script() -> None:
    read_script(LONG)
    script_reading._read.cache_clear()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
    try:
        with pytest.raises(RulesError, match=r"can't be taken apart: .*Too many open files"):
            read_script(LONG)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert read_script(LONG) == parse_script(LONG)


async def test_a_script_that_was_looked_at_takes_no_more_time() -> None:
    script_reading._read.cache_clear()
    with counted(script_reading, "answer_of") as asked:
        await look_at(LONG)
        assert read_script(LONG) == read_script(LONG)
    assert (asked.on_loop, asked.elsewhere) == (0, 1)
