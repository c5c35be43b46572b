"""A search in a separate process, which can be killed.

With some patterns and lines, Python's engine never ends and lets no other thread run, so a server would serve
nobody else. The process reads the search from standard input and writes the matches to standard output. It
ends soon after the time of the search is up, whatever it is doing and even if nobody waits for it any more.
"""

from __future__ import annotations

import sys

from msgspec import msgpack

from paddock.fs.answer import Found
from paddock.fs.operation import Search
from paddock.fs.scan import scan
from paddock.timed_process import answer_of, end_after, reply

GRACE_S = 1.0
"""A search that can check the clock ends by itself within this time and returns its matches so far."""

_MODULE = "paddock.fs.search_process"
_searches = msgpack.Decoder(Search)
_answers = msgpack.Decoder(Found)


def search_apart(operation: Search) -> Found:
    """Search in another process. Raises OperationFailed if that process does not work."""
    answer = answer_of(_MODULE, msgpack.encode(operation))
    if answer is None:
        problem = f"the pattern {operation.pattern!r} takes too long; use a simpler one"
        return Found(matches=[], errors=[problem], is_truncated=True)
    return _answers.decode(answer)


def main() -> None:
    """Carry out the search on standard input."""
    operation = _searches.decode(sys.stdin.buffer.read())
    end_after(operation.timeout_s + GRACE_S)
    reply(msgpack.encode(scan(operation)))
