"""`paddock completion`: scripts that let a shell complete the command line.

Declares the verb; `completion_script` writes the scripts.
"""

from __future__ import annotations

import argparse

from paddock.cli.options import Verbs, add_verb

DESCRIPTION = """\
Print a script that completes paddock's commands, options, profiles, process ids, servers
and files in a shell. With --list, print the values that such a script asks for, one per line.
"""

EXAMPLES = """\
examples:
  source <(paddock completion bash)         in ~/.bashrc
  source <(paddock completion zsh)          in ~/.zshrc, after compinit
  paddock completion fish | source          in ~/.config/fish/config.fish
  paddock completion bash > ~/.local/share/bash-completion/completions/paddock
  paddock completion --list servers         what --server takes
"""

SHELLS = ("bash", "zsh", "fish")
LISTS = ("ids", "all-ids", "servers", "profiles", "groups")
CLIENT_NAME = "paddock-completion"


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
    parser.add_argument(
        "--list", choices=LISTS, help="print the values that an argument can have at this moment"
    )
    parser.add_argument(
        "shell", choices=SHELLS, nargs="?", metavar="SHELL", help=f"one of {', '.join(SHELLS)}"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the script, or the list."""
    if (arguments.list is None) == (arguments.shell is None):
        arguments.usage_error(f"name a shell, one of {', '.join(SHELLS)}")
    if arguments.list is not None:
        for word in _listed(arguments.list):
            print(word)
        return 0
    from paddock.cli.completion_script import completion_script
    from paddock.cli.main import build_parser

    print(completion_script(build_parser(), arguments.shell), end="")
    return 0


def _listed(what: str) -> list[str]:
    if what == "profiles":
        from paddock.sandbox.profile.table import BUILT_IN_NAMES

        return list(BUILT_IN_NAMES)
    if what == "groups":
        from paddock.network.group import GROUPS

        return list(GROUPS)
    import asyncio

    from paddock.cli.selection import short_names
    from paddock.cli.survey import survey

    found = asyncio.run(survey(None, CLIENT_NAME))
    if what == "servers":
        return [str(answer.status.server.pid) for answer in found.answers]
    known = found.candidates
    named = zip(short_names(known), known, strict=True)
    return [
        name for name, each in named if what == "all-ids" or each.process.running or each.process.survivors
    ]
