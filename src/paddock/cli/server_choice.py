"""Chooses the server that a command line means: the one it names, that of the environment, or the user's own.

`PADDOCK_URL` stands for `--url` where neither that nor `--server` is given. `PADDOCK_TOKEN` is the token for
the server of `PADDOCK_URL`, or, if that is not set, for the one that is named: it is never shown to another.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from paddock.errors import PaddockError

if TYPE_CHECKING:
    import argparse

    from paddock.model.control_address import RemoteControl

URL_VARIABLE: Final = "PADDOCK_URL"
TOKEN_VARIABLE: Final = "PADDOCK_TOKEN"

MAX_TOKEN_CHARACTERS: Final = 16 * 1024
"""No server takes a longer head of a request; /dev/zero has no end."""

URL_HELP: Final = f"by the URL that `paddock serve` prints (default: ${URL_VARIABLE})"


def add_operated_server_options(parser: argparse.ArgumentParser) -> None:
    """Let the user choose among the servers that an operator can reach."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--server",
        metavar="SERVER",
        help="only this server: its pid, or the path of its control socket (default: all of this user's)",
    )
    where.add_argument(
        "--url", metavar="URL", help=f"a server that accepts operators over the network, {URL_HELP}"
    )
    add_credential_options(parser)


def add_credential_options(parser: argparse.ArgumentParser) -> None:
    """Let the user choose the token for a server, and the certificates to trust."""
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        help=f"file with the token to send to the server (default: the token in ${TOKEN_VARIABLE})",
    )
    parser.add_argument("--tls-ca", metavar="FILE", help="certificates to trust, for wss://")


def url_of_environment() -> str | None:
    """Return the URL that the user has set for all commands."""
    return os.environ.get(URL_VARIABLE) or None


def token_for(url: str, token_file: str | None) -> str | None:
    """Return the token to show a server. Raises PaddockError."""
    if token_file is not None:
        return read_token(token_file)
    if url.startswith("unix:") or os.environ.get(URL_VARIABLE) not in (None, "", url):
        return None
    return os.environ.get(TOKEN_VARIABLE, "").strip() or None


def operated_server(arguments: argparse.Namespace) -> str | RemoteControl | None:
    """Return the one server that is meant: a pid, a path or a URL; None means all of this user's."""
    url = arguments.url
    if url is None and arguments.server is None:
        url = url_of_environment()
    if url is None:
        if arguments.token_file or arguments.tls_ca:
            arguments.usage_error("--token-file and --tls-ca go with --url")
        server: str | None = arguments.server
        return server
    from paddock.model.control_address import RemoteControl

    return RemoteControl(url, token_for(url, arguments.token_file), arguments.tls_ca)


def read_token(path: str | None) -> str | None:
    """Return the token in a file; None if there is no file. Raises PaddockError."""
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
