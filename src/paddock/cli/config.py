"""`paddock config`: work with a file of settings.

Declares the verb and those below it.
"""

from __future__ import annotations

from paddock.cli import config_check
from paddock.cli.options import Verbs, add_verb

DESCRIPTION = """\
Check the settings of a server before you start it with them.
"""

EXAMPLES = """\
examples:
  paddock config check /etc/paddock/paddock.toml
"""


def add_parser(verbs: Verbs) -> None:
    """Declare the verb and those below it."""
    parser = add_verb(
        verbs,
        "config",
        lambda _: 0,
        help="check a file of settings",
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    below = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, help="what to do")
    config_check.add_parser(below)
