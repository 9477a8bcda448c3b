"""Values that have no place in a record: the row is refused with its name, and the stream goes on."""

from __future__ import annotations

import time
from hashlib import md5
from typing import Any
from uuid import UUID

import pytest
from cdc_reader import Sql

ODD = """
CREATE TABLE odd (id INT PRIMARY KEY, n NUMERIC(9, 2), big NUMERIC(60, 20), tags INT[], day DATE,
    at TIMESTAMP, clock TIME, u TEXT)
"""
ROWS = """
INSERT INTO odd VALUES
    (1, 'NaN', 1, '{1}', '2024-01-01', '2024-01-01', '10:00', ''),
    (2, 1, 12345678901234567890123456789012345678.5, NULL,
        '0044-03-15 BC', '0044-03-15 01:00 BC', '24:00', 'x'),
    (3, 2, 1, '{{1,2},{3,4}}', 'infinity', '-infinity', '00:00', 'y'),
    (4, 3, -0.5, '{}', '10000-01-01', '1969-12-31 23:59:59.9999', '23:59:59.999999', NULL)
"""


@pytest.fixture
def reader(postgres_readers: Any) -> Any:
    return postgres_readers


def test_rows_that_are_refused_name_table_column_and_key(postgres: str, sql: Sql, reader: Any) -> None:
    sql(postgres, ODD)
    sql(postgres, ROWS)
    one = reader(postgres)
    one.until(4)
    assert [value["after"]["id"] for _, _, value in one.records] == [2, 4]
    assert "table public.odd, key id=1: the value 'NaN' of column n cannot be a" in one.refused[0]
    assert "decimal.handling.mode=double" in one.refused[0]
    assert "table public.odd, key id=3: the value '{{1,2},{3,4}}' of column tags" in one.refused[1]
    assert "moldau.array.handling.mode=json" in one.refused[1]
    one.settled()
    sql(postgres, "UPDATE odd SET u = 'z'")
    sql(postgres, "INSERT INTO odd (id) VALUES (5)")
    one.until(9)
    assert [value["after"]["id"] for _, _, value in one.records[2:]] == [2, 4, 5]
    assert [each[:28] for each in one.refused[2:]] == [each[:28] for each in one.refused[:2]]


def test_settings_that_have_every_value(postgres: str, sql: Sql, reader: Any) -> None:
    sql(postgres, ODD)
    sql(postgres, ROWS)
    one = reader(postgres, decimal_handling_mode="double", moldau_array_handling_mode="json")
    one.until(4)
    one.settled()
    sql(postgres, "UPDATE odd SET id = id")
    one.until(8)
    assert one.refused == []
    values = [value["after"] for _, _, value in one.records]
    assert repr(values[:4]) == repr(values[4:])  # NaN is not itself
    assert repr(values[0]["n"]) == "nan"
    assert values[2]["tags"] == "[[1, 2], [3, 4]]"
    assert values[1]["clock"] == 86_400_000_000
    assert [each["day"] for each in values[:4]] == [19723, -735_160, (1 << 31) - 1, 2_932_897]
    assert values[3]["at"] == -100


def test_more_digits_than_arrow_has(postgres: str, sql: Sql, reader: Any) -> None:
    sql(postgres, "CREATE TABLE odd (id INT PRIMARY KEY, big NUMERIC(60, 20), tiny NUMERIC(45, 45) NOT NULL)")
    sql(postgres, "INSERT INTO odd VALUES (1, 12345678901234567890123456789012345678.5, 0)")
    one = reader(postgres)
    one.until(1)
    one.settled()
    sql(postgres, "UPDATE odd SET id = id")
    one.until(2)
    for _, _, value in one.records:
        big = value["after"]["big"]
        unscaled = int.from_bytes(big["value"], "big", signed=True)
        assert (unscaled, big["scale"]) == (123456789012345678901234567890123456785 * 10**19, 20)


def test_times_of_connect_beyond_the_years_of_python(postgres: str, sql: Sql, reader: Any) -> None:
    sql(postgres, "CREATE TABLE odd (id INT PRIMARY KEY, day DATE, at TIMESTAMP)")
    sql(
        postgres,
        "INSERT INTO odd VALUES (1, '0044-03-15 BC', '0044-03-15 01:00 BC'), (2, 'infinity', '-infinity')",
    )
    one = reader(postgres, time_precision_mode="connect")
    deadline = time.monotonic() + 60
    while not (read := one.next(commit=False)) or not read.batches:
        assert time.monotonic() < deadline
    (batch,) = read.batches
    after = batch.value.values.field("after")
    assert after.field("day").cast("int32").to_pylist() == [-735_160, (1 << 31) - 1]
    assert after.field("at").cast("int64").to_pylist() == [-63517820400000, -9_223_372_036_832_400_000]


def test_null_in_the_place_of_a_value(postgres: str, sql: Sql, reader: Any, caplog: Any) -> None:
    sql(postgres, "CREATE TABLE odd (id INT PRIMARY KEY, n NUMERIC(9, 2), must NUMERIC(9, 2) NOT NULL)")
    sql(postgres, "INSERT INTO odd VALUES (1, 'NaN', 1), (2, 1, 'NaN')")
    one = reader(postgres, event_converting_failure_handling_mode="warn")
    one.until(2)
    one.settled()
    sql(postgres, "UPDATE odd SET id = id")
    one.until(4)
    assert [value["after"]["n"] for _, _, value in one.records] == [None, None]
    assert "column n: null instead of 'NaN'" in caplog.text
    assert len(one.refused) == 2
    assert all("column must" in each for each in one.refused)


def test_large_values_that_were_not_logged(postgres: str, sql: Sql, reader: Any) -> None:
    sql(
        postgres,
        "CREATE TABLE odd (id INT PRIMARY KEY, n INT, ints INT[] NOT NULL, uuids UUID[] NOT NULL, "
        "texts TEXT[] NOT NULL, digits NUMERIC NOT NULL)",
    )
    for column in ("ints", "uuids", "texts", "digits"):
        sql(postgres, f"ALTER TABLE odd ALTER COLUMN {column} SET STORAGE EXTERNAL")
    one = reader(postgres)
    one.settled()
    large = "(SELECT array_agg({}) FROM generate_series(1, 2000) n)"
    sql(
        postgres,
        f"INSERT INTO odd VALUES (1, 0, {large.format('n')}, {large.format('gen_random_uuid()')}, "
        f"{large.format('n::text')}, 1)",
    )
    sql(postgres, "UPDATE odd SET n = 1")
    one.until(2)
    after = one.records[1][2]["after"]
    assert bytes(after["ints"]).decode() == "__debezium_unavailable_value"
    assert after["texts"] == ["__debezium_unavailable_value"]
    assert after["uuids"] == [str(UUID(bytes=md5(b"__debezium_unavailable_value").digest(), version=3))]
    sql(
        postgres,
        "UPDATE odd SET digits = (SELECT string_agg('123456789', '')::numeric FROM generate_series(1, 9000))",
    )
    sql(postgres, "UPDATE odd SET n = 2")
    one.until(4)
    assert len(one.records) == 3
    assert "column digits" in one.refused[0]
    assert "REPLICA IDENTITY FULL" in one.refused[0]
