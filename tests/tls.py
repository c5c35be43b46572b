"""TLS for tests: both contexts, and the files they are made from."""

from __future__ import annotations

import ssl
from pathlib import Path

DIRECTORY = Path(__file__).parent / "data" / "tls"
AUTHORITY = DIRECTORY / "authority.pem"
CERT = DIRECTORY / "cert.pem"
KEY = DIRECTORY / "key.pem"
OTHER_CERT = DIRECTORY / "other-cert.pem"
OTHER_KEY = DIRECTORY / "other-key.pem"
ENCRYPTED_KEY = DIRECTORY / "encrypted-key.pem"


def server_context() -> ssl.SSLContext:
    """What a listener needs."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(CERT, KEY)
    return context


def client_context() -> ssl.SSLContext:
    """What a client needs that trusts the test authority alone."""
    return ssl.create_default_context(cafile=AUTHORITY)
