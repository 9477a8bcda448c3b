"""Keys and certificates made with `cryptography`. Imported late: only who makes certificates needs it."""

from collections.abc import Sequence
from datetime import datetime
from ipaddress import ip_address

from moldau.common.credentials.errors import missing_extra

try:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ModuleNotFoundError:
    raise missing_extra("making certificates", "cryptography") from None


def new_key() -> ec.EllipticCurvePrivateKey:
    """A new private key (P-256)."""
    return ec.generate_private_key(ec.SECP256R1())


def load_key(pem: str) -> ec.EllipticCurvePrivateKey:
    """A key from PEM. ValueError: it is none, or of another kind."""
    key = serialization.load_pem_private_key(pem.encode(), None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("the authority's key is not an elliptic one, as made here")
    return key


def load_certificate(pem: str) -> x509.Certificate:
    """A certificate from PEM. ValueError: it is none."""
    return x509.load_pem_x509_certificate(pem.encode())


def key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    """The key as PKCS#8, the form that Kafka reads."""
    pem = serialization.Encoding.PEM
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(pem, form, serialization.NoEncryption()).decode()


def certificate_pem(certificate: x509.Certificate) -> str:
    """The certificate as PEM."""
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def pkcs12(name: str, key: str, chain: Sequence[str], password: str) -> bytes:
    """A PKCS12 key store of PEM texts, for Java programs; `chain` begins with the key's own certificate."""
    from cryptography.hazmat.primitives.serialization import pkcs12 as form

    own, *others = [load_certificate(each) for each in chain]
    encryption = serialization.BestAvailableEncryption(password.encode())
    return form.serialize_key_and_certificates(name.encode(), load_key(key), own, others, encryption)


def name_of(text: str) -> x509.Name:
    """A distinguished name: RFC 4514 text (CN=alice,O=Shop), or a common name alone. ValueError."""
    if "=" in text:
        return x509.Name.from_rfc4514_string(text)
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def authority_certificate(
    key: ec.EllipticCurvePrivateKey, name: x509.Name, valid_from: datetime, valid_until: datetime
) -> x509.Certificate:
    """A certificate that signs itself and may sign others."""
    usage = _usage(signs_certificates=True)
    return (
        _builder(key, name, name, valid_from, valid_until)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


def issued_certificate(
    key: ec.EllipticCurvePrivateKey,
    name: x509.Name,
    hosts: Sequence[str],
    authority_key: ec.EllipticCurvePrivateKey,
    authority: x509.Certificate,
    valid_from: datetime,
    valid_until: datetime,
) -> x509.Certificate:
    """A certificate for `name`, signed by the authority; it does not outlive that."""
    until = min(valid_until, authority.not_valid_after_utc)
    builder = (
        _builder(key, name, authority.subject, valid_from, until)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
            critical=False,
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
        )
    )
    if hosts:
        names = [_host(each) for each in hosts]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(authority_key, hashes.SHA256())


def _builder(
    key: ec.EllipticCurvePrivateKey,
    name: x509.Name,
    issuer: x509.Name,
    valid_from: datetime,
    valid_until: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(valid_from)
        .not_valid_after(valid_until)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)
