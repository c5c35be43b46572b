"""Connections to servers that the user names by their URL."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from paddock.errors import PaddockError

if TYPE_CHECKING:
    from paddock.client.connect import Connecting


def add_connection_options(parser: argparse.ArgumentParser) -> None:
    """Let the user say how to get into a server."""
    parser.add_argument("--token-file", metavar="FILE", help="file with the token to show the server")
    parser.add_argument("--tls-ca", metavar="FILE", help="certificates to trust, for wss://")


def connecting(arguments: argparse.Namespace, url: str | None, client_name: str) -> Connecting:
    """A connection to a server, which comes back by itself when it is lost; None is a private server."""
    from paddock.client.connect import connect

    if url is None:
        return connect(client_name=client_name)
    return connect(
        url, client_name=client_name, token=read_token(arguments.token_file), tls_ca=arguments.tls_ca
    )


def read_token(path: str | None) -> str | None:
    """The token in a file; None if there is no file. Raises PaddockError."""
    if path is None:
        return None
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not ASCII"
        raise PaddockError(f"can't read the token in {path}: {reason}") from error
