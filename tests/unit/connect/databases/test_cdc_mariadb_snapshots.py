"""Incremental snapshots of MariaDB while changes flow, and another server of the same data."""

from __future__ import annotations

import json
import time
from typing import Any

import pymysql
import pytest
from cdc_reader import Sql, short
from hypothesis import given
from hypothesis import strategies as st
from kit_mariadb import running_mariadb

from moldau.connect import Schema, Type
from moldau.connect.connectors.cdc.converting import CapturedColumn
from moldau.connect.connectors.cdc.envelope import Change, EnvelopeTable
from moldau.connect.connectors.cdc.mysql.chunks import Chunk, Chunks
from moldau.connect.connectors.cdc.mysql.gtids import MariadbGtids, MysqlGtids
from moldau.connect.connectors.cdc.mysql.incremental import Incremental
from moldau.connect.connectors.cdc.mysql.positions import Place, position_of
from moldau.connect.connectors.cdc.mysql.tables import MysqlTable, source_schema
from moldau.connect.errors import ConnectError, Retriable


@pytest.fixture
def reader(mariadb_readers: Any) -> Any:
    return mariadb_readers


@pytest.fixture
def shop(mariadb: str, sql: Sql) -> str:
    sql(mariadb, "CREATE TABLE orders (id INT PRIMARY KEY, name VARCHAR(40))")
    sql(mariadb, "CREATE TABLE signals (id VARCHAR(64) PRIMARY KEY, type VARCHAR(32), data TEXT)")
    return mariadb


def database_of(url: str) -> str:
    return url.rsplit("/", 1)[1].partition("?")[0]


def order(sql: Sql, url: str, *tables: str) -> None:
    named = json.dumps({"data-collections": [f"{database_of(url)}.{each}" for each in tables]})
    sql(url, f"INSERT INTO signals VALUES (UUID(), 'execute-snapshot', '{named}')")


def started(reader: Any, url: str, **given: Any) -> Any:
    database = database_of(url)
    one = reader(
        url,
        snapshot_mode="no_data",
        signal_data_collection=f"{database}.signals",
        table_exclude_list=[f"{database}.signals"],
        incremental_snapshot_chunk_size=4,
        **given,
    )
    one.settled()
    return one


@pytest.mark.parametrize("knows_place", [True, False])
def test_a_table_is_read_in_chunks_while_changes_flow(
    shop: str, sql: Sql, reader: Any, monkeypatch: Any, knows_place: bool
) -> None:
    """The server's own word of the place, and MySQL's way by a short lock; after each read a restart."""
    sql(shop, f"INSERT INTO orders VALUES {', '.join(f'({n}, {n!r})' for n in range(1, 11))}")
    one = started(reader, shop)
    make = Chunks.__init__

    def made(self: Any, connected: Any) -> None:
        make(self, connected)
        self._knows_place = None if knows_place else False

    monkeypatch.setattr(Chunks, "__init__", made)
    one.restart()
    one.settled()
    read = Chunks.read
    changed: list[Any] = []

    def then_changed(self: Any, *given: Any) -> Any:
        chunk = read(self, *given)
        if not changed:
            changed.append(chunk)
            sql(shop, "UPDATE orders SET name = 'new' WHERE id = 1")
            sql(shop, "DELETE FROM orders WHERE id = 2")
        return chunk

    monkeypatch.setattr(Chunks, "read", then_changed)
    order(sql, shop, "orders")
    deadline = time.monotonic() + 60
    while not changed or one.offset.get("moldau_incremental") or len(one.records) < 10:
        assert time.monotonic() < deadline, short(one.records)
        if one.next() is not None:
            one.restart()
    one.settled()
    topic: dict[int, str] = {}
    for _, key, value in one.records:
        if value is None or value["op"] == "d":
            topic.pop(key["id"], None)
        else:
            topic[key["id"]] = value["after"]["name"]
    assert topic == dict(sql(shop, "SELECT id, name FROM orders"))
    read_ones = [value for _, _, value in one.records if value and value["op"] == "r"]
    assert {each["source"]["snapshot"] for each in read_ones} == {"incremental"}
    assert "moldau_incremental" not in one.offset


TABLE = MysqlTable(
    "s",
    "t",
    EnvelopeTable(
        "t",
        "t",
        [
            CapturedColumn("id", Schema(Type.INT32), None, None),
            CapturedColumn("n", Schema(Type.STRING), None, None),
        ],
        [0],
        source_schema("mysql"),
    ),
    ["id", "n"],
)


class Read:
    """Gives chunks at places, in turn."""

    def __init__(self, *chunks: Chunk) -> None:
        self.chunks, self.asked = list(chunks), 0

    def read(self, *_: Any) -> Chunk:
        self.asked += 1
        return self.chunks.pop(0)


def incremental(*chunks: Chunk) -> tuple[Incremental, Read, list[float]]:
    now, database = [0.0], Read(*chunks)
    one = Incremental(database, lambda _: TABLE, 10, lambda: now[0])
    one.orders.waiting.append("s.t")
    return one, database, now


def test_rows_that_do_not_have_what_was_delivered_are_read_again() -> None:
    """The log is ahead of what is visible for a moment."""
    one, database, now = incremental(Chunk(Place("b.1", 50), []), Chunk(Place("b.1", 90), []))
    for _ in range(2):
        one.read_next(Place("b.1", 70))
        assert one.reached(Place("b.1", 70)) is None
    assert database.asked == 1, "again a moment later"
    now[0] += 1
    one.read_next(Place("b.1", 70))
    assert one.reached(Place("b.1", 80)) is None
    assert one.reached(Place("b.1", 90)) is not None
    assert one.orders.waiting == []


def test_changes_behind_the_place_are_newer_and_skipped_ones_are_carried_over() -> None:
    rows = [(n, "old") for n in range(1, 6)]
    one, database, _ = incremental(Chunk(Place("b.1", 50), list(rows)), Chunk(Place("b.2", 9), [(9, "all")]))
    one.read_next(Place("b.1", 40))
    behind = Place("b.1", 60)
    one.see("s", "t", Place("b.1", 50), [Change("u", None, [5, "seen"], (), [5])], False)
    one.see("s", "other", behind, [Change("d", [5, ""], None, (), [5])], False)
    one.see("s", "t", behind, [Change("u", None, [1, "new"], (), [1])], False)
    one.see("s", "t", behind, [Change("u", None, [2, "new"], (), [2])], True)
    one.see("s", "t", behind, [Change("d", [3, ""], None, (), [3]), Change("", None, None, (), [3])], True)
    made = one.reached(behind)
    assert made is not None
    assert [each.after for each in made.changes] == [[2, "new"], [4, "old"], [5, "old"]]
    one.orders.waiting.append("s.t")
    one.read_next(Place("b.2", 4))
    one.spoil("", "")  # TRUNCATE, or another table now
    assert one.reached(Place("b.2", 9)) is None
    assert one.orders.waiting == ["s.t"], "to be read again"
    assert database.asked == 2


def test_savepoints_end_no_transaction(shop: str, sql: Sql, reader: Any) -> None:
    one = started(reader, shop, max_batch_size=1)
    for statement in (
        "BEGIN",
        "INSERT INTO orders VALUES (1, 'a')",
        "SAVEPOINT s",
        "INSERT INTO orders VALUES (2, 'b')",
        "RELEASE SAVEPOINT s",
        "INSERT INTO orders VALUES (3, 'c')",
        "COMMIT",
    ):
        sql(shop, statement)
    deadline = time.monotonic() + 60
    while len(one.records) < 3:
        assert time.monotonic() < deadline
        if one.next() is not None:
            one.restart()
    one.settled()
    assert short(one.records) == [("c", None, n) for n in (1, 2, 3)]
    assert one.offset["gtids"]


def test_another_server_of_the_same_data(mariadb_server: Any, shop: str, sql: Sql, reader: Any) -> None:
    """Reading stops in the middle of a transaction, and goes on there by GTIDs, in other files."""
    with running_mariadb(2) as replica:
        options = {"host": "127.0.0.1", "port": replica.port, "user": "moldau", "autocommit": True}
        with pymysql.connect(**options) as two:
            cursor = two.cursor()
            ((gtids,),) = sql(shop, "SELECT @@gtid_binlog_pos")
            database = database_of(shop)
            cursor.execute("SET GLOBAL gtid_slave_pos = %s", (gtids,))
            cursor.execute("SET sql_log_bin = 0")
            cursor.execute(f"CREATE DATABASE {database}")
            cursor.execute(f"CREATE TABLE {database}.orders (id INT PRIMARY KEY, name VARCHAR(40))")
            cursor.execute(
                f"CREATE TABLE {database}.signals (id VARCHAR(64) PRIMARY KEY, type VARCHAR(32), data TEXT)"
            )
            cursor.execute(
                f"CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {mariadb_server.port}, "
                "MASTER_USER = 'moldau', MASTER_USE_GTID = slave_pos"
            )
            cursor.execute("SET sql_log_bin = 1")
            cursor.execute("START SLAVE")
            one = started(reader, shop, max_batch_size=2)
            sql(shop, "INSERT INTO orders VALUES (1, 'a')")
            sql(shop, "BEGIN")
            for n in range(2, 8):
                sql(shop, f"INSERT INTO orders VALUES ({n}, 'b')")
            sql(shop, "COMMIT")
            sql(shop, "INSERT INTO orders VALUES (8, 'c')")
            deadline = time.monotonic() + 60
            while len(one.records) < 3:
                assert time.monotonic() < deadline
                one.next()
            assert len(one.records) < 7
            assert one.offset["moldau_rows"]
            while True:
                cursor.execute(f"SELECT count(*) FROM {database}.orders")
                if cursor.fetchall() == ((8,),):
                    break
                assert time.monotonic() < deadline
                time.sleep(0.05)
            cursor.execute("STOP SLAVE")
            one.settings["database.port"] = replica.port
            one.restart()
            one.until(8)
            cursor.execute(f"INSERT INTO {database}.orders VALUES (9, 'd')")
            one.until(9)
            one.restart()  # in the new server's own files
            cursor.execute(f"INSERT INTO {database}.orders VALUES (10, 'e')")
            one.until(10)
            assert short(one.records) == [("c", None, n) for n in range(1, 11)]
            assert one.offset["moldau_server"] == "2"
            one.settings["database.port"] = mariadb_server.port
            one.offset.pop("gtids")
            one.restart()
            with pytest.raises(
                ConnectError, match="this is server 1, and the connector stands in the log of 2"
            ):
                one.next()


def test_positions_with_gtids() -> None:
    offset = {
        "file": "b.1",
        "pos": 4,
        "gtids": "0-1-5",
        "moldau_server": "7",
        "moldau_rows": 2,
        "moldau_gtid": "0-1-6",
    }
    position = position_of(offset)
    assert position is not None
    assert position.offset() == {**offset, "ts_sec": 0, "row": 0, "event": 0}
    assert (position.rows, position.rows_gtid) == (2, "0-1-6")


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3), st.integers(1, 99))))
def test_gtids_of_mariadb(made: list[tuple[int, int, int]]) -> None:
    """The last one of each domain, whatever server it is of."""
    one = MariadbGtids("")
    for domain, server, number in made:
        one.add(f"{domain}-{server}-{number}")
    last = {domain: f"{domain}-{server}-{number}" for domain, server, number in made}
    assert str(MariadbGtids(str(one))) == str(one) == ",".join(last[each] for each in sorted(last))


def test_gtids_of_mysql() -> None:
    source = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
    one = MysqlGtids(f"{source}:1-5")
    for number in (6, 7, 7):
        one.add(f"{source}:{number}")
    assert str(one).lower() == f"{source}:1-7"
    assert str(MysqlGtids("")) == ""


def test_names_that_need_quotes(mariadb: str, sql: Sql, reader: Any) -> None:
    database = database_of(mariadb)
    sql(mariadb, "CREATE TABLE `or%s ``der` (`i%sd` INT PRIMARY KEY, `a %(b)s` TEXT)")
    sql(mariadb, "CREATE TABLE signals (id VARCHAR(64) PRIMARY KEY, type VARCHAR(32), data TEXT)")
    sql(mariadb, "INSERT INTO `or%s ``der` VALUES (1, 'x'), (2, 'y'), (3, 'z')")
    one = started(reader, mariadb)
    one.settings["incremental.snapshot.chunk.size"] = 2
    one.restart()
    order(sql, mariadb, "or%s `der")
    one.until(3)
    assert [key for _, key, _ in one.records] == [{"i%sd": n} for n in (1, 2, 3)]
    assert one.records[0][0] == f"shop.{database}.or_s__der"


def test_a_wrong_login_fails_the_task_and_is_not_waited_for(mariadb: str, reader: Any) -> None:
    one = reader(mariadb, database_user="nobody", database_password="geheim")
    with pytest.raises(ConnectError, match="refuses the login") as caught:
        one.next()
    assert not isinstance(caught.value, Retriable)
    assert "geheim" not in str(caught.value)
