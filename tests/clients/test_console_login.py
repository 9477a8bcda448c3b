"""A console that asks for a login by the brokers' own users: what is closed, and who may change what."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from console_server import console

from moldau.testing import Broker
from moldau.testing.security import SCRAM_512, Security

pytestmark = pytest.mark.client
HTML = {"Accept": "text/html"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(security=Security(tmp_path_factory.mktemp("keys"))) as started:
        started.add_scram_users()
        started.create_topic("orders", 1)
        started.create_topic("secret", 1)
        admin = AdminClient(started.admin_settings())
        rule = AclBinding(
            ResourceType.TOPIC,
            "orders",
            ResourcePatternType.LITERAL,
            "User:alice",
            "*",
            AclOperation.READ,
            AclPermissionType.ALLOW,
        )
        for each in admin.create_acls([rule]).values():
            each.result(60)
        yield started


@pytest.fixture(scope="module")
def url(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    assert broker.security is not None
    folder = tmp_path_factory.mktemp("console")
    rights = folder / "rights"
    rights.write_text("alice read,write topic:orders\nalice read group:*\nadmin all *\n")
    login = broker.security.login("SASL_SSL", "admin", SCRAM_512)
    client = {f"client.{name}": value for name, value in login.java().items()}
    with console(
        broker,
        **client,
        bootstrap_servers=broker.address("SASL_SSL"),
        moldau_console_login="scram",
        moldau_http_rights_file=str(rights),
        moldau_console_audit_file=str(folder / "audit"),
    ) as address:
        yield address


@contextmanager
def logged_in(url: str, user: str, password: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, timeout=60, headers=HTML) as client:
        answer = client.post("/login", data={"name": user, "password": password, "next": "/topics"})
        assert answer.status_code == 303, answer.text
        assert answer.headers["location"] == "/topics"
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        yield client


def password(broker: Broker, user: str) -> str:
    assert broker.security is not None
    return broker.security.users[user]


def test_nothing_is_open_without_a_login(url: str) -> None:
    with httpx.Client(base_url=url, timeout=60) as client:
        page = client.get("/topics?q=a", headers=HTML)
        assert (page.status_code, page.headers["location"]) == (303, "/login?next=%2Ftopics%3Fq%3Da")
        for path in ("/api/topics", "/topics.json", "/openapi.json", "/metrics", "/health", "/nothing"):
            assert client.get(path).status_code == 401, path
        for path in ("/api/topics", "/topics.json", "/metrics", "/health", "/topics/orders/tail"):
            assert client.get(path, headers=HTML).status_code == 401, path
        for path in ("/topics/create", "/api/topics/create", "/logout"):
            assert client.post(path).status_code in (401, 303), path
        shown = client.get("/login", headers=HTML)
        assert shown.status_code == 200
        assert "orders" not in shown.text
        assert url not in shown.text
        assert client.get("/health/live").status_code == 200
        assert client.get("/static/console.css").status_code == 200
        assert "script-src 'self'" in shown.headers["content-security-policy"]


def test_a_wrong_password_is_refused(url: str, broker: Broker) -> None:
    with httpx.Client(base_url=url, timeout=60, headers=HTML) as client:
        for name, word in (("alice", "wrong"), ("nobody", "x"), ("alice", "")):
            answer = client.post("/login", data={"name": name, "password": word})
            assert answer.status_code == 401, answer.text
            assert "set-cookie" not in answer.headers
        elsewhere = client.post(
            "/login",
            data={"name": "alice", "password": password(broker, "alice")},
            headers={"Origin": "http://evil.example"},
        )
        assert elsewhere.status_code == 403


def test_rights_hold_for_pages_json_and_changes(url: str, broker: Broker) -> None:
    with logged_in(url, "alice", password(broker, "alice")) as alice:
        rows = alice.get("/topics.json").json()["rows"]
        assert [row["name"] for row in rows] == ["orders"]
        assert alice.get("/topics/orders/messages").status_code == 200
        for path in (
            "/topics/secret/messages",
            "/topics/secret/export",
            "/topics/secret/tail",
            "/topics/secret/clone?name=orders",
            "/security/acls",
        ):
            assert alice.get(path).status_code == 403, path
        assert alice.get("/api/timeline").json()["events"] == []
        refused = alice.post("/api/topics/orders/delete", json={})
        assert refused.status_code == 403
        assert alice.post("/api/topics/create", json={"name": "mine"}).status_code == 403
        written = alice.post("/api/topics/orders/produce", json={"key": "k", "value": "v"})
        assert written.status_code == 200, written.text
        assert "offset 0" in written.json()["done"]
        foreign = alice.post(
            "/api/topics/orders/produce", json={"value": "v"}, headers={"Origin": "http://evil.example"}
        )
        assert foreign.status_code == 403
        assert alice.post("/logout").status_code == 303
        assert alice.get("/topics").status_code == 303


def test_an_administrator_sees_rights_and_the_audit(url: str, broker: Broker) -> None:
    with logged_in(url, "admin", password(broker, "admin")) as admin:
        found = admin.get("/api/security/acls").json()
        assert [(row["principal"], row["name"]) for row in found["rows"]] == [("User:alice", "orders")]
        query = {"principal": "alice", "operation": "read", "resource": "topic", "name": "orders"}
        answer = admin.get("/api/security/why", params=query).json()["answer"]
        assert answer["allowed"]
        assert "alice" in answer["deciding"][0]
        assert not admin.get("/api/security/why", params=query | {"name": "secret"}).json()["answer"][
            "allowed"
        ]
        assert {row["user"] for row in admin.get("/api/security/users").json()["rows"]} >= {"alice", "bob"}
        lines = admin.get("/api/audit").json()
        done = [(row["who"], row["change"], row["outcome"]) for row in lines["lines"]]
        assert ("alice", "produce-record", "done") in done
        assert ("alice", "delete-topic", "refused") in done
        written = Path(lines["file"]).read_text().splitlines()
        assert len(written) == len(done) + 1, "what was done also has a line before the deed"


def test_programs_log_in_by_basic(url: str, broker: Broker) -> None:
    with httpx.Client(base_url=url, timeout=60) as client:
        assert client.get("/api/topics", auth=("alice", "wrong")).status_code == 401
        answer = client.get("/api/topics", auth=("alice", password(broker, "alice")))
        assert answer.status_code == 200
