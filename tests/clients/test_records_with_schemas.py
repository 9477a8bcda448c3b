"""consume, produce and Confluent's console tools with a real broker and registry, as a person runs them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from moldau.testing.schema_registry import SchemaRegistry

Run = Callable[..., subprocess.CompletedProcess[bytes]]

AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"], "default": None}],
}
PROTO = 'syntax = "proto3"; message Order { int64 id = 1; Note note = 2; message Note { string text = 1; } }'
JSON_SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}


@pytest.fixture(scope="module")
def registry(bootstrap: str) -> Iterator[SchemaRegistry]:
    with SchemaRegistry(bootstrap) as running:
        yield running


@pytest.fixture
def run(bootstrap: str) -> Run:
    """Runs a command (or a tool of Kafka's bin folder); `code` is the exit code that is expected."""

    def run(*words: str, data: bytes = b"", code: int = 0) -> subprocess.CompletedProcess[bytes]:
        is_tool = words[0].startswith("kafka-")
        module = "moldau.tools.kafka" if is_tool else "moldau"
        server = "--bootstrap-server" if is_tool else "-b"
        finished = subprocess.run(
            [sys.executable, "-m", module, *words, server, bootstrap],
            input=data,
            capture_output=True,
            timeout=100,
            check=False,
        )
        assert finished.returncode == code, (finished.stdout + finished.stderr).decode()
        return finished

    return run


def lines(finished: subprocess.CompletedProcess[bytes]) -> list[Any]:
    return [json.loads(line) for line in finished.stdout.splitlines()]


def test_avro_in_and_out(run: Run, topic: str, registry: SchemaRegistry, tmp_path: Path) -> None:
    file = tmp_path / "order.avsc"
    file.write_text(json.dumps(AVRO))
    at = ("--schema-registry", registry.url)
    sent = b'{"id": 1, "note": {"string": "\xc3\xa9"}}\n{"id": 2}\n'
    run("produce", topic, "-q", *at, "--value-schema-file", str(file), "-k", "plain", data=sent)
    # The newest schema of the subject is taken where none is named; keys have one of their own.
    key = ("--key-schema", '"string"', "--key-format", "avro")
    run("produce", topic, "-q", *at, *key, "-K", "|", data=b'"k"|{"id": 3}\n')
    run("produce", topic, "-q", data=b"no schema\n")

    shown = run("consume", topic, "-e", *at, "-f", r"%k %v\n").stdout.decode().splitlines()
    assert sorted(shown) == sorted(
        [
            'plain {"id":1,"note":{"string":"é"}}',
            'plain {"id":2,"note":null}',
            '"k" {"id":3,"note":null}',
            " no schema",
        ]
    )
    rows = lines(run("consume", topic, "-e", "--json", *at))
    ids = {row["value_schema"] for row in rows if "value_schema" in row}
    assert len(ids) == 1
    assert {"id": 3, "note": None} in [row["value"] for row in rows]
    with_ids = run("consume", topic, "-e", *at, "--print-schema-ids").stdout.decode()
    assert f'{{"id":2,"note":null}}\t{ids.pop()}\n' in with_ids
    refused = run("consume", topic, "-e", *at, "--value-format", "avro", code=1).stderr.decode()
    assert "cannot be decoded" in refused
    assert "--value-format raw" in refused
    assert b"no schema" in run("consume", topic, "-e", *at, "--value-format", "raw").stdout


def test_a_value_that_does_not_fit_is_not_sent(run: Run, topic: str, registry: SchemaRegistry) -> None:
    at = ("--schema-registry", registry.url, "--value-schema", json.dumps(AVRO), "--value-format", "avro")
    for data, reason in (
        (b'{"id": "x"}\n', "id: a long is expected"),
        (b'{"id": 1, "colour": 2}\n', "no field 'colour'"),
    ):
        told = run("produce", topic, "-q", *at, data=data, code=1).stderr.decode()
        assert reason in " ".join(told.split())


def test_wrong_calls_say_what_to_type(run: Run, topic: str, registry: SchemaRegistry) -> None:
    at = ("--schema-registry", registry.url)
    for words, code, reason in (
        (("consume", topic, "-e", "--value-format", "avro"), 2, "need --schema-registry"),
        (("produce", topic, *at, "--value-schema", "x"), 2, "--value-format"),
        (("produce", topic, *at), 1, f"{topic}-value"),
        (("produce", topic, *at, "--value-schema", "{", "--value-format", "avro"), 1, "value's schema"),
    ):
        told = run(*words, data=b"{}\n", code=code).stderr.decode()
        assert reason in " ".join(told.split()), words


def test_protobuf_and_json_schema(run: Run, topic: str, registry: SchemaRegistry, tmp_path: Path) -> None:
    file = tmp_path / "order.proto"
    file.write_text(PROTO)
    at = ("--schema-registry", registry.url)
    written = ("produce", topic, "-q", *at, "--value-schema-file", str(file))
    run(*written, data=b'{"id": 1, "note": {"text": "a"}}\n')
    run(*written, "--message", "Order.Note", data=b'{"text": "b"}\n')
    shown = run("consume", topic, "-e", *at, "--value-format", "protobuf").stdout.decode().splitlines()
    assert sorted(shown) == ['{"id":"1","note":{"text":"a"}}', '{"text":"b"}']

    other = f"{topic}-json"
    schema = ("--value-schema", json.dumps(JSON_SCHEMA), "--value-format", "json-schema")
    run("produce", other, "-q", *at, *schema, "--subject-strategy", "topic", data=b'{"id": 4}\n')
    assert run("consume", other, "-e", *at).stdout == b'{"id":4}\n'
    told = run("produce", other, "-q", *at, *schema, data=b"{}\n", code=1).stderr.decode()
    assert "'id' is a required property" in " ".join(told.split())


def test_what_confluents_serializer_wrote_is_shown(
    run: Run, topic: str, registry: SchemaRegistry, bootstrap: str
) -> None:
    from confluent_kafka.schema_registry import header_schema_id_serializer

    client = SchemaRegistryClient({"url": registry.url})
    producer = Producer({"bootstrap.servers": bootstrap})
    for number, conf in enumerate(({}, {"schema.id.serializer": header_schema_id_serializer})):
        serializer = AvroSerializer(client, json.dumps(AVRO), conf=conf)
        headers: list[Any] = []
        context = SerializationContext(topic, MessageField.VALUE, headers)
        producer.produce(topic, serializer({"id": number, "note": "n"}, context), headers=headers)
    assert producer.flush(60) == 0
    at = ("--schema-registry", registry.url)
    rows = lines(run("consume", topic, "-e", "--json", *at))
    assert sorted(row["value"]["id"] for row in rows) == [0, 1]
    assert {type(row["value_schema"]) for row in rows} == {int, str}  # an id, and a GUID in a header


def test_confluents_console_tools(run: Run, topic: str, registry: SchemaRegistry) -> None:
    at = ("--property", f"schema.registry.url={registry.url}")
    for tool, schema, value, shown in (
        ("avro", json.dumps(AVRO), b'{"id": 1, "note": null}', '{"id":1,"note":null}'),
        ("json-schema", json.dumps(JSON_SCHEMA), b'{"id": 1}', '{"id":1}'),
        ("protobuf", PROTO, b'{"id": 1}', '{"id":"1"}'),
    ):
        name = f"{topic}-{tool}"
        keys = ("--property", "parse.key=true", "--property", "key.separator=|")
        own = ("--property", "key.serializer=org.apache.kafka.common.serialization.LongSerializer")
        run(
            f"kafka-{tool}-console-producer", "--topic", name, *at, *keys, *own,
            "--property", f"value.schema={schema}", data=b"7|" + value + b"\n",
        )  # fmt: skip
        printed = run(
            f"kafka-{tool}-console-consumer.sh", "--topic", name, *at, "--from-beginning", "--max-messages",
            "1",
            "--property", "print.key=true", "--property", "print.schema.ids=true", "--property",
            "key.deserializer=org.apache.kafka.common.serialization.LongDeserializer",
        ).stdout.decode()  # fmt: skip
        key, text, schema_id = printed.splitlines()[-1].split("\t")
        assert (key, text) == ("7", shown)
        assert int(schema_id) > 0
    refused = run("kafka-avro-console-producer", "--topic", topic, *at, data=b"1\n", code=1)
    assert b"value.schema" in refused.stderr
    other = run(
        "kafka-protobuf-console-consumer", "--topic", f"{topic}-avro", *at, "--from-beginning",
        "--max-messages", "1", code=1,
    )  # fmt: skip
    assert b"is AVRO, not protobuf" in other.stderr
