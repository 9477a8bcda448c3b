"""Flows as users write them, without a broker: formats, windows, joins, tables, state, SQL, bad records."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from moldau.streams import App, AppError, StreamsError
from moldau.streams.decoding import decoded
from moldau.streams.encoding import encoded
from moldau.streams.flow import Output
from moldau.streams.testing import Harness, HarnessPlace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FLIGHT = "carrier string, origin string, time_hour timestamp, dep_delay double"


def test_rows_go_from_topic_to_topic_and_bad_ones_are_rows_of_nulls(spark: SparkSession) -> None:
    app = App("plain")
    flights = app.topic("flights", key="carrier", schema=FLIGHT)

    @app.to("late", key="carrier")
    def late() -> DataFrame:
        return flights.stream().where("dep_delay > 60 OR dep_delay IS NULL")

    with Harness(app, spark) as harness:
        harness.send("flights", {"carrier": "AA", "dep_delay": 90}, {"carrier": "UA", "dep_delay": 5})
        harness.send("flights", "no JSON", key="DL")
        harness.send("flights", {"carrier": "WN", "dep_delay": "late", "origin": "JFK"})
        rows = harness.rows("late")
        assert rows[0] == {"carrier": "AA", "origin": None, "time_hour": None, "dep_delay": 90.0}
        assert rows[1] == {"carrier": "DL", "origin": None, "time_hour": None, "dep_delay": None}
        assert rows[2] == {"carrier": "WN", "origin": "JFK", "time_hour": None, "dep_delay": None}
        assert [record.key for record in harness.records("late")] == [b"AA", b"DL", b"WN"]


def test_a_window_is_written_when_the_watermark_has_passed(spark: SparkSession) -> None:
    from pyspark.sql.functions import avg, window

    app = App("windows")
    flights = app.topic("flights", schema=FLIGHT)

    @app.to("by-hour", key=["origin", "hour"])
    def by_hour() -> DataFrame:
        rows = flights.stream().withWatermark("time_hour", "1 hour")
        averages = rows.groupBy(window("time_hour", "1 hour"), "origin").agg(avg("dep_delay").alias("delay"))
        return averages.selectExpr("origin", "window.start AS hour", "delay")

    def flight(hour: int, delay: float) -> dict[str, Any]:
        return {"origin": "JFK", "time_hour": f"2013-01-01T{hour:02d}:00:00Z", "dep_delay": delay}

    with Harness(app, spark) as harness:
        harness.send("flights", flight(5, 10), flight(5, 20), flight(6, 1))
        assert harness.rows("by-hour") == []
        harness.send("flights", flight(7, 1))
        assert harness.rows("by-hour") == [
            {"origin": "JFK", "hour": "2013-01-01T05:00:00.000Z", "delay": 15.0}
        ]
        harness.stop()  # the state of the open windows outlives it
        harness.send("flights", flight(5, 1000), flight(8, 1))
        assert harness.rows("by-hour")[1:] == [
            {"origin": "JFK", "hour": "2013-01-01T06:00:00.000Z", "delay": 1.0}
        ]
        assert json.loads(harness.records("by-hour")[0].key or b"") == {
            "origin": "JFK",
            "hour": "2013-01-01T05:00:00.000Z",
        }


def test_a_table_keeps_the_newest_row_of_a_key_and_can_be_joined(spark: SparkSession) -> None:
    from pyspark.sql.functions import count, lit

    app = App("tables")
    flights = app.topic("flights", key="carrier", schema=FLIGHT)
    names = app.topic("names", key="carrier", schema="carrier string, name string")

    @app.table("counts", key="carrier")
    def counts() -> DataFrame:
        return flights.stream().groupBy("carrier").agg(count(lit(1)).alias("n"))

    @app.to("named")
    def named() -> DataFrame:
        return flights.stream().join(names.table(), "carrier", "left").select("carrier", "name")

    with Harness(app, spark) as harness:
        harness.send("names", {"carrier": "AA", "name": "Americn"}, {"carrier": "UA", "name": "United"})
        harness.send("names", {"carrier": "AA", "name": "American"})
        harness.send("flights", {"carrier": "AA"}, {"carrier": "UA"}, {"carrier": "AA"})
        assert harness.table("counts") == {"AA": {"carrier": "AA", "n": 2}, "UA": {"carrier": "UA", "n": 1}}
        assert {(row["carrier"], row["name"]) for row in harness.rows("named")} == {
            ("AA", "American"),
            ("UA", "United"),
        }
        # The table of the next micro-batch is the one of then.
        harness.send("names", None, key="UA")
        harness.send("names", {"carrier": "DL", "name": "Delta"})
        harness.send("flights", {"carrier": "UA"}, {"carrier": "DL"})
        assert {(row["carrier"], row["name"]) for row in harness.rows("named")[3:]} == {
            ("UA", None),
            ("DL", "Delta"),
        }
        assert harness.table("counts")["UA"]["n"] == 2


def test_a_row_of_a_key_alone_is_a_tombstone_and_rows_without_key_are_left_out(spark: SparkSession) -> None:
    app = App("tombstones")
    orders = app.topic("orders", key="id long", schema="state string")

    @app.table("open-orders", key="id")
    def open_orders() -> DataFrame:
        return orders.stream().selectExpr("id", "CASE WHEN state <> 'closed' THEN state END AS state")

    with Harness(app, spark) as harness:
        harness.send("orders", {"state": "new"}, key="1")
        harness.send("orders", {"state": "new"}, key="2")
        harness.send("orders", {"state": "closed"}, key="1")
        harness.send("orders", {"state": "new"}, key="no number")
        assert harness.table("open-orders") == {"2": {"id": 2, "state": "new"}}
        assert [record.value for record in harness.records("open-orders")][2] is None


def test_bad_records_go_to_the_dead_letter_topic_as_they_came(spark: SparkSession) -> None:
    app = App("letters")
    flights = app.topic("flights", schema="carrier string, dep_delay double", dead_letters="bad-flights")
    lines = app.topic("lines", value="string", bad_records="dead-letter")

    @app.to("good")
    def good() -> DataFrame:
        return flights.stream()

    @app.to("good-lines", value="string")
    def good_lines() -> DataFrame:
        return lines.stream()

    with Harness(app, spark) as harness:
        harness.send("flights", {"carrier": "AA", "dep_delay": 1})
        harness.send("flights", b"\xff\xfe", key=b"\x00", headers={"trace": b"7"})
        harness.send("flights", {"carrier": "AA", "dep_delay": "late"}, "[]", None)
        harness.send("lines", "fine", b"\xff")
        assert [row["carrier"] for row in harness.rows("good")] == ["AA", None]  # None: the tombstone
        bad = harness.records("bad-flights")
        assert [record.value for record in bad] == [
            b"\xff\xfe",
            b'{"carrier": "AA", "dep_delay": "late"}',
            b"[]",
        ]
        assert (bad[0].key, bad[0].headers["trace"]) == (b"\x00", b"7")
        assert [record.headers["moldau.error"] for record in bad] == [
            b"the value is not JSON",
            b"the value does not fit the schema: dep_delay",
            b"the value is JSON, but no object with the schema's fields",
        ]
        assert [record.headers["moldau.offset"] for record in bad] == [b"1", b"2", b"3"]
        assert [record.value for record in harness.records("good-lines")] == [b"fine"]
        assert [record.value for record in harness.records("lines-dead-letters")] == [b"\xff"]


def test_only_fields_of_the_value_are_judged_and_a_key_of_nulls_is_none(spark: SparkSession) -> None:
    form = App("odd").topic("odd", key="id long", schema="id long, n int", bad_records="drop").format
    records = spark.createDataFrame(
        [
            (bytearray(b"7"), bytearray(b'{"id": "no number", "n": 1}')),
            (None, bytearray(b'{"n": "no number"}')),
        ],
        "key binary, value binary",
    )
    assert [tuple(row) for row in decoded(records, form).collect()] == [(7, 1)]

    rows = spark.createDataFrame([("a", None, 1), (None, None, 2)], "x string, y string, n int")
    written = encoded(rows, Output("odd", ("x", "y"), "json", is_table=True)).collect()
    assert [bytes(row["key"]) for row in written] == [b'{"x":"a"}']


def test_streams_are_joined_with_streams(spark: SparkSession) -> None:
    from pyspark.sql.functions import expr

    app = App("joins")
    clicks = app.topic("clicks", schema="id int, at timestamp", watermark=("at", "1 minute"))
    views = app.topic("views", schema="id int, seen timestamp", watermark=("seen", "1 minute"))

    @app.table("pairs", key="id")
    def pairs() -> DataFrame:
        condition = expr("c.id = v.id AND at BETWEEN seen AND seen + INTERVAL 1 MINUTE")
        joined = clicks.stream().alias("c").join(views.stream().alias("v"), condition)
        return joined.selectExpr("c.id", "at")

    with Harness(app, spark) as harness:
        harness.send(
            "views", {"id": 1, "seen": "2020-01-01T00:00:00Z"}, {"id": 2, "seen": "2020-01-01T00:00:00Z"}
        )
        harness.send(
            "clicks", {"id": 2, "at": "2020-01-01T00:00:30Z"}, {"id": 1, "at": "2020-01-01T00:05:00Z"}
        )
        assert harness.table("pairs") == {"2": {"id": 2, "at": "2020-01-01T00:00:30.000Z"}}


def test_sql_statements_are_flows(spark: SparkSession, tmp_path: Any) -> None:
    file = tmp_path / "flights.sql"
    file.write_text("""
        -- what comes in; this semicolon; is none
        CREATE STREAM flights (carrier string, time_hour timestamp, dep_delay double)
            WITH (key = 'carrier', watermark = 'time_hour 1 hour');
        CREATE TABLE names (name string) WITH (topic = 'carrier.names', key = 'carrier');
        CREATE STREAM raw WITH (topic = 'flights', value = 'string'); -- another view of the same topic
        CREATE STREAM carrier (x int);

        CREATE STREAM late WITH (topic = 'late-flights', key = 'carrier') AS
            SELECT carrier, name, dep_delay, ';' AS mark FROM flights LEFT JOIN names USING (carrier)
            WHERE dep_delay > 60 AND carrier <> 'raw' AND carrier IN (SELECT carrier FROM names);
        CREATE TABLE delays WITH (key = 'carrier') AS
            SELECT carrier, max(dep_delay) AS worst FROM flights GROUP BY carrier
    """)
    app = App("sql")
    assert [flow.name for flow in app.sql(file)] == ["late", "delays"]
    with Harness(app, spark) as harness:
        with app.at(HarnessPlace(harness)), app.building(app.flows["late"]) as reading:
            app.flows["late"].rows()
        assert (reading.streams, reading.tables) == ({"flights"}, {"carrier.names"})
        harness.send("carrier.names", {"name": "American"}, key="AA")
        harness.send("flights", {"carrier": "AA", "dep_delay": 61}, {"carrier": "AA", "dep_delay": 7})
        assert harness.rows("late-flights") == [
            {"carrier": "AA", "name": "American", "dep_delay": 61.0, "mark": ";"}
        ]
        assert harness.table("delays") == {"AA": {"carrier": "AA", "worst": 61.0}}


def test_flows_follow_each_other_and_a_function_may_take_the_batches(spark: SparkSession) -> None:
    app = App("chain")
    numbers = app.topic("numbers", value="string")
    doubled = app.topic("doubled", schema="n int")
    seen: list[tuple[int, list[int]]] = []

    @app.to("doubled")
    def double() -> DataFrame:
        return numbers.stream().selectExpr("2 * CAST(value AS int) AS n")

    def collect(batch: DataFrame, batch_id: int) -> None:
        seen.append((batch_id, [row.n for row in batch.collect()]))

    @app.to(collect)
    def quadruple() -> DataFrame:
        return doubled.stream().selectExpr("2 * n AS n")

    with Harness(app, spark) as harness:
        harness.send("numbers", "1", "2")
        harness.settle()
        assert [numbers for _, numbers in seen if numbers] == [[4, 8]]


def test_a_flow_that_fails_is_named_with_its_reason(spark: SparkSession) -> None:
    from pyspark.sql.functions import udf

    app = App("failing")
    numbers = app.topic("numbers", value="string")

    @app.to("out", value="string")
    def divide() -> DataFrame:
        return numbers.stream().select(udf(lambda text: str(1 // int(text)))("value").alias("value"))

    with Harness(app, spark) as harness:
        harness.send("numbers", "0")
        with pytest.raises(StreamsError, match=r"flow divide failed: ZeroDivisionError: integer division"):
            harness.rows("out")


@pytest.fixture
def numbers(spark: SparkSession) -> tuple[App, Any]:
    app = App("mistakes")
    return app, app.topic("numbers", key="id", schema="id int, n int")


def test_mistakes_of_a_flow_are_told_before_it_runs(numbers: tuple[App, Any]) -> None:
    app, topic = numbers
    app.to("out", key="nothing", name="no_key")(topic.stream)
    app.to("out", value="string", name="two_columns")(topic.stream)
    app.to("out", name="no_stream")(topic.table)
    app.to("out", name="no_frame")(lambda: 7)
    said = {
        "no_key": "the key nothing is no column of the rows, which have id, n",
        "two_columns": "writes the column value, and the rows have id, n",
        "no_stream": r"it must read something with .stream\(\)",
        "no_frame": "gives int: it must return a DataFrame",
    }
    for name, sentence in said.items():
        with Harness(app, flows=[name]) as harness, pytest.raises(StreamsError, match=sentence):
            harness.start()
    with pytest.raises(AppError, match="cannot be read"):
        app.topic("odd", schema="this is no schema").stream()


def test_stateful_processing_with_transform_with_state(spark: SparkSession) -> None:
    pytest.importorskip("google.protobuf", reason="Spark's transformWithState needs protobuf")
    from pyspark.sql import Row
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

    class Longest(StatefulProcessor):
        """The greatest delay of each carrier, told when it grows."""

        def init(self, handle: StatefulProcessorHandle) -> None:
            self.worst = handle.getValueState("worst", "delay double")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
            before = self.worst.get()[0] if self.worst.exists() else float("-inf")
            worst = max([before, *(row.dep_delay for row in rows)])
            if worst > before:
                self.worst.update((worst,))
                yield Row(carrier=key[0], worst=worst)

        def close(self) -> None:
            pass

    app = App("stateful")
    flights = app.topic("flights", schema=FLIGHT)

    @app.table("worst", key="carrier")
    def worst() -> DataFrame:
        grouped = flights.stream().groupBy("carrier")
        return grouped.transformWithState(Longest(), "carrier string, worst double", "Update", "None")

    with Harness(app, spark) as harness:
        harness.send("flights", {"carrier": "AA", "dep_delay": 5}, {"carrier": "UA", "dep_delay": 1})
        assert harness.table("worst")["AA"] == {"carrier": "AA", "worst": 5.0}
        harness.stop()
        harness.send("flights", {"carrier": "AA", "dep_delay": 3}, {"carrier": "UA", "dep_delay": 9})
        assert harness.table("worst")["UA"] == {"carrier": "UA", "worst": 9.0}
        assert len(harness.records("worst")) == 3
