"""The parser of every command line: argparse, which also suggests what may have been meant.

Imported for every command line, so it imports next to nothing itself.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any, NoReturn

from paddock.cli import exit_status


class Parser(argparse.ArgumentParser):
    """A parser whose verbs, and their verbs, are parsers of this kind too."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong with the command line, as every other message is said, and end with status 2."""
        self.print_usage(sys.stderr)
        self.exit(exit_status.USAGE, f"{self.prog}: {message}\n")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse a word that is none of the choices, and name the one that is most like it."""
        if action.choices is None or value in action.choices:
            return
        from paddock.suggestion import suggestion

        choices = [str(choice) for choice in action.choices]
        meant = suggestion(str(value), choices)
        kind = "command" if isinstance(action, argparse._SubParsersAction) else "choice"
        raise argparse.ArgumentError(
            None if kind == "command" else action,
            f"there is no {kind} {str(value)!r}; " + (meant or f"choose from {', '.join(choices)}"),
        )
