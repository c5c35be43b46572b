"""A search in a process of its own, which can be ended.

Python's engine needs for ever for some patterns and lines, and lets no other thread run meanwhile: in
the server, nobody else would be served. The search comes on standard input, and what it
found goes to standard output. The process ends itself soon after the time of the search is up,
whatever it is doing then, also if nobody waits for it any more.
"""

from __future__ import annotations

import sys

from msgspec import msgpack

from paddock.fs.answer import Found
from paddock.fs.operation import Search
from paddock.fs.scan import scan
from paddock.timed_process import answer_of, end_after, reply

GRACE_S = 1.0
"""A search that can look at the clock ends by itself in this time, with what it has found."""

_MODULE = "paddock.fs.search_process"
_searches = msgpack.Decoder(Search)
_answers = msgpack.Decoder(Found)


def search_apart(operation: Search) -> Found:
    """Search in another process. Raises OperationFailed if it does not work."""
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
