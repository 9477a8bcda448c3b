"""PKCS12 stores, as openssl and keytool (since Java 9) write them. Read with `cryptography`."""

from typing import NamedTuple

from moldau.common.credentials.errors import missing_extra
from moldau.common.credentials.tls.jks import WrongPassword


class Pkcs12(NamedTuple):
    """The private key (PKCS#8) and its certificate, if there are any, and all other certificates: DER."""

    key: bytes | None
    certificate: bytes | None
    others: tuple[bytes, ...]


def read_pkcs12(data: bytes, password: str | None) -> Pkcs12:
    """The contents of a store. WrongPassword; ValueError: it is damaged; CredentialsError: cryptography is
    missing."""
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ModuleNotFoundError:
        raise missing_extra("a PKCS12 store", "cryptography") from None
    try:
        store = pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except ValueError as error:
        if "password" in str(error).lower():
            raise WrongPassword("the password does not fit, or the store is damaged") from None
        raise ValueError(f"the store is damaged or no PKCS12: {error}") from None
    der = serialization.Encoding.DER
    key = None
    if store.key is not None:
        key = store.key.private_bytes(der, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Pkcs12(
        key,
        None if store.cert is None else store.cert.certificate.public_bytes(der),
        tuple(each.certificate.public_bytes(der) for each in store.additional_certs),
    )
