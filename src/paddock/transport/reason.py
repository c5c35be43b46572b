"""Why the operating system refused, in the words of an error message."""

from __future__ import annotations

import os
import socket
import ssl


def reason_of(error: OSError) -> str:
    """Give the reason alone, in lower case.

    asyncio puts the address into the text of its errors and drops what the kernel said;
    the number still tells. Resolver and TLS errors number differently.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}".lower()
    if isinstance(error, ssl.SSLError) and error.reason:
        return f"TLS failed: {error.reason.replace('_', ' ').lower()}"
    if error.errno and not isinstance(error, socket.gaierror | ssl.SSLError):
        text = os.strerror(error.errno)
    else:
        text = error.strerror or str(error)
    return text.lower()
