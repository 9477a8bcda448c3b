"""Flows that read and write topics with schemas of a registry, without a broker (Harness)."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from moldau.schemas.schema import SchemaText, SchemaType
from moldau.streams import App, AppError, StreamsError
from moldau.streams.testing import Harness, HarnessPlace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def avro(*fields: dict[str, Any], name: str = "Flight") -> str:
    return json.dumps({"type": "record", "name": name, "namespace": "air", "fields": list(fields)})


CARRIER = {"name": "carrier", "type": "string"}
DELAY = {"name": "dep_delay", "type": ["null", "double"], "default": None}
GATE = {"name": "gate", "type": "string", "default": "?"}
HOUR = {"name": "hour", "type": {"type": "long", "logicalType": "timestamp-micros"}, "default": 0}


def test_records_of_all_versions_are_rows_of_the_readers_schema(spark: SparkSession) -> None:
    app = App("versions")
    flights = app.topic("flights", key="carrier", value="avro")
    as_first = app.topic("flights", value="avro", schema=1)

    @app.to("late", key="carrier", value="avro")
    def late() -> DataFrame:
        return flights.stream().where("dep_delay > 60")

    @app.to("pinned")
    def pinned() -> DataFrame:
        return as_first.stream()

    with Harness(app, spark) as harness:
        with pytest.raises(StreamsError, match=r"topic flights: .*no subject 'flights-value'"):
            harness.start()
        assert harness.register("flights", avro(CARRIER, DELAY)) == 1
        assert harness.register("flights", avro(CARRIER, DELAY, GATE)) == 2
        harness.send("flights", {"carrier": "AA", "dep_delay": 90.0}, version=1)
        harness.send("flights", {"carrier": "UA", "dep_delay": 70.0, "gate": "B7"}, {"carrier": "DL"})
        assert harness.rows("late") == [
            {"carrier": "AA", "dep_delay": 90.0, "gate": "?"},
            {"carrier": "UA", "dep_delay": 70.0, "gate": "B7"},
        ]
        assert harness.records("late")[0].key == b"AA"
        # While the flow runs, a newer version is read as the flow's; the next start has its columns.
        assert harness.register("flights", avro(CARRIER, DELAY, GATE, HOUR)) == 3
        noon = datetime(2013, 1, 1, 12, tzinfo=UTC)
        harness.send("flights", {"carrier": "WN", "dep_delay": 61.0, "hour": noon})
        assert harness.rows("late")[2:] == [{"carrier": "WN", "dep_delay": 61.0, "gate": "?"}]
        harness.stop()
        harness.send("flights", {"carrier": "B6", "dep_delay": 62.0, "hour": noon})
        assert harness.rows("late")[3:] == [
            {"carrier": "B6", "dep_delay": 62.0, "gate": "?", "hour": noon},
        ]
        rows = harness.rows("pinned")
        assert [row["carrier"] for row in rows] == ["AA", "UA", "DL", "WN", "B6"]
        assert {tuple(row) for row in rows} == {("carrier", "dep_delay")}


def test_bad_records_are_treated_as_the_topic_says(spark: SparkSession) -> None:
    app = App("bad")

    def flow(bad_records: Any) -> None:
        flights = app.topic("flights", key="carrier", value="avro", bad_records=bad_records)
        app.to(bad_records, key="carrier", name=bad_records)(flights.stream)

    for each in ("null", "drop", "dead-letter"):
        flow(each)
    failing = app.topic("flights", value="avro", bad_records="fail")

    unknown, cut = b"\0\0\0\0\x63\x04AA\0", b"\0\0\0\0\1\x04A"
    with Harness(app, spark) as harness:
        harness.register("flights", avro(CARRIER, DELAY))
        harness.send("flights", {"carrier": "AA", "dep_delay": 1.0}, key="AA")
        for key, value in (("x1", b'{"carrier": "AA"}'), ("x2", unknown), ("x3", cut), ("x4", b"")):
            harness.send("flights", value, key=key, headers={"trace": b"7"})
        harness.send("flights", None, key="UA")  # a tombstone is not bad
        good = [{"carrier": "AA", "dep_delay": 1.0}, {"carrier": "UA", "dep_delay": None}]
        nulls = [{"carrier": f"x{number}", "dep_delay": None} for number in (1, 2, 3, 4)]
        assert harness.rows("null") == [good[0], *nulls, good[1]]
        assert harness.rows("drop") == harness.rows("dead-letter") == good
        letters = harness.records("flights-dead-letters")
        assert [(each.key, each.value) for each in letters] == [
            (b"x1", b'{"carrier": "AA"}'), (b"x2", unknown), (b"x3", cut), (b"x4", b""),
        ]  # fmt: skip
        assert all(each.headers["trace"] == b"7" for each in letters)
        reasons = [each.headers["moldau.error"].decode() for each in letters]
        assert "begins with byte 123" in reasons[0]
        assert reasons[1] == "the value has schema 99, which cannot be read: the registry has no schema 99"
        assert reasons[2] == "the value is not what its schema 1 says"
        assert "it is empty" in reasons[3]
        with (
            app.at(HarnessPlace(harness)),
            pytest.raises(Exception, match=r"bad record at flights-0 offset 1: the value has no schema"),
        ):
            failing.read().collect()


def test_keys_may_have_a_schema_too(spark: SparkSession) -> None:
    app = App("keys")
    by_id = app.topic("orders", key="id", key_format="avro", value="avro", bad_records="drop")
    by_place = app.topic("shelves", key=["row", "shelf"], key_format="avro", schema="n int", record=True)
    wrong = app.topic("shelves", key=["row", "box"], key_format="avro", schema="n int")
    state = {"name": "state", "type": "string"}

    def key_schema(schema: Any) -> SchemaText:
        return SchemaText(SchemaType.AVRO, json.dumps(schema))

    with Harness(app, spark) as harness, app.at(HarnessPlace(harness)):
        registry = harness.schemas.registry
        registry.register("orders-key", key_schema("long"))
        harness.register("orders", avro(state, name="Order"))
        harness.send("orders", {"state": "new"}, {"state": "sent"}, key=b"\0\0\0\0\1\x0e")
        harness.send("orders", {"state": "lost"}, key="7")
        harness.send("orders", None, key=b"\0\0\0\0\1\x10")
        assert by_id.read().collect() == [(7, "new"), (7, "sent"), (8, None)]
        assert by_id.table().collect() == [(7, "sent")]
        fields = [{"name": name, "type": "int"} for name in ("row", "shelf")]
        place = key_schema({"type": "record", "name": "Place", "fields": fields})
        assert registry.register("shelves-key", place).id == 3
        harness.send("shelves", {"n": 5}, "no JSON", key=b"\0\0\0\0\3\2\4")
        harness.send("shelves", {"n": 6}, key=b"x")
        rows = by_place.read().collect()
        assert [row[:3] for row in rows] == [(1, 2, 5), (1, 2, None), (None, None, 6)]
        assert rows[0].record.key == (1, 2)
        with pytest.raises(AppError, match="the key's schema has no field box; it has row, shelf"):
            wrong.read()


SHELF_KEYS = {
    "avro": avro({"name": "shop", "type": "string"}, {"name": "shelf", "type": "int"}, name="Shelf"),
    "json-schema": '{"properties": {"shop": {"type": "string"}, "shelf": {"type": "integer"}}}',
    "protobuf": 'syntax = "proto3"; message Shelf { string shop = 1; int32 shelf = 2; }',
}


def test_flows_write_keys_with_a_schema(spark: SparkSession) -> None:
    app = App("written-keys")

    def flows(form: Any) -> None:
        app.sql(
            f"""
            CREATE STREAM `sold-{form}` WITH (value = 'avro', key = 'shop, shelf', key_format = '{form}');
            CREATE TABLE `shelves-{form}` WITH (key = 'shop, shelf', key_format = '{form}') AS
                SELECT shop, shelf, CASE WHEN n > 0 THEN n END AS n FROM `sold-{form}`;
            """
        )

    for each in SHELF_KEYS:
        flows(each)
    with Harness(app, spark) as harness:
        for form, text in SHELF_KEYS.items():
            sold = f"sold-{form}"
            harness.register(sold, text, form, of_key=True)
            harness.register(sold, avro({"name": "n", "type": "int"}))
            with pytest.raises(AppError, match="no field n; it has shop, shelf"):
                harness.schemas.encode_key(sold, {"n": 1})
            harness.send(sold, {"shop": "a", "shelf": 7, "n": 5}, {"shop": "b", "shelf": 8, "n": 6})
            harness.send(sold, {"shop": "a", "shelf": 7, "n": 0})
        for form in SHELF_KEYS:
            shelves = f"shelves-{form}"
            row = {"shop": "b", "shelf": 8, "n": 6}
            assert harness.table(shelves) == {'{"shop": "b", "shelf": 8}': row}
            first, _, removed = harness.records(shelves)
            assert first.key == removed.key  # so that compaction, and partitions, take them for one
            assert removed.value is None


def test_a_key_may_be_written_with_a_schema_that_is_no_record(spark: SparkSession) -> None:
    app = App("bare-keys")
    orders = app.topic("orders", key="id long", schema="id long, state string")
    states = app.topic("states", key="id", key_format="avro", value="string")

    @app.to("states", key="id", key_format="avro", key_schema="latest", value="string")
    def newest() -> DataFrame:
        return orders.stream().selectExpr("id", "state AS value")

    with Harness(app, spark) as harness:
        with pytest.raises(StreamsError, match=r"states: .*no subject 'states-key'"):
            harness.start()
        harness.register("states", '"long"', of_key=True)
        harness.send("orders", {"id": 7, "state": "new"}, {"state": "lost"})
        assert [(each.key, each.value) for each in harness.records("states")] == [
            (b"\0\0\0\0\1\x0e", b"new"),
            (None, b"lost"),
        ]
        with app.at(HarnessPlace(harness)):
            assert states.read().collect() == [(7, "new"), (None, "lost")]


def test_tables_have_tombstones_and_schemas_on_both_sides(spark: SparkSession) -> None:
    app = App("tables")
    # Defined before the flow that registers the schema it reads.
    states = app.topic("states", key="id long", value="avro")
    orders = app.topic("orders", value="avro")

    @app.to("seen")
    def seen() -> DataFrame:
        return orders.stream().select("id").join(states.table(), "id", "left")

    @app.table("states", key="id", value="avro", record_name="shop.State")
    def newest() -> DataFrame:
        return orders.stream().selectExpr("id", "CASE WHEN state <> 'closed' THEN state END AS state")

    with Harness(app, spark) as harness:
        fields = {"name": "id", "type": "long"}, {"name": "state", "type": "string"}
        harness.register("orders", avro(*fields, name="Order"))
        harness.send("orders", {"id": 1, "state": "new"}, {"id": 2, "state": "new"})
        assert harness.table("states") == {"1": {"id": 1, "state": "new"}, "2": {"id": 2, "state": "new"}}
        harness.send("orders", {"id": 1, "state": "closed"})
        assert harness.table("states") == {"2": {"id": 2, "state": "new"}}
        assert harness.records("states")[-1].value is None
        harness.send("orders", {"id": 2, "state": "sent"})
        harness.send("orders", {"id": 1, "state": "again"})
        by_id = [(row["id"], row["state"]) for row in harness.rows("seen")]
        assert by_id[-1][0] == 1


def test_what_is_written_fits_a_schema_that_is_there(spark: SparkSession) -> None:
    app = App("fixed")
    flights = app.topic("flights", schema="carrier string, dep_delay double, gate string")

    @app.to("late", value="avro", schema="latest")
    def late() -> DataFrame:
        return flights.stream().select("carrier", "dep_delay")

    with Harness(app, spark) as harness:
        harness.register("late", avro(CARRIER, DELAY, GATE))
        harness.send("flights", {"carrier": "AA", "dep_delay": 90.0})
        assert harness.rows("late") == [{"carrier": "AA", "dep_delay": 90.0, "gate": "?"}]
        harness.send("flights", {"dep_delay": 90.0})  # the schema has no null there
        with pytest.raises(StreamsError, match="cannot be written with the schema of late-value"):
            harness.rows("late")

    with Harness(app, spark) as harness:
        harness.register("late", avro(CARRIER))
        with pytest.raises(StreamsError, match=r"late: .*late-value has no field dep_delay; it has carrier"):
            harness.start()


def test_columns_that_do_not_evolve_compatibly_are_refused_before_anything_runs(spark: SparkSession) -> None:
    app = App("evolving")
    flights = app.topic("flights", schema="carrier string, dep_delay double")

    @app.to("late", value="avro", record_name="air.Flight")
    def late() -> DataFrame:
        return flights.stream()

    with Harness(app, spark) as harness:
        harness.register("late", avro({"name": "carrier", "type": ["null", "string"], "default": None}))
        harness.start()  # a nullable column more is a compatible change

    with Harness(app, spark) as harness:
        harness.register("late", avro({"name": "dep_delay", "type": "string"}))
        with pytest.raises(StreamsError, match="late: the schema cannot read the newest of 'late-value'"):
            harness.start()


def test_sql_and_subjects_by_record_and_by_topic_and_record(spark: SparkSession) -> None:
    app = App("subjects")
    app.sql(
        """
        CREATE STREAM flights WITH (value = 'avro', schema = '1', key = 'carrier');
        CREATE STREAM a WITH (value = 'avro', subject = 'record', record_name = 'air.Late') AS
            SELECT carrier FROM flights WHERE dep_delay > 60;
        CREATE STREAM b WITH (value = 'avro', subject = 'topic-record', record_name = 'air.Late') AS
            SELECT carrier FROM flights WHERE dep_delay > 60;
        """
    )
    again = app.topic("b", value="avro", subject="b-air.Late")

    @app.to("c", value="avro", subject="chosen")
    def c() -> DataFrame:
        return again.stream()

    with Harness(app, spark) as harness:
        harness.register("flights", avro(CARRIER, DELAY))
        harness.send("flights", {"carrier": "AA", "dep_delay": 61.0}, {"carrier": "UA"})
        assert harness.rows("a") == harness.rows("b") == harness.rows("c") == [{"carrier": "AA"}]
        registry = harness.schemas.registry
        one, two = registry.latest("air.Late"), registry.latest("b-air.Late")
        assert one.id == two.id
        assert registry.latest("chosen").parsed.name == "C"


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda app: app.topic("t", value="avro", schema="a int"), "schema='latest', or the number of a"),
        (lambda app: app.topic("t", value="avro", schema=0), "number of a version"),
        (
            lambda app: app.topic("t", value="string", registry="http://h"),
            "registry and subject are for value=",
        ),
        (lambda app: app.topic("t", schema=3), "schema=3 is a version"),
        (lambda app: app.to("t", schema=3), "written without a schema of the registry"),
        (lambda app: app.to("t", value="avro", schema="newest"), "number of a version"),
        (lambda app: app.to("t", record_name="A"), "written without a schema"),
        (lambda app: app.table("t", key="k", value="arvo"), "value='arvo' is no format"),
        (lambda app: app.topic("t", key_format="avro", value="avro"), "needs key=, the names of fields"),
        (
            lambda app: app.topic("t", key="k int", key_format="avro", value="raw"),
            "their types are the schema",
        ),
        (
            lambda app: app.topic("t", key="k", key_format="json", value="raw"),
            "key_format='json' is no format",
        ),
        (
            lambda app: app.topic("t", key="k", key_format="avro", value="raw", dead_letters="d"),
            "dead letters keep the bytes of keys",
        ),
        (lambda app: app.sql("CREATE STREAM s (a int) WITH (value = 'avro')"), "leave the list out"),
        (lambda app: app.to("t", key_format="avro"), "needs key=, the names of fields"),
        (lambda app: app.to("t", key="k", key_format="arvo"), "key_format='arvo' is no format"),
        (lambda app: app.to("t", key="k", key_schema="latest"), "is for keys with a key_format"),
        (
            lambda app: app.table("t", key="k", key_format="avro", key_schema="newest"),
            "with key_format='avro' the schema is the registry's: key_schema='latest'",
        ),
    ],
)
def test_wrong_words(make: Any, sentence: str) -> None:
    with pytest.raises(AppError, match=sentence):
        make(App("wrong"))


def test_a_missing_registry_is_said_before_java_starts() -> None:
    from moldau.streams.checking import check_options

    app = App("nowhere")
    app.sql("CREATE STREAM late WITH (key = 'carrier', key_format = 'avro') AS SELECT 1")
    app.registry = None
    with pytest.raises(AppError, match=r"late: key_format='avro' needs a schema registry: App"):
        check_options(app, print)
    app.topic("flights", value="avro")
    with pytest.raises(AppError, match=r"topic flights: value='avro' needs a schema registry: App"):
        check_options(app, print)
