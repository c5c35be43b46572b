"""Explains why the operating system refused, in the words of an error message."""

from __future__ import annotations

import os
import socket
import ssl
from typing import Final

_NO_TLS_RECORD: Final = "WRONG_VERSION_NUMBER"
"""What OpenSSL says of text in the place of a record, whose second byte is a version."""


def reason_of(error: OSError) -> str:
    """Return the reason alone, in lower case.

    asyncio puts the address into the text of its errors and drops what the kernel said;
    the number still tells. Resolver and TLS errors number differently.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}".lower()
    if isinstance(error, ssl.SSLError) and error.reason == _NO_TLS_RECORD:
        return "it does not speak TLS; did you mean ws://?"
    if isinstance(error, ssl.SSLError) and error.reason:
        return f"TLS failed: {error.reason.replace('_', ' ').lower()}"
    if error.errno and not isinstance(error, socket.gaierror | ssl.SSLError):
        text = os.strerror(error.errno)
    else:
        text = error.strerror or str(error)
    return text.lower()
