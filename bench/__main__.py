"""`python -m bench`: Paddock and its peer, measured by one client in one run.

Each row alternates between the servers round by round, so that what drifts (clock
speed, caches, neighbours) drifts for both. Progress goes to stderr, the table to
stdout.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import shlex
import signal
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from bench.chart import chart
from bench.errors import BenchError
from bench.report import Line, table
from bench.row import Row
from bench.rows import ROWS
from bench.servers import PEER_INSTALL, PEER_VARIABLE, Contender, paddock, peer

QUICK_ROUNDS = 2
CLEAR_LINE = "\r\033[K"

EXPLANATION = """\
ratio: how many times better than the peer; distance: how many times better the same work is without a server.
Values are medians of rounds that alternate between the servers."""


def main() -> int:
    """Measure and print. Exit status 1 if a figure could not be measured."""
    options = _options()
    # SIGTERM ends the run like Ctrl-C: servers and temporary directories go.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # A collection in the client would be counted as time of the server.
    gc.disable()
    own = paddock(options.paddock)
    lines: list[Line] = []
    has_failed = False
    with peer(options.peer) as other:
        contenders = [own] if other is None else [own, other]
        machine = _machine(contenders)
        _say(machine)
        try:
            for kind in options.rows:
                row = kind()
                rounds = options.rounds or (QUICK_ROUNDS if options.quick else row.rounds)
                try:
                    measured, is_complete = _measure(row, contenders, rounds)
                finally:
                    row.close()
                lines += measured
                has_failed |= not is_complete
                gc.collect()
        finally:
            for contender in contenders:
                contender.close()
    _say("")
    print(table(lines))
    print()
    print(EXPLANATION)
    _print_limits(options.rows)
    if other is None:
        print(f"The peer was not found. Install it with `{PEER_INSTALL}`,")
        print(f"or name its program in {PEER_VARIABLE}.")
    if options.svg is not None and any(line.ratio is not None for line in lines):
        options.svg.write_text(chart(lines))
        _say(f"chart written to {options.svg}")
    if options.json is not None:
        report = {"machine": machine, "lines": [line.as_json() for line in lines]}
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    return 1 if has_failed else 0


def _measure(row: Row, contenders: Sequence[Contender], rounds: int) -> tuple[list[Line], bool]:
    values: dict[str, list[Sequence[float | None]]] = {}
    sources: list[tuple[str, Callable[[], Sequence[float | None]]]] = [
        (contender.name, partial(row.measure, contender)) for contender in contenders
    ]
    sources.append(("limit", row.limit))
    failed: set[str] = set()
    begun_s = time.monotonic()
    for number in range(rounds):
        # Every second round backwards: whoever comes first in each would always follow the same neighbour.
        for name, measure in sources if number % 2 == 0 else reversed(sources):
            _say_passing(f"{row.name}: round {number + 1} of {rounds}, {name}")
            if name in failed:
                continue
            try:
                values.setdefault(name, []).append(measure())
            except BenchError as error:
                failed.add(name)
                _say(f"{row.name}: {name} failed: {error}")
    _say(f"{row.name}: done in {time.monotonic() - begun_s:.1f} s")

    def rounds_of(name: str, index: int) -> list[float]:
        if name in failed:
            return []
        columns = (found[index] for found in values.get(name, []))
        return [value for value in columns if value is not None]

    lines = [
        Line(row.name, figure, *(rounds_of(name, index) for name in ("paddock", "peer", "limit")))
        for index, figure in enumerate(row.figures)
    ]
    return lines, not failed


def _print_limits(kinds: Sequence[type[Row]]) -> None:
    print("Bare limits:")
    titles: dict[str, list[str]] = {}
    for kind in kinds:
        if kind.bare:
            titles.setdefault(kind.bare, []).append(kind.name)
    for bare, names in titles.items():
        print(f"  {', '.join(names)}: {bare}")


def _machine(contenders: Sequence[Contender]) -> str:
    versions = [f"{contender.name}: {_version(contender)}" for contender in contenders]
    system = f"{platform.system()} {platform.release()}, {os.cpu_count()} cores, Python"
    return "; ".join((*versions, f"{system} {platform.python_version()}"))


def _version(contender: Contender) -> str:
    try:
        return contender.version()
    except BenchError:
        return "unknown version"


def _say(text: str) -> None:
    print(f"{CLEAR_LINE if sys.stderr.isatty() else ''}{text}", file=sys.stderr, flush=True)


def _say_passing(text: str) -> None:
    """Something that the next line replaces; only for somebody who watches."""
    if sys.stderr.isatty():
        print(f"{CLEAR_LINE}{text}", end="", file=sys.stderr, flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure Paddock's server and its peer with one client in one run.",
        epilog="rows: " + ", ".join(kind.name for kind in ROWS),
    )
    parser.add_argument(
        "--rows", metavar="NAME,…", type=_rows, default=ROWS, help="only these, in this order"
    )
    parser.add_argument(
        "--quick", action="store_true", help=f"{QUICK_ROUNDS} rounds of each row: coarse, but soon"
    )
    parser.add_argument("--rounds", metavar="N", type=int, help="this many rounds of each row")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write every round there too")
    parser.add_argument("--svg", metavar="FILE", type=Path, help="write a chart of the ratios there")
    parser.add_argument("--paddock", metavar="COMMAND", type=_command, help="serve with this instead")
    parser.add_argument("--peer", metavar="COMMAND", type=_command, help="compare with this instead")
    return parser.parse_args()


def _command(text: str) -> tuple[str, ...]:
    return tuple(shlex.split(text))


def _rows(text: str) -> tuple[type[Row], ...]:
    known = {kind.name: kind for kind in ROWS}
    names = text.split(",")
    for name in names:
        if name not in known:
            raise argparse.ArgumentTypeError(f"there is no row {name!r}; there are {', '.join(known)}")
    return tuple(known[name] for name in names)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
