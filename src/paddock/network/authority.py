"""An authority that only the commands of one session trust: the proxy opens their TLS to a few hosts with it.

Its key is made anew for each session and never leaves the memory of this process. Its own certificate limits
what it signs to the hosts of the secrets. The proxy verifies each host by the authorities that this machine
trusts, under the name that the command asked for.
"""

from __future__ import annotations

import datetime
import os
import ssl
from collections.abc import Iterable
from ipaddress import ip_network
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from paddock.model.host_pattern import parse_address
from paddock.model.network_secret import Scheme, SecretHost

NAME: Final = "Paddock, for one session"
LIFETIME: Final = datetime.timedelta(days=365)
"""The longest life of a session. Clients accept certificates of hosts for up to 398 days."""
CLOCK_SKEW: Final = datetime.timedelta(days=1)
"""How far the clock may be put back afterwards."""
CONTEXTS_LIMIT: Final = 64
"""Hosts whose certificate is kept. For more, as a pattern allows, it is made again each time."""
PROTOCOLS: Final = ["http/1.1"]
"""The protocol spoken inside TLS; every client that offers more falls back to it."""


class Authority:
    """Makes certificates for hosts. It blocks for about a millisecond with each that is new."""

    def __init__(self, hosts: Iterable[SecretHost], roots: bytes) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._host_key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = self._own_certificate([host for host in hosts if host.scheme is Scheme.HTTPS])
        self._contexts: dict[str, ssl.SSLContext] = {}
        self.bundle = roots + self._certificate.public_bytes(serialization.Encoding.PEM)
        """The authorities that a command trusts: those of the host, and this one."""
        self.outward = _outward_context(roots)
        """Verifies the hosts themselves."""

    def context(self, host: str) -> ssl.SSLContext:
        """Return the context for TLS with a client in place of a normal host."""
        known = self._contexts.get(host)
        if known is None:
            while len(self._contexts) >= CONTEXTS_LIMIT:
                del self._contexts[next(iter(self._contexts))]
            known = self._contexts[host] = self._inward_context(host)
        return known

    def _builder(self, name: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(_name(name))
            .issuer_name(_name(NAME))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - CLOCK_SKEW)
            .not_valid_after(now + LIFETIME)
        )

    def _own_certificate(self, hosts: Iterable[SecretHost]) -> x509.Certificate:
        return (
            self._builder(NAME, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(is_authority=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            # A command may trust it for more programs than ours; it can't sign for other hosts.
            .add_extension(
                x509.NameConstraints(permitted_subtrees=_constraints(hosts), excluded_subtrees=None),
                critical=True,
            )
            .sign(self._key, hashes.SHA256())
        )

    def _inward_context(self, host: str) -> ssl.SSLContext:
        address = parse_address(host)
        name = x509.DNSName(host) if address is None else x509.IPAddress(address)
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        certificate = (
            # The name proper is in the extension; this one is for people, and may have 64 letters.
            self._builder(host[:64], self._host_key)
            .add_extension(x509.SubjectAlternativeName([name]), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(is_authority=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(identifier, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.set_alpn_protocols(PROTOCOLS)
        _load(context, self._host_key, certificate)
        return context


def _outward_context(roots: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(PROTOCOLS)
    context.load_verify_locations(cadata=roots.decode("ascii", "replace"))
    return context


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_authority,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _constraints(hosts: Iterable[SecretHost]) -> list[x509.GeneralName]:
    named: dict[str, x509.GeneralName] = {}
    for host in (each.pattern.host for each in hosts):
        address = parse_address(host)
        named[host] = x509.DNSName(host) if address is None else x509.IPAddress(ip_network(address))
    return list(named.values())


def _load(context: ssl.SSLContext, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
    """Give a context its key and certificate, which the library takes from a file only: one in memory."""
    plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    content = key.private_bytes(serialization.Encoding.PEM, *plain)
    file = os.memfd_create("paddock-tls", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(file), "wb") as writer:
            writer.write(content + certificate.public_bytes(serialization.Encoding.PEM))
        context.load_cert_chain(f"/proc/self/fd/{file}")
    finally:
        os.close(file)
