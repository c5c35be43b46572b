"""The settings that decide who may connect to a server by websocket."""

from __future__ import annotations

from typing import Final

LISTEN_SETTINGS: Final = (
    "ws_auth",
    "ws_token_file",
    "ws_token_sha256",
    "ws_shared_secret_file",
    "ws_issuer",
    "ws_audience",
    "ws_max_clock_skew_seconds",
    "tls_cert",
    "tls_key",
)
"""Those that are flags of `paddock serve` too, and can be reloaded."""
