"""The authorities that this host trusts on the network, by whose certificates its programs verify servers.

A command whose TLS the proxy opens gets them together with an authority of its own, so that other hosts are
verified as ever.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from paddock.errors import SecretUnusable

BUNDLES: Final = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
"""Where distributions keep them: Debian and Arch, Fedora, RHEL, SUSE, Alpine."""

BUNDLE_LIMIT_BYTES: Final = 8 * 1024 * 1024
"""The largest file; that of a distribution has 200 to 500 KiB."""

VARIABLE: Final = "SSL_CERT_FILE"
"""The variable by which a user names another file. The server obeys its own only, never a command's."""


def host_roots(environment: Mapping[str, str]) -> bytes:
    """Return the certificates of the authorities, as PEM. Blocks. Raises SecretUnusable if there are none."""
    named = environment.get(VARIABLE)
    paths = (named,) if named else (ssl.get_default_verify_paths().openssl_cafile, *BUNDLES)
    for path in paths:
        try:
            with Path(path).open("rb") as file:
                found = file.read(BUNDLE_LIMIT_BYTES)
        except OSError:
            continue
        if b"-----BEGIN CERTIFICATE-----" in found:
            return found if found.endswith(b"\n") else found + b"\n"
    tried = ", ".join(map(os.fspath, paths))
    raise SecretUnusable(
        "of an https host", f"can't be sent: no certificates of authorities are in {tried}; set {VARIABLE}"
    )
