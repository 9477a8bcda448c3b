"""Records with a schema through a real broker and registry: the format "moldau" both ways, tables, apps that
restart, and Confluent's own serializers on the other side.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from moldau.schemas.schema import SchemaText, SchemaType
from moldau.streams import App, StreamsError
from moldau.testing import Broker
from pyspark_moldau.registries import Registry, opened

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CARRIER = {"name": "carrier", "type": "string"}
DELAY = {"name": "dep_delay", "type": ["null", "double"], "default": None}
GATE = {"name": "gate", "type": "string", "default": "?"}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker with a registry in its process."""
    with Broker(process=True, services=("registry",)) as running:
        yield running


@pytest.fixture
def url(broker: Broker) -> str:
    return broker.registry_url


@pytest.fixture
def registry(url: str) -> Registry:
    return opened({"schema.registry.url": url})


def flight(*fields: dict[str, Any]) -> SchemaText:
    return SchemaText(SchemaType.AVRO, json.dumps({"type": "record", "name": "Flight", "fields": fields}))


Value = bytes | dict[str, Any] | None


def send(broker: Broker, topic: str, *records: tuple[str, Value], schema: SchemaText | None = None) -> None:
    """Bytes as they are, dicts by Confluent's serializer, which registers the schema."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    serialize = None
    if schema is not None:
        client = SchemaRegistryClient({"url": broker.registry_url})
        serialize = AvroSerializer(client, schema.text)
    for key, value in records:
        if isinstance(value, dict):
            assert serialize is not None
            value = serialize(value, SerializationContext(topic, MessageField.VALUE))
        producer.produce(topic, value, key)
    assert producer.flush(60) == 0


def read(spark: SparkSession, broker: Broker, topic: str, **options: str) -> DataFrame:
    named = {name.replace("_", "."): text for name, text in options.items()}
    needed = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": topic}
    return spark.read.format("moldau").options(**needed, **named).load()


def test_rows_are_written_and_read_by_their_schema(
    spark: SparkSession, broker: Broker, topic: str, url: str, registry: Registry
) -> None:
    rows = spark.sql(
        "SELECT id, named_struct('at', timestamp'2013-01-01 05:00:00Z', 'tags', array('a', NULL),"
        " 'by', map('k', id), 'price', cast(id AS decimal(9, 2)), 'day', date'2013-01-01') AS inner"
        " FROM range(1000)"
    ).selectExpr("named_struct('id', id) AS key", "struct(id, inner) AS value")
    options = {"schema.registry.url": url, "value.format": "avro", "key.format": "avro"}
    write = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": topic, **options}
    broker.create_topic(topic, 2)
    rows.write.format("moldau").options(**write).mode("append").save()
    registered = json.loads(registry.latest(f"{topic}-value").parsed.canonical)
    assert [field["name"] for field in registered["fields"]] == ["id", "inner"]
    assert json.loads(registry.latest(f"{topic}-key").parsed.canonical)["fields"][0]["name"] == "id"
    back = spark.read.format("moldau").options(
        **{"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": topic, **options}
    )
    found = back.load().selectExpr("key", "value")
    assert sorted(found.collect()) == sorted(rows.collect())

    with pytest.raises(Exception, match=r"make one with struct\("):
        spark.range(1).selectExpr("cast(id AS string) AS value").write.format("moldau").options(
            **{**write, "key.format": "binary"}
        ).mode("append").save()


def test_bad_records_fail_are_dropped_or_shown(
    spark: SparkSession, broker: Broker, topic: str, url: str, registry: Registry
) -> None:
    broker.create_topic(topic, 1)
    send(broker, topic, ("1", {"carrier": "AA"}), ("2", b"AA"), ("3", None), schema=flight(CARRIER))
    options = {"schema.registry.url": url, "value.format": "avro"}
    with pytest.raises(Exception, match=rf"bad record at {topic}-0 offset 1: the value has no schema"):
        read(spark, broker, topic, **options).collect()
    dropped = read(spark, broker, topic, badRecords="drop", **options).select("key", "value.carrier")
    assert [tuple(row) for row in dropped.collect()] == [(b"1", "AA"), (b"3", None)]
    shown = read(spark, broker, topic, includeUndecoded="true", includeHeaders="true", **options)
    bad = shown.filter("undecodedReason IS NOT NULL").collect()
    assert [(row.key, row.value, row.undecodedValue) for row in bad] == [(b"2", None, b"AA")]


def run(broker: Broker, folder: Path, url: str, make: Callable[[App], None], **settings: Any) -> list[str]:
    app = App(
        "schemas",
        bootstrap_servers=broker.bootstrap_servers,
        checkpoints=folder / "checkpoints",
        registry=url,
        **settings,
    )
    make(app)
    said: list[str] = []
    app.run(once=True, say=said.append)
    return said


def test_an_app_goes_on_with_the_newest_schema(
    spark: SparkSession, broker: Broker, topic: str, url: str, registry: Registry, tmp_path: Path
) -> None:
    late, letters, by_carrier = f"{topic}-late", f"{topic}-letters", f"{topic}-by-carrier"
    broker.create_topic(topic, 2)

    def flows(app: App) -> None:
        flights = app.topic(topic, key="carrier", value="avro", dead_letters=letters)

        # Reads what the other flow's schema is registered for only when that is built.
        @app.to(f"{topic}-again", key="carrier", value="avro")
        def again() -> DataFrame:
            return app.topic(late, key="carrier", value="avro").stream()

        @app.to(late, key="carrier", value="avro", partitions=1)
        def late_flights() -> DataFrame:
            names = app.topic(by_carrier, key="carrier", value="avro").table().select("carrier", "n")
            return flights.stream().where("dep_delay > 60").join(names, "carrier", "left")

        @app.table(by_carrier, key="carrier", value="avro", partitions=1)
        def counts() -> DataFrame:
            from pyspark.sql.functions import count, lit

            return flights.stream().groupBy("carrier").agg(count(lit(1)).alias("n"))

    def rows(name: str) -> list[dict[str, Any]]:
        options = {"schema.registry.url": url, "value.format": "avro"}
        return [row.value.asDict() for row in read(spark, broker, name, **options).sort("offset").collect()]

    first = ("AA", {"carrier": "AA", "dep_delay": 91.0})
    on_time = ("UA", {"carrier": "UA", "dep_delay": None})
    send(broker, topic, first, on_time, ("XX", b"{}"), schema=flight(CARRIER, DELAY))
    run(broker, tmp_path, url, flows)
    assert [(row["carrier"], row["dep_delay"]) for row in rows(late)] == [("AA", 91.0)]
    assert sorted((row["carrier"], row["n"]) for row in rows(by_carrier)) == [("AA", 1), ("UA", 1)]
    (letter,) = read(spark, broker, letters, includeHeaders="true").collect()
    assert (bytes(letter.key), bytes(letter.value)) == (b"XX", b"{}")
    headers = {each.key: bytes(each.value) for each in letter.headers}
    assert headers["moldau.error"].startswith(b"the value has no schema: it begins with byte 123")
    assert headers["moldau.offset"].isdigit()

    second = ("DL", {"carrier": "DL", "dep_delay": 91.0, "gate": "C4"})
    send(broker, topic, first, schema=flight(CARRIER, DELAY))
    send(broker, topic, second, schema=flight(CARRIER, DELAY, GATE))
    run(broker, tmp_path, url, flows)
    assert [(row["carrier"], row.get("gate")) for row in rows(late)[1:]] in (
        [("AA", "?"), ("DL", "C4")],
        [("DL", "C4"), ("AA", "?")],
    )
    assert registry.latest(f"{late}-value").version == 2
    # What was written with the older schema is read with the newer one.
    assert rows(late)[0]["gate"] is None

    deserialize = AvroDeserializer(SchemaRegistryClient({"url": url}))
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": topic, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([late])
    (message, *_) = consumer.consume(1, timeout=60)
    consumer.close()
    context = SerializationContext(late, MessageField.VALUE)
    assert deserialize(message.value(), context) == {"carrier": "AA", "dep_delay": 91.0, "n": 1}

    def breaking(app: App) -> None:
        flights = app.topic(topic, key="carrier", value="avro")

        @app.to(late, key="carrier", value="avro", name="late_flights")
        def late_flights() -> DataFrame:
            return flights.stream().selectExpr("carrier", "cast(dep_delay AS string) AS dep_delay")

    with pytest.raises(StreamsError, match=rf"{late}: the schema registry .* refused: .*incompatible"):
        run(broker, tmp_path, url, breaking)


@pytest.mark.parametrize("form", ["json-schema", "protobuf"])
def test_records_of_other_languages_go_through_a_whole_job(
    spark: SparkSession, broker: Broker, topic: str, url: str, tmp_path: Path, form: str
) -> None:
    client = SchemaRegistryClient({"url": url})
    late = f"{topic}-late"
    serialize, make = _serializer(client, form)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for carrier, delay in (("AA", 91.5), ("UA", 3.0), ("DL", 62.0)):
        value = serialize(make(carrier, delay), SerializationContext(topic, MessageField.VALUE))
        producer.produce(topic, value)
    assert producer.flush(60) == 0

    def flows(app: App) -> None:
        flights = app.topic(topic, value=form)  # type: ignore[arg-type]

        @app.to(late, key="carrier", key_format=form, value=form, partitions=1)  # type: ignore[arg-type]
        def late_flights() -> DataFrame:
            return flights.stream().where("dep_delay > 60").selectExpr("*", "dep_delay > 90 AS very")

    run(broker, tmp_path, url, flows)
    options = {"schema.registry.url": url, "value.format": form, "key.format": form}
    rows = read(spark, broker, late, **options).sort("offset").select("key.carrier", "value.*")
    assert rows.columns == ["carrier", "carrier", "dep_delay", "very"]
    assert [tuple(row) for row in rows.collect()] == [("AA", "AA", 91.5, True), ("DL", "DL", 62.0, False)]

    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": topic, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([late])
    messages = consumer.consume(2, timeout=60)
    consumer.close()
    assert len(messages) == 2
    for side, part in ((MessageField.KEY, "key"), (MessageField.VALUE, "value")):
        text = getattr(messages[0], part)()
        found = client.get_latest_version(f"{late}-{part}")
        assert text[:5] == b"\0" + found.schema_id.to_bytes(4, "big")
        if form == "json-schema":
            deserialize = JSONDeserializer(None, schema_registry_client=client)
            assert deserialize(text, SerializationContext(late, side))["carrier"] == "AA"  # type: ignore[index]
        else:
            assert text[5:10] == b"\0\x0a\x02AA"  # the first message of the file, its field 1


def _serializer(client: SchemaRegistryClient, form: str) -> tuple[Any, Callable[[str, float], Any]]:
    """Confluent's serializer, and what makes a value for it."""
    if form == "json-schema":
        number, text = {"type": "number"}, {"type": "string"}
        schema = {"type": "object", "title": "Flight", "properties": {"carrier": text, "dep_delay": number}}
        return JSONSerializer(json.dumps(schema), client), lambda carrier, delay: {
            "carrier": carrier,
            "dep_delay": delay,
        }
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="flight.proto", package="air", syntax="proto3")
    message = file.message_type.add(name="Flight")
    kinds = descriptor_pb2.FieldDescriptorProto
    message.field.add(name="carrier", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    message.field.add(name="dep_delay", number=2, type=kinds.TYPE_DOUBLE, label=kinds.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    made = message_factory.GetMessageClass(pool.FindMessageTypeByName("air.Flight"))
    serializer = ProtobufSerializer(made, client, {"use.deprecated.format": False})
    return serializer, lambda carrier, delay: made(carrier=carrier, dep_delay=delay)


def test_a_missing_schema_is_said_before_java_starts(
    broker: Broker, topic: str, url: str, tmp_path: Path
) -> None:
    def flows(app: App) -> None:
        flights = app.topic(topic, value="avro")

        @app.to(f"{topic}-copy")
        def copy() -> DataFrame:
            return flights.stream()

    with pytest.raises(StreamsError, match=rf"topic {topic}: .* refused: Subject '{topic}-value' not found"):
        run(broker, tmp_path, url, flows)
    with pytest.raises(StreamsError, match=rf"topic {topic}: .*cannot be reached"):
        run(broker, tmp_path, "http://127.0.0.1:1", flows, options={"schema.registry.max.retries": "0"})
