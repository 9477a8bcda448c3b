"""confluent-kafka's SchemaRegistryClient, all its calls, and its three serializers, on our registry."""

import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import (
    ConfigCompatibilityLevel,
    Metadata,
    MetadataProperties,
    Rule,
    RuleKind,
    RuleMode,
    RuleParams,
    RuleSet,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    ServerConfig,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from registry_clients import AVRO_1, AVRO_2, AVRO_UNFIT, JSON_1, ORDER, PROTO_1

from moldau.testing import SchemaRegistry


@pytest.fixture(scope="module")
def registry(bootstrap: str) -> Iterator[SchemaRegistry]:
    with SchemaRegistry(bootstrap, {"kafkastore.topic": "_schemas_confluent"}) as running:
        yield running


@pytest.fixture
def client(registry: SchemaRegistry) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url}) as opened:
        yield opened


def refused(call: Any, *args: Any, **rest: Any) -> tuple[int, int]:
    """The status and the error code with which a call is refused."""
    with pytest.raises(SchemaRegistryError) as problem:
        call(*args, **rest)
    return problem.value.http_status_code, problem.value.error_code


def test_register_look_up_and_read(client: SchemaRegistryClient) -> None:
    first = client.register_schema("calls-value", Schema(AVRO_1, "AVRO"))
    second = client.register_schema_full_response("calls-value", Schema(AVRO_2, "AVRO"))
    assert second.schema_id > first
    assert (second.version, second.subject) == (2, "calls-value")
    assert second.guid
    assert client.register_schema("calls-value", Schema(AVRO_1, "AVRO")) == first
    assert client.lookup_schema("calls-value", Schema(AVRO_1, "AVRO")).version == 1
    assert client.get_schema(first).schema_str.replace(" ", "") == AVRO_1.replace(" ", "")
    assert json.loads(client.get_schema_by_guid(second.guid).schema_str or "") == json.loads(AVRO_2)
    assert client.get_latest_version("calls-value").schema_id == second.schema_id
    assert client.get_version("calls-value", 1).schema_id == first
    assert client.get_versions("calls-value") == [1, 2]
    assert "calls-value" in client.get_subjects()
    assert client.get_subjects(subject_prefix="calls-") == ["calls-value"]
    assert client.get_subjects_by_schema_id(first) == ["calls-value"]
    assert [(each.subject, each.version) for each in client.get_schema_versions(first)] == [
        ("calls-value", 1)
    ]
    assert set(client.get_schema_types()) == {"AVRO", "JSON", "PROTOBUF"}
    assert "." in client.get_contexts()
    assert client.get_associations_by_resource_name("calls", "-") == []


def test_compatibility(client: SchemaRegistryClient) -> None:
    client.register_schema("fits-value", Schema(AVRO_1, "AVRO"))
    assert client.test_compatibility("fits-value", Schema(AVRO_2, "AVRO"))
    assert not client.test_compatibility("fits-value", Schema(AVRO_UNFIT, "AVRO"))
    assert not client.test_compatibility_all_versions("fits-value", Schema(AVRO_UNFIT, "AVRO"))
    assert refused(client.register_schema, "fits-value", Schema(AVRO_UNFIT, "AVRO")) == (409, 409)
    client.set_compatibility("fits-value", "NONE")
    assert client.get_compatibility("fits-value") == "NONE"
    assert client.register_schema("fits-value", Schema(AVRO_UNFIT, "AVRO"))


def test_settings_and_modes(client: SchemaRegistryClient) -> None:
    assert client.get_compatibility() == "BACKWARD"
    config = ServerConfig(compatibility=ConfigCompatibilityLevel.FULL, compatibility_group="major")
    assert client.set_config("set-value", config)["compatibility"] == "FULL"
    found = client.get_config("set-value")
    assert found.compatibility_group == "major"
    client.delete_config("set-value")
    assert refused(client.get_config, "set-value") == (404, 40408)
    assert client.get_global_mode() == "READWRITE"
    assert client.update_mode("set-value", "READONLY") == "READONLY"
    assert client.get_mode("set-value") == "READONLY"
    assert refused(client.register_schema, "set-value", Schema(AVRO_1, "AVRO")) == (422, 42205)
    client.delete_mode("set-value")
    assert refused(client.get_mode, "set-value") == (404, 40409)
    assert client.update_global_mode("READWRITE") == "READWRITE"


def test_deletion(client: SchemaRegistryClient) -> None:
    schema_id = client.register_schema("gone-value", Schema(AVRO_1, "AVRO"))
    client.register_schema("gone-value", Schema(AVRO_2, "AVRO"))
    assert refused(client.delete_version, "gone-value", 1, permanent=True) == (404, 40407)
    assert client.delete_version("gone-value", 1) == 1
    assert client.get_versions("gone-value") == [2]
    assert client.get_version("gone-value", 1, deleted=True).version == 1
    assert client.delete_subject("gone-value") == [2]
    assert client.get_subjects(subject_prefix="gone-") == []
    assert client.get_subjects(subject_prefix="gone-", deleted=True) == ["gone-value"]
    assert client.get_schema(schema_id, "gone-value").schema_str
    assert client.delete_subject("gone-value", permanent=True) == [1, 2]
    assert refused(client.get_latest_version, "gone-value") == (404, 40401)


def test_references(client: SchemaRegistryClient) -> None:
    money = 'syntax = "proto3";\npackage shop;\nmessage Money { int64 cents = 1; }\n'
    order = 'syntax = "proto3";\nimport "money.proto";\nmessage Bill { shop.Money sum = 1; }\n'
    client.register_schema("money-value", Schema(money, "PROTOBUF"))
    reference = SchemaReference("money.proto", "money-value", 1)
    schema_id = client.register_schema("bill-value", Schema(order, "PROTOBUF", [reference]))
    assert client.get_schema(schema_id).references == [reference]
    assert client.get_referenced_by("money-value", 1) == [schema_id]
    assert refused(client.delete_version, "money-value", 1) == (422, 42206)


def test_rules_and_metadata_come_back_as_they_were(client: SchemaRegistryClient) -> None:
    rule = Rule(
        "check", "an id is positive", RuleKind.CONDITION, RuleMode.WRITE, "CEL", ["PII"],
        RuleParams({"a": "b"}), "message.id > 0", None, "ERROR", False,
    )  # fmt: skip
    metadata = Metadata(None, MetadataProperties({"owner": "x"}), None)
    schema = Schema(AVRO_1, "AVRO", [], metadata, RuleSet(None, [rule], None))
    schema_id = client.register_schema("rules-value", schema)
    found = client.get_schema(schema_id, "rules-value")
    assert found.metadata is not None
    assert found.metadata.properties == metadata.properties
    assert found.rule_set is not None
    assert found.rule_set.domain_rules == [rule]
    plain = client.register_schema("rules-value", Schema(AVRO_2, "AVRO"))
    assert client.get_latest_with_metadata("rules-value", {"owner": "x"}).schema_id in (schema_id, plain)
    assert refused(client.get_latest_with_metadata, "rules-value", {"owner": "nobody"})[0] == 404


def test_contexts(client: SchemaRegistryClient) -> None:
    schema_id = client.register_schema(":.team:orders-value", Schema(AVRO_1, "AVRO"))
    assert ".team" in client.get_contexts()
    assert client.get_schema(schema_id, ":.team:orders-value").schema_str
    assert client.get_latest_version(":.team:orders-value").subject == ":.team:orders-value"


def _message_class() -> Any:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    message = file.message_type.add(name="Order")
    kinds = descriptor_pb2.FieldDescriptorProto
    message.field.add(name="id", number=1, type=kinds.TYPE_INT64, label=kinds.LABEL_OPTIONAL)
    message.field.add(name="item", number=2, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def _coders(client: SchemaRegistryClient, language: str) -> tuple[Any, Any, Any]:
    """A serializer, a deserializer and a value."""
    if language == "avro":
        return AvroSerializer(client, AVRO_1), AvroDeserializer(client), ORDER
    if language == "json":
        return JSONSerializer(JSON_1, client), JSONDeserializer(JSON_1, schema_registry_client=client), ORDER
    kind = _message_class()
    conf = {"use.deprecated.format": False}
    return (
        ProtobufSerializer(kind, client, conf),
        ProtobufDeserializer(kind, conf, client),
        kind(id=7, item="tea"),
    )


@pytest.mark.parametrize("language", ["avro", "json", "protobuf"])
def test_serializers_round_trip_through_the_broker(
    client: SchemaRegistryClient, bootstrap: str, language: str
) -> None:
    topic = f"registry-{language}"
    serialize, deserialize, value = _coders(client, language)
    context = SerializationContext(topic, MessageField.VALUE)
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, serialize(value, context))
    assert producer.flush(60) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        message = None
        while message is None:
            message = consumer.poll(1.0)
        assert message.error() is None
        data = message.value()
        assert data is not None
        assert deserialize(data, context) == value
        registered = client.get_latest_version(f"{topic}-value")
        assert data[:5] == b"\0" + registered.schema_id.to_bytes(4, "big")
    finally:
        consumer.close()


def test_a_reader_with_a_newer_schema(client: SchemaRegistryClient) -> None:
    context = SerializationContext("evolves", MessageField.VALUE)
    written = AvroSerializer(client, AVRO_1)(ORDER, context)
    AvroSerializer(client, AVRO_2)({**ORDER, "note": "x"}, context)
    assert AvroDeserializer(client, AVRO_2)(written, context) == {**ORDER, "note": "none"}
    assert client.get_versions("evolves-value") == [1, 2]


def test_a_schema_that_protobuf_prints_again_is_the_same(client: SchemaRegistryClient) -> None:
    first = client.register_schema("printed-value", Schema(PROTO_1, "PROTOBUF"))
    printed = client.get_schema(first).schema_str
    assert client.register_schema("printed-value", Schema(printed, "PROTOBUF")) == first
    assert io.StringIO(printed).readline() == 'syntax = "proto3";\n'
