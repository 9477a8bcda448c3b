"""Records with schemas through v3: written and read in every language, with a registry beside."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from rest_v3_client import V3Client, check_object, rest_proxy

from moldau.testing import Broker
from moldau.testing.schema_registry import SchemaRegistry

pytestmark = pytest.mark.client

AVRO = json.dumps(
    {
        "type": "record",
        "name": "Level",
        "namespace": "river",
        "fields": [
            {"name": "city", "type": "string"},
            {"name": "cm", "type": ["null", "int"], "default": None},
        ],
    }
)
JSON = json.dumps({"title": "Level", "type": "object", "properties": {"cm": {"type": "integer"}}})
PROTOBUF = 'syntax = "proto3"; package river; message Level { string city = 1; int32 cm = 2; }'
LANGUAGES = {
    "AVRO": (AVRO, {"city": "Praha", "cm": {"int": 98}}, {"city": "Praha", "cm": 98}),
    "JSONSCHEMA": (JSON, {"cm": 98}, {"cm": "much"}),
    "PROTOBUF": (PROTOBUF, {"city": "Praha", "cm": 98}, {"city": 7}),
}
"""By type: a schema, a value of it, and one that is none."""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture(scope="module")
def registry(broker: Broker) -> Iterator[SchemaRegistry]:
    with SchemaRegistry(broker) as running:
        yield running


@pytest.fixture(scope="module")
def client(broker: Broker, registry: SchemaRegistry) -> Iterator[V3Client]:
    with rest_proxy(broker.bootstrap_servers, **{"schema.registry.url": registry.url}) as url:
        yield V3Client(url)


def produce(client: V3Client, topic: str, *records: Any) -> list[dict[str, Any]]:
    content = b"".join(json.dumps(each).encode() for each in records)
    response = client.ask("POST", f"/topics/{topic}/records", content=content)
    answers = [json.loads(line) for line in response.text.splitlines()]
    for each in answers:
        check_object("ProduceResponse", each)
    return answers


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_schema_in_the_request_is_registered_and_its_values_are_read_back(
    client: V3Client, registry: SchemaRegistry, language: str
) -> None:
    schema, value, wrong = LANGUAGES[language]
    topic = f"levels-{language}"
    client.create(topic)
    given = {"type": language, "schema": schema}
    good, bad, null = produce(
        client,
        topic,
        {"value": {**given, "data": value}},
        {"value": {**given, "data": wrong}},
        {"value": {**given, "data": None}},
    )
    assert good["value"]["type"] == language
    assert (good["value"]["subject"], good["value"]["schema_version"]) == (f"{topic}-value", 1)
    assert bad["error_code"] == 400
    assert null["value"]["size"] == 0
    known = SchemaRegistryClient({"url": registry.url}).get_latest_version(f"{topic}-value")
    assert known.schema_id == good["value"]["schema_id"]
    page = client.get(f"/topics/{topic}/records", params={"value_format": language.lower()})
    first, second = page["data"]
    assert first["value"] == {"type": language, "schema_id": known.schema_id, "data": value}
    assert second["value"] is None
    shown = client.get(f"/topics/{topic}/records", params={"value_format": "schema"})["data"]
    assert shown == page["data"]
    other = "json" if language != "JSONSCHEMA" else "avro"
    odd = client.get(f"/topics/{topic}/records", params={"value_format": other})["data"][0]["value"]
    assert odd["type"] == "BINARY"
    assert odd["error"]


def test_a_schema_is_chosen_by_id_by_version_or_is_the_newest(
    client: V3Client, registry: SchemaRegistry
) -> None:
    client.create("chosen")
    known = SchemaRegistryClient({"url": registry.url})
    first_id = known.register_schema("chosen-value", Schema(AVRO, "AVRO"))
    evolved = json.loads(AVRO)
    evolved["fields"].append({"name": "station", "type": "string", "default": ""})
    second_id = known.register_schema("chosen-value", Schema(json.dumps(evolved), "AVRO"))
    known.register_schema("chosen-key", Schema('"string"', "AVRO"))
    old = {"city": "Praha", "cm": None}
    answers = produce(
        client,
        "chosen",
        {"value": {"schema_id": first_id, "data": old}},
        {"value": {"schema_version": 2, "data": {**old, "station": "Vraňany"}}},
        {"key": {"data": "k"}, "value": {"data": {**old, "station": "Mělník"}}},
        {"value": {"subject": "chosen-value", "schema_version": 1, "data": old}},
        {"value": {"subject_name_strategy": "TOPIC_NAME", "schema_id": first_id, "data": old}},
    )
    assert [each["error_code"] for each in answers] == [200] * 5
    assert [(each["value"]["schema_id"], each["value"]["schema_version"]) for each in answers] == [
        (first_id, 1),
        (second_id, 2),
        (second_id, 2),
        (first_id, 1),
        (first_id, 1),
    ]
    assert answers[2]["key"]["subject"] == "chosen-key"


@pytest.mark.parametrize(
    ("value", "error_code"),
    [
        ({"schema_id": 99_999, "data": 1}, 42207),
        ({"schema_version": 99, "data": 1}, 42207),
        ({"subject": "none", "data": 1}, 42207),
        ({"data": 1}, 42207),
        ({"type": "AVRO", "schema": "{", "data": 1}, 42205),
        ({"schema": AVRO, "data": 1}, 42206),
        ({"type": "AVRO", "schema": AVRO, "schema_id": 1, "data": 1}, 42206),
        ({"type": "AVRO", "schema": AVRO, "subject": "a", "subject_name_strategy": "TOPIC_NAME"}, 42206),
        ({"subject_name_strategy": "RECORD_NAME", "data": 1}, 42206),
        ({"subject_name_strategy": "FLY", "schema_id": 1, "data": 1}, 42206),
    ],
)
def test_a_schema_that_cannot_be_used(client: V3Client, value: dict[str, Any], error_code: int) -> None:
    if client.http.get(client.base + "/topics/unusable").status_code == 404:
        client.create("unusable")
    (answer,) = produce(client, "unusable", {"value": value})
    assert answer["error_code"] == error_code


def test_the_subject_is_the_records_name_where_that_is_asked_for(client: V3Client) -> None:
    client.create("named")
    given = {"type": "AVRO", "schema": AVRO, "data": {"city": "Praha", "cm": None}}
    answers = produce(
        client,
        "named",
        {"value": {**given, "subject_name_strategy": "RECORD_NAME"}},
        {"value": {**given, "subject_name_strategy": "TOPIC_RECORD_NAME"}},
        {"value": {**given, "subject": "mine"}},
    )
    assert [each["value"]["subject"] for each in answers] == ["river.Level", "named-river.Level", "mine"]


def test_who_may_write_a_topic_may_not_register_in_any_subject(
    broker: Broker, registry: SchemaRegistry, tmp_path: Path
) -> None:
    rights = "* read,write,configure topic:*\n* write subject:mine-*\n* read cluster:*\n"
    (tmp_path / "rights").write_text(rights)
    settings = {"schema.registry.url": registry.url, "moldau.http.rights.file": str(tmp_path / "rights")}
    with rest_proxy(broker.bootstrap_servers, **settings) as url:
        writer = V3Client(url)
        writer.create("limited")
        value = {"type": "AVRO", "schema": '"long"', "data": 1}
        codes = [
            produce(writer, "limited", {"value": {**value, **more}})[0]["error_code"]
            for more in (
                {"subject": "somebody-elses"},
                {"subject": "mine-own"},
                {},
                {"subject": "limited-value"},
            )
        ]
    assert codes == [40301, 200, 200, 200]
    known = SchemaRegistryClient({"url": registry.url}).get_subjects()
    assert "somebody-elses" not in known
    assert {"mine-own", "limited-value"} <= set(known)
