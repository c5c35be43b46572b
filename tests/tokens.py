"""Makes signed bearer tokens, good and bad ones, without the code under test."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

SECRET = b"0123456789abcdef0123456789abcdef"
HEADER = {"alg": "HS256", "typ": "JWT"}


def encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def sign(header: bytes, claims: bytes, secret: bytes = SECRET, digest: Any = hashlib.sha256) -> str:
    """A token of any bytes, signed."""
    return seal(f"{encode(header)}.{encode(claims)}", secret, digest)


def seal(signed: str, secret: bytes = SECRET, digest: Any = hashlib.sha256) -> str:
    """A token of any text, signed."""
    return f"{signed}.{encode(hmac.new(secret, signed.encode(), digest).digest())}"


def token(claims: Any, header: Any = HEADER, secret: bytes = SECRET, digest: Any = hashlib.sha256) -> str:
    """A token of any JSON values, signed."""
    return sign(json.dumps(header).encode(), json.dumps(claims).encode(), secret, digest)
