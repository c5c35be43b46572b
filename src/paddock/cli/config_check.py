"""`paddock config check`: check whether a server would start with a file of settings."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from paddock.cli.message import beginning, failed
from paddock.cli.options import Verbs, add_verb
from paddock.errors import ConfigError, PaddockError

if TYPE_CHECKING:
    from paddock.config import Settings

DESCRIPTION = """\
Read a file of settings as `paddock serve --config FILE` does, and check its names and
values, its profiles, the files with tokens, certificates and keys, and whether all of
them go together. Report a problem with file and line. This starts nothing.
"""

EXAMPLES = """\
examples:
  paddock config check paddock.toml
  paddock config check /etc/paddock/paddock.toml && systemctl reload paddock

exit status:
  0 if a server would take the file, 1 if not.
"""

VERB = "config check"


def add_parser(verbs: Verbs) -> None:
    """Declare the verb."""
    parser = add_verb(
        verbs,
        "check",
        run,
        help="find out whether a server would start with it",
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="TOML file with settings")


def run(arguments: argparse.Namespace) -> int:
    """Check the file, and print what a server would do with it."""
    from paddock.cli.listen_text import who_can_connect
    from paddock.config import load_settings, locate

    try:
        settings = load_settings(arguments.file)
        _check(settings)
    except ConfigError as error:
        locate(error, arguments.file)
        return failed(str(error), VERB, 1)
    except PaddockError as error:
        return failed(f"{arguments.file}: {error}", VERB, 1)
    print(f"{arguments.file}: good; would listen on {settings.listen}: {who_can_connect(settings)}")
    return 0


def _check(settings: Settings) -> None:
    """Do what a server does with its settings before it starts anything."""
    import logging

    from paddock.server.listen_policy import load_listen_policy
    from paddock.server.profiles import Profiles

    # Such as about a secret file that others can read.
    logging.basicConfig(format=f"{beginning(VERB)}warning: %(message)s")
    Profiles(settings)
    load_listen_policy(settings)
