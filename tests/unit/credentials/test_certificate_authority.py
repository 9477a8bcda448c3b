"""The private authority: what it issues is a pair of ends that trust each other, and nobody else."""

import ssl

import pytest

from moldau.common.credentials.certificates import signing
from moldau.common.credentials.certificates.authority import Authority, Issued
from moldau.common.credentials.tls import certificate, pem
from moldau.common.credentials.tls.contexts import client_context, server_context
from moldau.common.credentials.tls.options import TlsOptions

NOW_MS = 1_800_000_000_000
"""2027. OpenSSL judges certificates by its own clock: their dates are wide around any run of the tests."""
DAYS = 20_000


def options(own: Issued | None, authority: Authority, **more: str) -> TlsOptions:
    keys = {} if own is None else {"keystore_key": own.key, "keystore_certificate_chain": own.chain}
    return TlsOptions(
        keystore_type="PEM",
        truststore_type="PEM",
        truststore_certificates=authority.certificate,
        **keys,
        **more,
    )


def shake(server: ssl.SSLContext, client: ssl.SSLContext, host: str = "localhost") -> ssl.SSLObject:
    """A handshake in memory; the server's end."""
    one, two = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [server.wrap_bio(one, two, server_side=True), client.wrap_bio(two, one, server_hostname=host)]
    for _ in range(4):
        for end in reversed(ends):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert ends[0].version() is not None
    return ends[0]


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.make("Test authority", NOW_MS - 86_400_000_000, 2 * DAYS)


def test_broker_and_user_trust_each_other(authority: Authority) -> None:
    broker = authority.issue("broker-1", ["localhost", "127.0.0.1", "::1"], NOW_MS - 86_400_000_000, DAYS)
    alice = authority.issue("CN=alice,O=Shop", [], NOW_MS - 86_400_000_000, DAYS)
    server = server_context(options(broker, authority, client_auth="required"))
    client = client_context(options(alice, authority))
    for host in ("localhost", "127.0.0.1", "::1"):
        seen = shake(server, client, host).getpeercert(binary_form=True)
        assert seen is not None
        assert certificate.parse(seen).subject == "CN=alice,O=Shop"
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake(server, client, "elsewhere.example")
    careless = client_context(options(alice, authority, endpoint_identification_algorithm=""))
    shake(server, careless, "elsewhere.example")


def test_another_authority_is_not_trusted(authority: Authority) -> None:
    stranger = Authority.make("Test authority", NOW_MS - 86_400_000_000, DAYS)
    broker = stranger.issue("broker-1", ["localhost"], NOW_MS - 86_400_000_000, DAYS)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(server_context(options(broker, stranger)), client_context(options(None, authority)))


def test_a_certificate_of_nobody_is_refused_where_one_is_required(authority: Authority) -> None:
    broker = authority.issue("broker-1", ["localhost"], NOW_MS - 86_400_000_000, DAYS)
    server = server_context(options(broker, authority, client_auth="required"))
    with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
        shake(server, client_context(options(None, authority)))
    asked = server_context(options(broker, authority, client_auth="requested"))
    assert shake(asked, client_context(options(None, authority))).getpeercert(binary_form=True) is None


def test_an_authority_is_loaded_again_and_signs_as_before(authority: Authority) -> None:
    again = Authority.load(authority.key, authority.certificate)
    bob = again.issue("bob", [], NOW_MS, DAYS)
    (parsed,) = [certificate.parse(each.der) for each in pem.blocks(bob.certificate)]
    assert parsed.subject == "CN=bob"
    assert parsed.issuer == "CN=Test authority"
    assert "PRIVATE" not in repr(bob)


def test_a_key_store_for_java_holds_the_same_key(authority: Authority) -> None:
    alice = authority.issue("alice", [], NOW_MS, DAYS)
    data = signing.pkcs12("alice", alice.key, [alice.certificate, alice.authority], "changeit")
    both = TlsOptions(
        keystore_type="PKCS12",
        keystore_location="/alice.p12",
        keystore_password="changeit",
        truststore_type="PEM",
        truststore_certificates=authority.certificate,
    )
    assert isinstance(client_context(both, lambda path: data), ssl.SSLContext)
