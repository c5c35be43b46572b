"""What a person reads about a connection that failed."""

from __future__ import annotations

import errno
import socket
import ssl

import pytest

from paddock.transport.reason import reason_of


def tls(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, f"[SSL: {reason}] (_ssl.c:1000)")
    error.reason = reason
    return error


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (tls("WRONG_VERSION_NUMBER"), "it does not speak TLS; did you mean ws://?"),
        (tls("TLSV1_ALERT_PROTOCOL_VERSION"), "TLS failed: tlsv1 alert protocol version"),
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('::1', 1)"), "connection refused"),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "name or service not known"),
        (OSError("Multiple exceptions"), "multiple exceptions"),
    ],
    ids=["no TLS", "TLS", "refused", "no name", "without a number"],
)
def test_reason_is_told_without_numbers_and_addresses(error: OSError, reason: str) -> None:
    assert reason_of(error) == reason
