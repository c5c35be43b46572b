"""A program that serves one link on its standard input and output: echoes, and obeys a few words."""

from __future__ import annotations

import asyncio
import sys

import uvloop

from paddock.errors import ListenError
from paddock.transport.link import Link, Received
from paddock.transport.stdio import serve_stdio


class Echo:
    """Sends every message back and reports the end on standard error."""

    def __init__(self, link: Link) -> None:
        """Serve the link."""
        self._link = link
        self.is_over = asyncio.Event()

    def message_received(self, message: Received) -> None:
        """Echo or obey."""
        match bytes(message):
            case b"print":
                print("stray output", flush=True)
            case b"big":
                self._link.send(b"x" * (20 << 20))
            case b"close":
                self._link.send(b"bye")
                self._link.close()
            case other:
                self._link.send(other)

    def writing_paused(self) -> None:
        """Go on regardless."""

    def writing_resumed(self) -> None:
        """Go on regardless."""

    def link_closed(self, error: Exception | None) -> None:
        """Tell how it ended."""
        print(f"ended: {type(error).__name__}", file=sys.stderr, flush=True)
        self.is_over.set()


async def main() -> None:
    """Serve until the link ends."""
    echoes: list[Echo] = []

    def accept(link: Link) -> Echo:
        if "refuse" in sys.argv:
            raise RuntimeError("no receiver today")
        echoes.append(Echo(link))
        return echoes[0]

    try:
        await serve_stdio(accept)
    except (ListenError, RuntimeError) as error:
        sys.exit(f"error: {error}")
    await echoes[0].is_over.wait()


if __name__ == "__main__":
    if "uvloop" in sys.argv:
        uvloop.run(main())
    else:
        asyncio.run(main())
