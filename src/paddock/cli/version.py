"""`paddock version`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from paddock.version import __version__

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    Verbs = _SubParsersAction[argparse.ArgumentParser]


def add_parser(verbs: Verbs) -> None:
    """Declare the verb."""
    parser = verbs.add_parser("version", help="print the version", description="Print the version and exit.")
    parser.set_defaults(handler=show_version)


def show_version(_: argparse.Namespace) -> int:
    """Print it."""
    print(f"paddock {__version__}")
    return 0
