"""A TLS 1.3 client that changes its keys at will (RFC 8446, 4.6.3), which Python's own can't."""

from __future__ import annotations

import hmac
import ssl
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tests import tls
from tests.unit.transport.raw_peer import TlsSocket

_HANDSHAKE, _DATA = 22, 23
_NONCE_BYTES = 12
_KEY_CHANGE = b"\x18\0\0\x01\0"


class KeyChanger:
    """Has shaken hands. Makes records that follow each other."""

    def __init__(self, peer: TlsSocket, secret: bytes, sent_records: int) -> None:
        cipher = peer.cipher
        self.socket = peer.socket
        self._secret = secret
        self._hash = "sha384" if cipher.endswith("SHA384") else "sha256"
        self._key_bytes = 32 if "AES_256" in cipher else 16
        self._use_secret()
        self._sequence = sent_records

    @classmethod
    async def dial(cls, url: str, directory: Path, *, upgrades: bool = True) -> KeyChanger:
        """Connect, and perhaps upgrade to a websocket."""
        context = tls.client_context()
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.keylog_filename = str(directory / "keys")
        peer = await TlsSocket.dial(url, context)
        await (peer.upgrade() if upgrades else peer.shake_hands())
        lines = [line.split() for line in (directory / "keys").read_text().splitlines()]
        [secret] = [line[2] for line in lines if line[0] == "CLIENT_TRAFFIC_SECRET_0"]
        # The request for the upgrade was one.
        return cls(peer, bytes.fromhex(secret), int(upgrades))

    def data(self, plain: bytes) -> bytes:
        """Make a record of data."""
        return self._record(_DATA, plain)

    def key_change(self) -> bytes:
        """Make a record after which others keys hold."""
        record = self._record(_HANDSHAKE, _KEY_CHANGE)
        self._secret = self._derived(b"traffic upd", len(self._secret))
        self._use_secret()
        return record

    def _use_secret(self) -> None:
        self._cipher = AESGCM(self._derived(b"key", self._key_bytes))
        self._mask = int.from_bytes(self._derived(b"iv", _NONCE_BYTES))
        self._sequence = 0

    def _record(self, kind: int, plain: bytes) -> bytes:
        inner = plain + bytes((kind,))
        head = b"\x17\x03\x03" + (len(inner) + 16).to_bytes(2)
        nonce = (self._mask ^ self._sequence).to_bytes(_NONCE_BYTES)
        self._sequence += 1
        return head + self._cipher.encrypt(nonce, inner, head)

    def _derived(self, label: bytes, size: int) -> bytes:
        """HKDF-Expand-Label, for what fits into one block (RFC 8446, 7.1)."""
        label = b"tls13 " + label
        info = size.to_bytes(2) + bytes((len(label),)) + label + b"\0"
        return hmac.digest(self._secret, info + b"\1", self._hash)[:size]
