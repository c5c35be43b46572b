"""`paddock completion`: scripts that let a shell complete the command line.

Declares the verb; `completion_script` writes the scripts.
"""

from __future__ import annotations

import argparse

from paddock.cli.options import Verbs, add_verb

DESCRIPTION = """\
Print a script that completes paddock's commands, options and process ids in a shell.
"""

EXAMPLES = """\
examples:
  source <(paddock completion bash)                                  # now
  paddock completion bash > ~/.local/share/bash-completion/completions/paddock
  paddock completion zsh > "${fpath[1]}/_paddock"                    # then start a new zsh
  paddock completion fish > ~/.config/fish/completions/paddock.fish
"""

SHELLS = ("bash", "zsh", "fish")


def add_parser(verbs: Verbs) -> None:
    """Declare the verb."""
    parser = add_verb(
        verbs,
        "completion",
        run,
        help="print a completion script for a shell",
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=f"one of {', '.join(SHELLS)}")


def run(arguments: argparse.Namespace) -> int:
    """Print the script."""
    from paddock.cli.completion_script import completion_script
    from paddock.cli.main import build_parser

    print(completion_script(build_parser(), arguments.shell), end="")
    return 0
