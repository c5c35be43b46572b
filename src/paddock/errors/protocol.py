"""Breaches of the protocol by the other side."""

from __future__ import annotations

from paddock.errors.base import PaddockError


class ProtocolError(PaddockError):
    """The other side broke the protocol."""


class MalformedMessage(ProtocolError):
    """One message could not be read as an envelope. The connection stays usable."""


class ProtocolViolation(ProtocolError):
    """A message that ends the connection."""
