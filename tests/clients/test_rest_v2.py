"""Version 2 of the REST proxy by plain HTTP: topics, producing, and what is refused."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from rest_v2_client import V2, V2Client, b64, cluster, embedded
from rest_v3_client import rest_proxy

from moldau.services.rest.v2.routes import ROUTES

pytestmark = pytest.mark.client


@pytest.fixture(scope="module")
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    with cluster(request) as running:
        yield running


@pytest.fixture(scope="module")
def client(address: str) -> Iterator[V2Client]:
    admin = AdminClient({"bootstrap.servers": address})
    for created in admin.create_topics(
        [NewTopic(name, 2, 1) for name in ("described", "keyed", "whole")]
    ).values():
        created.result(60)
    with rest_proxy(address) as url:
        yield V2Client(url)


def written(address: str, topic: str, partition: int, count: int) -> list[Any]:
    consumer = Consumer({"bootstrap.servers": address, "group.id": f"checks-{topic}"})
    consumer.assign([TopicPartition(topic, partition, 0)])
    found = consumer.consume(count, 60)
    consumer.close()
    return found


def test_topics_partitions_offsets_and_brokers(client: V2Client):
    client.produce("/topics/described/partitions/1", [{"value": 1}, {"value": 2}])
    assert "described" in client.get("/topics")
    topic = client.get("/topics/described")
    assert topic["name"] == "described"
    assert topic["configs"]["cleanup.policy"] == "delete"
    (broker_id,) = client.get("/brokers")["brokers"]
    replicas = [{"broker": broker_id, "leader": True, "in_sync": True}]
    partitions = [{"partition": each, "leader": broker_id, "replicas": replicas} for each in (0, 1)]
    assert topic["partitions"] == partitions
    assert client.get("/topics/described/partitions") == partitions
    assert client.get("/topics/described/partitions/1") == partitions[1]
    assert client.get("/topics/described/partitions/1/offsets") == {"beginning_offset": 0, "end_offset": 2}
    assert client.get("/topics/described/partitions/0/offsets") == {"beginning_offset": 0, "end_offset": 0}


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/topics/unknown", 40401),
        ("/topics/unknown/partitions", 40401),
        ("/topics/unknown/partitions/0", 40401),
        ("/topics/unknown/partitions/0/offsets", 40401),
        ("/topics/known/partitions/9", 40402),
        ("/topics/known/partitions/9/offsets", 40402),
        ("/topics/known/partitions/x", 404),
        ("/nowhere", 404),
    ],
)
def test_what_is_not_there(client: V2Client, path: str, code: int):
    client.produce("/topics/known", [{"value": 1}])
    assert client.refused("GET", path)[:2] == (404, code)


def test_internal_topics_are_not_listed(client: V2Client):
    from rest_v2_client import V2Instance

    with V2Instance(client, "makes-offsets") as instance:
        client.produce("/topics/known", [{"value": 1}])
        instance.assign(("known", 0))
        instance.post("offsets", {"offsets": [{"topic": "known", "partition": 0, "offset": 0}]}, 200)
    assert "__consumer_offsets" not in client.get("/topics")


def test_records_in_binary_and_json(client: V2Client, address: str):
    found = client.produce(
        "/topics/v2-formats/partitions/0",
        [
            {"key": b64(b"k\x00"), "value": b64(b"\xff")},
            {"value": None},
            {"key": b64(b""), "value": b64(b"")},
        ],
        "binary",
    )
    assert found == {
        "offsets": [{"partition": 0, "offset": n, "error_code": None, "error": None} for n in range(3)],
        "key_schema_id": None,
        "value_schema_id": None,
    }
    client.produce(
        "/topics/v2-formats/partitions/0",
        [
            {
                "key": {"a": [1, None]},
                "value": "ü",
                "timestamp": 12345,
                "headers": [{"name": "h", "value": b64(b"x")}, {"name": "h", "value": None}],
            },
            {"key": 0, "value": False, "timestamp": "2026-01-01T00:00:00Z"},
        ],
    )
    records = written(address, "v2-formats", 0, 5)
    assert [(each.key(), each.value()) for each in records] == [
        (b"k\x00", b"\xff"),
        (None, None),
        (b"", b""),
        (b'{"a":[1,null]}', '"ü"'.encode()),
        (b"0", b"false"),
    ]
    assert records[3].headers() == [("h", b"x"), ("h", None)]
    assert records[3].timestamp()[1] == 12345
    assert records[4].timestamp()[1] == 1767225600000


def test_integers_of_any_length_arrive_as_they_are(client: V2Client, address: str):
    integers = [2**64, -(2**63) - 1, 10**40, 2**53 + 1]
    client.produce("/topics/exact/partitions/0", [{"key": each, "value": {"n": each}} for each in integers])
    found = [(each.key(), each.value()) for each in written(address, "exact", 0, 4)]
    assert found == [(b"%d" % each, b'{"n":%d}' % each) for each in integers]


def test_a_body_with_very_many_records_is_written_whole_or_not_at_all(client: V2Client, address: str):
    records = [{"key": n, "value": {"n": n, "text": "},{"}} for n in range(5_000)]
    found = client.produce("/topics/very-many/partitions/0", records)
    assert [each["offset"] for each in found["offsets"]] == list(range(5_000))
    assert [each.key() for each in written(address, "very-many", 0, 5_000)] == [
        b"%d" % n for n in range(5_000)
    ]
    headers = {"Content-Type": embedded("json")}
    for wrong in ({"value": 1, "odd": 2}, [], {"value": 1, "partition": "x"}):
        refused = client.refused("POST", "/topics/very-many", {"records": [*records, wrong]}, headers=headers)
        assert refused[0] in (400, 422)
    body = {"records": records, "odd": 1}
    assert client.refused("POST", "/topics/very-many", body, headers=headers)[0] == 422
    assert client.get("/topics/very-many/partitions/0/offsets")["end_offset"] == 5_000


def test_operations_that_are_switched_off(address: str):
    blocked = "api.v2.consumers.*,api.v2.produce-to-topic.json,api.v2.brokers.list"
    with rest_proxy(address, **{"api.endpoints.blocklist": blocked}) as url:
        client = V2Client(url)
        assert client.refused("GET", "/brokers")[0] == 404
        assert client.refused("POST", "/consumers/off", {})[0] == 405
        headers = {"Content-Type": embedded("json")}
        body = {"records": [{"value": 1}]}
        assert client.refused("POST", "/topics/described", body, headers=headers)[0] == 405
        client.produce("/topics/off/partitions/0", [{"value": 1}])
        assert client.get("/topics/off/partitions/0/offsets")["end_offset"] == 1


def test_equal_keys_go_to_one_partition(client: V2Client):
    found = client.produce("/topics/keyed", [{"key": n % 5, "value": n} for n in range(50)])
    where = [each["partition"] for each in found["offsets"]]
    assert where == where[:5] * 10
    assert set(where) == {0, 1}


def test_a_record_that_fails_does_not_take_others_with_it(client: V2Client):
    large = "x" * 1_500_000
    found = client.produce(
        "/topics/mixed", [{"value": 1, "partition": 0}, {"value": large}, {"value": 2, "partition": 7}]
    )["offsets"]
    assert found[0] == {"partition": 0, "offset": 0, "error_code": None, "error": None}
    assert (found[1]["partition"], found[1]["error_code"]) == (None, 50002)
    assert "too large" in found[1]["error"].lower()
    assert (found[2]["offset"], found[2]["error_code"]) == (None, 50003)
    assert "Partition 7" in found[2]["error"]


@pytest.mark.parametrize(
    ("body", "status", "code", "message"),
    [
        ({"records": []}, 422, 422, "records must not be empty"),
        ({}, 422, 422, "records must not be empty"),
        ({"records": {}}, 422, 422, "records must be a list"),
        ({"records": [1]}, 400, 400, "A record is 1, and not a JSON object"),
        ({"records": [{"val": 1}]}, 422, 422, "Unrecognized field: val"),
        ({"record": []}, 422, 422, "Unrecognized field: record"),
        ([], 400, 400, "not a JSON object"),
        ({"records": [{"value": b64(b"x"), "partition": -1}]}, 422, 422, "partition must be a whole number"),
        ({"records": [{"value": b64(b"x"), "partition": "a"}]}, 422, 422, "partition must be a whole number"),
        ({"records": [{"value": "?"}]}, 400, 400, "not a valid base64 string"),
        ({"records": [{"value": {"a": 1}}]}, 400, 400, "not a base64 string"),
        ({"records": [{"value": b64(b"1"), "timestamp": "noon"}]}, 422, 422, "timestamp must be"),
        ({"records": [{"value": b64(b"1"), "timestamp": True}]}, 422, 422, "timestamp must be"),
        ({"records": [{"value": b64(b"1"), "timestamp": 0}]}, 422, 422, "timestamp must be"),
        ({"records": [{"headers": [{"name": "a\0", "value": ""}]}]}, 422, 422, "NUL"),
        ({"records": [{"value": b64(b"1"), "headers": [{"name": "a", "value": 1}]}]}, 400, 400, "header a"),
        ({"records": [{"value": b64(b"1"), "headers": {"a": 1}}]}, 422, 422, "headers must be a list"),
    ],
)
def test_requests_that_are_wrong(client: V2Client, body: Any, status: int, code: int, message: str):
    content_type = {"Content-Type": embedded("binary")}
    found = client.refused("POST", "/topics/refused", body, headers=content_type)
    assert found[:2] == (status, code)
    assert message in found[2]


def test_a_request_that_is_wrong_at_its_end_writes_nothing(client: V2Client):
    client.produce("/topics/whole/partitions/0", [{"value": 1}])
    body = {"records": [{"value": b64(b"1")} for _ in range(500)] + [{"value": "?"}]}
    assert (
        client.refused("POST", "/topics/whole", body, headers={"Content-Type": embedded("binary")})[0] == 400
    )
    ends = [client.get(f"/topics/whole/partitions/{each}/offsets")["end_offset"] for each in (0, 1)]
    assert ends == [1, 0]


@pytest.mark.parametrize(
    "content_type", ["application/json", "text/plain", "", "application/vnd.kafka.xml.v2+json"]
)
def test_the_content_type_names_the_format(client: V2Client, content_type: str):
    found = client.refused(
        "POST", "/topics/t", {"records": [{"value": 1}]}, headers={"Content-Type": content_type}
    )
    assert found[:2] == (415, 415)
    assert found[2].startswith("HTTP 415 Unsupported Media Type")
    assert embedded("json") in found[2]


def test_no_response_is_made_in_a_type_that_the_client_does_not_take(client: V2Client):
    assert client.ask("GET", "/topics", headers={"Accept": "text/html"}).status_code == 406
    for accepted in ("*/*", "application/json", V2, embedded("avro"), "application/vnd.kafka+json"):
        response = client.ask("GET", "/topics", headers={"Accept": accepted})
        assert response.status_code == 200
        assert response.headers["content-type"] == (V2 if accepted == "*/*" else accepted)


def test_no_partition_to_write_to(client: V2Client):
    client.produce("/topics/known", [{"value": 1}])
    headers = {"Content-Type": embedded("json")}
    body = {"records": [{"value": 1}]}
    assert client.refused("POST", "/topics/known/partitions/9", body, headers=headers)[:2] == (404, 40402)
    assert client.refused("POST", "/topics/bad name!", body, headers=headers)[:2] == (400, 40002)


def test_a_partition_that_was_added(client: V2Client, address: str):
    client.produce("/topics/grows", [{"value": 1}])
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_partitions([NewPartitions("grows", 5)])["grows"].result(60)
    headers = {"Content-Type": embedded("json")}
    response = client.ask("POST", "/topics/grows/partitions/4", {"records": [{"value": 1}]}, headers=headers)
    while response.status_code == 404:  # known for a second, and to other brokers a moment later
        response = client.ask(
            "POST", "/topics/grows/partitions/4", {"records": [{"value": 1}]}, headers=headers
        )
    assert response.json()["offsets"][0]["partition"] == 4


def test_without_a_registry_schemas_are_refused(client: V2Client):
    headers = {"Content-Type": embedded("avro")}
    body: dict[str, Any] = {"records": [{"value": 1}]}
    assert client.refused("POST", "/topics/t", body, headers=headers)[:2] == (422, 42202)
    body = {"records": [{"key": 1}]}
    assert client.refused("POST", "/topics/t", body, headers=headers)[:2] == (422, 42201)
    body = {"records": [{"value": 1}], "value_schema": '"long"'}
    status, code, message = client.refused("POST", "/topics/t", body, headers=headers)
    assert (status, code) == (422, 42206)
    assert "schema.registry.url" in message


def test_json_that_is_none_or_nested_without_end(client: V2Client):
    headers = {"Content-Type": embedded("json")}
    deep = b'{"records":[{"value":' + b"[" * 100_000 + b"]" * 100_000 + b"}]}"
    for content in (b"", b"{", b'{"records":[{"value":\xff}]}', deep):
        response = client.http.post("/topics/t", content=content, headers=headers)
        assert response.status_code == 400, response.text
        assert response.json()["error_code"] == 400


def test_many_small_records_in_one_body(client: V2Client):
    records = [{"value": n} for n in range(100_000)]
    content = gzip.compress(json.dumps({"records": records}).encode())
    headers = {"Content-Type": embedded("json"), "Content-Encoding": "gzip"}
    response = client.http.post("/topics/many/partitions/0", content=content, headers=headers)
    offsets = [each["offset"] for each in response.json()["offsets"]]
    assert offsets == list(range(100_000))


def test_a_body_that_unpacks_to_too_much(client: V2Client):
    content = gzip.compress(b'{"records":[{"value":"' + b"x" * 64_000_000 + b'"}]}')
    assert len(content) < 100_000
    headers = {"Content-Type": embedded("json"), "Content-Encoding": "gzip"}
    response = client.http.post("/topics/t", content=content, headers=headers)
    assert (response.status_code, response.json()["error_code"]) == (413, 413)


def test_other_methods_are_told_what_there_is(client: V2Client):
    response = client.ask("PUT", "/topics/t", {})
    assert response.status_code == 405
    assert response.json()["error_code"] == 405


def test_the_table_of_paths_has_every_path_once():
    assert len({(method, path) for method, path, _, _ in ROUTES}) == len(ROUTES) == 21


def test_both_versions_may_be_turned_off(address: str):
    with rest_proxy(address, api_v2_enable="false") as url:
        assert httpx.get(f"{url}/topics", timeout=60).status_code == 404
        assert httpx.get(f"{url}/v3/clusters", timeout=60).status_code == 200
