"""Certificates that are signed with SHA-1: refused by OpenSSL, taken by Java, and still in old key stores.

OpenSSL's security level 1 and above refuse such a signature ("ca md too weak"), also of an authority that
its own users made and trust by name. Java refuses it for public authorities only. So that a store that works
with Kafka works here, a context whose own stores hold such a certificate is set to level 0, with its ciphers
as they were, and the log says so. MD5 stays refused. A public authority that a trust store holds lowers
nothing: its own signature is not looked at, and what it signs must be good.
"""

import logging
import ssl
from collections.abc import Iterable

from moldau.common.credentials.errors import CredentialsError

log = logging.getLogger("moldau.security")

# The DER of the object identifiers of RFC 3279: rsadsi pkcs-1, ansi-x9-62, x9-57.
_SHA1 = (
    bytes.fromhex("06092a864886f70d010105"),  # sha1WithRSAEncryption
    bytes.fromhex("06072a8648ce3d0401"),  # ecdsa-with-SHA1
    bytes.fromhex("06072a8648ce380403"),  # dsa-with-SHA1
)
_MD5 = (
    bytes.fromhex("06092a864886f70d010104"),
    bytes.fromhex("06092a864886f70d010102"),
)  # MD5, MD2, with RSA


def without_public(certificates: Iterable[str]) -> list[str]:
    """Those (PEM) that the system itself does not trust."""
    system = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    system.load_default_certs()
    public = set(system.get_ca_certs(binary_form=True))
    return [each for each in certificates if _der(each) not in public]


def allow_sha1(
    context: ssl.SSLContext, where: str, certificates: Iterable[str], *, are_trusted: bool = False
) -> None:
    """Lower the context's security level if one of these certificates (PEM) is signed with SHA-1.
    CredentialsError: one is signed with MD5, which level 0 would let pass, and it is not trusted by itself
    (`are_trusted`: those of a trust store, of which nobody looks at the signature).
    """
    signed = [_signature(each) for each in certificates]
    if "SHA-1" not in signed:
        return
    if "MD5" in signed and not are_trusted:
        raise CredentialsError(f"{where}: a certificate is signed with MD5: make a new one")
    names = [each["name"] for each in context.get_ciphers() if each["protocol"] != "TLSv1.3"]
    context.set_ciphers(":".join((*names, "@SECLEVEL=0")) if names else "@SECLEVEL=0")
    log.warning(
        "%s holds a certificate that is signed with SHA-1, which can be forged: it is taken, as by Kafka; "
        "make a new one",
        where,
    )


def _signature(certificate: str) -> str | None:
    data = _der(certificate)
    if any(each in data for each in _MD5):
        return "MD5"
    return "SHA-1" if any(each in data for each in _SHA1) else None


def _der(certificate: str) -> bytes:
    try:
        return ssl.PEM_cert_to_DER_cert(certificate.strip())
    except ValueError:
        return b""  # whoever loads it says so
