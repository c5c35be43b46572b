"""Chooses the rules that a verb of `paddock rules` looks at: named files, or those of the layers."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from paddock.cli.message import tell

if TYPE_CHECKING:
    from paddock.rules.policy import Policy


def add_rules_options(parser: argparse.ArgumentParser) -> None:
    """Let the user choose the rules."""
    parser.add_argument(
        "-r",
        "--rules",
        metavar="FILE",
        type=Path,
        action="append",
        default=[],
        help="rules, or a directory of them, in place of those of the system and the user; may be repeated",
    )
    parser.add_argument(
        "--trust-project",
        metavar="DIR",
        type=Path,
        action="append",
        default=[],
        help="also the rules of this project, in its .paddock/rules; may be repeated",
    )


def chosen_policy(arguments: argparse.Namespace) -> Policy:
    """Load the policy of the chosen files.

    Raises RulesFileError for a broken file that was named. Reports a broken file of a layer on stderr, and
    applies the others.
    """
    from paddock.cli.run_rules import files_in
    from paddock.rules.layer import standard_layers
    from paddock.rules.loader import load_layers, load_sound_policy

    if arguments.rules:
        if arguments.trust_project:
            arguments.usage_error("--trust-project goes without --rules")
        return load_sound_policy(files_in(arguments.rules))
    policy = load_layers(standard_layers(arguments.trust_project))
    for problem in policy.problems:
        tell(f"not in force: {problem}")
    return policy


def command_of(arguments: argparse.Namespace) -> list[str]:
    """Return the command after the options, which `--` may set apart. Without one the usage is wrong."""
    command: list[str] = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if not command:
        arguments.usage_error("a command is required after --")
    return command
