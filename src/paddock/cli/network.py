"""`paddock network`: the groups of hosts that commands can be let reach. Declares the verbs below it."""

from __future__ import annotations

from paddock.cli import network_groups
from paddock.cli.options import Verbs

DESCRIPTION = """\
List the groups of hosts that you can allow by name: `paddock run --allow-group python` lets a
command reach all hosts of a group.
"""

EXAMPLES = """\
examples:
  paddock network groups                       all groups, and their hosts
  paddock network groups --config server.toml  those of a server with these settings
"""


def add_parser(verbs: Verbs) -> None:
    """Declare the verb and those below it."""
    parser = verbs.add_parser(
        "network",
        help="groups of hosts that commands can reach",
        description=DESCRIPTION,
        epilog=EXAMPLES,
    )
    actions = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, help="what to list")
    network_groups.add_parser(actions)
