"""`paddock rules`: show what the rules say about commands, and add to them. Declares the verbs below it."""

from __future__ import annotations

from paddock.cli import rules_add, rules_check, rules_explain
from paddock.cli.options import Verbs

DESCRIPTION = """\
Ask the rules what a command may do, or add to them. Rules are files in a small language
(.rules) in /etc/paddock/rules and ~/.config/paddock/rules, and in .paddock/rules of
projects that you trust. The strictest rule that fits a command decides.
"""

EXAMPLES = """\
examples:
  paddock rules check -- git push                         what the rules say, as JSON
  paddock rules check --rules new.rules -- git push       what this file alone says
  paddock rules explain 'make && git push'                each program of a script
  paddock rules add -- git status                         never ask about it again
"""


def add_parser(verbs: Verbs) -> None:
    """Declare the verb and those below it."""
    parser = verbs.add_parser(
        "rules",
        help="ask the rules about commands, or add to them",
        description=DESCRIPTION,
        epilog=EXAMPLES,
    )
    actions = parser.add_subparsers(
        title="commands", metavar="COMMAND", required=True, help="what to do with them"
    )
    for action in (rules_check, rules_explain, rules_add):
        action.add_parser(actions)
