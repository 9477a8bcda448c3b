"""v2 with a login and a file of rights; and what Kafka refuses to the proxy itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from rest_v2_client import V2Client, V2Instance, embedded
from rest_v3_client import rest_proxy

from moldau.testing import Broker

pytestmark = pytest.mark.client

USERS = "alice: a-secret\nbob: b-secret\n"
RIGHTS = """
alice  all         topic:orders*
alice  read        group:alice-*
bob    read        topic:orders-open
bob    read        group:*
"""
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture(scope="module")
def url(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("rights")
    (folder / "users").write_text(USERS)
    (folder / "rights").write_text(RIGHTS)
    settings = {
        "authentication.method": "BASIC",
        "moldau.http.users.file": str(folder / "users"),
        "moldau.http.rights.file": str(folder / "rights"),
    }
    with rest_proxy(broker.bootstrap_servers, **settings) as running:
        V2Client(running, auth=("alice", "a-secret")).produce("/topics/orders-open", [{"value": 1}])
        V2Client(running, auth=("alice", "a-secret")).produce("/topics/orders-closed", [{"value": 2}])
        yield running


def test_nobody_is_let_in_without_a_login(url: str):
    assert V2Client(url).ask("GET", "/topics").status_code == 401
    assert V2Client(url, auth=("alice", "b-secret")).ask("GET", "/topics").status_code == 401


def test_each_sees_and_reads_what_is_allowed(url: str):
    alice, bob = V2Client(url, auth=("alice", "a-secret")), V2Client(url, auth=("bob", "b-secret"))
    assert alice.get("/topics") == ["orders-closed", "orders-open"]
    assert bob.get("/topics") == ["orders-open"]
    assert bob.refused("GET", "/topics/orders-closed")[:2] == (403, 40301)
    assert bob.refused("GET", "/topics/orders-closed/partitions/0/offsets")[:2] == (403, 40301)
    assert bob.refused("GET", "/brokers")[:2] == (403, 40301)
    body = {"records": [{"value": 3}]}
    headers = {"Content-Type": embedded("json")}
    assert bob.refused("POST", "/topics/orders-open", body, headers=headers)[:2] == (403, 40301)
    assert bob.refused("POST", "/topics/orders-open/partitions/0", body, headers=headers)[:2] == (403, 40301)


def test_groups_and_what_instances_read(url: str):
    alice, bob = V2Client(url, auth=("alice", "a-secret")), V2Client(url, auth=("bob", "b-secret"))
    assert alice.refused("POST", "/consumers/other", {})[:2] == (403, 40301)
    with V2Instance(bob, "shared-name") as instance:
        assert alice.refused("GET", f"{instance.path}/records")[:2] == (403, 40301)
        assert alice.refused("DELETE", instance.path)[:2] == (403, 40301)
        body = {"topics": ["orders-open", "orders-closed"]}
        assert bob.refused("POST", f"{instance.path}/subscription", body)[:2] == (403, 40301)
        place = {"topic": "orders-closed", "partition": 0}
        assert bob.refused("POST", f"{instance.path}/assignments", {"partitions": [place]})[:2] == (
            403,
            40301,
        )
        instance.post("subscription", {"topic_pattern": ".*"})
        assert bob.get(f"{instance.path}/subscription") == {"topics": ["orders-open"]}
        assert [each["value"] for each in instance.read_until(1)] == [1]


def test_what_the_proxy_itself_may_not_do():
    with (
        Broker(
            {"authorizer.class.name": AUTHORIZER, "auto.create.topics.enable": "false"},
            super_users="User:nobody",
        ) as closed,
        rest_proxy(closed.bootstrap_servers) as url,
    ):
        client = V2Client(url)
        body = {"records": [{"value": 1}]}
        headers = {"Content-Type": embedded("json")}
        assert client.refused("POST", "/topics/t", body, headers=headers)[:2] == (403, 40301)
        with V2Instance(client, "g") as instance:
            instance.subscribe("t")
            response = client.ask("GET", f"{instance.path}/records")
            while response.status_code == 200:
                response = client.ask("GET", f"{instance.path}/records")
            assert (response.status_code, response.json()["error_code"]) == (403, 40301)


def test_an_instance_is_its_makers_alone(url: str):
    """Bob may read the group, but not the topic that alice's instance reads."""
    alice, bob = V2Client(url, auth=("alice", "a-secret")), V2Client(url, auth=("bob", "b-secret"))
    with V2Instance(alice, "alice-group") as instance:
        instance.assign(("orders-closed", 0))
        assert [each["value"] for each in instance.read_until(1)] == [2]
        headers = {"Accept": embedded("json")}
        place = {"topic": "orders-closed", "partition": 0}
        for method, path, body in (
            ("GET", "/records", None),
            ("GET", "/subscription", None),
            ("GET", "/assignments", None),
            ("GET", "/offsets", {"partitions": [place]}),
            ("POST", "/offsets", None),
            ("POST", "/positions/beginning", {"partitions": [place]}),
            ("DELETE", "", None),
        ):
            refused = bob.refused(method, instance.path + path, body, headers=headers)
            assert refused[:2] == (403, 40301), (method, path, refused)
        assert len(alice.get(f"{instance.path}/assignments")["partitions"]) == 1


def test_offsets_are_committed_for_topics_that_may_be_read(url: str):
    bob = V2Client(url, auth=("bob", "b-secret"))
    with V2Instance(bob, "bob-group") as instance:
        place = {"topic": "orders-closed", "partition": 0}
        body = {"offsets": [{**place, "offset": 0}]}
        assert bob.refused("POST", f"{instance.path}/offsets", body)[:2] == (403, 40301)
        assert bob.refused("GET", f"{instance.path}/offsets", {"partitions": [place]})[:2] == (403, 40301)
