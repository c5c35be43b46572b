"""Certificates for servers under names that only the tests know, by an authority of the tests' own."""

from __future__ import annotations

import datetime
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_PEM = serialization.Encoding.PEM


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


class TestAuthority:
    """Signs what a test asks for. Its files are in a directory of the test."""

    __test__ = False

    def __init__(self, directory: Path, name: str = "an authority of tests") -> None:
        self._directory = directory
        self._name = name
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.file = directory / f"{name.replace(' ', '-')}.pem"
        builder = self._builder(name, self._key)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self.certificate = builder.sign(self._key, hashes.SHA256()).public_bytes(_PEM)
        self.file.write_bytes(self.certificate)

    def host_file(self, host: str) -> Path:
        """Return a file with the certificate and the key of a host."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.DNSName(host)])
        signed = (
            self._builder(host, key).add_extension(names, critical=False).sign(self._key, hashes.SHA256())
        )
        private = key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        file = self._directory / f"{host}.pem"
        file.write_bytes(signed.public_bytes(_PEM) + private)
        return file

    def server_context(self, host: str) -> ssl.SSLContext:
        """Return what a listener needs that is this host."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.host_file(host))
        return context

    def _builder(self, subject: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(_name(subject))
            .issuer_name(_name(self._name))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=30))
        )
