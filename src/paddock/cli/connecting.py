"""Connections to servers that the user names by their URL."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING

from paddock.cli.location import OWN_SERVER
from paddock.cli.server_choice import token_for, url_of_environment
from paddock.errors import PaddockError

if TYPE_CHECKING:
    from paddock.client.box import Box
    from paddock.client.connect import Connecting


@asynccontextmanager
async def connecting(arguments: argparse.Namespace, url: str | None, client_name: str) -> AsyncIterator[Box]:
    """Connect to a server; the connection comes back by itself when it is lost. None is a private server.

    `OWN_SERVER` is the one of PADDOCK_URL, or the only one of this user. Raises PaddockError alone.
    """
    from paddock.client.connect import connect

    if url == OWN_SERVER:
        from paddock.cli.survey import BY_URL

        url = url_of_environment() or await own_server_url(None, client_name, BY_URL)
    if url is None:
        from paddock.cli.embedded_server import embedded_server

        async with embedded_server(client_name) as box:
            yield box
        return
    token = token_for(url, arguments.token_file)
    async with opened(connect(url, client_name=client_name, token=token, tls_ca=arguments.tls_ca)) as box:
        yield box


async def own_server_url(server: str | None, client_name: str, choosing: str | None = None) -> str:
    """Return where a server of this user can be reached: over its control socket, which asks for no token.

    Without `server`, a pid or path, it is the only one. `choosing` says how the user can name one; by default
    with --server. Raises SelectionError.
    """
    from paddock.cli.survey import BY_OPTION, lasting_server

    return f"unix://{await lasting_server(server, client_name, choosing or BY_OPTION)}"


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
