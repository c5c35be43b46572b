"""The control socket: an entrance of its own for the server's user.

It is a unix socket of mode 0600 whose peers are checked by their credentials, in a directory that nobody else
can touch. Every client of this socket is an operator. If the server can't make the socket in its usual place,
it logs that and serves its clients all the same; if it was told where to put the socket, it does not start
without it.
"""

from __future__ import annotations

import logging
import os

from paddock.config import Settings
from paddock.errors import ListenError
from paddock.journal import Journal
from paddock.transport import runtime_directory, unix
from paddock.transport.limits import TransportLimits
from paddock.transport.link import Accept
from paddock.transport.listener import Listener

journal = Journal(logging.getLogger(__name__))

MAX_OPERATORS = 64
"""Connections at once. Operators are few by nature; the bound keeps a runaway script from the descriptors."""


async def open_control_socket(settings: Settings, accept: Accept) -> Listener | None:
    """Listen for operators as the settings say; return None if they say no, or the usual place is
    unavailable.

    Removes the sockets of dead servers there. Raises ListenError for a path that can't be listened on.
    """
    choice = settings.control_socket
    if not choice:
        return None
    limits = TransportLimits(
        max_message_bytes=settings.max_message_bytes,
        write_high_water_bytes=settings.send_buffer_bytes,
        max_connections=MAX_OPERATORS,
    )
    if isinstance(choice, str):
        if not choice.startswith("/"):
            raise ListenError(choice, "the path of the control socket must be absolute")
        return await unix.listen(choice, accept, limits)
    try:
        uid = os.geteuid()
        directory = runtime_directory.provide(runtime_directory.candidates(os.environ, uid), uid)
        runtime_directory.remove_stale(directory)
        return await unix.listen(runtime_directory.new_socket_path(directory), accept, limits)
    except (ListenError, OSError) as error:
        journal.warning("no control socket; `paddock ps` can't reach this server", reason=str(error))
        return None
