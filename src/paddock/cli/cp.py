"""`paddock cp`: files and directories between this host and servers, or between servers."""

from __future__ import annotations

import argparse
import os
import posixpath
import sys
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from paddock.cli.connecting import connecting
from paddock.cli.location import Location, parse_location
from paddock.cli.options import Verbs, add_verb
from paddock.cli.profile_choice import add_profile_option, chosen_files
from paddock.cli.server_choice import add_credential_options
from paddock.errors import PaddockError

if TYPE_CHECKING:
    from paddock.client.files import Files, Progress

DESCRIPTION = """\
Copy a file, or with -r a directory, to a server's host, from it, or between servers. A
path without a URL is on this host, :/path is on the server of PADDOCK_URL or on your only
server, and - is standard input or output. The copy appears only when it is complete. If
the destination is a directory, the copy goes into it and keeps its name.
"""

EXAMPLES = """\
examples:
  paddock cp report.pdf :/work/                                on your only server
  paddock cp report.pdf ws://127.0.0.1:4100:/work/             into a directory
  paddock cp -r src unix:///run/paddock.sock:/work/src         a whole tree
  paddock cp ws://127.0.0.1:4100:/work/core.gz .               to here
  paddock cp -r ws://one.example:4100:/data wss://two.example:4100:/data --token-file t
  pg_dump db | paddock cp - ws://127.0.0.1:4100:/backup/db.sql

exit status:
  0 if paddock copied it, 1 if not; then nothing has changed at the destination.
"""

CLIENT_NAME = "paddock-cp"


def add_parser(verbs: Verbs) -> None:
    """Declare the verb."""
    parser = add_verb(verbs, "cp", run, help="copy files", description=DESCRIPTION, examples=EXAMPLES)
    parser.add_argument("source", metavar="[URL:]SOURCE", type=parse_location, help="the file or directory")
    parser.add_argument(
        "destination",
        metavar="[URL:]DESTINATION",
        type=parse_location,
        help="where to, or into which directory",
    )
    parser.add_argument(
        "-r", "--recursive", action="store_true", help="copy a directory and everything in it"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="show no progress on a terminal")
    add_profile_option(parser, "reach no more of the servers than it grants")
    add_credential_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Copy files, and return the exit status."""
    import asyncio

    source: Location = arguments.source
    destination: Location = arguments.destination
    if source.url is None and destination.url is None:
        arguments.usage_error(
            "neither side is on a server; write one as URL:/path, or :/path for your only one"
        )
    asyncio.run(_Copy(arguments, source, destination).run())
    return 0


class _Copy:
    """One copy. Each combination of sides has its way."""

    def __init__(self, arguments: argparse.Namespace, source: Location, destination: Location) -> None:
        self._arguments = arguments
        self._source = source
        self._destination = destination

    async def run(self) -> None:
        """Copy what was named. Raises PaddockError; the destination is as it was then."""
        from paddock.cli.progress import ProgressBar

        async with AsyncExitStack() as boxes:
            sides: dict[str, Files] = {}
            for url in dict.fromkeys((self._source.url, self._destination.url)):
                if url is not None:
                    box = await boxes.enter_async_context(connecting(self._arguments, url, CLIENT_NAME))
                    sides[url] = chosen_files(self._arguments, box)
            is_wanted = not self._arguments.quiet
            with ProgressBar(sys.stderr, _name(self._source), is_wanted=is_wanted) as bar:
                await self._copy(sides, bar.update)

    async def _copy(self, sides: dict[str, Files], progress: Progress) -> None:
        source, destination = self._source, self._destination
        if source.url is None:
            assert destination.url is not None
            await self._upload(sides[destination.url], progress)
        elif destination.url is None:
            await self._download(sides[source.url], progress)
        elif source.url == destination.url:
            await self._copy_there(sides[source.url])
        else:
            await self._pass_on(sides[source.url], sides[destination.url], progress)

    async def _upload(self, files: Files, progress: Progress) -> None:
        source = self._source
        if source.is_stream:
            await _send_stdin(files, self._destination.path, progress)
            return
        self._require_recursive(source.is_local_directory)
        await files.upload(source.path, await self._remote_path(files), progress=progress)

    async def _download(self, files: Files, progress: Progress) -> None:
        destination = self._destination
        self._require_recursive((await files.metadata(self._source.path)).is_directory)
        if destination.is_stream:
            await _send_stdout(files, self._source.path)
            return
        path = destination.path
        if destination.is_local_directory:
            path = os.path.join(path, _name(self._source))
        await files.download(self._source.path, path, progress=progress)

    async def _copy_there(self, files: Files) -> None:
        is_directory = (await files.metadata(self._source.path)).is_directory
        self._require_recursive(is_directory)
        await files.copy(self._source.path, await self._remote_path(files), recursive=is_directory)

    async def _pass_on(self, source: Files, destination: Files, progress: Progress) -> None:
        found = await source.metadata(self._source.path)
        self._require_recursive(found.is_directory)
        target = await self._remote_path(destination)
        path = self._source.path
        reader = source.tree_reader(path) if found.is_directory else source.reader(path)
        writer = (
            destination.tree_writer(target)
            if found.is_directory
            else destination.writer(target, atomic=destination.has("atomicWrites"))
        )
        done = 0
        async with reader as pieces, writer as file:
            async for piece in pieces:
                await file.write(piece)
                done += len(piece)
                progress(done, pieces.size_bytes)
        if not found.is_directory and isinstance(found.mode, int):
            from paddock.client.transfer import keep_executable

            await keep_executable(destination, target, found.mode)

    async def _remote_path(self, files: Files) -> str:
        """Return the destination, or a path in it if it is a directory."""
        from paddock.errors import NotFound

        path = self._destination.path
        try:
            is_directory = (await files.metadata(path)).is_directory
        except NotFound:
            return path
        return posixpath.join(path, _name(self._source)) if is_directory else path

    def _require_recursive(self, is_directory: bool) -> None:
        if is_directory and not self._arguments.recursive:
            raise PaddockError(f"{self._source.path!r} is a directory; add -r to copy it")


def _name(location: Location) -> str:
    if location.is_stream:
        return "stdin"
    return posixpath.basename(posixpath.abspath(location.path)) or "root"


async def _send_stdin(files: Files, path: str, progress: Progress) -> None:
    from paddock.client.local_source import next_piece
    from paddock.client.remote_file import BLOCK_BYTES

    done = 0
    async with files.writer(path, atomic=files.has("atomicWrites")) as file:
        while piece := await next_piece(sys.stdin.fileno(), BLOCK_BYTES):
            await file.write(piece)
            done += len(piece)
            progress(done, None)


async def _send_stdout(files: Files, path: str) -> None:
    async with files.reader(path) as pieces:
        async for piece in pieces:
            sys.stdout.buffer.write(piece)
