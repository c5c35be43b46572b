"""Options that several verbs declare alike.

Imported for every command line, so it imports next to nothing itself. A metavar
says what an argument is, and shell completion goes by it: ID is a process, SERVER a
server, PROFILE a profile, GROUP a group of hosts, SIGNAL a signal; FILE, DIR and what
begins with [URL:] are files.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from argparse import _SubParsersAction
    from collections.abc import Callable

    Verbs = _SubParsersAction[argparse.ArgumentParser]
else:
    # Only annotations name it, and a plain command line does without argparse.
    Verbs = object

ID_HELP = "process id, the beginning of one, or session/process, as `paddock ps` shows it"


def add_verb(
    verbs: Verbs,
    name: str,
    handler: Callable[[argparse.Namespace], int],
    *,
    help: str,
    description: str,
    examples: str,
) -> argparse.ArgumentParser:
    """Declare a verb; the caller adds its arguments. `usage_error` of the namespace ends with status 2."""
    parser = verbs.add_parser(
        name,
        help=help,
        description=description,
        epilog=examples,
    )
    parser.set_defaults(handler=handler, usage_error=parser.error)
    return parser


def add_server_option(parser: argparse.ArgumentParser) -> None:
    """Let the user narrow the search to one server."""
    parser.add_argument(
        "--server",
        metavar="SERVER",
        help="only this server: its pid, or the path of its control socket (default: all of this user's)",
    )


def seconds(text: str) -> float:
    """Parse a number of seconds from 0 up."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    # Also what is not a number, which compares to nothing.
    if not 0 <= value <= 86_400:
        from argparse import ArgumentTypeError

        raise ArgumentTypeError(f"{text!r} is not a number of seconds from 0 to 86400")
    return value


def count(text: str) -> int:
    """Parse a number from 0 up."""
    if not text.isascii() or not text.isdigit():
        from argparse import ArgumentTypeError

        raise ArgumentTypeError(f"{text!r} is not a number from 0 up")
    return int(text)
