"""The server that a configuration file names, for frameworks that are configured by text."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from paddock.client.connect import Connecting, connect

URL_VARIABLE: Final = "PADDOCK_URL"
"""Names the server where a configuration does not."""


def server_target(url: str | None, token_file: str | None, tls_ca: str | None) -> Connecting | None:
    """Return the connection to make; None means a private server.

    It reads the token again for each connection. Raises ValueError for a token or certificates without a URL.
    """
    if url is None:
        if token_file is not None or tls_ca is not None:
            raise ValueError("token_file and tls_ca go with a url")
        return None
    token = None if token_file is None else lambda: Path(token_file).read_text(encoding="utf-8").strip()
    return connect(url, token=token, tls_ca=tls_ca)
