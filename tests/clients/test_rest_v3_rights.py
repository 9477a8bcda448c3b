"""Who may do what through v3: logins and a file of rights stand before every operation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from rest_v3_client import V3Client, rest_proxy

from moldau.services.rest.v3.routes import operations
from moldau.testing import Broker

pytestmark = pytest.mark.client

USERS = "admin: root, admin\nalice: a, user\nnobody: n, user\n"
RIGHTS = """
role:admin  all         *
alice       read,write  topic:a-*
alice       configure   topic:a-own-*
alice       read        group:a-*
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("rights")
    (folder / "users").write_text(USERS)
    (folder / "rights").write_text(RIGHTS)
    settings = {
        "authentication.method": "BASIC",
        "moldau.http.users.file": str(folder / "users"),
        "moldau.http.rights.file": str(folder / "rights"),
    }
    with Broker() as broker, rest_proxy(broker.bootstrap_servers, **settings) as address:
        yield address


@pytest.fixture(scope="module")
def admin(url: str) -> V3Client:
    made = V3Client(url, auth=("admin", "root"))
    for topic in ("a-1", "b-1"):
        made.create(topic)
    return made


@pytest.fixture(scope="module")
def alice(url: str, admin: V3Client) -> V3Client:
    return V3Client(url, auth=("alice", "a"))


def record(client: V3Client, topic: str) -> httpx.Response:
    return client.ask("POST", f"/topics/{topic}/records", json={"value": {"type": "JSON", "data": 1}})


def test_lists_show_what_may_be_seen(admin: V3Client, alice: V3Client) -> None:
    assert [each["topic_name"] for each in admin.get("/topics")["data"]] == ["a-1", "b-1"]
    assert [each["topic_name"] for each in alice.get("/topics")["data"]] == ["a-1"]
    seen = {each["topic_name"] for each in alice.get("/topics/-/configs")["data"]}
    assert seen == {"a-1"}
    assert alice.get("/consumer-groups")["data"] == []


def test_records_need_read_and_write_of_their_topic(admin: V3Client, alice: V3Client) -> None:
    assert record(alice, "a-1").json()["error_code"] == 200
    assert len(alice.get("/topics/a-1/records")["data"]) == 1
    for method, path, body in (
        ("POST", "/topics/b-1/records", {"value": {"type": "JSON", "data": 1}}),
        ("POST", "/topics/b-1/records:batch", {"entries": [{"id": "1"}]}),
        ("GET", "/topics/b-1/records", None),
    ):
        assert alice.refused(method, path, json=body) == 40301
    events = {"Accept": "text/event-stream"}
    assert alice.refused("GET", "/topics/b-1/records", headers=events) == 40301
    assert admin.get("/topics/b-1/partitions/0/offset")["latest_offset"] == 0


def test_a_percent_sign_hides_no_topic(alice: V3Client) -> None:
    for path in ("/topics/%62-1/records", "/topics/b%2D1", "/topics/a-1%2F..%2Fb-1", "/topics/a-1/../b-1"):
        response = alice.http.get(alice.base + path)
        assert response.json()["error_code"] in (40301, 40002, 404), response.text


def test_topics_are_made_and_changed_by_who_may(alice: V3Client) -> None:
    alice.create("a-own-1")
    for body in ({"topic_name": "b-2"}, {"topic_name": "a-2"}):
        assert alice.refused("POST", "/topics", json=body) == 40301
    setting = {"value": "7000"}
    assert alice.ask("PUT", "/topics/a-own-1/configs/retention.ms", json=setting).status_code == 204
    assert alice.refused("PUT", "/topics/a-1/configs/retention.ms", json=setting) == 40301
    assert alice.refused("DELETE", "/topics/a-own-1") == 40301
    several = [{"topic_name": each, "configs": []} for each in ("a-own-1", "a-1")]
    assert alice.refused("POST", "/topics/-/configs:alter", json={"data": several}) == 40301


def test_every_operation_stands_behind_the_login(url: str, admin: V3Client) -> None:
    unknown = httpx.Client(base_url=url, timeout=60)
    for each in operations():
        path = f"/v3{each.path.replace('{cluster_id}', admin.cluster_id)}".replace("{", "").replace("}", "")
        response = unknown.request(each.method, path)
        assert (response.status_code, response.json()["error_code"] // 100) in ((401, 401), (401, 4)), path
        assert response.headers["www-authenticate"].startswith("Basic")


def test_whoever_has_no_right_learns_the_clusters_id_and_no_more(url: str, admin: V3Client) -> None:
    nobody = V3Client(url, auth=("nobody", "n"))
    for each in operations():
        path = each.path.removeprefix("/clusters").removeprefix("/{cluster_id}")
        known: dict[str, Any] = {
            "topic_name": "b-1",
            "broker_id": 1,
            "partition_id": 0,
            "name": "retention.ms",
        }
        for name in ("consumer_group_id", "consumer_id"):
            known[name] = "b-group"
        if path:
            body: dict[str, Any] = {"data": [{"topic_name": "b-1", "configs": []}]}
            if not path.endswith("configs:alter"):  # which takes no field that it does not know
                body["topic_name"] = "b-9"
            more = {"json": body} if each.body else {}
            response = nobody.ask(each.method, path.format(**known), **more)
            if response.status_code == 200:
                assert response.json()["data"] == [], path
            else:
                assert response.json()["error_code"] == 40301, (each.method, path, response.text)
