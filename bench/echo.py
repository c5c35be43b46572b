"""A websocket server that sends back what it gets: the least that any server on this library costs.

Run as a program. Prints its URL, like the servers that are measured.
"""

from __future__ import annotations

import asyncio

import picows
import uvloop


class Echo(picows.WSListener):
    """Answers every message with itself."""

    def on_ws_frame(self, transport: picows.WSTransport, frame: picows.WSFrame) -> None:
        """Send it back."""
        if frame.msg_type == picows.WSMsgType.CLOSE:
            transport.disconnect()
        else:
            transport.send(frame.msg_type, frame.get_payload_as_bytes())


async def main() -> None:
    """Serve until the process is ended."""
    server = await picows.ws_create_server(lambda request: Echo(), "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    print(f"ws://{host}:{port}", flush=True)
    await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    uvloop.run(main())
