"""The parser of every command line: argparse, which also suggests what may have been meant.

Imported for every command line, so it imports next to nothing itself.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any, Final, NoReturn

from paddock.cli import exit_status

USUAL_COLUMNS: Final = 80


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Leaves descriptions and examples as they are written, and knows how wide the terminal is.

    Without a width argparse imports `shutil` to learn it, and all that it needs, though nobody asks for help:
    it makes a formatter for each argument that is declared.
    """

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)


class Parser(argparse.ArgumentParser):
    """A parser whose verbs, and their verbs, are parsers of this kind too."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, formatter_class=Formatter)

    def error(self, message: str) -> NoReturn:
        """Say what is wrong with the command line, as every other message is said, and end with status 2."""
        self.print_usage(sys.stderr)
        self.exit(exit_status.USAGE, f"{self.prog}: {message}\n")

    def parse_known_args(  # type: ignore[override]
        self, args: Any = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Refuse what no argument takes here, where it is known which command was given."""
        known, rest = super().parse_known_args(args, namespace)
        if rest:
            from paddock.suggestion import suggestion

            word = rest[0].partition("=")[0]
            meant = suggestion(word, self._option_string_actions) if word.startswith("-") else None
            what = "option" if word.startswith("-") else "argument"
            self.error(f"there is no {what} {word!r}" + (f"; {meant}" if meant else ""))
        return known, rest

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


def _columns() -> int:
    """Return what `shutil.get_terminal_size` would."""
    named = os.environ.get("COLUMNS", "")
    if named.isascii() and named.isdigit() and int(named):
        return int(named)
    try:
        return os.get_terminal_size(1).columns or USUAL_COLUMNS
    except OSError:
        return USUAL_COLUMNS
