"""The location of a box, in a few bytes that another process can use. Pure.

A reference holds no secret and grants nothing: a process that attaches with it presents its own token.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

LIMIT_BYTES: Final = 64 * 1024
"""The largest encoded reference. Its largest part is a written-out profile, of a few kilobytes."""


class BoxReference(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A session of a server, or a workspace on its host."""

    url: str | None
    """The server; None for a private one, which any process on that host can start."""
    provider_id: str
    """The server's own name for its host and user: the same path elsewhere is another place."""
    session_id: str | None = None
    """The session to resume, for `connect(reference.url, resume=reference.session_id)`."""
    directory: str | None = None
    """The directory of a workspace."""
    profile: str | dict[str, Any] | None = None
    """The profile that confines that workspace."""

    def encode(self) -> str:
        """Return the reference as one line of JSON."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def decode(cls, text: str | bytes) -> BoxReference:
        """Return what `encode` wrote. Raises ValueError for anything else."""
        if len(text) > LIMIT_BYTES:
            raise ValueError(f"a reference has at most {LIMIT_BYTES} bytes; this one has {len(text)}")
        try:
            return msgspec.json.decode(text, type=cls)
        except msgspec.MsgspecError as error:
            raise ValueError(f"this is not the reference of a box: {error}") from error
