"""Messages to people beside the output: lines on stderr that begin with the name of the program."""

from __future__ import annotations

import sys
from contextlib import suppress

from paddock.cli import exit_status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from paddock.errors import PaddockError


def beginning(verb: str | None = None) -> str:
    """Return how each line begins, for what does not write whole lines itself, such as the log of a verb."""
    return "paddock: " if verb is None else f"paddock {verb}: "


def line(text: str, verb: str | None = None) -> str:
    """Return the whole line. Without a verb it is about the program, or about the command that it ran.

    A server or a command may have chosen a part of the text: nothing in it disturbs a terminal. A text of
    Paddock's own may have several lines.
    """
    from paddock.printable import printable

    shown = "\n".join(map(printable, text.split("\n")))
    return f"{beginning(verb)}{shown}\n"


def bracketed(text: str) -> str:
    """Return a message that stands among the output of a command on a terminal."""
    return f"[{beginning()}{text}]"


def tell(text: str, verb: str | None = None) -> None:
    """Write the line in one piece: what a command writes comes out before or after it.

    Never raises: where nobody can be told, the exit status still says how it went.
    """
    show(line(text, verb))


def show(text: str) -> None:
    """Write a text that is more or less than a line to stderr, as `tell` does."""
    with suppress(OSError):
        sys.stderr.write(text)
        sys.stderr.flush()


def failed(problem: str, verb: str, status: int = exit_status.OWN_FAILURE) -> int:
    """Print why a verb failed, and return the exit status."""
    tell(problem, verb)
    return status


def error_text(error: PaddockError | ValueError) -> str:
    """Say what went wrong, where the address is from if the user did not give it just now, and where a token
    goes if the server wants another.

    The user wrote options, and has never heard of the parameter of a request that a server refuses.
    """
    from http import HTTPStatus

    from paddock.cli.server_choice import TOKEN_VARIABLE, URL_VARIABLE, url_of_environment
    from paddock.errors import ConnectError, HandshakeRefused, InvalidParams

    text = str(error)
    if isinstance(error, HandshakeRefused) and error.status == HTTPStatus.UNAUTHORIZED:
        text += f"; give the server's token with --token-file or in ${TOKEN_VARIABLE}"
    if isinstance(error, ConnectError) and error.address == url_of_environment():
        return f"{text} (the address is that of {URL_VARIABLE})"
    parameter, colon, problem = text.partition(": ")
    is_located = colon and parameter.startswith("params.") and isinstance(error, InvalidParams)
    return problem if is_located else text


def os_error_text(error: OSError) -> str:
    """Say what the operating system refused, and of which file."""
    file = f"{error.filename}: " if error.filename is not None else ""
    return f"{file}{error.strerror or error}"
