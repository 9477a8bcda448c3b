"""Logins by password, token and certificate; rights by name."""

import asyncio
import base64
import hashlib
import json
import ssl
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from joserfc import jws
from joserfc.jwk import ECKey
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from moldau.common.settings.rows import SettingError
from moldau.services.http.answers import json_answer
from moldau.services.http.application import Application, principal_of
from moldau.services.http.assembly import gate_of, server_of
from moldau.services.http.context import Principal
from moldau.services.http.login import LoginFile
from moldau.services.http.problems import HttpProblem
from moldau.services.http.rights import Kind, Operation, Rights, parse_rights
from moldau.services.http.server import serving
from moldau.services.http.settings import HttpSettings, settings_from
from moldau.testing.authority import Authority


async def _who(request: Request) -> Response:
    return json_answer(request, principal_of(request).name)


def answers(
    asked: list[dict[str, Any]], scheme: str = "http", verify: ssl.SSLContext | bool = True, **settings: str
) -> list[Any]:
    """The status and body of GETs of /who, each with these arguments."""
    texts = {name.replace("_", "."): value for name, value in settings.items()}
    parsed, warnings = settings_from(HttpSettings, {"listeners": f"{scheme}://localhost:0", **texts})
    assert not warnings

    async def run() -> list[Any]:
        application = Application([Route("/who", _who)], parsed, gate=gate_of(parsed))
        found = []
        async with (
            serving(server_of(application, parsed, 8081)) as server,
            httpx.AsyncClient(verify=verify, timeout=60) as client,
        ):
            for arguments in asked:
                path = arguments.pop("path", "/who")
                response = await client.get(server.url + path, **arguments)
                found.append((response.status_code, response.json()))
        return found

    return asyncio.run(run())


def _bearer(token: str) -> dict[str, Any]:
    return {"headers": {"Authorization": f"Bearer {token}"}}


def _raw(value: str) -> dict[str, Any]:
    return {"headers": {"Authorization": value}}


NAMES = """
# people
alice: wonder: land, admins, readers
bob: MD5:9f9d51bc70ef21ca5c14f307980a29d8
carol: SHA256:{sha256}
dave: {{SHA}}{sha1}
""".format(
    sha256=hashlib.sha256(b"tulip").hexdigest(),
    sha1=base64.b64encode(hashlib.sha1(b"rose").digest()).decode(),
)


def test_passwords(tmp_path: Path) -> None:
    (tmp_path / "users").write_text(NAMES)
    right = [("alice", "wonder: land"), ("bob", "bob"), ("carol", "tulip"), ("dave", "rose")]
    found = answers([{"auth": each} for each in right], moldau_http_users_file=str(tmp_path / "users"))
    assert found == [(200, name) for name, _ in right]
    wrong: list[dict[str, Any]] = [
        {},
        {"auth": ("alice", "wonder")},
        {"auth": ("alice", "")},
        {"auth": ("nobody", "")},
        {"auth": ("bob", "9f9d51bc70ef21ca5c14f307980a29d8")},
        _raw("Basic"),
        _raw("Basic !!!"),
        _raw("Basic " + base64.b64encode(b"\xff\xfe").decode()),
        _raw("Digest username=alice"),
        _bearer("token"),
        _raw("Basic " + "A" * 9000),
    ]
    for status, body in answers(wrong, moldau_http_users_file=str(tmp_path / "users")):
        assert status == 401
        assert body["error_code"] == 401
        assert "alice" not in body["message"]


def test_live_health_needs_no_login_and_the_rest_does(tmp_path: Path) -> None:
    (tmp_path / "users").write_text("a: b")
    asked = [{"path": path} for path in ("/health/live", "/health/live/", "/metrics", "/health", "/none")]
    found = [status for status, _ in answers(asked, moldau_http_users_file=str(tmp_path / "users"))]
    assert found == [200, 200, 401, 401, 401]


def test_roles_decide_who_is_let_in(tmp_path: Path) -> None:
    (tmp_path / "users").write_text(NAMES)
    found = answers(
        [{"auth": ("alice", "wonder: land")}, {"auth": ("bob", "bob")}],
        moldau_http_users_file=str(tmp_path / "users"),
        authentication_roles="operators,admins",
    )
    assert [status for status, _ in found] == [200, 403]


def test_tokens(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("s3cret: robot, writers\n")
    asked = [_bearer("s3cret"), _bearer("s3cre"), _raw("Bearer"), {}, {"auth": ("robot", "s3cret")}]
    found = answers(asked, authentication_method="BEARER", moldau_http_tokens_file=str(tmp_path / "tokens"))
    assert [status for status, _ in found] == [200, 401, 401, 401, 401]
    assert found[0][1] == "robot"


def test_signed_tokens(tmp_path: Path) -> None:
    key, other = ECKey.generate_key("P-256"), ECKey.generate_key("P-256")
    row = {**key.as_dict(private=False), "kid": "k1"}
    (tmp_path / "keys").write_text(json.dumps({"keys": [row]}))

    def token(signer: ECKey = key, **changed: object) -> dict[str, Any]:
        now = int(time.time())
        claims = {"sub": "robot", "aud": "registry", "iat": now, "exp": now + 600, "roles": ["writers"]}
        header = {"alg": "ES256", "kid": "k1"}
        return _bearer(jws.serialize_compact(header, json.dumps({**claims, **changed}), signer))

    asked = [token(), token(other), token(aud="other"), token(exp=1), _bearer("a.b.c"), {}]
    found = answers(
        asked,
        moldau_http_jwks_url=f"file:{tmp_path / 'keys'}",
        moldau_http_token_audience="registry",
        authentication_roles="writers",
    )
    assert found[0] == (200, "robot")
    assert [status for status, _ in found[1:]] == [401] * 5


def test_credentials_where_none_are_asked_for_are_not_looked_at() -> None:
    assert answers([{"auth": ("a", "b")}, _bearer("x"), {}]) == [(200, "ANONYMOUS")] * 3


def test_certificates(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    own, alice = authority.issue("localhost"), authority.issue("alice")
    settings = {
        "ssl_keystore_type": "PEM",
        "ssl_keystore_location": str(own.store),
        "ssl_truststore_type": "PEM",
        "ssl_truststore_location": str(authority.certificate),
        "ssl_client_authentication": "REQUESTED",
        "ssl_principal_mapping_rules": r"RULE:^CN=(\w+).*$/$1/,DEFAULT",
    }
    context = ssl.create_default_context(cafile=str(authority.certificate))
    assert answers([{}], "https", context, **settings) == [(200, "ANONYMOUS")]
    context.load_cert_chain(alice.certificate, alice.key)
    assert answers([{}], "https", context, **settings) == [(200, "alice")]
    (tmp_path / "users").write_text("bob: bob")
    settings["moldau_http_users_file"] = str(tmp_path / "users")
    found = answers([{}, {"auth": ("bob", "bob")}, {"auth": ("bob", "x")}], "https", context, **settings)
    assert found[:2] == [(200, "alice"), (200, "bob")]
    assert found[2][0] == 401


def test_a_file_is_read_again_when_it_changes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, now = tmp_path / "users", [0.0]
    path.write_text("a: b")
    logins = LoginFile("moldau.http.users.file", str(path), tokens=False, now_seconds=lambda: now[0])
    path.write_text("carol: d")
    assert logins.find("a")
    now[0] = 1
    assert logins.find("carol")
    assert logins.find("a") is None
    path.write_text("no login here")
    now[0] = 2
    assert logins.find("carol")
    assert "line 1: write `name: password, role`" in caplog.text


@pytest.mark.parametrize(
    "line", ["alice", "alice:", ": x", "a: $2y$10$x", "a: OBF:1", "a: MD5:xyz", "a: {SHA}!"]
)
def test_logins_that_cannot_be_read(tmp_path: Path, line: str) -> None:
    (tmp_path / "users").write_text(line)
    with pytest.raises(SettingError, match="line 1"):
        LoginFile("moldau.http.users.file", str(tmp_path / "users"), tokens=False)


@pytest.mark.parametrize(
    "settings",
    [
        {"authentication.method": "BASIC"},
        {"authentication.method": "BEARER"},
        {"authentication.method": "KERBEROS"},
        {"moldau.http.users.file": "/nowhere/users"},
        {"moldau.http.jwks.url": "ftp://x"},
        {"ssl.principal.mapping.rules": "RULE:("},
    ],
)
def test_settings_that_do_not_go_together(settings: dict[str, str]) -> None:
    with pytest.raises(SettingError):
        gate_of(settings_from(HttpSettings, settings)[0])


RIGHTS = Rights(
    parse_rights(
        """
        # who may what
        alice        read,write   subject:orders-*
        role:admins  all          *
        *            read         subject:public-value
        User:bob     configure    cluster:registry
        """,
        "rights",
    )
)


@pytest.mark.parametrize(
    ("who", "operation", "kind", "name", "allowed"),
    [
        ("alice", "write", "subject", "orders-value", True),
        ("alice", "delete", "subject", "orders-value", False),
        ("alice", "write", "topic", "orders-value", False),
        ("alice", "write", "subject", "order", False),
        ("alice", "write", "subject", ":.ctx:orders-value", False),
        ("nobody", "read", "subject", "public-value", True),
        ("nobody", "read", "subject", "public-value2", False),
        ("nobody", "write", "subject", "public-value", False),
        ("bob", "configure", "cluster", "registry", True),
        ("admin", "delete", "topic", "any", True),
        ("admins", "delete", "topic", "any", False),
    ],
)
def test_rights(who: str, operation: str, kind: str, name: str, allowed: bool) -> None:
    principal = Principal(who, frozenset({"admins"} if who == "admin" else ()))
    assert RIGHTS.may(principal, Operation(operation), Kind(kind), name) is allowed
    if not allowed:
        with pytest.raises(HttpProblem, match=f"User:{who} is denied") as problem:
            RIGHTS.check(principal, Operation(operation), Kind(kind), name)
        assert problem.value.status == 403


@pytest.mark.parametrize(
    "line", ["alice", "a read x", "a fly subject:x", "a read subject:", "a read moon:x", "a b c d"]
)
def test_rights_that_cannot_be_read(line: str) -> None:
    with pytest.raises(SettingError, match="line 2"):
        parse_rights(f"\n{line}", "rights")


def test_rights_are_read_again_when_they_change(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Somebody's right ends without a restart; a mistake in the file opens nothing and closes nothing."""
    path, now = tmp_path / "rights", [0.0]
    path.write_text("alice read subject:*")
    rights = Rights.from_file(str(path), lambda: now[0])
    for text, seconds, allowed in (
        ("bob read subject:*", 0.5, True),
        ("bob read subject:*", 1.0, False),
        ("alice reads subject:*", 2.0, False),
        ("alice reads subject:*", 4.0, False),
        ("alice read subject:*  # again", 5.0, True),
    ):
        if path.read_text() != text:
            path.write_text(text)
        now[0] = seconds
        assert rights.may(Principal("alice"), Operation.READ, Kind.SUBJECT, "s") is allowed
    assert caplog.text.count("line 1: reads is none of") == 1
