"""Tells whether mounts made elsewhere appear among those of this process, mount_namespaces(7).

They do on most hosts, because systemd makes all mounts shared. bubblewrap copies mounts so that later ones
still arrive, even in a running sandbox, with their flags on the host. There, bubblewrap must start among
mounts that receive nothing (native/own_mounts.h).
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

TABLE: Final = "/proc/self/mountinfo"

_PIECE_BYTES = 1 << 16


def read_table() -> bytes:
    """Return the mounts of this process, a line for each. Raises OSError."""
    table = os.open(TABLE, os.O_RDONLY | os.O_CLOEXEC)
    text = b""
    try:
        while piece := os.read(table, _PIECE_BYTES):
            text += piece
    finally:
        os.close(table)
    return text


def receives_mounts() -> bool:
    """Return whether a mount that is made elsewhere may appear here; True if unknown."""
    try:
        text = read_table()
    except OSError:
        return True
    # A file system with such a name does no harm.
    return b" shared:" in text or b" master:" in text
