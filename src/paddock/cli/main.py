"""`paddock`: the command line's entrance.

Imports as little as it can: a verb's module only declares it, and loads what it needs
when it runs.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from paddock.errors import PaddockError
from paddock.version import __version__

DESCRIPTION = """\
Run commands for AI agents: a JSON-RPC exec-server and its tools.
"""

EXAMPLES = """\
examples:
  paddock serve                                 listen on a free loopback port
  paddock run -- make test                      run a command through a private server
  paddock run --url ws://127.0.0.1:4100 -- ls   run it on a server that is there already
  paddock run --detach --tty -- bash            leave it running on your server
  paddock sandbox -- make test                  run it with the files and network of a profile
  paddock ps                                    what runs on your servers
  paddock attach 3f2a                           go there
  paddock doctor                                whether this host has what paddock needs

Every command explains itself: paddock COMMAND --help.

exit status:
  0 if it worked, 1 if it failed, 2 if the command line is wrong; run and attach pass on the
  status of the process and have 125 to 127 for failures of their own.
"""

STATUS_INTERRUPTED = 130
STATUS_BROKEN_PIPE = 141
"""128 + SIGINT and 128 + SIGPIPE, as a shell reports a program that the signal ended."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; the exit status is returned. Errors are one sentence on stderr."""
    arguments = build_parser().parse_args(argv)
    try:
        status: int = arguments.handler(arguments)
        # Here, where it can still be told apart, and not when the interpreter ends. There is none
        # if whoever started us had closed descriptor 1.
        if sys.stdout is not None:
            sys.stdout.flush()
    except PaddockError as error:
        print(f"paddock: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        _silence_stdout()
        return STATUS_BROKEN_PIPE
    except KeyboardInterrupt:
        return STATUS_INTERRUPTED
    except OSError as error:
        # A full disk, no descriptors left: what no verb can do anything about.
        place = f"{error.filename}: " if error.filename is not None else ""
        print(f"paddock: {place}{error.strerror or error}", file=sys.stderr)
        _silence_stdout()
        return 1
    return status


def _silence_stdout() -> None:
    """Nobody can be told what is still buffered; the interpreter must not try again at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def build_parser() -> argparse.ArgumentParser:
    """The whole command line. The reference and the completion scripts are made from it."""
    from paddock.cli import attach, completion, doctor, kill, logs, ps, run, sandbox, serve, version

    parser = argparse.ArgumentParser(
        prog="paddock",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"paddock {__version__}")
    verbs = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for verb in (serve, run, sandbox, ps, attach, logs, kill, doctor, completion, version):
        verb.add_parser(verbs)
    return parser


if __name__ == "__main__":
    sys.exit(main())
