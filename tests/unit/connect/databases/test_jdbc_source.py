"""The JDBC source against real databases: what a worker would read, commit and read again."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sink_batches import settings_of

from moldau.connect import Read, SourceContext, Type, rows
from moldau.connect.connectors.jdbc.source import JdbcSource
from moldau.connect.connectors.jdbc.source_offset import Reached, reached
from moldau.connect.connectors.jdbc.source_rows import cut_by_time
from moldau.connect.errors import ConnectError, Retriable

Sql = Callable[[str, str], list[Any]]
Start = Callable[..., JdbcSource]


@pytest.fixture
def started() -> Iterator[Start]:
    made: list[JdbcSource] = []

    def start(url: str, **given: Any) -> JdbcSource:
        source = JdbcSource()
        named = {name.replace("_", "."): value for name, value in given.items()}
        settings = {"connection.url": url, "topic.prefix": "t-", "poll.interval.ms": 0, **named}
        context = SourceContext("c", 0, lambda: False, lambda _: False, lambda: None)
        source.start(settings_of(JdbcSource, settings), context)
        made.append(source)
        return source

    yield start
    for each in made:
        each.stop()


def look(source: JdbcSource, table: str | None = None, offset: Any = None) -> list[Read]:
    """All that one query gives."""
    partitions = source.partitions()
    partition = next(each for each in partitions if table is None or each["table"].endswith(table))
    found = []
    reading = source.read(partition, offset)
    for each in reading:
        if each is None:
            break
        found.append(each)
    reading.close()  # type: ignore[attr-defined]
    return found


def values(reads: list[Read]) -> list[Any]:
    return [row.value for read in reads for batch in read.batches for row in rows(batch)]


def ids(reads: list[Read]) -> list[int]:
    return [value["id"] for value in values(reads)]


NUMBERED = {
    "postgresql": "CREATE TABLE orders (id SERIAL PRIMARY KEY, name TEXT)",
    "mysql": "CREATE TABLE orders (id INT AUTO_INCREMENT PRIMARY KEY, name TEXT)",
    "jdbc": "CREATE TABLE orders (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT)",
}


def number_of(url: str) -> str:
    return NUMBERED[url.split("+", maxsplit=1)[0].split(":", maxsplit=1)[0]]


def test_incrementing_goes_on_where_it_was(any_database: str, started: Start, sql: Sql) -> None:
    sql(any_database, number_of(any_database))
    sql(any_database, "INSERT INTO orders (name) VALUES ('a'), ('b'), ('c')")
    source = started(any_database, mode="incrementing", batch_max_rows=2)
    reads = look(source)
    assert ids(reads) == [1, 2, 3]
    assert [each.offset for each in reads] == [{"incrementing": 2}, {"incrementing": 3}]
    assert reads[0].batches[0].topic == "t-orders"
    again = started(any_database, mode="incrementing")
    assert ids(look(again, offset=reads[0].offset)) == [3]
    sql(any_database, "INSERT INTO orders (name) VALUES ('d')")
    assert values(look(again, offset=reads[1].offset)) == [{"id": 4, "name": "d"}]


def times(*texts: str) -> str:
    return ", ".join(f"({number}, '2024-01-01 10:00:{text}')" for number, text in enumerate(texts, 1))


CREATE_TIMED = {"postgresql": "TIMESTAMP", "mysql": "DATETIME(6)", "jdbc": "TIMESTAMP"}


def timed(url: str, sql: Sql, *texts: str) -> None:
    kind = CREATE_TIMED[url.split("+", maxsplit=1)[0].split(":", maxsplit=1)[0]]
    sql(url, f"CREATE TABLE orders (id INT NOT NULL PRIMARY KEY, at {kind} NOT NULL)")
    sql(url, f"INSERT INTO orders VALUES {times(*texts)}")


def test_rows_of_one_time_are_one_transaction(any_database: str, started: Start, sql: Sql) -> None:
    timed(any_database, sql, "01.5", "02.25", "02.25", "02.25", "02.25", "03")
    source = started(any_database, mode="timestamp", timestamp_column_name=["at"], batch_max_rows=2)
    reads = look(source)
    assert ids(reads) == [1, 2, 3, 4, 5, 6]
    parts: list[list[int]] = [[]]
    for each in reads:
        parts[-1] += ids([each])
        if each.ends_transaction:
            parts.append([])
    assert parts in ([[1], [2, 3, 4, 5], [6], []], [[1], [2, 3, 4, 5, 6], []])
    assert reads[0].offset == {"timestamp": 1704103201500, "timestamp_nanos": 500_000_000}
    assert ids(look(source, offset=reads[0].offset)) == [2, 3, 4, 5, 6]
    assert look(source, offset=reads[-1].offset) == []
    sql(any_database, "INSERT INTO orders VALUES (7, '2024-01-01 10:00:04')")
    assert ids(look(source, offset=reads[-1].offset)) == [7]


def test_time_and_number_may_be_cut_anywhere(any_database: str, started: Start, sql: Sql) -> None:
    timed(any_database, sql, "02", "02", "01", "02", "03")
    settings = {"timestamp_column_name": ["at"], "incrementing_column_name": "id", "batch_max_rows": 1}
    source = started(any_database, mode="timestamp+incrementing", **settings)
    reads = look(source)
    assert ids(reads) == [3, 1, 2, 4, 5]
    for index, each in enumerate(reads):
        assert ids(look(source, offset=each.offset)) == [3, 1, 2, 4, 5][index + 1 :]
    sql(any_database, "UPDATE orders SET at = '2024-01-01 10:00:09' WHERE id = 3")
    assert ids(look(source, offset=reads[-1].offset)) == [3]


def test_zones(postgres: str, started: Start, sql: Sql) -> None:
    """A time without a zone shows db.timezone; one with a zone is what it is."""
    sql(postgres, "CREATE TABLE orders (id INT NOT NULL, at TIMESTAMP NOT NULL, zoned TIMESTAMPTZ NOT NULL)")
    sql(postgres, "INSERT INTO orders VALUES (1, '2024-07-01 12:00', '2024-07-01 12:00+00')")
    for column, hour in (("at", 10), ("zoned", 12)):
        source = started(
            postgres, mode="timestamp", timestamp_column_name=[column], db_timezone="Europe/Prague"
        )
        (read,) = look(source)
        assert (
            read.offset["timestamp"]
            == datetime.datetime(2024, 7, 1, hour, tzinfo=datetime.UTC).timestamp() * 1000
        )
        assert look(source, offset=read.offset) == []
        assert values([read])[0]["at"] == datetime.datetime(2024, 7, 1, 10, tzinfo=datetime.UTC)


def test_young_rows_wait(postgres: str, started: Start, sql: Sql) -> None:
    sql(postgres, "CREATE TABLE orders (id INT NOT NULL, at TIMESTAMPTZ NOT NULL)")
    sql(postgres, "INSERT INTO orders VALUES (1, now() - interval '1 hour'), (2, now())")
    given = {"mode": "timestamp", "timestamp_column_name": ["at"]}
    assert ids(look(started(postgres, timestamp_delay_interval_ms=60_000, **given))) == [1]
    assert ids(look(started(postgres, **given))) == [1, 2]
    assert look(started(postgres, timestamp_initial=-1, **given)) == []


def test_tables_are_chosen_and_come_later(postgres: str, started: Start, sql: Sql) -> None:
    database = postgres.split("/")[3].split("?", maxsplit=1)[0]
    for table in ("orders", "clients", "log_a"):
        sql(postgres, f"CREATE TABLE {table} (id INT)")
    sql(postgres, "CREATE SCHEMA s; CREATE TABLE s.orders (id INT); CREATE VIEW seen AS SELECT 1 AS id")

    def found(**given: Any) -> list[str]:
        source = started(postgres, mode="bulk", table_poll_interval_ms=0, **given)
        return [each["table"].removeprefix(database + ".") for each in source.partitions()]

    assert found() == ["public.clients", "public.log_a", "public.orders", "s.orders"]
    assert found(table_whitelist=["orders"]) == ["public.orders", "s.orders"]
    assert found(table_whitelist=["public.orders"]) == ["public.orders"]
    assert found(table_blacklist=["s.orders", "clients"]) == ["public.log_a", "public.orders"]
    assert found(table_include_list=[".*\\.log_.*"]) == ["public.log_a"]
    assert found(table_exclude_list=[".*s"], schema_pattern="public") == ["public.log_a"]
    assert found(table_types=["VIEW"]) == ["public.seen"]
    source = started(postgres, mode="bulk", table_poll_interval_ms=0, table_include_list=[".*log.*"])
    assert len(source.partitions()) == 1
    sql(postgres, "CREATE TABLE log_b (id INT)")
    assert len(source.partitions()) == 2
    sql(postgres, "DROP TABLE log_a")
    with pytest.raises(ConnectError, match="log_a is not there"):
        next(iter(source.read({"protocol": "1", "table": f"{database}.public.log_a"}, None)))


def test_queries(any_database: str, started: Start, sql: Sql) -> None:
    sql(any_database, number_of(any_database))
    sql(any_database, "INSERT INTO orders (name) VALUES ('a:b%'), ('b'), ('c')")
    query = "SELECT id, name FROM orders WHERE name <> 'x:y%';"
    source = started(any_database, mode="bulk", query=query, query_suffix="ORDER BY id DESC LIMIT 2")
    assert source.partitions() == [{"query": "query"}]
    assert ids(look(source)) == [3, 2]
    given = {"mode": "incrementing", "incrementing_column_name": "id"}
    assert values(look(started(any_database, query=query, **given))) == [
        {"id": 1, "name": "a:b%"},
        {"id": 2, "name": "b"},
        {"id": 3, "name": "c"},
    ]
    assert ids(look(started(any_database, query=query, **given), offset={"incrementing": 2})) == [3]


def test_types_of_postgresql(postgres: str, started: Start, sql: Sql) -> None:
    sql(
        postgres,
        "CREATE TABLE orders (id BIGINT NOT NULL, small SMALLINT, price NUMERIC(9, 2), free NUMERIC, yes "
        "BOOLEAN, "
        "real REAL, raw BYTEA, day DATE, clock TIME, doc JSONB, tags TEXT[], u UUID, inet INET)",
    )
    sql(
        postgres,
        "INSERT INTO orders VALUES (1, 2, 3.25, 1.5, true, 0.5, '\\x00ff', '2024-02-29', '10:11:12', "
        "'{\"a\": 1}', "
        "'{x,NULL}', '00000000-0000-0000-0000-000000000001', '10.0.0.1')",
    )
    wanted = {
        "id": 1,
        "small": 2,
        "price": Decimal("3.25"),
        "free": Decimal("1.5"),
        "yes": True,
        "real": 0.5,
        "raw": b"\x00\xff",
        "day": datetime.date(2024, 2, 29),
        "clock": datetime.time(10, 11, 12),
        "doc": '{"a": 1}',
        "tags": ["x", None],
        "u": "00000000-0000-0000-0000-000000000001",
        "inet": "10.0.0.1",
    }
    for more in ({}, {"query": "SELECT * FROM orders"}):
        (read,) = look(started(postgres, mode="bulk", **more))
        assert values([read]) == [wanted]
        schema = read.batches[0].value.schema
        assert schema is not None
        types = {each.name: each.schema.type for each in schema.fields}
        assert (types["id"], types["small"], types["real"]) == (Type.INT64, Type.INT16, Type.FLOAT32)
        assert schema.fields[0].schema.optional == bool(more)
    (read,) = look(started(postgres, mode="bulk", numeric_mapping="best_fit"))
    assert values([read])[0]["price"] == 3.25


def test_types_of_mariadb(mariadb: str, started: Start, sql: Sql) -> None:
    sql(
        mariadb,
        "CREATE TABLE orders (id BIGINT UNSIGNED NOT NULL, t TINYINT, price DECIMAL(9,2), raw BLOB, at "
        "DATETIME(3), "
        "ts TIMESTAMP NULL, clock TIME, e ENUM('a','b'), doc JSON, name VARCHAR(9))",
    )
    sql(
        mariadb,
        "INSERT INTO orders VALUES (1, -2, 3.25, x'00ff', '2024-02-29 10:00:00.125', '2024-02-29 10:00', "
        "'10:11:12', "
        "'b', '{\"a\": 1}', 'ž')",
    )
    at = datetime.datetime(2024, 2, 29, 10, tzinfo=datetime.UTC)
    for more in ({}, {"query": "SELECT * FROM orders"}):
        (value,) = values(look(started(mariadb, mode="bulk", **more)))
        assert (value["id"], value["t"]) == (1, -2)
        assert value["price"] == Decimal("3.25")
        assert value["at"] == at + datetime.timedelta(milliseconds=125)
        assert value["clock"] == datetime.time(10, 11, 12)
        assert (value["e"], value["name"], value["doc"]) == ("b", "ž", '{"a": 1}')


def test_tables_that_cannot_be_read_by_the_mode(postgres: str, started: Start, sql: Sql) -> None:
    sql(postgres, "CREATE TABLE orders (id INT, at TIMESTAMP)")
    for more, message in (
        ({"mode": "incrementing"}, "set incrementing.column.name"),
        (
            {"mode": "incrementing", "incrementing_column_name": "id"},
            "column id of table .*orders may be null",
        ),
        ({"mode": "incrementing", "incrementing_column_name": "x"}, "no column x: it has id, at"),
        ({"mode": "timestamp", "timestamp_column_name": ["at"]}, "may all be null"),
    ):
        with pytest.raises(ConnectError, match=message):
            look(started(postgres, **more))
    loose = {"mode": "timestamp", "timestamp_column_name": ["at"], "validate_non_null": False}
    assert look(started(postgres, **loose)) == []


def test_a_database_that_is_away(started: Start) -> None:
    source = started("jdbc:postgresql://127.0.0.1:1/shop", mode="bulk")
    with pytest.raises(Retriable):
        source.partitions()


def test_settings_that_contradict_one_another(any_database: str) -> None:
    def wrong(**given: Any) -> list[str]:
        named = {name.replace("_", "."): value for name, value in given.items()}
        return list(JdbcSource().check(settings_of(JdbcSource, {"connection.url": any_database, **named})))

    assert wrong(mode="bulk") == []
    assert wrong(mode="timestamp") == ["timestamp.column.name"]
    assert wrong(mode="incrementing", query="SELECT 1") == ["incrementing.column.name"]
    assert wrong(mode="bulk", query="SELECT 1", table_whitelist=["a"]) == ["query"]
    assert wrong(mode="bulk", table_blacklist=["b"], table_whitelist=["a"]) == ["table.blacklist"]


@given(st.lists(st.integers(0, 4), max_size=30), st.integers(1, 5))
def test_cutting_by_time(times_: list[int], size: int) -> None:
    ordered = [(time, index) for index, time in enumerate(sorted(times_))]
    chunks = [ordered[first : first + size] for first in range(0, len(ordered), size)]
    found = list(cut_by_time(chunks, lambda row: row[0]))
    assert [row for part, _ in found for row in part] == ordered
    for index, (part, time) in enumerate(found):
        assert len(part) <= 2 * size
        rest = [row for later, _ in found[index + 1 :] for row in later]
        if time is not None:  # everything of that time and before is out
            assert part[-1][0] == time
            assert all(row[0] > time for row in rest)
        else:
            assert rest


@given(
    st.none() | st.integers(0, 1 << 60),
    st.none() | st.datetimes(datetime.datetime(1960, 1, 1), datetime.datetime(2200, 1, 1)),
)
def test_offsets_are_read_as_they_are_written(number: int | None, time: datetime.datetime | None) -> None:
    at = Reached(number, time.replace(tzinfo=datetime.UTC) if time else None)
    assert reached(at.offset()) == at
    assert reached(None) == Reached()


def test_offsets_that_are_none() -> None:
    with pytest.raises(ConnectError, match="incrementing of an offset is a whole number"):
        reached({"incrementing": "x"})


def test_rows_that_no_record_can_have_are_refused_and_the_others_read(
    postgres: str, started: Start, sql: Sql
) -> None:
    sql(postgres, "CREATE TABLE odd (id SERIAL PRIMARY KEY, n NUMERIC(9, 2), day DATE, at TIMESTAMPTZ)")
    sql(
        postgres,
        "INSERT INTO odd (n, day, at) VALUES (1, '2024-01-01', now()), ('NaN', NULL, NULL), "
        "(2, '0044-03-15 BC', NULL), (3, NULL, 'infinity'), (4, NULL, NULL)",
    )
    reads = look(started(postgres, mode="incrementing"))
    assert ids(reads) == [1, 5]
    assert reads[-1].offset["incrementing"] == 5
    said = [str(each.error) for read in reads for each in read.refused]
    assert [each.split(" has a value")[0] for each in said] == [f"a row of odd, id={n}" for n in (2, 3, 4)]
    assert "column n, 'NaN'" in said[0]
    assert "column day, '0044-03-15 BC'" in said[1]
    assert "errors.tolerance=all" in said[2]
    (row,) = rows(reads[0].refused[0].batch)
    assert row.value["n"] == "NaN"


def test_a_wrong_login_is_no_absence_and_no_password_is_shown(postgres: str, mariadb: str) -> None:
    host = postgres.partition("host=")[2]
    for url in (
        postgres.replace("moldau@", "nobody:geheim@"),
        f"postgresql+psycopg://moldau@/nowhere?host={host}&password=geheim",
        mariadb.replace("moldau@", "nobody:geheim@"),
    ):
        source = JdbcSource()
        given = settings_of(JdbcSource, {"connection.url": url, "topic.prefix": "t-", "mode": "bulk"})
        (said,) = source.check(given)["connection.url"]
        assert "geheim" not in said
        source.start(given, SourceContext("c", 0, lambda: False, lambda _: False, lambda: None))
        with pytest.raises(ConnectError) as caught:
            source.partitions()
        assert not isinstance(caught.value, Retriable)
        source.stop()
