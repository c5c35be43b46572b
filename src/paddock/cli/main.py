"""`paddock`: the command line's entrance.

Imports as little as it can: a verb's module only declares it, and loads what it needs
when it runs.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from errno import EDQUOT, EFBIG, EIO, ENOSPC
from importlib import import_module
from io import TextIOWrapper

from paddock.cli import exit_status, garbage, late_import
from paddock.cli.message import error_text, os_error_text, tell
from paddock.cli.plain_command_line import plain_arguments
from paddock.errors import PaddockError
from paddock.installation import narrow_import_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from typing import NoReturn, TextIO

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
  paddock cp -r src ws://127.0.0.1:4100:/work   copy files to a server's host
  paddock mcp                                   a sandboxed shell for any MCP client
  paddock rules explain 'make && git push'      what the rules say about a script
  paddock doctor                                whether this host has what paddock needs

Every command explains itself: paddock COMMAND --help.

exit status:
  0 if it worked, 1 if it failed, 2 if the command line is wrong; run and attach pass on the
  status of the process and have 125 to 127 for failures of their own.
"""

VERBS = (
    "serve",
    "run",
    "sandbox",
    "ps",
    "attach",
    "logs",
    "kill",
    "questions",
    "answer",
    "approve",
    "cp",
    "ls",
    "cat",
    "rules",
    "mcp",
    "network",
    "proxy",
    "agent-demo",
    "audit",
    "config",
    "doctor",
    "completion",
    "version",
)
"""Each is a module beside this one, in the order in which people are told of them."""

GROUPS = ("rules", "network", "audit", "config")
"""Verbs that have verbs of their own below them."""

WRITING_ERRNOS = frozenset({ENOSPC, EDQUOT, EFBIG, EIO})
"""A full disk, a quota, a limit of the size of files, a damaged disk: they end attempts to write."""


def run_and_end() -> NoReturn:
    """Run the command line of this process, and end the process with the exit status of `main`.

    Shutting down an interpreter takes longer than many a verb's work. By then all output is flushed, and
    every verb has removed what it made: none leaves that to the interpreter. This waits for the threads that
    must finish.
    """
    status = main()
    threading = sys.modules.get("threading")
    if threading is not None and any(
        not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()
    ):
        sys.exit(status)
    with suppress(OSError):
        sys.stderr.flush()
    os._exit(status)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line, and return the exit status. Errors are one sentence on stderr.

    Without `argv` it is that of this process, which then imports from Paddock's installation alone.
    """
    _open_standard_streams()
    if argv is None:
        garbage.postpone()
        late_import.postpone()
        narrow_import_path()
    words = sys.argv[1:] if argv is None else list(argv)
    verb = _verb_of(words)
    try:
        status = _run(words)
        _flush_stdout()
        return status
    except PaddockError as error:
        tell(error_text(error), verb)
        status = exit_status.FAILURE
    except BrokenPipeError:
        status = exit_status.BROKEN_PIPE
    except KeyboardInterrupt:
        status = exit_status.INTERRUPTED
    except OSError as error:
        # A full disk, no descriptors left: what no verb can do anything about.
        tell(_failure_text(error), verb)
        status = exit_status.FAILURE
    _let_go_of_stdout()
    return status


def _verb_of(words: Sequence[str]) -> str | None:
    """Return the verb that a command line is about, as its help names it."""
    if not words or words[0] not in VERBS:
        return None
    has_verb_below = words[0] in GROUPS and len(words) > 1 and not words[1].startswith("-")
    return " ".join(words[:2]) if has_verb_below else words[0]


def _failure_text(error: OSError) -> str:
    """Say what the operating system refused, also where its error has no file."""
    if error.filename is None and isinstance(error, FileNotFoundError):
        try:
            os.getcwd()
        except FileNotFoundError:
            return "the current directory is gone; go to another"
    if error.filename is None and error.errno in WRITING_ERRNOS:
        return f"can't write: {error.strerror}"
    return os_error_text(error)


def _run(argv: Sequence[str]) -> int:
    if argv[:1] == ["help"]:
        # As people know it from git and others.
        argv = [*argv[1:], "--help"]
    try:
        # Only that verb may do without it; and before a verb is declared, which may import it for itself.
        if argv and argv[0] in VERBS and argv[0] != "sandbox":
            from paddock.cli.quick_import import import_msgspec

            import_msgspec()
        arguments = plain_arguments(argv)
        if arguments is None:
            parser = build_parser(_needed_verbs(argv))
            if not argv:
                parser.print_help()
                return exit_status.USAGE
            arguments = parser.parse_args(argv)
        status: int = arguments.handler(arguments)
    except SystemExit as end:
        # argparse has printed help, the version or what is wrong, and means to end without us.
        return end.code if isinstance(end.code, int) else 0
    return status


def _open_standard_streams() -> None:
    """Fill descriptors 0 to 2, which our caller may have closed: nothing else must get their numbers.

    A filled input is at its end, a filled output can't be written, and errors can't be shown.
    """
    while (fd := os.open(os.devnull, os.O_RDONLY)) <= 2:
        if fd == 2:
            os.close(fd)
            os.open(os.devnull, os.O_RDWR)
    os.close(fd)
    # Python has None in place of a stream that was closed, and `print` takes stdout for a stderr of None.
    sys.stdout = sys.stdout or _nowhere()
    sys.stderr = sys.stderr or _nowhere()
    # PYTHONIOENCODING or the locale may name an encoding that lacks a character: better escaped than a fault.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def _nowhere() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")


def _flush_stdout() -> None:
    """Write what is buffered here, where failures can be told apart, and not when the interpreter ends."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise PaddockError(f"can't write to standard output: {error.strerror}") from error


def _let_go_of_stdout() -> None:
    """Write what is still buffered; if that fails the interpreter must not try again at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)


def build_parser(verbs: Sequence[str] = VERBS) -> argparse.ArgumentParser:
    """Build the parser of the whole command line, or of no more of it than these verbs.

    The reference and the completion scripts are made from it.
    """
    from paddock.cli.parser import Parser
    from paddock.version import __version__

    parser = Parser(
        prog="paddock",
        description=DESCRIPTION,
        epilog=EXAMPLES,
    )
    parser.add_argument("--version", action="version", version=f"paddock {__version__}")
    # Without a name of theirs, argparse would format help to find one.
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, prog="paddock")
    for verb in verbs:
        import_module(f"paddock.cli.{verb.replace('-', '_')}").add_parser(commands)
    return parser


def _needed_verbs(argv: Sequence[str]) -> Sequence[str]:
    """Return the verbs that a command line can be about. To declare them all takes longer than most work."""
    if argv[:1] == ["--version"]:
        return ()
    return argv[:1] if argv and argv[0] in VERBS else VERBS


if __name__ == "__main__":
    run_and_end()
