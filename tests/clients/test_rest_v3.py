"""Version 3 of the REST proxy by plain HTTP: every operation on resources, and its errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from rest_v3_client import V3Client, rest_proxy

from moldau.testing import Broker

pytestmark = pytest.mark.client

ACL = {
    "resource_type": "TOPIC",
    "resource_name": "orders-",
    "pattern_type": "PREFIXED",
    "principal": "User:alice",
    "host": "*",
    "operation": "READ",
    "permission": "ALLOW",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    with Broker(
        {"authorizer.class.name": authorizer, "allow.everyone.if.no.acl.found": "true"},
        super_users="User:ANONYMOUS",
    ) as running:
        yield running


@pytest.fixture(scope="module")
def client(broker: Broker) -> Iterator[V3Client]:
    with rest_proxy(broker.bootstrap_servers) as url:
        yield V3Client(url)


def test_links_lead_to_resources(client: V3Client) -> None:
    """Whatever a cluster links to is there; so is what that links to."""
    client.create("linked", 2)
    seen: set[str] = set()
    waiting = [f"{client.url}{client.base}"]
    while waiting:
        url = waiting.pop()
        if url in seen or len(seen) > 200:
            continue
        seen.add(url)
        response = client.http.get(url)
        if response.status_code == 404:
            assert url.endswith("/reassignment")  # nothing is being moved
            continue
        assert response.status_code == 200, (url, response.text)
        resource = response.json()
        assert resource["metadata"]["self"].partition("?")[0] == url.partition("?")[0]
        for each in [resource, *resource.get("data", [])]:
            waiting += [
                link["related"] for link in each.values() if isinstance(link, dict) and "related" in link
            ]
    assert len(seen) > 12


def test_the_cluster_and_its_broker(client: V3Client) -> None:
    cluster = client.get("")
    assert cluster["kind"] == "KafkaCluster"
    assert cluster["metadata"]["resource_name"] == f"crn:///kafka={client.cluster_id}"
    (broker,) = client.get("/brokers")["data"]
    assert cluster["controller"]["related"].endswith(f"/brokers/{broker['broker_id']}")
    assert client.get(f"/brokers/{broker['broker_id']}") == broker
    assert client.refused("GET", "/brokers/77") == 404
    assert client.refused("GET", "/brokers/x") == 404
    elsewhere = client.http.get("/v3/clusters/other/topics")
    assert elsewhere.json() == {"error_code": 404, "message": "Cluster other cannot be found."}


def test_a_topic_from_its_creation_to_its_end(client: V3Client) -> None:
    body = {
        "topic_name": "life",
        "partitions_count": 2,
        "replication_factor": 1,
        "configs": [{"name": "retention.ms", "value": "9000"}],
    }
    created = client.ask("POST", "/topics", json=body)
    assert created.status_code == 201
    assert created.headers["location"] == created.json()["metadata"]["self"]
    client.await_topic("life")
    topic = client.get("/topics/life")
    assert (topic["partitions_count"], topic["replication_factor"]) == (2, 1)
    assert "authorized_operations" not in topic
    shown = client.get("/topics/life", params={"include_authorized_operations": "true"})
    assert "WRITE" in shown["authorized_operations"]
    assert client.get("/topics/life/configs/retention.ms")["value"] == "9000"
    enlarged = client.ask("PATCH", "/topics/life", json={"partitions_count": 3})
    assert enlarged.json()["partitions_count"] == 3
    while len(client.get("/topics/life/partitions")["data"]) != 3:
        pass
    assert [each["partition_id"] for each in client.get("/topics/life/partitions")["data"]] == [0, 1, 2]
    assert client.ask("DELETE", "/topics/life").status_code == 204
    assert client.refused("GET", "/topics/life") == 40403
    assert client.refused("DELETE", "/topics/life") == 40403


def test_a_topic_with_chosen_replicas_and_one_that_is_only_checked(client: V3Client) -> None:
    (broker,) = client.get("/brokers")["data"]
    chosen = [{"partition_id": each, "broker_ids": [broker["broker_id"]]} for each in (0, 1)]
    assert client.ask("POST", "/topics", json={"topic_name": "chosen", "replicas_assignments": chosen})
    client.await_topic("chosen")
    replica = client.get(f"/topics/chosen/partitions/1/replicas/{broker['broker_id']}")
    assert (replica["is_leader"], replica["is_in_sync"]) == (True, True)
    of_broker = client.get(f"/brokers/{broker['broker_id']}/partition-replicas")["data"]
    assert replica in of_broker
    checked = client.ask("POST", "/topics", json={"topic_name": "checked", "validate_only": True})
    assert checked.status_code == 200
    assert client.refused("GET", "/topics/checked") == 40403


@pytest.mark.parametrize(
    ("body", "error_code"),
    [
        ({"topic_name": "life/2"}, 40002),
        ({"partitions_count": 1}, 400),
        ({"topic_name": "a", "partitions_count": "all"}, 400),
        ({"topic_name": "a", "partitions_count": 0}, 400),
        ({"topic_name": "a", "replication_factor": 2}, 40002),
        ({"topic_name": "a", "configs": [{"name": "no.such", "value": "1"}]}, 40002),
        ({"topic_name": "a", "configs": {"retention.ms": "1"}}, 400),
        ({"topic_name": "a", "replicas_assignments": [{"partition_id": 0, "broker_ids": [77]}]}, 40002),
        ([], 400),
        (None, 42206),
    ],
)
def test_a_topic_that_cannot_be_created(client: V3Client, body: Any, error_code: int) -> None:
    assert client.refused("POST", "/topics", json=body) == error_code


def test_bodies_that_are_no_json(client: V3Client) -> None:
    assert client.refused("POST", "/topics", content=b'{"topic_name"') == 400
    assert client.refused("POST", "/topics", content=b'{"a":' * 2000) == 400
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert client.refused("POST", "/topics", content=b"{}", headers=form) == 415
    untold = {"Content-Type": ""}
    assert client.refused("POST", "/topics", content=b"{}", headers=untold) == 415
    assert client.refused("GET", "/topics", headers={"Accept": "image/png"}) == 406


def test_settings_of_a_topic(client: V3Client) -> None:
    client.create("settings")
    base = "/topics/settings/configs"
    before = client.get(base + "/retention.ms")
    assert (before["is_default"], before["topic_name"]) == (True, "settings")
    assert client.ask("PUT", base + "/retention.ms", json={"value": "8000"}).status_code == 204
    after = client.get(base + "/retention.ms")
    assert (after["value"], after["source"], after["is_default"]) == ("8000", "DYNAMIC_TOPIC_CONFIG", False)
    assert after["synonyms"][0] == {
        "name": "retention.ms",
        "value": "8000",
        "source": "DYNAMIC_TOPIC_CONFIG",
    }
    assert client.ask("DELETE", base + "/retention.ms").status_code == 204
    assert client.get(base + "/retention.ms")["is_default"]
    change = [{"name": "retention.ms", "operation": "DELETE"}, {"name": "segment.ms", "value": "60000"}]
    dry = client.ask("POST", base + ":alter", json={"data": change, "validate_only": True})
    assert dry.status_code == 204
    assert client.get(base + "/segment.ms")["is_default"]
    assert client.ask("POST", base + ":alter", json={"data": change}).status_code == 204
    assert client.get(base + "/segment.ms")["value"] == "60000"
    assert client.refused("PUT", base + "/no.such", json={"value": "1"}) == 404
    assert client.refused("PUT", base + "/retention.ms", json={"value": "soon"}) == 40002
    assert client.refused("GET", "/topics/none/configs") == 40403
    wrong = {"data": [{"name": "retention.ms", "operation": "ADD", "value": "1"}]}
    assert client.refused("POST", base + ":alter", json=wrong) == 400


def test_settings_of_several_topics(client: V3Client) -> None:
    client.create("several-1")
    client.create("several-2")
    data = [
        {"topic_name": name, "configs": [{"name": "retention.ms", "value": value}]}
        for name, value in (("several-1", "7000"), ("several-2", "x"))
    ]
    partly = client.ask("POST", "/topics/-/configs:alter", json={"data": data})
    assert partly.status_code == 207
    (failure,) = partly.json()["failures"]
    assert (failure["topic_name"], failure["error_code"]) == ("several-2", 40002)
    assert client.ask("POST", "/topics/-/configs:alter", json={"data": data[:1]}).status_code == 204
    listed = client.get("/topics/-/configs")["data"]
    values = {each["topic_name"]: each["value"] for each in listed if each["name"] == "retention.ms"}
    assert values["several-1"] == "7000"
    assert "several-2" in values
    would_be = client.get("/topics/not-yet/default-configs")["data"]
    assert "retention.ms" in {each["name"] for each in would_be}
    assert client.refused("GET", "/topics/several-1/default-configs") == 40002


def test_settings_of_brokers(client: V3Client) -> None:
    (broker,) = client.get("/brokers")["data"]
    own = f"/brokers/{broker['broker_id']}/configs"
    assert client.get(own + "/log.retention.ms")["broker_id"] == broker["broker_id"]
    everywhere = {"data": [{"name": "log.retention.ms", "value": "6000000"}]}
    assert client.ask("POST", "/broker-configs:alter", json=everywhere).status_code == 204
    listed = client.get("/broker-configs/log.retention.ms")
    assert (listed["value"], listed["config_type"]) == ("6000000", "BROKER")
    assert listed in client.get("/broker-configs")["data"]
    assert client.get(own + "/log.retention.ms")["source"] == "DYNAMIC_DEFAULT_BROKER_CONFIG"
    assert client.ask("PUT", own + "/log.retention.ms", json={"value": "5000000"}).status_code == 204
    while client.get(own + "/log.retention.ms")["value"] != "5000000":
        pass  # Apache Kafka's broker applies it a moment later
    assert client.ask("DELETE", own + "/log.retention.ms").status_code == 204
    assert client.ask("DELETE", "/broker-configs/log.retention.ms").status_code == 204
    assert client.refused("GET", "/broker-configs/log.retention.ms") == 404
    all_brokers = client.get("/brokers/-/configs")["data"]
    assert {each["broker_id"] for each in all_brokers} == {broker["broker_id"]}
    assert client.refused("GET", "/brokers/77/configs") == 404


def test_secrets_are_not_shown(client: V3Client) -> None:
    (broker,) = client.get("/brokers")["data"]
    listed = client.get(f"/brokers/{broker['broker_id']}/configs")["data"]
    secret = [each for each in listed if each["is_sensitive"]]
    assert secret
    assert all(each["value"] is None for each in secret)


def test_acls_are_created_searched_and_deleted(client: V3Client) -> None:
    created = client.ask("POST", "/acls", json=ACL)
    assert created.status_code == 201
    (found,) = client.http.get(created.headers["location"]).json()["data"]
    assert {name: found[name] for name in ACL} == ACL
    others = [{**ACL, "resource_name": f"other-{each}"} for each in range(3)]
    assert client.ask("POST", "/acls:batch", json={"data": others}).status_code == 201
    named = client.get("/acls", params={"principal": "User:alice", "resource_type": "topic"})["data"]
    assert [each["resource_name"] for each in named] == ["orders-", "other-0", "other-1", "other-2"]
    every = {"resource_type": "any", "pattern_type": "any", "operation": "any", "permission": "any"}
    one = {**every, "resource_name": "other-1", "pattern_type": "prefixed"}
    deleted = client.ask("DELETE", "/acls", params=one)
    assert [each["resource_name"] for each in deleted.json()["data"]] == ["other-1"]
    for wrong in (
        {},
        every,
        {"principal": "User:alice"},
        {**every, "principal": ""},
        {**every, "principal": "User:alice", "resource_name": ""},
        {**every, "principal": "", "resource_type": "topic"},
        {**every, "principal": "User:alice", "host": ""},
        {**every, "permission": "allow"},
        {**every, "pricipal": "User:alice"},
        {**every, "resource_type": "", "principal": "User:alice"},
        {**every, "principal": ["User:alice", "User:bob"]},
        {**every, "operation": "raed", "principal": "User:alice"},
    ):
        refused = client.ask("DELETE", "/acls", params=wrong)
        assert refused.status_code == 400, wrong
        assert len(client.get("/acls")["data"]) == 3, wrong
    assert client.ask("DELETE", "/acls/", params={**every, "principal": "User:alice"}).status_code == 404
    gone = client.ask("DELETE", "/acls", params={**every, "principal": "User:alice"})
    assert len(gone.json()["data"]) == 3
    assert client.get("/acls")["data"] == []


@pytest.mark.parametrize(
    ("change", "error_code"),
    [
        ({"resource_type": "ANY"}, 40002),
        ({"pattern_type": "MATCH"}, 40002),
        ({"operation": "FLY"}, 400),
        ({"permission": None}, 400),
        ({"principal": "alice"}, 40002),
    ],
)
def test_acls_that_cannot_be(client: V3Client, change: dict[str, Any], error_code: int) -> None:
    assert client.refused("POST", "/acls", json={**ACL, **change}) == error_code
    assert client.refused("POST", "/acls:batch", json={"data": [ACL, {**ACL, **change}]}) == error_code
    assert client.get("/acls")["data"] == []


def test_partitions_and_their_offsets(client: V3Client) -> None:
    client.create("numbered", 2)
    for _ in range(3):
        client.ask(
            "POST", "/topics/numbered/records", json={"partition_id": 1, "value": {"type": "JSON", "data": 1}}
        )
    offsets = client.get("/topics/numbered/partitions/1/offset", params={"offset": "latest"})
    assert (offsets["earliest_offset"], offsets["latest_offset"]) == (0, 3)
    assert client.refused("GET", "/topics/numbered/partitions/1/offset?offset=middle") == 400
    assert client.refused("GET", "/topics/numbered/partitions/2") == 40402
    assert client.refused("GET", "/topics/numbered/partitions/2/offset") == 40402
    assert client.refused("GET", "/topics/none/partitions") == 40403
    assert client.refused("GET", "/topics/numbered/partitions/0/replicas/77") == 404
    assert client.get("/topics/numbered/partitions/-/reassignment")["data"] == []
    assert client.get("/topics/-/partitions/-/reassignment")["data"] == []
    assert client.refused("GET", "/topics/numbered/partitions/0/reassignment") == 404


def test_long_lists_are_as_short_ones(client: V3Client) -> None:
    client.create("wide", 150)
    listed = client.get("/topics/wide/partitions")
    assert [each["partition_id"] for each in listed["data"]] == list(range(150))
    assert listed["kind"] == "KafkaPartitionList"
    assert client.get("/topics/wide/partitions/149") == listed["data"][149]


def test_a_group_whose_name_has_a_slash(broker: Broker, client: V3Client) -> None:
    from confluent_kafka import Consumer, TopicPartition

    client.create("followed")
    for each in range(5):
        record = {"value": {"type": "JSON", "data": each}}
        answer = client.ask("POST", "/topics/followed/records", json=record).json()
        assert answer["error_code"] == 200, answer
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": "a/b c",
        "client.id": "follower",
        "group.instance.id": "static",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    consumer = Consumer(settings)
    path = "/consumer-groups/" + quote("a/b c", safe="")
    try:
        consumer.subscribe(["followed"])
        while consumer.poll(1.0) is None:
            pass
        consumer.commit(offsets=[TopicPartition("followed", 0, 2)], asynchronous=False)
        group = client.get(path)
        assert (group["state"], group["type"], group["is_simple"]) == ("STABLE", "CLASSIC", False)
        assert group in client.get("/consumer-groups")["data"]
        (member,) = client.get(path + "/consumers")["data"]
        assert (member["client_id"], member["instance_id"]) == ("follower", "static")
        of_member = path + "/consumers/" + quote(member["consumer_id"], safe="")
        assert client.get(of_member) == member
        (assigned,) = client.get(of_member + "/assignments")["data"]
        assert client.get(of_member + "/assignments/followed/partitions/0") == assigned
        assert client.refused("GET", of_member + "/assignments/followed/partitions/1") == 404
        (lag,) = client.get(path + "/lags")["data"]
        assert (lag["current_offset"], lag["log_end_offset"], lag["lag"]) == (2, 5, 3)
        assert lag["consumer_id"] == member["consumer_id"]
        assert client.get(path + "/lags/followed/partitions/0") == lag
        assert client.refused("GET", path + "/lags/followed/partitions/1") == 404
        summary = client.get(path + "/lag-summary")
        assert (summary["max_lag"], summary["total_lag"], summary["max_lag_client_id"]) == (3, 3, "follower")
        assert client.refused("GET", path + "/consumers/nobody") == 404
    finally:
        consumer.close()
    assert client.refused("GET", "/consumer-groups/none") == 404
    assert client.refused("GET", "/consumer-groups/none/lag-summary") == 404


def test_paths_and_methods_that_are_not_there(client: V3Client) -> None:
    assert client.refused("GET", "/nothing") == 404
    assert client.refused("POST", "/brokers") == 405
    assert client.http.head(client.base + "/topics").status_code == 200
    assert client.http.get(client.base + "/topics/").status_code == 200
