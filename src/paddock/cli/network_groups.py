"""`paddock network groups`: the groups of hosts, and what is in them."""

from __future__ import annotations

import argparse
from pathlib import Path

from paddock.cli.options import Verbs, add_verb

DESCRIPTION = """\
List the groups of hosts, each with its hosts on the same line. A profile names a group as
`@NAME` in `allow` or `deny`. The settings of a server (`network_groups`) can replace groups
and add others.
"""

EXAMPLES = """\
examples:
  paddock network groups
  paddock run --profile :workspace --allow-group python -- pip install requests
"""


def add_parser(verbs: Verbs) -> None:
    """Declare the verb."""
    parser = add_verb(
        verbs, "groups", run, help="list groups of hosts", description=DESCRIPTION, examples=EXAMPLES
    )
    parser.add_argument(
        "--config", metavar="FILE", type=Path, help="settings of a server, to list its groups too"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the groups, and return the exit status."""
    from paddock.network.group import GROUPS

    groups = dict(GROUPS)
    if arguments.config is not None:
        from paddock.config import load_settings

        groups |= load_settings(arguments.config).network_groups
    width = max(map(len, groups))
    for name, hosts in sorted(groups.items()):
        print(f"{name:{width}}  {' '.join(hosts)}")
    return 0
