"""Builds the guards of a listener from the settings, before anything is started.

`load_listen_policy` reads the files that hold secrets, checks that the settings make sense
together, and refuses to listen where strangers could come in unasked. What it refuses,
it explains, with the way out; a message names settings and files and never shows what a
secret file holds.
"""

from __future__ import annotations

import logging
import os
import re
import stat
from typing import TYPE_CHECKING, Final, assert_never
from urllib.parse import urlsplit

from msgspec import Struct

from paddock.config import KIB, Settings
from paddock.errors import ConfigError, ListenError
from paddock.journal import Journal
from paddock.model.auth_mode import AuthMode
from paddock.server.address import ListenAddress, WebSocketAddress, parse_listen_address
from paddock.server.auth import (
    DEFAULT_CLOCK_SKEW_S,
    MIN_SECRET_BYTES,
    CapabilityToken,
    Credential,
    SignedToken,
    is_sendable,
)
from paddock.server.http import RequestFilter, host_name

if TYPE_CHECKING:
    from ssl import SSLContext

journal = Journal(logging.getLogger(__name__))

MAX_SECRET_FILE_BYTES: Final = 64 * KIB
"""Far more than any token, certificate chain or key has; /dev/zero has more."""

MIN_TOKEN_CHARS: Final = 16
"""Shorter capability tokens are used, with a warning: a port that answers can be asked very often."""

_CAPABILITY_SETTINGS: Final = ("ws_token_file", "ws_token_sha256")
_SIGNED_SETTINGS: Final = ("ws_shared_secret_file", "ws_issuer", "ws_audience", "ws_max_clock_skew_seconds")
_SHA256_HEX = re.compile(r"[0-9A-Fa-f]{64}")


class ListenPolicy(Struct, frozen=True):
    """Where a server listens, which requests it accepts, and how the connection is encrypted."""

    address: ListenAddress
    request_filter: RequestFilter
    """For websocket addresses; unix sockets have their mode and the kernel's word for who connects."""
    tls: SSLContext | None = None


def names_files(settings: Settings) -> bool:
    """Return whether `load_listen_policy` will read files, which may block."""
    files = (settings.ws_token_file, settings.ws_shared_secret_file, settings.tls_cert, settings.tls_key)
    return any(file is not None for file in files)


def load_listen_policy(settings: Settings) -> ListenPolicy:
    """Build the policy that the settings ask for. Raises ConfigError or ListenError."""
    address = parse_listen_address(settings.listen)
    credential = _credential(settings)
    tls = _tls(settings)
    if settings.network_operators and credential is None:
        raise ConfigError("network_operators", "needs ws_auth: a stranger must not reach every session")
    if not isinstance(address, WebSocketAddress):
        _require_websocket(settings)
        return ListenPolicy(address, RequestFilter())
    if address.is_secure and tls is None:
        raise ListenError(settings.listen, "wss needs a certificate; set tls_cert and tls_key")
    _check_exposure(settings, address, credential, is_encrypted=tls is not None)
    request_filter = RequestFilter(
        credential=credential,
        is_loopback=address.is_loopback,
        allowed_hosts=frozenset(map(_host, settings.allowed_hosts)),
        allowed_origins=frozenset(map(_origin, settings.allowed_origins)),
    )
    return ListenPolicy(address, request_filter, tls)


def _require_websocket(settings: Settings) -> None:
    for key in ("ws_auth", "tls_cert", "allowed_origins", "allowed_hosts"):
        if getattr(settings, key):
            raise ConfigError(
                key, f"needs a websocket, not {settings.listen}; leave it out, or listen on ws://IP:PORT"
            )


def _check_exposure(
    settings: Settings, address: WebSocketAddress, credential: Credential | None, *, is_encrypted: bool
) -> None:
    if address.is_loopback:
        return
    if credential is None:
        raise ListenError(
            settings.listen,
            "other machines can reach this address, and anybody who does could run commands here; "
            "set ws_auth, or listen on 127.0.0.1, [::1] or a unix socket",
        )
    if not is_encrypted:
        journal.warning(
            "tokens and data will cross the network unencrypted; set tls_cert and tls_key, or use a tunnel",
            listen=settings.listen,
        )


# ---------------------------------------------------------------- credentials


def _credential(settings: Settings) -> Credential | None:
    match settings.ws_auth:
        case None:
            _forbid(settings, (*_CAPABILITY_SETTINGS, *_SIGNED_SETTINGS), "needs ws_auth to be set too")
            return None
        case AuthMode.CAPABILITY_TOKEN:
            _forbid(settings, _SIGNED_SETTINGS, f"goes only with ws_auth {AuthMode.SIGNED_BEARER_TOKEN}")
            return _capability_token(settings)
        case AuthMode.SIGNED_BEARER_TOKEN:
            _forbid(settings, _CAPABILITY_SETTINGS, f"goes only with ws_auth {AuthMode.CAPABILITY_TOKEN}")
            return _signed_token(settings)
        case _:
            assert_never(settings.ws_auth)


def _forbid(settings: Settings, keys: tuple[str, ...], reason: str) -> None:
    for key in keys:
        if getattr(settings, key) is not None:
            raise ConfigError(key, f"{reason}; or leave it out")


def _capability_token(settings: Settings) -> CapabilityToken:
    file, digest = settings.ws_token_file, settings.ws_token_sha256
    if (file is None) == (digest is None):
        raise ConfigError(
            "ws_auth",
            f"{AuthMode.CAPABILITY_TOKEN} needs one of ws_token_file and ws_token_sha256, "
            + ("and neither is set" if file is None else "not both"),
        )
    if digest is not None:
        digest = digest.strip()
        if not _SHA256_HEX.fullmatch(digest):
            raise ConfigError(
                "ws_token_sha256",
                f"is not a SHA-256 digest: it has {len(digest)} characters, not 64 hexadecimal digits; "
                "make one with `printf %s TOKEN | sha256sum`",
            )
        return CapabilityToken(bytes.fromhex(digest))
    assert file is not None
    token = _read_secret("ws_token_file", file)
    if not is_sendable(token):
        raise ConfigError(
            "ws_token_file",
            f"{file} holds characters that a header can't carry; use one line of ASCII letters and digits",
        )
    if len(token) < MIN_TOKEN_CHARS:
        journal.warning("the capability token is so short that it can be guessed; use 32 random characters")
    return CapabilityToken.of(token)


def _signed_token(settings: Settings) -> SignedToken:
    file, skew_s = settings.ws_shared_secret_file, settings.ws_max_clock_skew_seconds
    if file is None:
        raise ConfigError("ws_auth", f"{AuthMode.SIGNED_BEARER_TOKEN} needs ws_shared_secret_file to be set")
    secret = _read_secret("ws_shared_secret_file", file).encode()
    if len(secret) < MIN_SECRET_BYTES:
        raise ConfigError(
            "ws_shared_secret_file",
            f"{file} holds {len(secret)} bytes, which is too short to resist guessing; "
            f"use {MIN_SECRET_BYTES} random bytes or more, as from `openssl rand -hex 32`",
        )
    return SignedToken(
        secret=secret,
        issuer=_expected("ws_issuer", settings.ws_issuer),
        audience=_expected("ws_audience", settings.ws_audience),
        max_clock_skew_s=DEFAULT_CLOCK_SKEW_S if skew_s is None else skew_s,
    )


def _expected(key: str, value: str | None) -> str | None:
    if value is None:
        return None
    if not value.strip():
        # A variable of a script that was never set must not switch the check off.
        raise ConfigError(key, "is blank, which no token matches; name the value, or leave the setting out")
    return value.strip()


# ---------------------------------------------------------------- files


def _read_secret(key: str, file: str) -> str:
    try:
        text = _read_private(key, file).decode().strip()
    except UnicodeDecodeError:
        # Without its cause: the text of a decoding error quotes the bytes.
        raise ConfigError(key, f"{file} is not UTF-8 text; write the secret in hex or base64") from None
    if not text:
        raise ConfigError(key, f"{file} is empty; write the secret into it")
    return text


def _read_private(key: str, file: str) -> bytes:
    content, mode = _read(key, file)
    # A pipe, as from a shell's <(...), is open to nobody else whatever its mode says.
    if stat.S_ISREG(mode) and mode & (stat.S_IRWXG | stat.S_IRWXO):
        journal.warning(
            "other users may have access to a secret file; chmod it to 600",
            setting=key,
            file=file,
            mode=f"{stat.S_IMODE(mode):o}",
        )
    return content


def _read(key: str, file: str) -> tuple[bytes, int]:
    """Return the content and the mode of a file."""
    try:
        with open(file, "rb") as stream:
            content = stream.read(MAX_SECRET_FILE_BYTES + 1)
            mode = os.fstat(stream.fileno()).st_mode
    except OSError as error:
        raise ConfigError(key, f"{file} can't be read: {(error.strerror or str(error)).lower()}") from error
    except ValueError as error:
        raise ConfigError(key, f"{file!r} is not a path: {error}") from error
    if len(content) > MAX_SECRET_FILE_BYTES:
        raise ConfigError(key, f"{file} has more than {MAX_SECRET_FILE_BYTES} bytes; is it the right file?")
    return content, mode


# ---------------------------------------------------------------- TLS


def _tls(settings: Settings) -> SSLContext | None:
    cert, key = settings.tls_cert, settings.tls_key
    if cert is None and key is None:
        return None
    if cert is None or key is None:
        missing = "tls_cert" if cert is None else "tls_key"
        raise ConfigError(missing, "is not set; TLS needs both tls_cert and tls_key")
    if b"-----BEGIN CERTIFICATE-----" not in _read("tls_cert", cert)[0]:
        raise ConfigError("tls_cert", f"{cert} holds no certificate in PEM form")
    if b" PRIVATE KEY-----" not in _read_private("tls_key", key):
        raise ConfigError("tls_key", f"{key} holds no private key in PEM form")
    return _tls_context(cert, key)


def _tls_context(cert: str, key: str) -> SSLContext:
    import ssl

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # A client that renegotiates over and over makes the server do the expensive part.
    context.options |= ssl.OP_NO_RENEGOTIATION

    def no_passphrase() -> str:
        # Without this, OpenSSL would ask for one on the terminal.
        raise ConfigError("tls_key", f"{key} is encrypted; give a key without a passphrase")

    try:
        context.load_cert_chain(cert, key, password=no_passphrase)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise ConfigError("tls_key", f"{key} is not the key of the certificate in {cert}") from error
        reason = (error.reason or "unreadable").replace("_", " ").lower()
        raise ConfigError("tls_cert", f"{cert} and {key} can't be used: {reason}") from error
    return context


# ---------------------------------------------------------------- names


def _host(text: str) -> str:
    name = host_name(text)
    if name is None or name != text.strip("[]").lower():
        raise ConfigError("allowed_hosts", f"{text!r} is not a host name without a port")
    return name


def _origin(text: str) -> str:
    try:
        parts = urlsplit(text)
        is_origin = bool(parts.hostname) and text.lower() == f"{parts.scheme}://{parts.netloc}".lower()
        _ = parts.port
    except ValueError:
        is_origin = False
    if not is_origin or "*" in text:
        raise ConfigError(
            "allowed_origins", f"{text!r} is not an origin, which looks like https://app.example:8443"
        )
    return text.lower()
