"""The ssl.* settings of one listener or one client.

Read from anything that gives a value by Kafka's name: a dict of texts as a client's property file holds them,
or the typed settings of a broker (`settings.get`). Secrets do not appear in the repr.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

SERVED_PROTOCOLS = ("TLSv1.2", "TLSv1.3")
"""The versions of TLS that are spoken; older ones are broken."""


def _secret() -> str | None:
    value: str | None = field(default=None, repr=False)
    return value


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """Attribute = Kafka's name without `ssl.`, `_` for `.`; None where nothing is set."""

    keystore_type: str = "JKS"
    keystore_location: str | None = None
    keystore_password: str | None = _secret()
    keystore_key: str | None = _secret()
    keystore_certificate_chain: str | None = field(default=None, repr=False)
    key_password: str | None = _secret()
    truststore_type: str = "JKS"
    truststore_location: str | None = None
    truststore_password: str | None = _secret()
    truststore_certificates: str | None = field(default=None, repr=False)
    client_auth: str = "none"
    enabled_protocols: tuple[str, ...] = SERVED_PROTOCOLS
    cipher_suites: tuple[str, ...] = ()
    endpoint_identification_algorithm: str = "https"

    @property
    def has_keystore(self) -> bool:
        """Whether a certificate of one's own is configured."""
        return self.keystore_location is not None or self.keystore_certificate_chain is not None

    @property
    def files(self) -> tuple[str, ...]:
        """The files that these options are read from."""
        return tuple(each for each in (self.keystore_location, self.truststore_location) if each is not None)


def tls_options(get: Callable[[str], object]) -> TlsOptions:
    """The options among settings; `get` gives a setting's value by its full name, None or "" if unset, a list
    as text with commas or as a sequence.
    """

    def text(name: str) -> str | None:
        value = get(f"ssl.{name}")
        return str(value) if value not in (None, "") else None

    def listing(name: str) -> tuple[str, ...]:
        value = get(f"ssl.{name}")
        if value is None:
            return ()
        parts = value.split(",") if isinstance(value, str) else value
        assert isinstance(parts, Sequence)
        return tuple(part.strip() for part in parts if part.strip())

    identification = get("ssl.endpoint.identification.algorithm")
    return TlsOptions(
        keystore_type=(text("keystore.type") or "JKS").upper(),
        keystore_location=text("keystore.location"),
        keystore_password=text("keystore.password"),
        keystore_key=text("keystore.key"),
        keystore_certificate_chain=text("keystore.certificate.chain"),
        key_password=text("key.password"),
        truststore_type=(text("truststore.type") or "JKS").upper(),
        truststore_location=text("truststore.location"),
        truststore_password=text("truststore.password"),
        truststore_certificates=text("truststore.certificates"),
        client_auth=(text("client.auth") or "none").lower(),
        enabled_protocols=listing("enabled.protocols") or SERVED_PROTOCOLS,
        cipher_suites=listing("cipher.suites"),
        # Empty is a value of its own here: the server's name is not checked.
        endpoint_identification_algorithm="https" if identification is None else str(identification).lower(),
    )
