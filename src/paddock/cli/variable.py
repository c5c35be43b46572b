"""The variables that `--env` names: `NAME=VALUE` sets one, `NAME` passes one through."""

from __future__ import annotations

import os

from paddock.host_text import utf8_text
from paddock.model.secret_name import SECRETS_HELP

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


def add_variable_option(parser: argparse.ArgumentParser, base: str) -> None:
    """Let the user set variables, or pass some through, on top of an environment that `base` names."""
    parser.add_argument(
        "--env",
        metavar="NAME[=VALUE]",
        type=parse_variable,
        action="append",
        default=[],
        help=f"set a variable on top of {base}, or pass one of yours on; {SECRETS_HELP}; may be repeated",
    )


def parse_variable(text: str) -> tuple[str, str]:
    """Return name and value. Raises ArgumentTypeError, also for a variable that is not set here."""
    from argparse import ArgumentTypeError

    name, equals, value = utf8_text(text).partition("=")
    if not name:
        raise ArgumentTypeError(f"{text!r} is not of the form NAME=VALUE or NAME")
    if equals:
        return name, value
    if name not in os.environ:
        raise ArgumentTypeError(f"{name} is not set here; give {name}=VALUE")
    return name, utf8_text(os.environ[name])
