"""A certificate authority for tests: keys and certificates of brokers and users, in every file format that
Kafka's settings can name.

Keys are of elliptic curves (P-256), which take a fraction of a millisecond to make. All lie unencrypted in a
folder that the caller removes. Needs the package cryptography (`pip install 'moldau[security]'`).

Not here: the authority of `moldau security certificates` (common/credentials/certificates).
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate, GeneralName, Name

LOOPBACK = ("localhost", "127.0.0.1")
_LIFETIME = datetime.timedelta(days=30)
_PAST = datetime.timedelta(hours=1)  # clocks may differ


class KeyPair(NamedTuple):
    """The files of one name: its key, its certificate, and both in one (Kafka's PEM key store)."""

    key: Path
    certificate: Path
    store: Path


class Authority:
    """An authority whose files lie in `folder`: ca.pem, and what `issue` makes."""

    def __init__(self, folder: Path, name: str = "Moldau test authority") -> None:
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec

        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _distinguished_name(name)
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        self._certificate = self._signed(
            self._name,
            self._key,
            [(x509.BasicConstraints(ca=True, path_length=0), True), (usage, True)],
            _LIFETIME,
        )
        self.certificate = folder / "ca.pem"
        self.certificate.write_bytes(_pem(self._certificate))

    def issue(
        self,
        name: str,
        hosts: Sequence[str] = LOOPBACK,
        *,
        lifetime: datetime.timedelta = _LIFETIME,
        file: str = "",
    ) -> KeyPair:
        """Make a key and a certificate with common name `name`, valid for `hosts` (names and addresses).

        A lifetime below zero gives a certificate that has expired. Files are called `file`, or as the name.
        """
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import ExtendedKeyUsageOID

        key = ec.generate_private_key(ec.SECP256R1())
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        certificate = self._signed(
            _distinguished_name(name),
            key,
            [
                (x509.BasicConstraints(ca=False, path_length=None), True),
                (x509.ExtendedKeyUsage(usages), False),
                (x509.SubjectAlternativeName([_general_name(host) for host in hosts]), False),
            ],
            lifetime,
        )
        return self._write(file or name, key, certificate)

    def pkcs12(self, pair: KeyPair, password: str) -> Path:
        """The key store of a pair as PKCS12."""
        from cryptography import x509
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import pkcs12

        key = serialization.load_pem_private_key(pair.key.read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        certificate = x509.load_pem_x509_certificate(pair.certificate.read_bytes())
        path = pair.key.with_suffix(".p12")
        encryption = serialization.BestAvailableEncryption(password.encode())
        path.write_bytes(
            pkcs12.serialize_key_and_certificates(
                b"moldau", key, certificate, [self._certificate], encryption
            )
        )
        return path

    def _signed(
        self,
        subject: Name,
        key: EllipticCurvePrivateKey,
        extensions: Sequence[tuple[object, bool]],
        lifetime: datetime.timedelta,
    ) -> Certificate:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes

        now = datetime.datetime.now(datetime.UTC)
        begins = now - _PAST
        builder = x509.CertificateBuilder(subject_name=subject, issuer_name=self._name)
        builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
        builder = builder.not_valid_before(min(begins, now + lifetime - _PAST)).not_valid_after(
            now + lifetime
        )
        identifiers = (
            x509.SubjectKeyIdentifier.from_public_key(key.public_key()),
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
        )
        for extension, critical in [*extensions, *((one, False) for one in identifiers)]:
            assert isinstance(extension, x509.ExtensionType)
            builder = builder.add_extension(extension, critical)
        return builder.sign(self._key, hashes.SHA256())

    def _write(self, file: str, key: EllipticCurvePrivateKey, certificate: Certificate) -> KeyPair:
        from cryptography.hazmat.primitives import serialization

        key_pem = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        pair = KeyPair(*(self._folder / f"{file}{end}" for end in (".key", ".crt", ".pem")))
        chain = _pem(certificate) + _pem(self._certificate)
        for path, content in zip(pair, (key_pem, chain, key_pem + chain), strict=True):
            path.touch(mode=0o600)
            path.write_bytes(content)
        return pair


def _distinguished_name(common_name: str) -> Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Moldau tests"),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )


def _general_name(host: str) -> GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: Certificate) -> bytes:
    from cryptography.hazmat.primitives import serialization

    return certificate.public_bytes(serialization.Encoding.PEM)
