"""Checks the bearer token of a request. Pure: the secret and the time are given.

A token is accepted or there is one reason why not, in the words that the reference protocol's server uses.
Comparisons take the same time wherever two values differ, and no value here shows its secret in its `repr`.
Nothing of a signed token is interpreted before its signature was found good. This module does not know where
secrets come from, or what a refusal looks like on the wire.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeGuard

MIN_SECRET_BYTES: Final = 32
"""A key for HMAC-SHA256 must not be shorter than its digest (RFC 7518, 3.2)."""

DEFAULT_CLOCK_SKEW_S: Final = 30
"""How far the clocks of issuer and server may differ, unless the settings say otherwise."""

MISSING: Final = "missing websocket bearer token"
BAD_HEADER: Final = "invalid authorization header"
WRONG_TOKEN: Final = "invalid websocket bearer token"
BAD_JWT: Final = "invalid websocket jwt"
EXPIRED: Final = "expired websocket jwt"
NOT_YET_VALID: Final = "websocket jwt is not valid yet"
WRONG_ISSUER: Final = "websocket jwt issuer mismatch"
WRONG_AUDIENCE: Final = "websocket jwt audience mismatch"

_BASE64URL = re.compile(r"[A-Za-z0-9_-]*")
_NUMERIC_DATES: Final = range(-(1 << 63), 1 << 63)


class Credential(Protocol):
    """The secret that tokens are checked against."""

    def refusal(self, token: str, now_s: float) -> str | None:
        """Return why `token`, which `is_sendable`, is refused at this Unix time; None if it is accepted."""


@dataclass(frozen=True, slots=True)
class CapabilityToken:
    """One token, of which only the SHA-256 digest is kept."""

    digest: bytes = field(repr=False)

    @classmethod
    def of(cls, token: str) -> CapabilityToken:
        """Return the credential that accepts `token` alone."""
        return cls(_sha256(token))

    def refusal(self, token: str, now_s: float) -> str | None:
        """See `Credential`."""
        return None if hmac.compare_digest(_sha256(token), self.digest) else WRONG_TOKEN


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedToken:
    """JSON Web Tokens signed with HMAC-SHA256, and no other way, that expire."""

    secret: bytes = field(repr=False)
    issuer: str | None = None
    """The `iss` that a token must have; None accepts any and none."""
    audience: str | None = None
    """What the `aud` of a token must be or contain; None accepts any and none."""
    max_clock_skew_s: int = DEFAULT_CLOCK_SKEW_S

    def refusal(self, token: str, now_s: float) -> str | None:
        """See `Credential`."""
        signed, _, signature = token.rpartition(".")
        # The expected signature is encoded, rather than the given one decoded: there is exactly
        # one text for it, while base64 has several for the same bytes.
        expected = _base64url(hmac.digest(self.secret, signed.encode(), "sha256"))
        if not hmac.compare_digest(signature.encode(), expected):
            return BAD_JWT
        header, _, claims = signed.partition(".")
        if not _is_plain_hs256(_read_object(header)):
            return BAD_JWT
        return self._claims_refusal(_read_object(claims), int(now_s))

    def _claims_refusal(self, claims: dict[str, Any] | None, now_s: int) -> str | None:
        if claims is None:
            return BAD_JWT
        expires_s, starts_s = claims.get("exp"), claims.get("nbf")
        issuer, audience = claims.get("iss"), claims.get("aud")
        audiences = [] if audience is None else [audience] if isinstance(audience, str) else audience
        if not (
            _is_numeric_date(expires_s)
            and (starts_s is None or _is_numeric_date(starts_s))
            and (issuer is None or isinstance(issuer, str))
            and _is_list_of_text(audiences)
        ):
            return BAD_JWT
        if now_s > expires_s + self.max_clock_skew_s:
            return EXPIRED
        if starts_s is not None and now_s < starts_s - self.max_clock_skew_s:
            return NOT_YET_VALID
        if self.issuer is not None and issuer != self.issuer:
            return WRONG_ISSUER
        if self.audience is not None and self.audience not in audiences:
            return WRONG_AUDIENCE
        return None


def bearer_refusal(authorization: str | None, credential: Credential, now_s: float) -> str | None:
    """Return why a request with this `Authorization` header, or None, is refused; None lets it in."""
    if authorization is None:
        return MISSING
    scheme, _, token = authorization.partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not is_sendable(token):
        return BAD_HEADER
    return credential.refusal(token, now_s)


def is_sendable(token: str) -> bool:
    """Return whether a header can carry a token: it is not empty, and all of it is visible ASCII."""
    return token != "" and token.isascii() and token.isprintable()


def _sha256(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _base64url(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def _read_object(part: str) -> dict[str, Any] | None:
    """Return the JSON object in one part of a token; None when anything is wrong with it."""
    if _BASE64URL.fullmatch(part) is None:
        return None
    try:
        text = base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)).decode()
        value = json.loads(text, object_pairs_hook=_object)
    # ValueError covers bad base64, UTF-8 and JSON, and numbers of absurd length.
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    # Two readers of a repeated name may choose differently, and one of them may be the issuer.
    names = dict(pairs)
    if len(names) != len(pairs):
        raise ValueError("a name is repeated")
    return names


def _is_plain_hs256(header: dict[str, Any] | None) -> bool:
    # An extension that is marked critical and not understood makes a token invalid (RFC 7515, 4.1.11).
    return header is not None and header.get("alg") == "HS256" and "crit" not in header


def _is_numeric_date(value: Any) -> TypeGuard[int]:
    # Not isinstance: True is an int.
    return type(value) is int and value in _NUMERIC_DATES


def _is_list_of_text(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
