"""Where a client's OAUTHBEARER token comes from: an identity provider, a file, or nobody (unsecured)."""

import base64
import contextlib
import http.server
import json
import threading
import time
from urllib.parse import parse_qs

import pytest
from token_issuer import Issuer, claims

from moldau.common.credentials.client.exchange import exchange_of
from moldau.common.credentials.client.jwt_assertion import RETRIEVER
from moldau.common.credentials.client.options import client_security
from moldau.common.credentials.client.token_retrieval import token_for
from moldau.common.credentials.errors import CredentialsError
from moldau.common.credentials.jwt.checks import Rules, check_token
from moldau.common.credentials.jwt.key_set import read_key_set
from moldau.common.credentials.jwt.unsecured import UnsecuredRules, check_unsecured_token
from moldau.common.credentials.oauthbearer import INVALID_TOKEN, parse_client_message

ISSUER = Issuer()
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
SECRET = "the client's secret & more"


class Provider:
    """An identity provider that gives tokens for one client."""

    def __init__(self):
        self.asked = []
        self.answer = (200, {"access_token": "made"})

    @contextlib.contextmanager
    def serving(self):
        provider = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                provider.asked.append((self.headers["Authorization"], parse_qs(body)))
                status, value = provider.answer
                content = value if isinstance(value, bytes) else json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *words):
                pass

        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                yield f"http://127.0.0.1:{server.server_address[1]}/token"
            finally:
                server.shutdown()
                thread.join()


@pytest.fixture
def provider():
    return Provider()


def sasl(jaas="", **settings):
    given = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f"{MODULE} {jaas};",
        **{name.replace("_", "."): value for name, value in settings.items()},
    }
    options = client_security(given).sasl
    assert options is not None
    return options


def live_token(seconds=3_600, **more):
    now = int(time.time())
    return ISSUER.signed({**claims(), "iat": now, "exp": now + seconds, **more})


def test_the_client_credentials_grant(provider):
    with provider.serving() as url:
        given = sasl(
            sasl_oauthbearer_token_endpoint_url=url,
            sasl_oauthbearer_client_credentials_client_id="me",
            sasl_oauthbearer_client_credentials_client_secret=SECRET,
            sasl_oauthbearer_scope="a b",
        )
        assert token_for(given) == "made"
        older = sasl(f'clientId="me" clientSecret="{SECRET}"', sasl_oauthbearer_token_endpoint_url=url)
        assert token_for(older) == "made"
    basic = f"Basic {base64.b64encode(f'me:{SECRET}'.encode()).decode()}"
    grant = {"grant_type": ["client_credentials"]}
    assert provider.asked == [(basic, {**grant, "scope": ["a b"]}), (basic, grant)]


def test_the_jwt_bearer_grant(provider, tmp_path):
    (tmp_path / "key.pem").write_bytes(ISSUER.key.as_pem(private=True, password="phrase"))
    (tmp_path / "template.json").write_text(
        '{"header": {"kid": "k"}, "payload": {"team": "blue", "aud": "x"}}'
    )
    own = {
        "private.key.file": str(tmp_path / "key.pem"),
        "private.key.passphrase": "phrase",
        "algorithm": "ES256",
        "template.file": str(tmp_path / "template.json"),
        "claim.aud": "provider",
        "claim.iss": "client",
        "claim.sub": "client",
        "claim.jti.include": "true",
    }
    settings = {f"sasl.oauthbearer.assertion.{name}": value for name, value in own.items()}
    settings["sasl.oauthbearer.jwt.retriever.class"] = f"org.apache.kafka.{RETRIEVER}"
    with provider.serving() as url:
        settings["sasl.oauthbearer.token.endpoint.url"] = url
        assert token_for(sasl(**settings)) == "made"
        (tmp_path / "made elsewhere").write_text("a.b.c\n")
        elsewhere = {**settings, "sasl.oauthbearer.assertion.file": str(tmp_path / "made elsewhere")}
        assert token_for(sasl(**elsewhere)) == "made"
        for name, value, word in (
            ("private.key.passphrase", "wrong", "cannot sign with ES256"),
            ("algorithm", "RS256", "cannot sign with RS256"),
            ("algorithm", "none", "is none of RS256, ES256"),
            ("private.key.file", str(tmp_path / "missing"), "cannot be read"),
            ("template.file", str(tmp_path / "key.pem"), "not of the form"),
            ("claim.exp.seconds", "-1", "no number of seconds"),
            ("private.key.file", "", "needs sasl.oauthbearer.assertion.file"),
        ):
            with pytest.raises(CredentialsError, match=word) as raised:
                token_for(sasl(**{**settings, f"sasl.oauthbearer.assertion.{name}": value}))
            assert "phrase" not in str(raised.value)
    (nothing, signed), (_, given) = provider.asked
    assert nothing is None
    assert signed["grant_type"] == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
    assert given["assertion"] == ["a.b.c"]
    keys = read_key_set(ISSUER.document(kid="k"))
    rules = Rules(("provider",), "client")
    assert check_token(signed["assertion"][0], keys, rules, int(time.time() * 1000)).name == "client"


def test_a_token_is_kept_until_most_of_its_life_is_over_or_a_broker_refuses_it(provider):
    with provider.serving() as url:
        given = sasl('clientId="kept" clientSecret="s"', sasl_oauthbearer_token_endpoint_url=url)
        provider.answer = (200, {"access_token": live_token()})
        first = exchange_of(given, "host")
        token = parse_client_message(first.first()).token
        assert parse_client_message(exchange_of(given, "host").first()).token == token
        assert len(provider.asked) == 1
        assert first.next(b"") is None
        provider.answer = (200, {"access_token": live_token(jti="2")})
        refused = exchange_of(given, "host")
        refused.first()
        assert refused.next(INVALID_TOKEN) == b"\x01"
        assert parse_client_message(exchange_of(given, "host").first()).token != token
        assert len(provider.asked) == 2


def test_a_token_without_an_end_or_at_it_is_not_kept(provider):
    with provider.serving() as url:
        given = sasl('clientId="opaque" clientSecret="s"', sasl_oauthbearer_token_endpoint_url=url)
        for number, token in enumerate(("opaque", live_token(-1), "opaque"), 1):
            provider.answer = (200, {"access_token": token})
            assert token_for(given) == token
            assert len(provider.asked) == number


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        ((401, {"error": "invalid_client"}), "invalid_client"),
        ((500, b"<html>"), "HTTP status 500"),
        ((200, {}), "no access_token"),
        ((200, {"access_token": 5}), "no access_token"),
        ((200, b"[" * 100_000), "no access_token"),
        ((302, {}), "HTTP status 302"),
    ],
)
def test_what_a_provider_may_answer_instead(provider, answer, word):
    with provider.serving() as url:
        provider.answer = answer
        given = sasl(f'clientId="me" clientSecret="{SECRET}"', sasl_oauthbearer_token_endpoint_url=url)
        with pytest.raises(CredentialsError, match=word) as raised:
            token_for(given)
    assert SECRET not in str(raised.value)
    assert SECRET not in repr(given)


def test_a_provider_that_is_not_there_and_settings_that_lack_something():
    url = "http://127.0.0.1:1/token"
    with pytest.raises(CredentialsError, match="no token from http://127"):
        token_for(sasl('clientId="me" clientSecret="s"', sasl_oauthbearer_token_endpoint_url=url))
    with pytest.raises(CredentialsError, match="name the client"):
        token_for(sasl('clientId="me"', sasl_oauthbearer_token_endpoint_url=url))
    with pytest.raises(CredentialsError, match="https:, http: or file:"):
        token_for(sasl(sasl_oauthbearer_token_endpoint_url="ftp://host"))


def test_a_token_from_a_file_is_read_at_each_login(tmp_path):
    path = tmp_path / "the token"
    given = sasl(sasl_oauthbearer_token_endpoint_url=path.as_uri())
    with pytest.raises(CredentialsError, match="cannot be read"):
        token_for(given)
    for token in ("a.b.c", "d.e.f"):
        path.write_text(f"{token}\n")
        assert token_for(given) == token
    path.write_text("")
    with pytest.raises(CredentialsError, match="empty"):
        token_for(given)


def test_an_unsecured_token_with_extensions():
    given = sasl(
        'unsecuredLoginStringClaim_sub="alice" unsecuredLoginListClaim_scope="|a|b" extension_zone="1"'
    )
    message = parse_client_message(exchange_of(given, "host").first())
    assert message.extensions == {"zone": "1"}
    rules = UnsecuredRules(required_scope=("a", "b"))
    assert check_unsecured_token(message.token, rules, int(time.time() * 1000)).name == "alice"
    with pytest.raises(CredentialsError, match="unsecuredLoginStringClaim_sub"):
        token_for(sasl())
    for wrong in (
        'unsecuredLoginNumberClaim_x="y"',
        'unsecuredLoginStringClaim_a="b" unsecuredLoginLifetimeSeconds="z"',
    ):
        with pytest.raises(CredentialsError, match="no number"):
            token_for(sasl(wrong))
    with pytest.raises(CredentialsError, match="'auth' cannot be sent"):
        exchange_of(sasl('unsecuredLoginStringClaim_sub="a" extension_auth="x"'), "host").first()
