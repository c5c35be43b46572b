"""Reads shell scripts in bounded time, wherever they come from.

The parser takes time by the square of some texts: a hundred kilobytes of `a|a|a|…` keep it busy for minutes,
and no other thread runs meanwhile. So a long script is read in a process of its own, which ends itself. The
last scripts are remembered, because one call of a tool asks about its script several times.
"""

from __future__ import annotations

import asyncio
import sys
from functools import lru_cache
from typing import Final

from msgspec import Struct, msgpack

from paddock.errors import OperationFailed, RulesError
from paddock.rules.script import (
    SCRIPT_LIMIT_BYTES,
    Script,
    ScriptCommand,
    Word,
    parse_script,
    require_parser,
)
from paddock.timed_process import answer_of, end_after, reply

SHORT_CHARS: Final = 1024
"""Scripts that are read here. The worst that we know takes 30 ms."""

TIME_LIMIT_S: Final = 2.0
"""For a long one. An ordinary script of SCRIPT_LIMIT_BYTES takes a twentieth of a second."""

COMMANDS_LIMIT: Final = 4096
"""Commands of a long script. Whoever looks at each of them lets nobody else run meanwhile."""

REMEMBERED: Final = 16
"""Scripts to remember: 2 MiB of text at the most."""

_MODULE: Final = "paddock.rules.script_reading"


class _Request(Struct, frozen=True):
    text: bytes
    limit_s: float


class _Command(Struct, frozen=True):
    """A `ScriptCommand`. Text is in bytes, because messages carry no characters that are not UTF-8."""

    words: tuple[tuple[bytes, bytes | None], ...]
    line: int
    is_internal: bool


class _Answer(Struct, frozen=True):
    """A `Script`, or the problem instead."""

    commands: tuple[_Command, ...] = ()
    error_line: int | None = None
    is_plain: bool = False
    problem: str | None = None


_requests: Final = msgpack.Decoder(_Request)
_answers: Final = msgpack.Decoder(_Answer)


def read_script(text: str) -> Script:
    """Return the content of a script, as `parse_script`. Blocks for a long one. Raises RulesError."""
    found = _found(text)
    if isinstance(found, str):
        raise RulesError(found)
    return found


async def look_at(text: str) -> None:
    """Let `read_script` have the answer about a script at once, and the loop go on meanwhile.

    Raises RulesUnavailable.
    """
    if len(text) > SHORT_CHARS:
        await asyncio.to_thread(_found, text)


def _found(text: str) -> Script | str:
    """Return the content of a script, or why there is none."""
    try:
        return _read(text)
    except OperationFailed as error:
        # Nothing of the script's, so it is not remembered.
        return f"the script can't be taken apart: {error}"


@lru_cache(maxsize=REMEMBERED)
def _read(text: str) -> Script | str:
    """Return the content of a script, or what of it lets there be none. Raises OperationFailed."""
    require_parser()
    if SHORT_CHARS < len(text) <= SCRIPT_LIMIT_BYTES:
        return _read_apart(text)
    return _read_here(text)


def _read_here(text: str) -> Script | str:
    try:
        return parse_script(text)
    except RulesError as error:
        return str(error)


def _read_apart(text: str) -> Script | str:
    answer = answer_of(_MODULE, msgpack.encode(_Request(_encoded(text), TIME_LIMIT_S)))
    if answer is None:
        return f"the script takes more than {TIME_LIMIT_S:g} s to take apart; write it shorter"
    found = _answers.decode(answer)
    if found.problem is not None:
        return found.problem
    commands = tuple(
        ScriptCommand(
            tuple(
                Word(_decoded(source), None if value is None else _decoded(value))
                for source, value in each.words
            ),
            each.line,
            each.is_internal,
        )
        for each in found.commands
    )
    return Script(commands, found.error_line, found.is_plain)


def main() -> None:
    """Read the script on standard input."""
    request = _requests.decode(sys.stdin.buffer.read())
    end_after(request.limit_s)
    found = _read_here(_decoded(request.text))
    if isinstance(found, Script) and len(found.commands) > COMMANDS_LIMIT:
        found = f"the script has more than {COMMANDS_LIMIT} commands; write it shorter"
    reply(msgpack.encode(_Answer(problem=found) if isinstance(found, str) else _answer(found)))


def _answer(script: Script) -> _Answer:
    commands = tuple(
        _Command(
            tuple(
                (_encoded(word.source), None if word.value is None else _encoded(word.value))
                for word in each.words
            ),
            each.line,
            each.is_internal,
        )
        for each in script.commands
    )
    return _Answer(commands, script.error_line, script.is_plain)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")
