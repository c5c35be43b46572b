"""`paddock logs`: print the output of a process, as far as its server still has it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from paddock.cli.message import tell
from paddock.cli.options import ID_HELP, Verbs, add_verb, count
from paddock.cli.server_choice import add_operated_server_options, operated_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from paddock.cli.tail import Piece
    from paddock.client.operator import OperatedProcess
    from paddock.model.stream import Stream

DESCRIPTION = """\
Print the output that a server retains of a process, running or ended: the head and
the newest tail of stdout and stderr together. What the process wrote to stdout or to
its terminal goes to stdout, and what it wrote to stderr goes to stderr. A note on
stderr marks the place of dropped output.
"""

EXAMPLES = """\
examples:
  paddock logs 3f2a                     all that is retained
  paddock logs --tail 20 --follow 3f2a  the last 20 lines, then what comes, to the end
  paddock logs --stderr 3f2a            only its stderr
"""

CLIENT_NAME = "paddock-logs"


def add_parser(verbs: Verbs) -> None:
    """Declare the verb."""
    parser = add_verb(
        verbs,
        "logs",
        run,
        help="print the output of a process",
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    parser.add_argument("-f", "--follow", action="store_true", help="print new output until the process ends")
    parser.add_argument("-n", "--tail", metavar="LINES", type=count, help="start with the last LINES lines")
    streams = parser.add_mutually_exclusive_group()
    streams.add_argument("--stdout", action="store_true", help="print only stdout, or the terminal")
    streams.add_argument("--stderr", action="store_true", help="print only stderr")
    add_operated_server_options(parser)
    parser.add_argument("id", metavar="ID", help=ID_HELP)


def run(arguments: argparse.Namespace) -> int:
    """Print the output."""
    import asyncio

    asyncio.run(_print_output(arguments))
    return 0


async def _print_output(arguments: argparse.Namespace) -> None:
    from paddock.cli.survey import reached

    streams = _wanted_streams(arguments)
    async with reached(arguments.id, operated_server(arguments), CLIENT_NAME) as (candidate, process):
        output = _output(process, candidate.process.next_seq, arguments.tail, arguments.follow, streams)
        async for piece in output:
            _print(piece)


def _wanted_streams(arguments: argparse.Namespace) -> frozenset[Stream]:
    from paddock.model.stream import Stream

    if arguments.stderr:
        return frozenset({Stream.STDERR})
    if arguments.stdout:
        return frozenset({Stream.STDOUT, Stream.PTY})
    return frozenset(Stream)


async def _output(
    process: OperatedProcess,
    until_seq: int,
    tail_lines: int | None,
    is_followed: bool,
    streams: frozenset[Stream],
) -> AsyncIterator[Piece]:
    """Yield the pieces to print, in order."""
    from paddock.cli.tail import LineTail
    from paddock.client.operator import pieces
    from paddock.protocol.process import OutputGap

    def is_wanted(piece: Piece) -> bool:
        return isinstance(piece, OutputGap) or piece.stream in streams

    tail = LineTail(tail_lines) if tail_lines is not None else None
    next_seq = 1
    async for page in process.pages(0, until_seq=until_seq):
        next_seq = page.next_seq
        for piece in filter(is_wanted, pieces(page)):
            if tail is not None:
                tail.add(piece)
            else:
                yield piece
    for piece in tail or ():
        yield piece
    if is_followed:
        async for page in process.pages(next_seq - 1):
            for piece in filter(is_wanted, pieces(page)):
                yield piece


def _print(piece: Piece) -> None:
    from paddock.cli.descriptor import STDERR, STDOUT, write_all
    from paddock.model.stream import Stream
    from paddock.protocol.process import OutputGap

    if isinstance(piece, OutputGap):
        tell(f"{piece.bytes_} bytes of output were dropped here", "logs")
        return
    write_all(STDERR if piece.stream is Stream.STDERR else STDOUT, piece.chunk)
