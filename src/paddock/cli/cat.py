"""`paddock cat`: the content of files on a server's host."""

from __future__ import annotations

import argparse
import sys

from paddock.cli import exit_status
from paddock.cli.connecting import connecting
from paddock.cli.location import Location, parse_location
from paddock.cli.message import error_text, tell
from paddock.cli.options import Verbs, add_verb
from paddock.cli.profile_choice import add_profile_option, chosen_files
from paddock.cli.server_choice import add_credential_options
from paddock.errors import PaddockError

DESCRIPTION = """\
Write the content of files to standard output, one after the other, unchanged. A path
without a URL is on this host; :/path is on the server of PADDOCK_URL, or on your only
server.
"""

EXAMPLES = """\
examples:
  paddock cat :/etc/os-release                    on your only server
  paddock cat ws://127.0.0.1:4100:/etc/os-release
  paddock cat unix:///run/paddock.sock:/var/log/build.log | less
  paddock cat wss://build.example:4100:/work/core.gz --token-file ~/.paddock-token | zcat

exit status:
  0 if paddock wrote every file, 1 if it could not read one; it still writes the others.
"""

CLIENT_NAME = "paddock-cat"


def add_parser(verbs: Verbs) -> None:
    """Declare the verb."""
    parser = add_verb(verbs, "cat", run, help="show files", description=DESCRIPTION, examples=EXAMPLES)
    parser.add_argument(
        "files",
        metavar="[URL:]FILE",
        type=parse_location,
        nargs="+",
        help="the files, by their absolute paths",
    )
    add_profile_option(parser, "see no more than it grants")
    add_credential_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the files out."""
    import asyncio

    return asyncio.run(_cat(arguments, arguments.files))


async def _cat(arguments: argparse.Namespace, locations: list[Location]) -> int:
    from contextlib import AsyncExitStack

    status = 0
    async with AsyncExitStack() as boxes:
        known = {}
        for url in dict.fromkeys(location.url for location in locations):
            box = await boxes.enter_async_context(connecting(arguments, url, CLIENT_NAME))
            known[url] = chosen_files(arguments, box)
        for location in locations:
            try:
                async with known[location.url].reader(location.absolute_path) as file:
                    async for piece in file:
                        sys.stdout.buffer.write(piece)
            except PaddockError as error:
                sys.stdout.flush()
                tell(error_text(error), "cat")
                status = exit_status.FAILURE
    return status
