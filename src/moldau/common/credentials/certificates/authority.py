"""A certificate authority in memory: makes itself, and certificates that it signs.

Keys are elliptic (P-256): a handshake costs a third of one with RSA, and all clients since Java 8 take them.
A certificate names the hosts by which clients connect; it serves both ends, since a broker is also a client
of others. Dates begin an hour before now, for clocks that differ.

Not here: files (the command writes them).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

_EARLIER = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate with its key, as PEM. `chain` has the certificate and the authority's."""

    key: str = field(repr=False)
    certificate: str
    authority: str

    @property
    def chain(self) -> str:
        """The certificate, then the authority's."""
        return self.certificate + self.authority

    @property
    def keystore(self) -> str:
        """What ssl.keystore.location holds with ssl.keystore.type=PEM: the key, then the chain."""
        return self.key + self.chain


class Authority:
    """A key that signs, and its certificate."""

    def __init__(self, key: "EllipticCurvePrivateKey", certificate: "x509.Certificate") -> None:
        self._key = key
        self._certificate = certificate

    @classmethod
    def make(cls, name: str, now_ms: int, days: int = 3650) -> "Authority":
        """A new authority of this name. CredentialsError: cryptography is not installed."""
        from moldau.common.credentials.certificates import signing

        key = signing.new_key()
        subject = signing.name_of(name)
        return cls(key, signing.authority_certificate(key, subject, *_validity(now_ms, days)))

    @classmethod
    def load(cls, key_pem: str, certificate_pem: str) -> "Authority":
        """One that was made before. ValueError: the texts are no such key and certificate."""
        from moldau.common.credentials.certificates import signing

        return cls(signing.load_key(key_pem), signing.load_certificate(certificate_pem))

    @property
    def certificate(self) -> str:
        """The authority's certificate, as PEM: what everybody trusts."""
        from moldau.common.credentials.certificates import signing

        return signing.certificate_pem(self._certificate)

    @property
    def key(self) -> str:
        """The authority's key, as PEM: who has it can make certificates."""
        from moldau.common.credentials.certificates import signing

        return signing.key_pem(self._key)

    def issue(self, name: str, hosts: Sequence[str], now_ms: int, days: int = 825) -> Issued:
        """A certificate for a broker (with the hosts and addresses it is reached by) or a user (with none).
        `name` is the common name, or a whole distinguished name (CN=alice,O=Shop)."""
        from moldau.common.credentials.certificates import signing

        key = signing.new_key()
        certificate = signing.issued_certificate(
            key, signing.name_of(name), hosts, self._key, self._certificate, *_validity(now_ms, days)
        )
        return Issued(signing.key_pem(key), signing.certificate_pem(certificate), self.certificate)


def _validity(now_ms: int, days: int) -> tuple[datetime, datetime]:
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    return now - _EARLIER, now + timedelta(days=days)
