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

    def add_argument(self, action: argparse.Action) -> None:
        """Leave room for the names of commands too: argparse indents them, and forgets that it does."""
        super().add_argument(action)
        if isinstance(action, argparse._SubParsersAction):
            self._action_max_length += self._indent_increment


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
        if args and self._subparsers is not None and self._is_unknown_option(args[0]):
            # argparse would rather complain that the command is missing.
            self._refuse(args[0])
        known, rest = super().parse_known_args(args, namespace)
        if rest:
            self._refuse(rest[0])
        return known, rest

    def _is_unknown_option(self, word: str) -> bool:
        # An option may be cut short.
        return word.startswith("-") and not any(
            option.startswith(word.partition("=")[0]) for option in self._option_string_actions
        )

    def _refuse(self, argument: str) -> NoReturn:
        from paddock.suggestion import suggestion

        word = argument.partition("=")[0]
        meant = suggestion(word, self._option_string_actions) if word.startswith("-") else None
        what = "option" if word.startswith("-") else "argument"
        self.error(f"there is no {what} {word!r}" + (f"; {meant}" if meant else ""))

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
