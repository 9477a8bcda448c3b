"""v2 with schemas: what the proxy writes, Confluent's deserializers read, and the other way round."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from rest_v2_client import V2Client, V2Instance, cluster, embedded
from rest_v3_client import rest_proxy

from moldau.testing import SchemaRegistry

pytestmark = pytest.mark.client

AVRO = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "note", "type": ["null", "string"], "default": None},
        ],
    }
)
AVRO_2 = AVRO.replace('"id"', '"more", "type": "int", "default": 7}, {"name": "id"')
JSON = json.dumps({"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]})
PROTOBUF = 'syntax = "proto3"; package shop; message Other { string x = 1; } message Order { int64 id = 1; }'


@pytest.fixture(scope="module")
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    with cluster(request) as running:
        yield running


@pytest.fixture(scope="module")
def registry(address: str) -> Iterator[SchemaRegistry]:
    with SchemaRegistry(address) as running:
        yield running


@pytest.fixture(scope="module")
def client(address: str, registry: SchemaRegistry) -> Iterator[V2Client]:
    with rest_proxy(address, **{"schema.registry.url": registry.url}) as url:
        yield V2Client(url)


def read_all(address: str, topic: str, count: int) -> list[Any]:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "reads"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = consumer.consume(count, 60)
    consumer.close()
    assert len(found) == count
    return found


def test_avro_both_ways(client: V2Client, address: str, registry: SchemaRegistry):
    found = client.produce(
        "/topics/avro",
        [{"key": "k", "value": {"id": 1, "note": {"string": "n"}}}, {"key": None, "value": None}],
        "avro",
        key_schema='"string"',
        value_schema=AVRO,
    )
    key_id, value_id = found["key_schema_id"], found["value_schema_id"]
    again = client.produce(
        "/topics/avro", [{"value": {"id": 2, "note": None}}], "avro", value_schema_id=value_id
    )
    assert (again["key_schema_id"], again["value_schema_id"]) == (None, value_id)
    theirs = SchemaRegistryClient({"url": registry.url})
    assert theirs.get_latest_version("avro-value").schema_id == value_id
    assert theirs.get_latest_version("avro-key").schema_id == key_id
    first, tombstone, second = read_all(address, "avro", 3)
    decode = AvroDeserializer(theirs)
    value = SerializationContext("avro", MessageField.VALUE)
    assert decode(first.value(), value) == {"id": 1, "note": "n"}
    assert decode(first.key(), SerializationContext("avro", MessageField.KEY)) == "k"
    assert (tombstone.key(), tombstone.value()) == (None, None)
    assert decode(second.value(), value) == {"id": 2, "note": None}
    producer = Producer({"bootstrap.servers": address})
    producer.produce("avro", AvroSerializer(theirs, AVRO_2)({"id": 3, "more": 8, "note": None}, value))
    producer.flush()
    with V2Instance(client, "reads-avro", "avro") as instance:
        instance.subscribe("avro")
        assert [(each["key"], each["value"]) for each in instance.read_until(4)] == [
            ("k", {"id": 1, "note": {"string": "n"}}),
            (None, None),
            (None, {"id": 2, "note": None}),
            (None, {"more": 8, "id": 3, "note": None}),
        ]


def test_json_schema_both_ways(client: V2Client, address: str, registry: SchemaRegistry):
    client.produce("/topics/json-schema", [{"value": {"id": 1}}], "jsonschema", value_schema=JSON)
    theirs = SchemaRegistryClient({"url": registry.url})
    value = SerializationContext("json-schema", MessageField.VALUE)
    (first,) = read_all(address, "json-schema", 1)
    assert JSONDeserializer(JSON, schema_registry_client=theirs)(first.value(), value) == {"id": 1}
    producer = Producer({"bootstrap.servers": address})
    producer.produce("json-schema", JSONSerializer(JSON, theirs)({"id": 2}, value))
    producer.flush()
    with V2Instance(client, "reads-json-schema", "jsonschema") as instance:
        instance.subscribe("json-schema")
        assert [each["value"] for each in instance.read_until(2)] == [{"id": 1}, {"id": 2}]


def test_protobuf_both_ways(client: V2Client, address: str):
    found = client.produce("/topics/protobuf", [{"value": {"x": "one"}}], "protobuf", value_schema=PROTOBUF)
    (first,) = read_all(address, "protobuf", 1)
    schema_id = found["value_schema_id"]
    assert first.value() == b"\0" + schema_id.to_bytes(4, "big") + b"\0" + b"\x0a\x03one"
    producer = Producer({"bootstrap.servers": address})
    # The second message of the file: one index, 1, as a zigzag varint.
    producer.produce("protobuf", b"\0" + schema_id.to_bytes(4, "big") + b"\x02\x02" + b"\x08\x05")
    producer.flush()
    with V2Instance(client, "reads-protobuf", "protobuf") as instance:
        instance.subscribe("protobuf")
        assert [each["value"] for each in instance.read_until(2)] == [{"x": "one"}, {"id": "5"}]


@pytest.mark.parametrize(
    ("format_name", "body", "status", "code", "message"),
    [
        ("avro", {"records": [{"key": 1}]}, 422, 42201, "includes keys but does not include key schema"),
        (
            "avro",
            {"records": [{"value": 1}]},
            422,
            42202,
            "includes values but does not include value schema",
        ),
        ("avro", {"records": [{"value": {"id": "x"}}], "value_schema": AVRO}, 422, 42203, "id"),
        ("jsonschema", {"records": [{"value": {}}], "value_schema": JSON}, 422, 42203, "'id' is a required"),
        ("protobuf", {"records": [{"value": {"z": 1}}], "value_schema": PROTOBUF}, 422, 42203, "z"),
        ("avro", {"records": [{"value": 1}], "value_schema": "{"}, 422, 42205, "Invalid schema"),
        ("protobuf", {"records": [{"value": 1}], "value_schema": "message"}, 422, 42205, "Invalid schema"),
        ("avro", {"records": [{"value": 1}], "value_schema_id": 99999}, 422, 42207, "schemaId = 99999"),
        ("avro", {"records": [{"value": 1}], "value_schema": 5}, 422, 422, "value_schema must be text"),
    ],
)
def test_what_is_refused(client: V2Client, format_name: str, body: Any, status: int, code: int, message: str):
    headers = {"Content-Type": embedded(format_name)}
    found = client.refused("POST", f"/topics/refused-{format_name}", body, headers=headers)
    assert found[:2] == (status, code), found
    assert message in found[2]


def test_a_schema_that_is_not_compatible_is_refused_and_nothing_written(
    client: V2Client, registry: SchemaRegistry
):
    client.produce("/topics/strict", [{"value": {"id": 1, "note": None}}], "avro", value_schema=AVRO)
    other = AVRO.replace('"type": "long"', '"type": "string"')
    body = {"records": [{"value": {"id": "x", "note": None}}], "value_schema": other}
    found = client.refused("POST", "/topics/strict", body, headers={"Content-Type": embedded("avro")})
    assert found[:2] == (422, 42207)
    assert client.get("/topics/strict/partitions/0/offsets")["end_offset"] == 1


def test_a_schema_of_another_language_or_subject(client: V2Client, registry: SchemaRegistry):
    posted = httpx.post(
        f"{registry.url}/subjects/elsewhere-value/versions",
        json={"schema": JSON, "schemaType": "JSON"},
        timeout=60,
    ).json()
    body = {"records": [{"value": {"id": 1}}], "value_schema_id": posted["id"]}
    found = client.refused("POST", "/topics/elsewhere", body, headers={"Content-Type": embedded("avro")})
    assert found[:2] == (422, 42206)
    found = client.refused("POST", "/topics/here", body, headers={"Content-Type": embedded("jsonschema")})
    assert found[:2] == (422, 42207)
    assert "not registered in subject here-value" in found[2]


def test_records_without_a_schema_name_their_place(client: V2Client):
    client.produce("/topics/plain", [{"value": 1}])
    with V2Instance(client, "reads-plain", "avro") as instance:
        instance.assign(("plain", 0))
        found = client.refused("GET", f"{instance.path}/records", headers={"Accept": embedded("avro")})
        while "offset 0 of plain-0" not in found[2]:
            found = client.refused("GET", f"{instance.path}/records", headers={"Accept": embedded("avro")})
        assert found[:2] == (500, 50002)
        instance.post("positions", {"offsets": [{"topic": "plain", "partition": 0, "offset": 1}]})
        assert instance.read(timeout=50) == []
