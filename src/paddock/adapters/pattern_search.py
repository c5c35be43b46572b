"""Searches output for the expressions of a caller, in a process of its own, which can be ended.

Python needs for ever to search for some expressions, and seconds to compile long ones, and lets nothing else
run meanwhile: in `paddock serve --swerex`, no other client would be served. The search comes on standard
input, and what it found goes to standard output. The process ends itself when its time is up, also if nobody
waits for it any more.
"""

from __future__ import annotations

import asyncio
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from msgspec import Struct, msgpack

from paddock.errors import OperationFailed
from paddock.timed_process import answer_of, end_after, reply

LIMIT_S: Final = 2.0
"""How long one search may take, with the start of its process. What people wait for takes milliseconds."""

_MODULE: Final = "paddock.adapters.pattern_search"


class Sought(Struct, frozen=True, array_like=True):
    """Expressions, and where to look for them."""

    patterns: tuple[bytes, ...]
    """Of several that match at one place, the first counts. A dot matches a line end too."""
    data: bytes


class Span(Struct, frozen=True, array_like=True):
    """Where an expression was found first, and which it was."""

    start: int
    end: int
    index: int


class _Outcome(Struct, frozen=True, array_like=True):
    """What the process found, or why it could not search."""

    span: Span | None = None
    problem: str = ""


_soughts: Final = msgpack.Decoder(Sought)
_outcomes: Final = msgpack.Decoder(_Outcome)


_searchers: Final = ThreadPoolExecutor(4, "pattern-search")
"""Threads that only wait for these processes, so that slow searches delay nothing but other searches."""


async def find_apart(sought: Sought) -> Span | None:
    """Search in another process.

    Raises OperationFailed if an expression means nothing, the search takes too long, or it does not work.
    """
    loop = asyncio.get_running_loop()
    answer = await loop.run_in_executor(_searchers, answer_of, _MODULE, msgpack.encode(sought))
    if answer is None:
        raise OperationFailed("the expression to wait for takes too long to search for; use a simpler one")
    outcome = _outcomes.decode(answer)
    if outcome.problem:
        raise OperationFailed(f"the expression to wait for means nothing: {outcome.problem}")
    return outcome.span


def find(sought: Sought) -> Span | None:
    """Search in this process.

    Raises re.error, OverflowError or RecursionError for an expression that means nothing to Python.
    """
    compiled = [re.compile(pattern, re.DOTALL) for pattern in sought.patterns]
    found = [(match, index) for index, each in enumerate(compiled) if (match := each.search(sought.data))]
    if not found:
        return None
    match, index = min(found, key=lambda each: (each[0].start(), each[1]))
    return Span(match.start(), match.end(), index)


def main() -> None:
    """Carry out the search on standard input."""
    end_after(LIMIT_S)
    try:
        outcome = _Outcome(find(_soughts.decode(sys.stdin.buffer.read())))
    except (re.error, OverflowError, RecursionError) as error:
        outcome = _Outcome(problem=str(error))
    reply(msgpack.encode(outcome))
