"""How a websocket server recognises its clients."""

from __future__ import annotations

from enum import StrEnum


class AuthMode(StrEnum):
    """What the bearer token of a request is."""

    CAPABILITY_TOKEN = "capability-token"
    """One secret string: every holder may do everything."""

    SIGNED_BEARER_TOKEN = "signed-bearer-token"
    """A JSON Web Token that expires, signed with a secret that the server shares with the issuer."""
