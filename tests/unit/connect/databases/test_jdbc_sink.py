"""The JDBC sink against real databases; what is there is asked by connections of its own."""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sink_batches import ORIGIN, settings_of, sink_context

from moldau.connect import Batch, Column, Schema, TopicPartition, Type, batch_of
from moldau.connect.connectors.jdbc.dialects.postgresql import array_text, csv_text
from moldau.connect.connectors.jdbc.record_columns import Rows
from moldau.connect.connectors.jdbc.sink import JdbcSink
from moldau.connect.connectors.jdbc.staging import Run, Staging
from moldau.connect.errors import BadRecord, ConnectError, Retriable
from moldau.connect.schema import (
    DATE,
    DECIMAL,
    PRECISION,
    TIME,
    TIMESTAMP,
    array_schema,
    decimal_schema,
    logical_schema,
    map_schema,
    struct_schema,
)
from moldau.connect.values import column_of

Sql = Callable[[str, str], list[Any]]
INT, LONG, TEXT = Schema(Type.INT32), Schema(Type.INT64), Schema(Type.STRING, True)
ORDER = struct_schema({"id": INT, "name": TEXT, "price": decimal_schema(2, True, 10)}, optional=True)


def run_of(
    values: Sequence[Any],
    first: int = 0,
    schema: Schema | None = ORDER,
    keys: Sequence[Any] | None = None,
    key_schema: Schema | None = None,
    origin: TopicPartition = ORIGIN,
) -> Batch:
    value = Column(None, list(values)) if schema is None else column_of(schema, values)
    given_keys = [None] * len(values) if keys is None else list(keys)
    key = Column(None, given_keys) if key_schema is None else column_of(key_schema, given_keys)
    offsets = pa.array(range(first, first + len(values)), pa.int64())
    times = pa.array([1000] * len(values), pa.int64())
    return Batch(origin.topic, key, value, times, origin=origin, offsets=offsets)


@pytest.fixture
def started() -> Iterator[Callable[..., JdbcSink]]:
    made: list[JdbcSink] = []

    def start(
        url: str, bad: list[str] | None = None, waited: list[float] | None = None, **given: Any
    ) -> JdbcSink:
        sink = JdbcSink()
        named = {name.replace("_", "."): value for name, value in given.items()}
        sink.start(settings_of(JdbcSink, {"connection.url": url, **named}), sink_context(bad, waited))
        made.append(sink)
        return sink

    yield start
    for each in made:
        each.stop()


def write(sink: JdbcSink, *runs: Batch) -> None:
    for run in runs:
        assert run.offsets is not None
        sink.write(run, run.offsets[0].as_py())
    sink.flush()


UPSERT = {"insert_mode": "upsert", "pk_mode": "record_value", "pk_fields": ["id"], "auto_create": True}
BY_KEY = {"insert_mode": "upsert", "pk_mode": "record_key", "pk_fields": ["id"], "auto_create": True}


def test_rows_and_position_are_one_transaction(any_database: str, started: Any, sql: Sql) -> None:
    sink = started(any_database, auto_create=True)
    assert sink.positions([ORIGIN]) == {}
    write(sink, run_of([{"id": 1, "name": "a", "price": Decimal("1.50")}, {"id": 2}]))
    assert [row[0] for row in sql(any_database, "SELECT id FROM orders ORDER BY id")] == [1, 2]
    assert sql(any_database, "SELECT topic, next_offset FROM moldau_offsets") == [("orders", 2)]
    again = started(any_database, auto_create=True)
    assert again.positions([ORIGIN]) == {ORIGIN: 2}
    write(again, run_of([{"id": 1}, {"id": 2}, {"id": 3, "name": 'q"uo,te\\'}]))  # 0 and 1 come again
    assert sql(any_database, "SELECT id, name FROM orders ORDER BY id")[1:] == [(2, None), (3, 'q"uo,te\\')]


def test_a_zombie_writes_nothing(any_database: str, started: Any, sql: Sql) -> None:
    one, other = started(any_database, auto_create=True), started(any_database, auto_create=True)
    one.positions([ORIGIN])
    other.positions([ORIGIN])
    one.write(run_of([{"id": 1}]), 0)
    write(other, run_of([{"id": 1}, {"id": 2}]))
    with pytest.raises(Retriable, match="another task has written orders-0"):
        one.flush()
    write(one, run_of([{"id": 1}, {"id": 2}, {"id": 3}]))  # as the worker begins again
    with pytest.raises(Retriable, match="another task"):
        write(other, run_of([{"id": 3}], 2))
    assert [row[0] for row in sql(any_database, "SELECT id FROM orders ORDER BY id")] == [1, 2, 3]


def test_an_administrator_sets_positions(any_database: str, started: Any) -> None:
    sink, other = started(any_database, auto_create=True), TopicPartition("orders", 1)
    write(sink, run_of([{"id": 1}]))
    sink.set_positions({ORIGIN: 0, other: 7})
    assert started(any_database).positions([ORIGIN, other]) == {ORIGIN: 0, other: 7}
    sink.set_positions({ORIGIN: None})
    assert started(any_database).positions([ORIGIN, other]) == {other: 7}


def test_upsert_keeps_the_last_of_each_key(any_database: str, started: Any, sql: Sql) -> None:
    sink = started(any_database, **UPSERT)
    write(sink, run_of([{"id": 1, "name": "a"}, {"id": 1, "name": "b"}, {"id": 2, "name": "c"}]))
    write(sink, run_of([{"id": 2, "name": "d"}, {"id": 2, "name": None}], 3))
    assert sql(any_database, "SELECT id, name FROM orders ORDER BY id") == [(1, "b"), (2, None)]


KEY = struct_schema({"id": INT})


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from([None, "full", "name"])), min_size=1, max_size=12),
    st.integers(1, 12),
)
def test_changes_in_any_order_end_as_one_by_one(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, str | None]], cut: int
) -> None:
    """Upserts of all fields and of some, and deletions; in any runs (SQLite; the others share the
    folding)."""
    import sqlite3

    place = tmp_path_factory.mktemp("changes") / "shop.db"
    with sqlite3.connect(place) as made:
        made.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, name TEXT, price NUMERIC)")
    sink = JdbcSink()
    given_settings = {
        "connection.url": f"jdbc:sqlite:{place}",
        "insert.mode": "upsert",
        "pk.mode": "record_key",
        "pk.fields": ["id"],
        "delete.enabled": True,
    }
    sink.start(settings_of(JdbcSink, given_settings), sink_context(None))
    part = struct_schema({"name": TEXT}, optional=True)
    table: dict[int, tuple[str | None, int | None]] = {}
    for offset, (key, change) in enumerate(changes):
        if change is None:
            table.pop(key, None)
            run = run_of([None], offset, part, [{"id": key}], KEY)
        elif change == "full":
            table[key] = (f"n{offset}", offset)
            value = {"id": key, "name": f"n{offset}", "price": Decimal(offset)}
            run = run_of([value], offset, ORDER, [{"id": key}], KEY)
        else:
            table[key] = (f"p{offset}", table.get(key, (None, None))[1])
            run = run_of([{"name": f"p{offset}"}], offset, part, [{"id": key}], KEY)
        sink.write(run, offset)
        if offset % cut == 0:
            sink.flush()
    sink.flush()
    sink.stop()
    with sqlite3.connect(place) as asked:
        found = asked.execute("SELECT id, name, price FROM orders ORDER BY id").fetchall()
    assert found == [(key, *table[key]) for key in sorted(table)]


def test_tombstones_delete(any_database: str, started: Any, sql: Sql) -> None:
    sink = started(any_database, **BY_KEY, delete_enabled=True)
    values: list[Any] = [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}, None]
    write(sink, run_of(values, keys=[{"id": 1}, {"id": 2}, {"id": 1}], key_schema=KEY))
    assert sql(any_database, "SELECT id, name FROM orders") == [(2, "b")]
    write(sink, run_of([None, {"id": 2, "name": "z"}], 3, keys=[{"id": 2}, {"id": 2}], key_schema=KEY))
    assert sql(any_database, "SELECT id, name FROM orders") == [(2, "z")]
    write(sink, run_of([None], 5, keys=[{"id": 2}], key_schema=KEY))
    assert sql(any_database, "SELECT id FROM orders") == []
    bad: list[str] = []
    without = started(any_database, bad, **BY_KEY)
    write(without, run_of([None], 6, keys=[{"id": 2}], key_schema=KEY))
    assert "delete.enabled=true" in bad[0]


def test_update_changes_only_what_is_there(any_database: str, started: Any, sql: Sql) -> None:
    write(started(any_database, **UPSERT), run_of([{"id": 1, "name": "a"}]))
    sink = started(any_database, **{**UPSERT, "insert_mode": "update"})
    write(sink, run_of([{"id": 1, "name": "b"}, {"id": 9, "name": "c"}], 1))
    assert sql(any_database, "SELECT id, name FROM orders") == [(1, "b")]


def test_a_key_that_is_one_value_and_kafka_columns(any_database: str, started: Any, sql: Sql) -> None:
    sink = started(any_database, **BY_KEY, table_name_format="by_${topic}")
    write(sink, run_of([{"name": "a"}], schema=None, keys=[5]))
    assert sql(any_database, "SELECT id, name FROM by_orders") == [(5, "a")]
    kafka = started(any_database, insert_mode="upsert", pk_mode="kafka", auto_create=True)
    write(kafka, run_of([{"id": 7}], 1))
    found = sql(any_database, "SELECT __connect_topic, __connect_partition, __connect_offset, id FROM orders")
    assert found == [("orders", 0, 1, 7)]


def test_bad_rows_are_found_and_the_others_stored(any_database: str, started: Any, sql: Sql) -> None:
    sql(any_database, "CREATE TABLE orders (id INT PRIMARY KEY, name VARCHAR(5) NOT NULL)")
    bad: list[str] = []
    sink = started(any_database, bad)
    names = ["ok"] * 20
    values: list[Any] = [{"id": number, "name": name} for number, name in enumerate(names)]
    values[7]["id"] = 6
    values[13]["name"] = None
    write(sink, run_of(values, schema=struct_schema({"id": INT, "name": TEXT})))
    assert [row[0] for row in sql(any_database, "SELECT id FROM orders ORDER BY id")] == [
        number for number in range(20) if number not in (7, 13)
    ]
    assert [line.split(":")[0] for line in bad] == ["7", "13"]
    assert "record orders-0@7 cannot be a row of table orders" in bad[0]
    with pytest.raises(BadRecord, match=r"orders-0@20 .*orders"):
        write(
            started(any_database),
            run_of([{"id": 1, "name": "twice"}], 20, struct_schema({"id": INT, "name": TEXT})),
        )
    assert sql(any_database, "SELECT next_offset FROM moldau_offsets") == [(20,)]


def test_a_key_that_is_too_large_for_an_index(postgres: str, started: Any, sql: Sql) -> None:
    sql(postgres, "CREATE TABLE orders (name TEXT PRIMARY KEY)")
    schema = struct_schema({"name": Schema(Type.STRING)})
    long = "".join(hashlib.sha512(b"%d" % each).hexdigest() for each in range(200))
    bad: list[str] = []
    write(started(postgres, bad), run_of([{"name": "a"}, {"name": long}, {"name": "b"}], schema=schema))
    assert sql(postgres, "SELECT name FROM orders ORDER BY name") == [("a",), ("b",)]
    assert [line.split(":")[0] for line in bad] == ["1"]


def test_columns_are_added(any_database: str, started: Any, sql: Sql) -> None:
    write(started(any_database, auto_create=True), run_of([{"id": 1}]))
    more = struct_schema({"id": INT, "note": TEXT, "count": Schema(Type.INT32, default=3)})
    with pytest.raises(ConnectError, match=r"no column note, count: add it, set auto.evolve"):
        write(started(any_database), run_of([{"id": 2, "note": "n"}], 1, more))
    write(started(any_database, auto_evolve=True), run_of([{"id": 2, "note": "n"}], 1, more))
    assert sql(any_database, "SELECT id, note, count FROM orders ORDER BY id") == [(1, None, 3), (2, "n", 3)]
    needed = struct_schema({"id": INT, "must": INT})
    with pytest.raises(ConnectError, match="column must cannot be added to table orders"):
        write(started(any_database, auto_evolve=True), run_of([{"id": 3, "must": 1}], 2, needed))


def test_records_cannot_write_statements(any_database: str, started: Any, sql: Sql) -> None:
    """Names and defaults come from whoever writes to the topic."""
    sql(any_database, "CREATE TABLE victim (id INT)")
    hostile = {
        "of decimal": Schema(
            Type.STRING, True, DECIMAL, default="0); DROP TABLE victim; --", parameters={PRECISION: "x"}
        ),
        "text": Schema(Type.STRING, True, default="\\'); DROP TABLE victim; --'"),
        'a" INT); DROP TABLE victim; --': INT,
    }
    row = {"of decimal": None, "text": None, 'a" INT); DROP TABLE victim; --': 1}
    for number, quoting in enumerate(("ALWAYS", "NEVER")):
        table = f'x"`(id INT); DROP TABLE victim; --{number}'
        sink = started(any_database, auto_create=True, quote_sql_identifiers=quoting, table_name_format=table)
        sink.write(run_of([row], number, struct_schema(hostile)), 1)
        sink.flush()
    assert sql(any_database, "SELECT count(*) FROM victim") == [(0,)]


def test_tables_that_do_not_suit(any_database: str, started: Any, sql: Sql) -> None:
    with pytest.raises(ConnectError, match=r"there is no table orders .*auto.create=true"):
        write(started(any_database), run_of([{"id": 1}]))
    sql(any_database, "CREATE TABLE orders (id INT, name VARCHAR(9), price NUMERIC(9, 2), must INT NOT NULL)")
    with pytest.raises(
        ConnectError, match=r"no primary key or unique constraint on \(id\), which insert.mode=upsert"
    ):
        write(started(any_database, **UPSERT), run_of([{"id": 1}]))
    with pytest.raises(ConnectError, match="column must of table orders is NOT NULL"):
        write(started(any_database), run_of([{"id": 1}]))


WIDE = struct_schema(
    {
        "id": LONG,
        "i8": Schema(Type.INT8, True),
        "yes": Schema(Type.BOOLEAN, True),
        "real": Schema(Type.FLOAT64, True),
        "raw": Schema(Type.BYTES, True),
        "amount": decimal_schema(4, True, 20),
        "day": logical_schema(DATE, True),
        "clock": logical_schema(TIME, True),
        "at": logical_schema(TIMESTAMP, True),
        "tags": array_schema(TEXT, True),
        "nested": struct_schema({"a": INT, "b": map_schema(Schema(Type.STRING), INT)}, optional=True),
    }
)
VALUE = {
    "id": 1 << 40,
    "i8": -5,
    "yes": True,
    "real": 1.25,
    "raw": b"\x00\xff'\\",
    "amount": Decimal("12345.6789"),
    "day": datetime.date(2024, 2, 29),
    "clock": datetime.time(23, 59, 58, 123000),
    "at": datetime.datetime(2024, 2, 29, 23, 30, 1, 500000, datetime.UTC),
    "tags": ["a", None, 'b",\\{}'],
    "nested": {"a": 1, "b": {"x": 2}},
}


def test_types_in_postgresql(postgres: str, started: Any, sql: Sql) -> None:
    sink = started(postgres, auto_create=True, db_timezone="Europe/Prague")
    write(sink, run_of([VALUE, {"id": 1}], schema=WIDE))
    row = sql(postgres, "SELECT * FROM orders ORDER BY id DESC")[0]
    wanted = {**VALUE, "at": datetime.datetime(2024, 3, 1, 0, 30, 1, 500000)}
    assert dict(zip(VALUE, row, strict=True)) == wanted
    assert sql(postgres, "SELECT count(*) FROM orders WHERE tags IS NULL AND nested IS NULL") == [(1,)]


def test_types_in_mariadb_and_sqlite(mariadb: str, started: Any, sql: Sql, tmp_path: Any) -> None:
    write(started(mariadb, auto_create=True), run_of([VALUE], schema=WIDE))
    columns = "id, i8, yes, real_, raw, amount, day, at, nested".replace("real_", "`real`")
    (row,) = sql(mariadb, f"SELECT {columns} FROM orders")
    plain = datetime.datetime(2024, 2, 29, 23, 30, 1, 500000)
    wanted = (1 << 40, -5, 1, 1.25, b"\x00\xff'\\", Decimal("12345.6789"), VALUE["day"], plain)
    assert row[:-1] == wanted
    assert row[-1] == '{"a":1,"b":{"x":2}}'
    url = f"jdbc:sqlite:{tmp_path}/types.db"
    write(started(url, auto_create=True), run_of([VALUE], schema=WIDE))
    assert sql(url, "SELECT id, yes, raw, amount, day, clock, at FROM orders") == [
        (
            1 << 40,
            1,
            b"\x00\xff'\\",
            12345.6789,
            "2024-02-29",
            "23:59:58.123000",
            "2024-02-29 23:30:01.500000",
        )
    ]


def test_debeziums_types_become_columns_of_their_own(postgres: str, started: Any, sql: Sql) -> None:
    times = {
        "day": Schema(Type.INT32, True, "io.debezium.time.Date", 1),
        "at": Schema(Type.INT64, True, "io.debezium.time.MicroTimestamp", 1),
        "zoned": Schema(Type.STRING, True, "io.debezium.time.ZonedTimestamp", 1),
        "doc": Schema(Type.STRING, True, "io.debezium.data.Json", 1),
    }
    value = {"day": 1, "at": 1_500_000, "zoned": "2024-01-01T00:00:00.5Z", "doc": '{"a": 1}'}
    write(started(postgres, auto_create=True), run_of([value], schema=struct_schema(times)))
    assert sql(postgres, "SELECT * FROM orders") == [
        (
            datetime.date(1970, 1, 2),
            datetime.datetime(1970, 1, 1, 0, 0, 1, 500000),
            datetime.datetime(2024, 1, 1, 0, 0, 0, 500000, datetime.UTC),
            {"a": 1},
        )
    ]


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
@given(
    st.lists(
        st.one_of(st.none(), st.text(st.characters(exclude_characters="\x00", codec="utf-8"))), max_size=5
    )
)
def test_copied_texts_arrive_as_they_are(postgres: str, sql: Sql, texts: list[str | None]) -> None:
    from database_connections import connected

    with connected(postgres) as connection, connection.transaction(force_rollback=True):
        connection.execute("CREATE TEMPORARY TABLE t (number INT, text TEXT, many TEXT[]) ON COMMIT DROP")
        columns = {
            "number": pa.array(range(len(texts)), pa.int32()),
            "text": pa.array(texts, pa.string()),
            "many": pa.array([array_text([each, each]) for each in texts], pa.string()),
        }
        with connection.cursor() as cursor, cursor.copy("COPY t FROM STDIN (FORMAT csv)") as copy:
            copy.write(csv_text(columns))
        found = connection.execute("SELECT text, many FROM t ORDER BY number").fetchall()
    assert found == [(each, [each, each]) for each in texts]


def test_a_text_like_the_end_of_the_data(postgres: str, started: Any, sql: Sql) -> None:
    texts = ["\\.", "a\n\\.\nb", "\r\n", "", "NULL", "\\N"]
    write(
        started(postgres, auto_create=True), run_of([{"id": n, "name": each} for n, each in enumerate(texts)])
    )
    assert [row[0] for row in sql(postgres, "SELECT name FROM orders ORDER BY id")] == texts


def test_a_database_that_is_away(started: Any) -> None:
    waited: list[float] = []
    away = "jdbc:postgresql://127.0.0.1:1/shop?user=moldau&password=secret"
    sink = started(away, None, waited, auto_create=True, max_retries=4)
    with pytest.raises(Retriable, match="away or busy") as caught:
        sink.positions([ORIGIN])
    assert "secret" not in str(caught.value)
    assert waited == [3, 6, 12, 24]


def test_a_crash_of_the_database_in_between(
    postgres_server: Any, postgres: str, started: Any, sql: Sql
) -> None:
    sink = started(postgres, auto_create=True, max_retries=0)
    write(sink, run_of([{"id": 1}]))
    sink.write(run_of([{"id": 2}], 1), 1)
    postgres_server.stop()
    with pytest.raises(Retriable):
        sink.flush()
    postgres_server.start()
    write(sink, run_of([{"id": 2}, {"id": 3}], 1))
    assert sink.positions([ORIGIN]) == {ORIGIN: 3}
    from database_connections import connected

    with connected(postgres) as asked:
        assert asked.execute("SELECT id FROM orders ORDER BY id").fetchall() == [(1,), (2,), (3,)]


def test_settings_that_contradict_one_another(any_database: str) -> None:
    def wrong(**given: Any) -> list[str]:
        named = {name.replace("_", "."): value for name, value in given.items()}
        return list(JdbcSink().check(settings_of(JdbcSink, {"connection.url": any_database, **named})))

    assert wrong() == []
    assert wrong(delete_enabled=True) == ["delete.enabled"]
    assert wrong(insert_mode="upsert") == ["pk.mode"]
    assert wrong(pk_mode="kafka", pk_fields=["a"]) == ["pk.fields"]
    assert wrong(connection_url="jdbc:oracle:thin:@h") == ["connection.url"]
    assert wrong(connection_url="jdbc:postgresql://127.0.0.1:1/d") == ["connection.url"]


def test_a_table_without_schema_is_made_of_values(any_database: str, started: Any, sql: Sql) -> None:
    bad: list[str] = []
    sink = started(any_database, bad, auto_create=True)
    write(sink, run_of([{"a": 1, "b": "x"}, 5, {"a": 2}], schema=None))
    assert sql(any_database, "SELECT a, b FROM orders ORDER BY a") == [(1, "x"), (2, None)]
    assert bad == ["1: the value is no record: a table needs fields (HoistField makes one)"]
    assert batch_of("t", [{"a": 1}]).topic == "t"


def test_thousands_of_refused_rows(any_database: str, started: Any, sql: Sql) -> None:
    """Every second row is there already; savepoints for all of them would be more than a server has locks."""
    sql(any_database, "CREATE TABLE orders (id INT PRIMARY KEY, name VARCHAR(9), price NUMERIC(9, 2))")
    values = ", ".join(f"({n}, 'old')" for n in range(0, 4000, 2))
    sql(any_database, f"INSERT INTO orders (id, name) VALUES {values}")
    bad: list[str] = []
    sink = started(any_database, bad)
    runs = [run_of([{"id": n, "name": "new"} for n in range(at, at + 500)], at) for at in range(0, 4000, 500)]
    write(sink, *runs)
    assert len(bad) == 2000
    found = sql(any_database, "SELECT name, count(*), sum(id % 2) FROM orders GROUP BY name ORDER BY name")
    assert [tuple(map(str, row)) for row in found] == [("new", "2000", "2000"), ("old", "2000", "0")]
    assert sql(any_database, "SELECT next_offset FROM moldau_offsets") == [(4000,)]


def test_what_is_stored_before_a_refused_row_is_not_written_again(
    any_database: str, started: Any, sql: Sql
) -> None:
    """A transaction that fails at a row becomes smaller ones; the worker goes on where the table stands."""
    sql(any_database, "CREATE TABLE orders (id INT, name VARCHAR(9) NOT NULL, price NUMERIC(9, 2))")
    sink = started(any_database)
    values: list[dict[str, Any]] = [{"id": n, "name": "a"} for n in range(300)]
    values[211]["name"] = None
    with pytest.raises(BadRecord, match="orders-0@211 cannot be a row"):
        write(sink, run_of(values[:100]), run_of(values[100:], 100))
    ((stored,),) = sql(any_database, "SELECT count(*) FROM orders")
    assert 150 <= stored <= 211
    again = started(any_database)
    assert again.positions([ORIGIN]) == {ORIGIN: stored}
    assert [row[0] for row in sql(any_database, "SELECT id FROM orders ORDER BY id")] == list(range(stored))
    values[211]["name"] = "b"
    write(again, run_of(values[stored:], stored))
    assert [row[0] for row in sql(any_database, "SELECT id FROM orders ORDER BY id")] == list(range(300))


def test_a_constraint_that_is_checked_at_the_commit(postgres: str, started: Any, sql: Sql) -> None:
    sql(
        postgres,
        "CREATE TABLE orders (id INT UNIQUE DEFERRABLE INITIALLY DEFERRED, name TEXT, price NUMERIC)",
    )
    bad: list[str] = []
    sink = started(postgres, bad)
    write(sink, run_of([{"id": n % 90} for n in range(100)]))
    assert [int(each.partition(":")[0]) for each in bad] == list(range(90, 100))
    assert sql(postgres, "SELECT count(*), count(DISTINCT id) FROM orders") == [(90, 90)]
    assert sql(postgres, "SELECT next_offset FROM moldau_offsets") == [(100,)]


TABLES = ("a", "b")


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([0, 1]), st.lists(st.integers(0, 9), max_size=6)), min_size=1),
    st.data(),
)
def test_staged_runs_are_cut_at_offsets(runs: list[tuple[int, list[int]]], data: st.DataObject) -> None:
    """Whatever is cut: every row is in one of both halves, on the side of its offset."""
    staging, next_offset = Staging(), [0, 0]
    for partition, numbers in runs:
        count = len(numbers) + data.draw(st.integers(0, 2))  # the others were reported
        if not count:
            continue
        origin, first = TopicPartition("orders", partition), next_offset[partition]
        next_offset[partition] += count
        batch = run_of([{"id": 1}] * count, first, origin=origin)
        places = sorted(data.draw(st.permutations(range(count)))[: len(numbers)])
        kinds = [data.draw(st.sampled_from(TABLES)) for _ in places]
        parts = []
        for kind in TABLES:
            kept = np.array(
                [place for place, each in zip(places, kinds, strict=True) if each == kind], np.int64
            )
            if len(kept):
                made = {"id": pa.array(kept + first)}
                parts.append((kind, Rows(made, {}, [], batch, kept, None)))
        staging.add(Run(origin, first + count, batch, parts))  # type: ignore[arg-type]
    pending, seen = [staging], dict.fromkeys([0, 1], 0)
    found: list[tuple[int, int]] = []
    while pending:
        part = pending.pop()
        if part.rows > 1:
            pending += reversed(part.halves())
            continue
        for run in part.runs:
            for _, rows in run.parts:
                for offset in rows.columns["id"].to_pylist():
                    assert seen[run.origin.partition] <= offset < run.end
                    found.append((run.origin.partition, offset))
            assert run.end >= seen[run.origin.partition]
            seen[run.origin.partition] = run.end
    assert len(found) == len(set(found)) == staging.rows
    assert seen == dict(enumerate(next_offset))


def test_a_position_that_is_refused_is_no_rows_fault(postgres: str, sql: Sql) -> None:
    """Or every record would be reported as bad."""
    bad: list[str] = []
    sink = JdbcSink()
    context = dataclasses.replace(sink_context(bad), connector="c" * 300)
    sink.start(settings_of(JdbcSink, {"connection.url": postgres, "auto.create": True}), context)
    with pytest.raises(ConnectError, match="refuses a position in moldau_offsets"):
        write(sink, run_of([{"id": n} for n in range(5)]))
    assert bad == []
    sink.stop()
