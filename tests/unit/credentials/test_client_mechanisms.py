"""A client's steps of PLAIN and SCRAM, against the arithmetic of RFC 5802 and servers that cheat."""

import pytest

from moldau.common.credentials import scram
from moldau.common.credentials.client.digest_md5 import DigestMd5Exchange
from moldau.common.credentials.client.exchange import LoginFailed, exchange_of
from moldau.common.credentials.client.options import SaslOptions
from moldau.common.credentials.errors import CredentialsError


def _sasl(mechanism: str, username: str = "ann", password: str = "s3cret", **more: str) -> SaslOptions:
    return SaslOptions(mechanism, "", {"username": username, "password": password, **more})


class ScramServer:
    """The broker's side; `spoil` changes what it sends."""

    def __init__(self, mechanism: str, password: str, iterations: int = 4096) -> None:
        self.mechanism = scram.BY_NAME[mechanism]
        self.iterations = iterations
        self.salted = scram.salted_password(self.mechanism, password, b"salty", iterations)
        self.bare = self.server_first = ""

    def first(self, message: bytes) -> bytes:
        header, _, self.bare = message.decode().partition(",,")
        assert header == "n"
        nonce = self.bare.split(",")[1].removeprefix("r=")
        self.server_first = f"r={nonce}more,s={scram.base64_text(b'salty')},i={self.iterations}"
        return self.server_first.encode()

    def final(self, message: bytes) -> bytes:
        without, _, proof = message.decode().rpartition(",p=")
        auth = f"{self.bare},{self.server_first},{without}".encode()
        stored = scram.stored_key(self.mechanism, scram.client_key(self.mechanism, self.salted))
        if not scram.proof_is_right(self.mechanism, stored, auth, scram.base64_bytes(proof)):
            return b"e=invalid-proof"
        key = scram.server_key(self.mechanism, self.salted)
        return b"v=" + scram.base64_text(scram.server_signature(self.mechanism, key, auth)).encode()


def test_plain_sends_name_and_password():
    exchange = exchange_of(_sasl("PLAIN", "änn"), "localhost")
    assert exchange.first() == "\0änn\0s3cret".encode()
    assert exchange.next(b"") is None
    with pytest.raises(CredentialsError, match="NUL"):
        exchange_of(_sasl("PLAIN", "a\0b"), "localhost")


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram(mechanism):
    server = ScramServer(mechanism, "s3cret")
    exchange = exchange_of(_sasl(mechanism, "a=n,n"), "localhost", lambda: "abc")
    first = exchange.first()
    assert first == b"n,,n=a=3Dn=2Cn,r=abc"
    final = exchange.next(server.first(first))
    assert final is not None
    assert b"s3cret" not in first + final
    assert exchange.next(server.final(final)) is None
    with pytest.raises(LoginFailed):  # a login ends once
        exchange.next(b"v=AAAA")


def test_scram_of_a_delegation_token():
    exchange = exchange_of(_sasl("SCRAM-SHA-256", tokenauth="true"), "localhost", lambda: "abc")
    assert exchange.first() == b"n,,n=ann,r=abc,tokenauth=true"


def test_the_example_of_rfc_7677():
    exchange = exchange_of(
        _sasl("SCRAM-SHA-256", "user", "pencil"), "localhost", lambda: "rOprNGfwEbeRWgbNEkqO"
    )
    assert exchange.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    challenge = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    assert exchange.next(challenge) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert exchange.next(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") is None


def test_a_server_that_does_not_know_the_credential_is_found_out():
    server = ScramServer("SCRAM-SHA-256", "another")
    exchange = exchange_of(_sasl("SCRAM-SHA-256"), "localhost", lambda: "abc")
    final = exchange.next(server.first(exchange.first()))
    assert final is not None
    assert server.final(final) == b"e=invalid-proof"
    for answer, says in (
        (b"e=invalid-proof", "refused the login: invalid-proof"),
        (b"v=" + scram.base64_text(b"x" * 32).encode(), "signature is wrong"),
        (b"v=", "signature is wrong"),
        (b"", "broke the rules"),
        (b"\xff", "broke the rules"),
    ):
        with pytest.raises(LoginFailed, match=says) as caught:
            exchange.next(answer)
        assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "challenge",
    [
        b"r=other,s=c2FsdA==,i=4096",
        b"r=abc,s=c2FsdA==,i=4096",
        b"r=abcmore,s=c2FsdA==,i=1",
        b"r=abcmore,s=c2FsdA==,i=999999999999",
        b"r=abcmore,s=,i=4096",
        b"r=abcmore,s=%%,i=4096",
        b"m=x,r=abcmore,s=c2FsdA==,i=4096",
        b"",
    ],
)
def test_a_first_message_that_breaks_the_rules(challenge):
    exchange = exchange_of(_sasl("SCRAM-SHA-256"), "localhost", lambda: "abc")
    exchange.first()
    with pytest.raises(LoginFailed, match="broke the rules of SCRAM-SHA-256"):
        exchange.next(challenge)


def test_what_a_login_needs_and_lacks():
    with pytest.raises(CredentialsError, match="no username"):
        exchange_of(SaslOptions("SCRAM-SHA-256"), "localhost")
    with pytest.raises(CredentialsError, match="is not supported"):
        exchange_of(SaslOptions("CRAM-MD5"), "localhost")
    assert "s3cret" not in repr(_sasl("PLAIN"))


def _digest(nonce: str = "OA6MHXh6VqTrRk") -> DigestMd5Exchange:
    return DigestMd5Exchange("chris", "secret", "imap/elwood.innosoft.com", lambda: nonce)


DIGEST_CHALLENGE = (
    b'realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth,auth-int",algorithm=md5-sess,charset=utf-8'
)


def test_digest_md5_is_that_of_rfc_2831() -> None:
    exchange = _digest()
    assert exchange.first() == b""
    answer = exchange.next(DIGEST_CHALLENGE)
    assert answer is not None
    assert b"response=d388dad90d4bbd760a152321f2143af7" in answer
    assert b"secret" not in answer
    assert exchange.next(b"rspauth=ea40f60335c427b5527b84dbabcdfffd") is None


@pytest.mark.parametrize(
    "challenge",
    [b"", b"\xff", b"realm", b'nonce=""', DIGEST_CHALLENGE.replace(b"md5-sess", b"md5"), b'nonce="x', b"=,="],
)
def test_digest_md5_refuses_other_challenges(challenge: bytes) -> None:
    with pytest.raises(LoginFailed):
        _digest().next(challenge)


def test_digest_md5_refuses_a_long_challenge() -> None:
    """Before it is taken apart, which takes the square of its blanks."""
    with pytest.raises(LoginFailed, match="more than 2047 bytes"):
        _digest().next(DIGEST_CHALLENGE.rjust(2048))
    assert _digest().next(DIGEST_CHALLENGE.rjust(2047)) is not None


@pytest.mark.parametrize("proof", [b"", b"rspauth=", b"rspauth=d388dad90d4bbd760a152321f2143af7"])
def test_digest_md5_wants_the_servers_proof(proof: bytes) -> None:
    exchange = _digest()
    exchange.next(DIGEST_CHALLENGE)
    with pytest.raises(LoginFailed, match="prove"):
        exchange.next(proof)
