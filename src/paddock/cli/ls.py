"""`paddock ls`: list a directory on a server's host."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, NamedTuple

from paddock.cli.connecting import connecting
from paddock.cli.location import Location, parse_location
from paddock.cli.options import Verbs, add_verb
from paddock.cli.profile_choice import add_profile_option, chosen_files
from paddock.cli.server_choice import add_credential_options
from paddock.errors import NotFound, OperationFailed

if TYPE_CHECKING:
    from paddock.client.files import Files
    from paddock.protocol.fs import MetadataResult

DESCRIPTION = """\
List a directory, or show a file, of a server's host. A path without a URL is on this
host; :/path is on the server of PADDOCK_URL, or on your only server.
"""

EXAMPLES = """\
examples:
  paddock ls :/work                              on your only server
  paddock ls ws://127.0.0.1:4100:/work           names, directories with a slash
  paddock ls -l unix:///run/paddock.sock:/tmp    with kind, size and time
  paddock ls --json ws://127.0.0.1:4100:/work    for programs
"""

CLIENT_NAME = "paddock-ls"

AT_ONCE = 32
"""Entries that are asked about at the same time."""


class Entry(NamedTuple):
    """A name and its metadata; None if it has been removed in the meantime."""

    name: str
    found: MetadataResult | None


def add_parser(verbs: Verbs) -> None:
    """Declare the verb."""
    parser = add_verb(verbs, "ls", run, help="list a directory", description=DESCRIPTION, examples=EXAMPLES)
    parser.add_argument(
        "path",
        metavar="[URL:]PATH",
        type=parse_location,
        help="the directory or file, by its absolute path",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "-l", "--long", action="store_true", help="show kind, size and time of modification, too"
    )
    form.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument("-a", "--all", action="store_true", help="list names that begin with a dot, too")
    add_profile_option(parser, "see no more than it grants")
    add_credential_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the list."""
    import asyncio

    location: Location = arguments.path
    entries = asyncio.run(_look(arguments, location.url, location.absolute_path))
    if arguments.json:
        print(_json(entries))
    elif arguments.long:
        _print_table(entries)
    else:
        for name, found in entries:
            _print_name(name, "/" if found is not None and found.is_directory else "")
    return 0


async def _look(arguments: argparse.Namespace, url: str | None, path: str) -> list[Entry]:
    async with connecting(arguments, url, CLIENT_NAME) as box:
        files = chosen_files(arguments, box)
        found = await files.metadata(path)
        if not found.is_directory:
            return [Entry(path, found)]
        names = sorted(entry.file_name for entry in await files.read_directory(path))
        shown = [name for name in names if arguments.all or not name.startswith(".")]
        return await _describe(files, path, shown)


async def _describe(files: Files, directory: str, names: list[str]) -> list[Entry]:
    import asyncio

    slots = asyncio.Semaphore(AT_ONCE)

    async def describe(name: str) -> Entry:
        async with slots:
            try:
                return Entry(name, await files.metadata(os.path.join(directory, name)))
            except (NotFound, OperationFailed):
                # A link that leads nowhere or in circles; or it was removed meanwhile.
                return Entry(name, None)

    return list(await asyncio.gather(*map(describe, names)))


def _print_table(entries: list[Entry]) -> None:
    from paddock.cli.rendering import local_time, table

    rows = []
    for name, found in entries:
        if found is None:
            rows.append(("link", "", "", _printable(name)))
            continue
        rows.append((_kind(found), str(found.size), local_time(found.modified_at_ms), _printable(name)))
    for line in table(("KIND", "SIZE", "MODIFIED", "NAME"), rows):
        print(line)


def _kind(found: MetadataResult) -> str:
    kind = "directory" if found.is_directory else "file" if found.is_file else "other"
    return f"link to {kind}" if found.is_symlink else kind


def _json(entries: list[Entry]) -> str:
    import msgspec

    listing = [
        {"name": name, **(msgspec.to_builtins(found) if found is not None else {})} for name, found in entries
    ]
    return msgspec.json.format(msgspec.json.encode(listing), indent=2).decode()


def _print_name(name: str, mark: str) -> None:
    """Print a name: its bytes for a program, nothing that could disturb it for a terminal."""
    if sys.stdout.isatty():
        print(_printable(name) + mark)
    else:
        sys.stdout.buffer.write(os.fsencode(name + mark) + b"\n")


def _printable(name: str) -> str:
    from paddock.printable import printable

    return printable(name)
