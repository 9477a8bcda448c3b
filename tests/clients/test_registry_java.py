"""Confluent's Java client and its Avro and Protobuf serializers on our registry; we read what they write."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from client_agents import java_missing
from confluent_java import java_confluent
from confluent_kafka import Consumer, TopicPartition

from moldau.schemas.registry_client import RegistryClient
from moldau.schemas.serde import serde_for
from moldau.schemas.wire import unpack
from moldau.testing import SchemaRegistry

SOURCES = Path(__file__).parent / "java" / "registry"
ORDER = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'
ANSWERS = {
    "again": "true",
    "by id": ORDER,
    "version": "1",
    "id": "true",
    "latest": ORDER,
    "type": "AVRO",
    "versions": "[1]",
    "subjects by id": "[java-value]",
    "has subject": "true",
    "fits": "false",
    "verbose": "true",
    "unfit": "409/409",
    "level": "404/40408",
    "set level": "FULL",
    "level then": "FULL",
    "mode": "READWRITE",
    "set mode": "READONLY",
    "read-only": "422/42205",
    "mode back": "READWRITE",
    "deleted version": "1",
    "permanently": "1",
    "gone": "404/40401",
    "deleted subject": "[1]",
    "subject permanently": "[1]",
    "no subject": "404/40401",
    "references": "1",
    "same": "true",
    "protected": "422/42206",
    "avro": '{"id": 7}',
    "protobuf": "me",
}


@pytest.fixture(scope="module")
def registry(bootstrap: str) -> Iterator[SchemaRegistry]:
    with SchemaRegistry(bootstrap, {"kafkastore.topic": "_schemas_java"}) as running:
        yield running


@pytest.fixture(scope="module")
def answers(registry: SchemaRegistry, bootstrap: str) -> dict[str, str]:
    """What the Java program says."""
    if missing := java_missing():
        pytest.skip(missing)
    try:
        command = java_confluent(SOURCES, "RegistryRoundTrip")
    except RuntimeError as missing_jars:
        pytest.skip(str(missing_jars))
    done = subprocess.run(
        [*command, registry.url, bootstrap], check=False, capture_output=True, text=True, timeout=110
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)


def test_every_call_is_answered_as_by_confluents_registry(answers: dict[str, str]) -> None:
    assert answers == ANSWERS


@pytest.mark.parametrize(("topic", "value"), [("java-avro", {"id": 7}), ("java-protobuf", {"to": "me"})])
def test_what_java_writes_is_read_here(
    answers: dict[str, str], registry: SchemaRegistry, bootstrap: str, topic: str, value: object
) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        message = None
        while message is None:
            message = consumer.poll(1.0)
        data = message.value()
        assert data is not None
        framed = unpack(data, with_indexes=topic.endswith("protobuf"))
        parsed = RegistryClient({"schema.registry.url": registry.url}).by_id_or_guid(framed[0])
        decoded = serde_for(parsed).to_json(data[framed[2] :])
        assert {name: decoded[name] for name in value} == value  # type: ignore[attr-defined]
    finally:
        consumer.close()
