"""`paddock`: the command line's entrance.

Imports as little as it can: each verb loads what it needs when it runs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from paddock.errors import PaddockError
from paddock.version import __version__

EXAMPLES = """\
examples:
  paddock serve                                 listen on a free loopback port
  paddock serve --listen unix:///run/paddock.sock
  paddock run -- make test                      run a command through a private server
  paddock run --url ws://127.0.0.1:4100 -- ls   run it on a server that is there already
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; the exit status is returned. Errors are one sentence on stderr."""
    arguments = _parser().parse_args(argv)
    try:
        status: int = arguments.handler(arguments)
    except PaddockError as error:
        print(f"paddock: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return status


def _parser() -> argparse.ArgumentParser:
    from paddock.cli import run, serve, version

    parser = argparse.ArgumentParser(
        prog="paddock",
        description="Run commands for AI agents: a JSON-RPC exec-server and its tools.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"paddock {__version__}")
    verbs = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for verb in (serve, run, version):
        verb.add_parser(verbs)
    return parser


if __name__ == "__main__":
    sys.exit(main())
