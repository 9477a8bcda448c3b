"""Records with a schema through a real broker: the format "moldau" both ways, tables, apps that restart."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from moldau.schemas.folder_registry import FolderRegistry
from moldau.schemas.schema import SchemaText, SchemaType
from moldau.streams import App, StreamsError
from moldau.testing import Broker
from pyspark_moldau.registries import opened

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CARRIER = {"name": "carrier", "type": "string"}
DELAY = {"name": "dep_delay", "type": ["null", "double"], "default": None}
GATE = {"name": "gate", "type": "string", "default": "?"}


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"folder:{tmp_path / 'registry'}"


@pytest.fixture
def registry(url: str) -> FolderRegistry:
    found = opened({"schema.registry.url": url})
    assert isinstance(found, FolderRegistry)
    return found


def flight(*fields: dict[str, Any]) -> SchemaText:
    return SchemaText(SchemaType.AVRO, json.dumps({"type": "record", "name": "Flight", "fields": fields}))


def send(broker: Broker, topic: str, records: list[tuple[bytes | None, bytes | None]]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for key, value in records:
        producer.produce(topic, value, key)
    assert producer.flush(60) == 0


def read(spark: SparkSession, broker: Broker, topic: str, **options: str) -> DataFrame:
    named = {name.replace("_", "."): text for name, text in options.items()}
    needed = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": topic}
    return spark.read.format("moldau").options(**needed, **named).load()


def test_rows_are_written_and_read_by_their_schema(
    spark: SparkSession, broker: Broker, topic: str, url: str, registry: FolderRegistry
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
    spark: SparkSession, broker: Broker, topic: str, url: str, registry: FolderRegistry
) -> None:
    registry.register(f"{topic}-value", flight(CARRIER))
    broker.create_topic(topic, 1)
    send(broker, topic, [(b"1", b"\0\0\0\0\1\4AA"), (b"2", b"AA"), (b"3", None)])
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
    spark: SparkSession, broker: Broker, topic: str, url: str, registry: FolderRegistry, tmp_path: Path
) -> None:
    late, letters, by_carrier = f"{topic}-late", f"{topic}-letters", f"{topic}-by-carrier"
    broker.create_topic(topic, 2)
    registry.register(f"{topic}-value", flight(CARRIER, DELAY))

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

    first = b"\0\0\0\0\1\4AA\2" + bytes.fromhex("0000000000c05640")  # 91.0
    send(broker, topic, [(b"AA", first), (b"UA", b"\0\0\0\0\1\4UA\0"), (b"XX", b"{}")])
    run(broker, tmp_path, url, flows)
    assert [(row["carrier"], row["dep_delay"]) for row in rows(late)] == [("AA", 91.0)]
    assert sorted((row["carrier"], row["n"]) for row in rows(by_carrier)) == [("AA", 1), ("UA", 1)]
    (letter,) = read(spark, broker, letters, includeHeaders="true").collect()
    assert (bytes(letter.key), bytes(letter.value)) == (b"XX", b"{}")
    headers = {each.key: bytes(each.value) for each in letter.headers}
    assert headers["moldau.error"].startswith(b"the value has no schema: it begins with byte 123")
    assert headers["moldau.offset"].isdigit()

    registry.register(f"{topic}-value", flight(CARRIER, DELAY, GATE))
    second_id = registry.latest(f"{topic}-value").id
    second = bytes([0, 0, 0, 0, second_id]) + b"\4DL\2" + bytes.fromhex("0000000000c05640") + b"\4C4"
    send(broker, topic, [(b"AA", first), (b"DL", second)])
    run(broker, tmp_path, url, flows)
    assert [(row["carrier"], row.get("gate")) for row in rows(late)[1:]] in (
        [("AA", "?"), ("DL", "C4")],
        [("DL", "C4"), ("AA", "?")],
    )
    assert registry.latest(f"{late}-value").version == 2
    # What was written with the older schema is read with the newer one.
    assert rows(late)[0]["gate"] is None

    registry.register("other", flight(CARRIER))

    def breaking(app: App) -> None:
        flights = app.topic(topic, key="carrier", value="avro")

        @app.to(late, key="carrier", value="avro", name="late_flights")
        def late_flights() -> DataFrame:
            return flights.stream().selectExpr("carrier", "cast(dep_delay AS string) AS dep_delay")

    with pytest.raises(StreamsError, match=rf"{late}: the schema cannot read the newest of '{late}-value'"):
        run(broker, tmp_path, url, breaking)


def test_a_missing_schema_is_said_before_java_starts(
    broker: Broker, topic: str, url: str, tmp_path: Path
) -> None:
    def flows(app: App) -> None:
        flights = app.topic(topic, value="avro")

        @app.to(f"{topic}-copy")
        def copy() -> DataFrame:
            return flights.stream()

    with pytest.raises(StreamsError, match=rf"topic {topic}: .*no subject '{topic}-value'"):
        run(broker, tmp_path, url, flows)
    with pytest.raises(StreamsError, match=rf"topic {topic}: .*cannot be reached"):
        run(broker, tmp_path, "http://127.0.0.1:1", flows, options={"schema.registry.max.retries": "0"})
