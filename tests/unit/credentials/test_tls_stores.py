"""Key and trust stores of every format: what keytool and openssl wrote is read; what is wrong is said.

The files in stores/ were made by keytool 17 and openssl 3.0, valid for a hundred years: storesecret is the
stores' password, keysecret that of keys with one of their own.
"""

import contextlib
import re
import ssl
from pathlib import Path

import pytest

from moldau.common.credentials.errors import CredentialsError
from moldau.common.credentials.tls import certificate, jks, pem
from moldau.common.credentials.tls.contexts import client_context, server_context
from moldau.common.credentials.tls.options import TlsOptions, tls_options
from moldau.common.credentials.tls.stores import key_material, trusted_certificates

STORES = Path(__file__).parent / "stores"


def keystore(file: str, kind: str, password: str | None = "storesecret", **more: str) -> TlsOptions:
    return TlsOptions(
        keystore_type=kind, keystore_location=str(STORES / file), keystore_password=password, **more
    )


def truststore(file: str, kind: str, password: str | None = "storesecret") -> TlsOptions:
    return TlsOptions(
        truststore_type=kind, truststore_location=str(STORES / file), truststore_password=password
    )


@pytest.mark.parametrize(
    ("options", "subject"),
    [
        (keystore("broker.jks", "JKS", key_password="keysecret"), "CN=jks.example,OU=Fish\\, Chips,O=Shop"),
        (keystore("keytool.p12", "PKCS12"), "CN=keytool.example"),
        (keystore("keytool.p12", "JKS"), "CN=keytool.example"),  # Java opens either as either
        (keystore("openssl.p12", "PKCS12"), "CN=openssl.example"),
        (keystore("openssl_legacy.p12", "PKCS12"), "CN=openssl.example"),
        (keystore("encrypted.pem", "PEM", None, key_password="keysecret"), "CN=openssl.example"),
        (keystore("encrypted_old.pem", "PEM", None, key_password="keysecret"), "CN=openssl.example"),
    ],
)
def test_a_key_store_makes_a_server(options: TlsOptions, subject: str) -> None:
    assert isinstance(server_context(options), ssl.SSLContext)
    material = key_material(options)
    assert material is not None
    assert certificate.parse(material.chain[0].der).subject == subject


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (keystore("broker.jks", "JKS", "wrong"), "ssl.keystore.password does not fit"),
        (
            keystore("broker.jks", "JKS"),
            "the password of the key 'broker' does not fit: set ssl.key.password",
        ),
        (keystore("broker.jks", "JKS", None), "the store needs its password: set ssl.keystore.password"),
        (keystore("openssl.p12", "PKCS12", "wrong"), "ssl.keystore.password does not fit"),
        (keystore("openssl.p12", "PKCS12", None), "the store needs its password"),
        (keystore("trust.p12", "PKCS12"), "there is no private key"),
        (keystore("trust.jks", "JKS"), "there is no private key"),
        (keystore("encrypted.pem", "PEM"), "the private key is encrypted: set ssl.key.password"),
        (keystore("encrypted.pem", "PEM", key_password="wrong"), "ssl.key.password does not fit"),
        (keystore("encrypted_old.pem", "PEM", key_password="wrong"), "ssl.key.password does not fit"),
        (keystore("encrypted.pem", "JKS"), "the file is PEM: set ssl.keystore.type=PEM"),
        (keystore("openssl_certificate.pem", "PEM"), "one private key in PEM"),
        (keystore("nothing.jks", "JKS"), "the file cannot be read: No such file or directory"),
        (keystore("broker.jks", "BCFKS"), "ssl.keystore.type=BCFKS is not read"),
        (TlsOptions(), "a TLS listener needs a key store"),
        (TlsOptions(keystore_key="x"), "ssl.keystore.certificate.chain is not"),
        (TlsOptions(keystore_type="PEM", keystore_certificate_chain="x"), "ssl.keystore.key is not"),
        (keystore("keytool.p12", "PKCS12", client_auth="some"), "ssl.client.auth=some is none of"),
    ],
)
def test_what_is_wrong_with_a_key_store_is_said_without_its_password(options: TlsOptions, said: str) -> None:
    with pytest.raises(CredentialsError, match=re.escape(said)) as raised:
        server_context(options)
    assert "secret" not in str(raised.value)
    assert "wrong" not in str(raised.value)


@pytest.mark.parametrize("other", ["openssl.p12", "keytool.p12"])  # the same kind of key, and RSA
def test_a_key_that_belongs_to_another_certificate_is_refused(other: str) -> None:
    mine = key_material(keystore("broker.jks", "JKS", key_password="keysecret"))
    others = key_material(keystore(other, "PKCS12"))
    assert mine is not None
    assert others is not None
    mixed = TlsOptions(
        keystore_type="PEM", keystore_key=mine.key.text, keystore_certificate_chain=others.chain[0].text
    )
    with pytest.raises(CredentialsError, match="does not belong to the first certificate"):
        server_context(mixed)


@pytest.mark.parametrize(
    "options",
    [
        truststore("trust.jks", "JKS"),
        truststore("trust.jks", "JKS", None),  # Java reads certificates without the password
        truststore("trust.p12", "PKCS12"),
        truststore("trust.p12", "JKS"),
        truststore("openssl_certificate.pem", "PEM"),
        TlsOptions(
            truststore_type="PEM",
            truststore_certificates=(STORES / "openssl_certificate.pem").read_text().replace("\n", "\\n"),
        ),
    ],
)
def test_a_trust_store_makes_a_client(options: TlsOptions) -> None:
    trusted = trusted_certificates(options)
    assert trusted is not None
    assert len(trusted) == 1
    context = client_context(options)
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (truststore("trust.jks", "JKS", "wrong"), "ssl.truststore.password does not fit"),
        (truststore("trust.p12", "PKCS12", "wrong"), "ssl.truststore.password does not fit"),
        (truststore("broker.jks", "JKS"), "there is no trusted certificate in it"),
        (TlsOptions(truststore_certificates="x"), "set ssl.truststore.type=PEM"),
        (TlsOptions(truststore_type="PEM", truststore_certificates="x"), "no trusted certificate"),
        (TlsOptions(enabled_protocols=("TLSv1.1",)), "TLSv1.1 is not spoken"),
        (TlsOptions(cipher_suites=("TLS_NOT_A_SUITE",)), "TLS_NOT_A_SUITE is unknown"),
        (TlsOptions(endpoint_identification_algorithm="ldaps"), "neither https nor empty"),
    ],
)
def test_what_is_wrong_with_a_trust_store_is_said(options: TlsOptions, said: str) -> None:
    with pytest.raises(CredentialsError, match=re.escape(said)):
        client_context(options)


@pytest.mark.parametrize("position", range(0, 620, 7))
def test_a_damaged_jks_store_is_an_error_of_the_store(position: int) -> None:
    data = bytearray((STORES / "broker.jks").read_bytes())
    data[position] ^= 0xFF
    with pytest.raises(jks.WrongPassword):
        jks.read_jks(bytes(data), "storesecret")
    try:
        found = jks.read_jks(bytes(data), None)  # nothing to check it with
        for entry in found.keys:
            jks.private_key(entry, "keysecret")
    except ValueError:
        pass  # the one error that is allowed


def test_suites_are_named_as_java_names_them() -> None:
    options = TlsOptions(
        cipher_suites=(
            "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
            "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        )
    )
    context = client_context(options)
    assert context.maximum_version is ssl.TLSVersion.TLSv1_2  # no suite of TLS 1.3 was named
    names = {each["name"] for each in context.get_ciphers() if each["protocol"] != "TLSv1.3"}
    assert names == {"ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"}
    newer = client_context(TlsOptions(cipher_suites=("TLS_AES_128_GCM_SHA256",)))
    assert newer.minimum_version is ssl.TLSVersion.TLSv1_3


def test_options_come_from_texts_or_typed_values() -> None:
    texts = {
        "ssl.keystore.type": "pkcs12",
        "ssl.keystore.location": "/k",
        "ssl.keystore.password": "hush",
        "ssl.enabled.protocols": "TLSv1.3",
        "ssl.endpoint.identification.algorithm": "",
        "ssl.client.auth": "REQUIRED",
    }
    options = tls_options(texts.get)
    assert options.keystore_type == "PKCS12"
    assert options.enabled_protocols == ("TLSv1.3",)
    assert options.endpoint_identification_algorithm == ""
    assert options.client_auth == "required"
    assert options.files == ("/k",)
    assert "hush" not in repr(options)
    assert tls_options({"ssl.enabled.protocols": ("TLSv1.2",)}.get).enabled_protocols == ("TLSv1.2",)


JAVA_NAMES = (
    'CN=\\ two  spaces\\ ,O=Fish\\, Chips \\+ \\"Co\\"\\; \\<a\\=b\\>\\#\\\\',
    "2.5.4.5=#13023137,1.2.840.113549.1.9.1=#160d62406578616d706c652e636f6d,CN=b",
    "L=l,ST=s,STREET=x,UID=jd,DC=example,DC=com",
    "O=o,CN=m+OU=n",
    "CN=\\00b\\00m\\00p",
    "CN=a\\00b",
)
"""What Java 17's X500Principal.getName() says of the certificates in stores/names.pem."""


def test_a_subject_is_written_as_java_writes_it() -> None:
    found = [certificate.parse(each.der).subject for each in pem.blocks((STORES / "names.pem").read_text())]
    assert tuple(found) == JAVA_NAMES


def test_a_certificate_says_its_names_and_dates() -> None:
    (block,) = pem.blocks((STORES / "openssl_certificate.pem").read_text())
    found = certificate.parse(block.der)
    assert found.alternative_names == ("DNS:localhost",)
    assert found.subject == found.issuer == "CN=openssl.example"
    assert found.valid_until_ms - found.valid_from_ms == 36500 * 86_400_000


@pytest.mark.parametrize("end", range(0, 500, 11))
def test_a_cut_certificate_is_an_error_of_the_certificate(end: int) -> None:
    (block,) = pem.blocks((STORES / "openssl_certificate.pem").read_text())
    if end < len(block.der):
        with pytest.raises(ValueError, match=r"."):
            certificate.parse(block.der[:end])


def test_what_is_signed_with_sha1_is_taken_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """As with Java, where such a store has served Kafka for years; of TLS 1.2 and 1.3."""
    server = server_context(keystore("sha1.p12", "PKCS12"))
    assert "sha1.p12 holds a certificate that is signed with SHA-1" in caplog.text
    client = client_context(truststore("sha1-ca.pem", "PEM", None))
    usual = {each["name"] for each in ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).get_ciphers()}
    assert {each["name"] for each in server.get_ciphers()} <= usual
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        client.minimum_version = client.maximum_version = version
        there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
        ends = [
            client.wrap_bio(back, there, server_hostname="sha1.example"),
            server.wrap_bio(there, back, server_side=True),
        ]
        for _ in range(4):
            for end in ends:
                with contextlib.suppress(ssl.SSLWantReadError):
                    end.do_handshake()
        assert [end.version() for end in ends] == [str(version.name).replace("_", ".")] * 2


def test_public_authorities_signed_with_sha1_lower_nothing(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a system's own list, which is often named as the trust store."""
    monkeypatch.setenv("SSL_CERT_FILE", str(STORES / "sha1-ca.pem"))
    context = client_context(truststore("sha1-ca.pem", "PEM", None))
    assert "SHA-1" not in caplog.text
    assert context.security_level > 0


def test_what_is_signed_with_md5_is_refused() -> None:
    with pytest.raises(CredentialsError, match="a certificate is signed with MD5: make a new one"):
        server_context(keystore("md5.pem", "PEM", None))


def test_an_old_authority_in_a_trust_store_does_not_stop_the_start(tmp_path: Path) -> None:
    """As in an old list of Java's, which has roots that signed themselves with MD5."""
    both = tmp_path / "old.pem"
    md5 = (STORES / "md5.pem").read_text()
    both.write_text(md5[md5.index("-----BEGIN CERTIFICATE") :] + (STORES / "sha1-ca.pem").read_text())
    client_context(TlsOptions(truststore_type="PEM", truststore_location=str(both), truststore_password=None))


def test_other_stores_keep_their_security_level(caplog: pytest.LogCaptureFixture) -> None:
    assert server_context(keystore("keytool.p12", "PKCS12")).security_level > 0
    assert not caplog.text
