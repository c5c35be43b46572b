"""Messages to people beside the output: lines on stderr that begin with who speaks."""

from __future__ import annotations

import sys

from paddock.cli import exit_status


def line(text: str, verb: str | None = None) -> str:
    """Return the whole line. Without a verb it is about the program, or about the command that it ran."""
    speaker = "paddock" if verb is None else f"paddock {verb}"
    return f"{speaker}: {text}\n"


def tell(text: str, verb: str | None = None) -> None:
    """Write the line in one piece: what a command writes comes out before or after it."""
    sys.stderr.write(line(text, verb))
    sys.stderr.flush()


def failed(problem: str, verb: str, status: int = exit_status.OWN_FAILURE) -> int:
    """Tell why a verb failed, and return the exit status."""
    tell(problem, verb)
    return status


def os_error_text(error: OSError) -> str:
    """Say what the operating system refused, and of which file."""
    file = f"{error.filename}: " if error.filename is not None else ""
    return f"{file}{error.strerror or error}"
