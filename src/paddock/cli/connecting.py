"""Connections to servers that the user names by their URL."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Final

from paddock.errors import PaddockError

if TYPE_CHECKING:
    from paddock.client.box import Box
    from paddock.client.connect import Connecting

MAX_TOKEN_CHARACTERS: Final = 16 * 1024
"""No server takes a longer head of a request; /dev/zero has no end."""


def add_connection_options(parser: argparse.ArgumentParser) -> None:
    """Let the user say how to get into a server."""
    parser.add_argument("--token-file", metavar="FILE", help="file with the token to show the server")
    parser.add_argument("--tls-ca", metavar="FILE", help="certificates to trust, for wss://")


def connecting(
    arguments: argparse.Namespace, url: str | None, client_name: str
) -> AbstractAsyncContextManager[Box]:
    """A connection to a server, which comes back by itself when it is lost; None is a private server."""
    from paddock.client.connect import connect

    if url is None:
        return opened(connect(client_name=client_name))
    token = read_token(arguments.token_file)
    return opened(connect(url, client_name=client_name, token=token, tls_ca=arguments.tls_ca))


@asynccontextmanager
async def opened(connection: Connecting) -> AsyncIterator[Box]:
    """Make a connection that was asked for on the command line. Raises PaddockError alone."""
    import logging

    # What a client logs as a warning, its errors say too; without a handler, both would come out.
    logging.getLogger("paddock.client").addHandler(logging.NullHandler())
    try:
        box = await connection
    except ValueError as error:
        # Options that do not go together, or a token that can't be one: here they are a user's input.
        raise PaddockError(str(error)) from error
    async with aclosing(box):
        yield box


def read_token(path: str | None) -> str | None:
    """The token in a file; None if there is no file. Raises PaddockError."""
    if path is None:
        return None
    try:
        with open(path, encoding="ascii") as file:
            token = file.read(MAX_TOKEN_CHARACTERS + 1)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not ASCII"
        raise PaddockError(f"can't read the token in {path}: {reason}") from error
    if len(token) > MAX_TOKEN_CHARACTERS:
        raise PaddockError(f"{path} has more than {MAX_TOKEN_CHARACTERS} characters; is it the right file?")
    if not token.strip():
        raise PaddockError(f"{path} is empty; write the token into it")
    return token.strip()
