"""`paddock rules add`: allow a command permanently."""

from __future__ import annotations

import argparse
from pathlib import Path

from paddock.cli.options import Verbs, add_verb
from paddock.cli.rules_choice import command_of

DESCRIPTION = """\
Allow every command that begins with these words, from now on, by adding a line to
default.rules in ~/.config/paddock/rules. Paddock refuses prefixes that would allow nearly
anything: shells, interpreters, sudo, programs that run others, git or rm without more words.
A stricter rule elsewhere still decides.
"""

EXAMPLES = """\
examples:
  paddock rules add -- git status
  paddock rules add --file .paddock/rules/team.rules -- cargo test
"""


def add_parser(verbs: Verbs) -> None:
    """Declare the verb."""
    parser = add_verb(
        verbs, "add", run, help="always allow a command", description=DESCRIPTION, examples=EXAMPLES
    )
    parser.usage = "paddock rules add [--file FILE] -- COMMAND [ARG]..."
    parser.add_argument("--file", metavar="FILE", type=Path, help="add to this file instead")
    parser.add_argument(
        "command", metavar="COMMAND", nargs=argparse.REMAINDER, help="the first words of the command"
    )


def run(arguments: argparse.Namespace) -> int:
    """Add the rule."""
    from paddock.rules.amendment import add_rule, rule_line
    from paddock.rules.layer import AMENDED_FILE, user_directory

    prefix = command_of(arguments)
    path = arguments.file or user_directory() / AMENDED_FILE
    if add_rule(path, prefix):
        print(f"added to {path}: {rule_line(prefix)}")
    else:
        print(f"{path} has it already: {rule_line(prefix)}")
    return 0
