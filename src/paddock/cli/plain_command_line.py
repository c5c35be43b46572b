"""Command lines that need no parser: `paddock VERB -- COMMAND...`, as programs start commands by the hundred.

To load argparse and declare a verb takes longer than to make a sandbox. A verb that is often started so says
in `PLAIN_ARGUMENTS` what its parser makes of a command line without options, and in `PLAIN_OPTIONS` which
options have a value that is taken as it is. The parser gets every other command line.
"""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from typing import Any, Final, NoReturn

PLAIN_VERBS: Final = ("run", "sandbox")


def plain_arguments(words: Sequence[str]) -> argparse.Namespace | None:
    """Return what the parser would make of a command line; None if it takes the parser to know."""
    if not words or words[0] not in PLAIN_VERBS:
        return None
    verb = import_module(f"paddock.cli.{words[0]}")
    given: dict[str, str] = {}
    rest = list(words[1:])
    while len(rest) > 1 and rest[0] in verb.PLAIN_OPTIONS and not rest[1].startswith("-"):
        given[verb.PLAIN_OPTIONS[rest[0]]] = rest[1]
        del rest[:2]
    if rest[:1] != ["--"] or len(rest) == 1:
        return None
    arguments = {**verb.PLAIN_ARGUMENTS, **given, "command": rest, "handler": verb.run}

    def usage_error(message: str) -> NoReturn:
        from paddock.cli.main import build_parser

        build_parser(words[:1]).parse_args(words).usage_error(message)
        raise AssertionError

    namespace: Any = SimpleNamespace(**arguments, usage_error=usage_error)
    plain: argparse.Namespace = namespace
    return plain
