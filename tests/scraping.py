"""What a server on a websocket address tells whoever scrapes it."""

from __future__ import annotations

import asyncio
import re
from http.client import HTTPConnection
from urllib.parse import urlsplit

PATIENCE_S = 20.0


def get(url: str, path: str, headers: dict[str, str] | None = None) -> tuple[int, dict[str, str], str]:
    """Status, headers and body of a plain GET on the address of a websocket URL."""
    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE_S)
    try:
        connection.request("GET", path, headers=headers or {})
        response = connection.getresponse()
        return response.status, dict(response.headers), response.read().decode()
    finally:
        connection.close()


async def scrape(url: str, headers: dict[str, str] | None = None) -> dict[str, float]:
    """Every sample of `/metrics`, by its name with its labels."""
    status, _, page = await asyncio.to_thread(get, url, "/metrics", headers)
    assert status == 200
    samples = (re.fullmatch(r"([^#].*) (\S+)", line) for line in page.splitlines())
    return {sample[1]: float(sample[2]) for sample in samples if sample is not None}
