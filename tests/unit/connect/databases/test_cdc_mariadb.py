"""Captured changes of a real MariaDB, as a worker would read and commit them."""

from __future__ import annotations

import time
from decimal import Decimal
from typing import Any

import pytest
from cdc_reader import Sql, short

from moldau.connect.connectors.cdc.mysql.positions import BinlogPosition, position_of
from moldau.connect.connectors.cdc.mysql.types import bit_number, set_text
from moldau.connect.errors import ConnectError


@pytest.fixture
def reader(mariadb_readers: Any) -> Any:
    return mariadb_readers


@pytest.fixture
def shop(mariadb: str, sql: Sql) -> str:
    sql(mariadb, "CREATE TABLE orders (id INT PRIMARY KEY, name VARCHAR(40), price DECIMAL(9, 2) NOT NULL)")
    return mariadb


def test_a_snapshot_then_changes(shop: str, sql: Sql, reader: Any) -> None:
    sql(shop, "INSERT INTO orders VALUES (1, 'a', 1.5), (2, NULL, 2)")
    one = reader(shop)
    records = one.until(2)
    database = shop.rsplit("/", 1)[1]
    assert records[0][0] == f"shop.{database}.orders"
    assert records[0][2]["after"] == {"id": 1, "name": "a", "price": Decimal("1.50")}
    assert [each[2]["source"]["snapshot"] for each in records] == ["first", "last"]
    sql(shop, "INSERT INTO orders VALUES (3, 'ž', 3)")
    sql(shop, "UPDATE orders SET name = 'x' WHERE id = 1")
    sql(shop, "DELETE FROM orders WHERE id = 2")
    sql(shop, "UPDATE orders SET id = 9 WHERE id = 3")
    records = one.until(9)[2:]
    assert short(records) == [
        ("c", None, 3),
        ("u", 1, 1),
        ("d", 2, None),
        2,
        ("d", 3, None),
        3,
        ("c", None, 9),
    ]
    assert records[0][2]["after"]["name"] == "ž"
    assert records[1][2]["before"]["name"] == "a"
    assert records[0][2]["source"]["connector"] == "mariadb"


def test_a_transaction_that_was_cut_goes_on(shop: str, sql: Sql, reader: Any) -> None:
    one = reader(shop, max_batch_size=1)
    one.settled()
    sql(shop, "BEGIN")
    for number in range(10):
        sql(shop, f"INSERT INTO orders VALUES ({number * 2}, 'a', 0), ({number * 2 + 1}, 'b', 0)")
    sql(shop, "COMMIT")
    sql(shop, "FLUSH BINARY LOGS")
    sql(shop, "INSERT INTO orders VALUES (20, 'next', 0)")
    deadline = time.monotonic() + 60
    while len(one.records) < 21:
        assert time.monotonic() < deadline
        if one.next() is not None:
            one.restart()
    assert short(one.records) == [("c", None, number) for number in range(21)]


def test_nothing_is_lost_or_doubled_between_snapshot_and_changes(shop: str, sql: Sql, reader: Any) -> None:
    values = ", ".join(f"({number}, 'a', 0)" for number in range(1, 31))
    sql(shop, f"INSERT INTO orders VALUES {values}")
    one = reader(shop, snapshot_fetch_size=5)
    one.next()
    sql(shop, "INSERT INTO orders VALUES (31, 'late', 0)")
    sql(shop, "UPDATE orders SET name = 'b' WHERE id = 30")
    assert short(one.until(32)) == [
        *(("r", None, number) for number in range(1, 31)),
        ("c", None, 31),
        ("u", 30, 30),
    ]


def test_columns_that_come_and_go(shop: str, sql: Sql, reader: Any) -> None:
    """Changes are read with the columns they were made with, though the table has others by then."""
    one = reader(shop)
    one.settled()
    sql(shop, "INSERT INTO orders VALUES (1, 'a', 0)")
    sql(shop, "ALTER TABLE orders ADD COLUMN note TEXT AFTER id")
    sql(shop, "INSERT INTO orders VALUES (2, 'n', 'b', 0)")
    sql(shop, "ALTER TABLE orders DROP COLUMN name")
    sql(shop, "INSERT INTO orders VALUES (3, 'm', 0)")
    assert [value["after"] for _, _, value in one.until(3)] == [
        {"id": 1, "name": "a", "price": 0},
        {"id": 2, "note": "n", "name": "b", "price": 0},
        {"id": 3, "note": "m", "price": 0},
    ]


def test_types(mariadb: str, sql: Sql, reader: Any) -> None:
    """The same in the snapshot and in the log."""
    sql(
        mariadb,
        "CREATE TABLE orders (id BIGINT PRIMARY KEY, t TINYINT, u INT UNSIGNED, f DOUBLE, d DECIMAL(12,3), "
        "day "
        "DATE, "
        "clock TIME(6), at DATETIME(3), at6 DATETIME(6), ts TIMESTAMP NULL, y YEAR, raw VARBINARY(9), big "
        "LONGTEXT, "
        "e ENUM('a','b'), s SET('x','y'), one BIT(1), bits BIT(12), doc JSON)",
    )
    row = (
        "(%d, -3, 4000000000, 0.5, -1.250, '2024-02-29', '10:11:12.5', '2024-02-29 00:00:00.123', "
        "'2024-02-29 00:00:00.000001', '2024-02-29 10:00:00', 2024, x'00ff', 'text', 'b', 'y,x', 1, b'11', "
        "'{\"a\": 1}')"
    )
    sql(mariadb, "SET time_zone = '+00:00'")
    sql(mariadb, "INSERT INTO orders (id) VALUES (0)")
    sql(mariadb, f"INSERT INTO orders VALUES {row % 1}")
    one = reader(mariadb)
    one.until(2)
    sql(mariadb, f"INSERT INTO orders VALUES {row % 2}")
    values = [value["after"] for _, _, value in one.until(3)]
    assert all(value is None for name, value in values[0].items() if name != "id")
    day_us = 19782 * 86_400_000_000
    wanted = {
        "t": -3,
        "u": 4_000_000_000,
        "f": 0.5,
        "d": Decimal("-1.250"),
        "day": 19782,
        "clock": 36_672_500_000,
        "at": day_us // 1000 + 123,
        "at6": day_us + 1,
        "ts": "2024-02-29T10:00:00Z",
        "y": 2024,
        "raw": b"\x00\xff",
        "big": "text",
        "e": "b",
        "s": "x,y",
        "one": True,
        "bits": b"\x03\x00",
        "doc": '{"a": 1}',
    }
    for value in values[1:]:
        value.pop("id")
        assert value == wanted


def test_a_log_that_was_purged(shop: str, sql: Sql, reader: Any) -> None:
    one = reader(shop)
    one.settled()
    one.offset = {"file": "binlog.999999", "pos": 4}
    one.restart()
    with pytest.raises(ConnectError, match=r"does not have binlog.999999 any more.*when_needed"):
        one.next()
    sql(shop, "INSERT INTO orders VALUES (1, 'a', 0)")
    one.settings["snapshot.mode"] = "when_needed"
    one.restart()
    assert short(one.until(1)) == [("r", None, 1)]


def test_settings_are_checked(mariadb: str, reader: Any) -> None:
    one = reader(mariadb)
    assert one.source.check(one.settings) == {}
    assert list(one.source.check({**one.settings, "database.port": 1})) == ["database.hostname"]
    assert list(one.source.check({**one.settings, "database.exclude.list": ["x"]})) == [
        "database.exclude.list"
    ]


def test_offsets_and_values() -> None:
    at = BinlogPosition("b.1", 7, 3, 9)
    assert position_of(at.offset()) == at
    assert position_of({"file": "b.1", "pos": 4, "snapshot": True}) is None
    assert position_of({"file": "b.1", "pos": 4, "row": 1, "event": 2, "gtids": ""}) == BinlogPosition(
        "b.1", 4
    )
    with pytest.raises(ConnectError):
        position_of({"pos": 4})
    assert (bit_number("101"), bit_number(b"\x01\x00")) == (5, 256)
    assert set_text({"y", "x"}, ("x", "y")) == "x,y"


def test_changes_that_the_log_has_in_part_are_refused_and_not_filled_with_nulls(
    shop: str, sql: Sql, reader: Any
) -> None:
    """A session, or an administrator, has the server log less."""
    sql(shop, "INSERT INTO orders VALUES (1, 'a', 1), (2, 'b', 2)")
    one = reader(shop)
    one.until(2)
    one.settled()
    sql(shop, "SET SESSION binlog_row_image = 'MINIMAL'")
    sql(shop, "UPDATE orders SET name = 'x' WHERE id = 1")
    sql(shop, "SET SESSION binlog_row_image = 'FULL'")
    sql(shop, "SET GLOBAL binlog_row_metadata = 'MINIMAL'")
    try:
        sql(shop, "UPDATE orders SET name = 'y' WHERE id = 2")
    finally:
        sql(shop, "SET GLOBAL binlog_row_metadata = 'FULL'")
    sql(shop, "INSERT INTO orders VALUES (3, 'c', 3)")
    one.until(5)
    assert short(one.records) == [("r", None, 1), ("r", None, 2), ("c", None, 3)]
    assert "binlog_row_image was not FULL" in one.refused[0]
    assert "binlog_row_metadata was not FULL" in one.refused[1]
    database = shop.rsplit("/", 1)[1]
    assert all(f"table {database}.orders: " in each for each in one.refused)
