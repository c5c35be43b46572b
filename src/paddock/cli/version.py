"""`paddock version`."""

from __future__ import annotations

import argparse

from paddock.cli.options import Verbs, add_verb
from paddock.version import __version__

EXAMPLES = """\
examples:
  paddock version
  paddock version --json
"""


def add_parser(verbs: Verbs) -> None:
    """Declare the verb."""
    parser = add_verb(
        verbs,
        "version",
        show_version,
        help="print the version",
        description="Print the version and exit.",
        examples=EXAMPLES,
    )
    parser.add_argument("--json", action="store_true", help="with the version of Python, as JSON")


def show_version(arguments: argparse.Namespace) -> int:
    """Print the version."""
    if arguments.json:
        import json
        import platform

        print(json.dumps({"paddock": __version__, "python": platform.python_version()}))
    else:
        print(f"paddock {__version__}")
    return 0
