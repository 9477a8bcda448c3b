"""Captured changes of a real PostgreSQL, as a worker would read and commit them."""

from __future__ import annotations

import json
import threading
import time
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from cdc_reader import Sql, short

from moldau.connect.connectors.cdc.postgres.incremental import Incremental
from moldau.connect.connectors.cdc.postgres.replication import Replication
from moldau.connect.errors import ConnectError, Retriable


def drop_slot(sql: Sql, url: str, name: str) -> None:
    """As an administrator; its reader has just gone."""
    deadline = time.monotonic() + 60
    while True:
        try:
            sql(url, f"SELECT pg_drop_replication_slot('{name}')")
            return
        except psycopg.errors.ObjectInUse:
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.fixture
def reader(postgres_readers: Any) -> Any:
    return postgres_readers


@pytest.fixture
def shop(postgres: str, sql: Sql) -> str:
    sql(postgres, "CREATE TABLE orders (id INT PRIMARY KEY, name TEXT, price NUMERIC(9, 2) NOT NULL)")
    return postgres


def test_a_snapshot_then_changes(shop: str, sql: Sql, reader: Any) -> None:
    sql(shop, "INSERT INTO orders VALUES (1, 'a', 1.5), (2, NULL, 2)")
    one = reader(shop)
    records = one.until(2)
    assert short(records) == [("r", None, 1), ("r", None, 2)]
    topic, key, value = records[0]
    assert (topic, key) == ("shop.public.orders", {"id": 1})
    assert value["after"] == {"id": 1, "name": "a", "price": Decimal("1.50")}
    assert [each[2]["source"]["snapshot"] for each in records] == ["first", "last"]
    one.settled()
    sql(shop, "INSERT INTO orders VALUES (3, 'c', 3)")
    sql(shop, "UPDATE orders SET name = 'x' WHERE id = 1")
    sql(shop, "DELETE FROM orders WHERE id = 2")
    sql(shop, "UPDATE orders SET id = 9 WHERE id = 3")
    records = one.until(9)[2:]
    assert short(records) == [
        ("c", None, 3),
        ("u", None, 1),
        ("d", 2, None),
        2,
        ("d", 3, None),
        3,
        ("c", None, 9),
    ]
    source = records[0][2]["source"]
    assert (source["connector"], source["name"], source["schema"], source["table"]) == (
        "postgresql", "shop", "public", "orders")  # fmt: skip
    assert source["snapshot"] == "false"
    assert source["lsn"] > 0
    batch = one.reads[1].batches[0]
    assert batch.value.schema is not None
    assert batch.value.schema.name == "shop.public.orders.Envelope"
    assert batch.key.schema is not None
    assert batch.key.schema.name == "shop.public.orders.Key"


def test_nothing_is_lost_or_doubled_between_snapshot_and_changes(shop: str, sql: Sql, reader: Any) -> None:
    sql(shop, "INSERT INTO orders SELECT n, 'a', n FROM generate_series(1, 100) n")
    one = reader(shop, snapshot_fetch_size=10)
    one.next()  # the slot is its own
    one.next()  # the snapshot has begun
    sql(shop, "INSERT INTO orders VALUES (101, 'late', 0)")
    sql(shop, "UPDATE orders SET name = 'b' WHERE id = 100")
    found = short(one.until(102))
    assert found == [*(("r", None, number) for number in range(1, 101)), ("c", None, 101), ("u", None, 100)]


def test_a_transaction_that_was_cut_goes_on(shop: str, sql: Sql, reader: Any) -> None:
    one = reader(shop, max_batch_size=7)
    one.settled()
    sql(shop, "INSERT INTO orders SELECT n, 'a', n FROM generate_series(1, 40) n")
    sql(shop, "INSERT INTO orders VALUES (41, 'next', 0)")
    deadline = time.monotonic() + 60
    while len(one.records) < 41:
        assert time.monotonic() < deadline
        if one.next() is not None:
            one.restart()
    assert short(one.records) == [("c", None, number) for number in range(1, 42)]


def test_what_is_not_committed_comes_again(shop: str, sql: Sql, reader: Any) -> None:
    one = reader(shop)
    one.settled()
    sql(shop, "INSERT INTO orders VALUES (1, 'a', 0)")
    deadline = time.monotonic() + 60
    while one.next(commit=False) is None:
        assert time.monotonic() < deadline
    for _ in range(5):  # reports to the server in between
        one.next(commit=False)
    one.restart()
    assert short(one.until(1)) == [("c", None, 1)]


def test_a_snapshot_that_was_broken_off_begins_again(shop: str, sql: Sql, reader: Any) -> None:
    sql(shop, "INSERT INTO orders SELECT n, 'a', n FROM generate_series(1, 30) n")
    one = reader(shop, snapshot_fetch_size=10)
    one.next()
    sql(shop, "DELETE FROM orders WHERE id = 30")
    one.records.clear()
    one.restart()
    assert short(one.until(29)) == [("r", None, number) for number in range(1, 30)]


def test_a_slot_that_was_dropped(shop: str, sql: Sql, reader: Any) -> None:
    one = reader(shop)
    one.settled()
    one.close()
    drop_slot(sql, shop, one.settings["slot.name"])
    one.restart()
    with pytest.raises(
        ConnectError, match=r"replication slot .* is gone, and with it the changes since .*offsets"
    ):
        one.next()
    sql(shop, "INSERT INTO orders VALUES (1, 'a', 0)")
    one.settings["snapshot.mode"] = "when_needed"
    one.restart()
    assert short(one.until(1)) == [("r", None, 1)]


def test_a_slot_of_somebody_else_is_left_alone(shop: str, sql: Sql, reader: Any) -> None:
    sql(shop, "SELECT pg_create_logical_replication_slot('theirs', 'pgoutput')")
    before = sql(shop, "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = 'theirs'")
    with pytest.raises(ConnectError, match=r"no offset that says it is its own.*pg_drop_replication_slot"):
        reader(shop, slot_name="theirs").next()
    after = sql(shop, "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = 'theirs'")
    assert before == after
    sql(shop, "SELECT pg_drop_replication_slot('theirs')")


def test_a_slot_that_was_made_anew(shop: str, sql: Sql, reader: Any) -> None:
    one = reader(shop)
    one.settled()
    one.close()
    name = one.settings["slot.name"]
    drop_slot(sql, shop, name)
    sql(shop, "INSERT INTO orders VALUES (1, 'a', 0)")
    sql(shop, f"SELECT pg_create_logical_replication_slot('{name}', 'pgoutput')")
    one.restart()
    with pytest.raises(ConnectError, match="it was made anew, or somebody else read from it"):
        one.next()


def test_columns_that_come_and_go(shop: str, sql: Sql, reader: Any) -> None:
    one = reader(shop)
    one.settled()
    sql(shop, "INSERT INTO orders VALUES (1, 'a', 0)")
    sql(shop, "ALTER TABLE orders ADD COLUMN note TEXT")
    sql(shop, "INSERT INTO orders VALUES (2, 'b', 0, 'n')")
    sql(shop, "ALTER TABLE orders DROP COLUMN name")
    sql(shop, "INSERT INTO orders VALUES (3, 0, 'm')")
    after = [value["after"] for _, _, value in one.until(3)]
    assert [sorted(each) for each in after] == [
        ["id", "name", "price"],
        ["id", "name", "note", "price"],
        ["id", "note", "price"],
    ]


def test_identity_full_and_values_that_are_not_logged(shop: str, sql: Sql, reader: Any) -> None:
    sql(shop, "ALTER TABLE orders ALTER COLUMN name SET STORAGE EXTERNAL")
    one = reader(shop)
    one.settled()
    sql(shop, "INSERT INTO orders VALUES (1, repeat('x', 10000), 0)")
    sql(shop, "UPDATE orders SET price = 1")
    sql(shop, "ALTER TABLE orders REPLICA IDENTITY FULL")
    sql(shop, "UPDATE orders SET price = 2")
    sql(shop, "DELETE FROM orders")
    values = [value for _, _, value in one.until(5)]
    assert values[1]["after"]["name"] == "__debezium_unavailable_value"
    assert values[1]["before"] is None
    assert values[2]["after"]["name"] == values[2]["before"]["name"] == "x" * 10000
    assert values[2]["before"]["price"] == 1
    assert values[3]["before"]["price"] == 2


def test_tables_and_columns_are_chosen(shop: str, sql: Sql, reader: Any) -> None:
    sql(shop, "CREATE TABLE secret (id INT PRIMARY KEY); INSERT INTO secret VALUES (1)")
    sql(shop, "INSERT INTO orders VALUES (1, 'a', 0)")
    one = reader(
        shop,
        table_include_list=["public.ord.*"],
        column_exclude_list=[".*\\.name"],
        message_key_columns=["public.orders:price"],
        publication_autocreate_mode="filtered",
    )
    (topic, key, value), *_ = one.until(1)
    assert (topic, key) == ("shop.public.orders", {"price": Decimal("0.00")})
    assert value["after"] == {"id": 1, "price": Decimal("0.00")}
    assert sql(shop, "SELECT tablename FROM pg_publication_tables") == [("orders",)]


def test_a_quiet_table_lets_the_server_forget(shop: str, sql: Sql, reader: Any) -> None:
    one = reader(shop, publication_autocreate_mode="filtered")
    sql(shop, "CREATE TABLE other (id INT)")
    one.settings["table.include.list"] = ["public.orders"]
    one.restart()
    one.settled()
    sql(shop, "INSERT INTO other SELECT generate_series(1, 1000)")
    ((end,),) = sql(shop, "SELECT pg_current_wal_lsn()")
    deadline = time.monotonic() + 60
    name = one.settings["slot.name"]
    query = f"SELECT confirmed_flush_lsn >= '{end}' FROM pg_replication_slots WHERE slot_name = '{name}'"
    while sql(shop, query) != [(True,)]:
        assert time.monotonic() < deadline
        one.next()
    assert one.records == []


def test_heartbeats_and_transactions(shop: str, sql: Sql, reader: Any) -> None:
    sql(shop, "CREATE TABLE beat (id INT PRIMARY KEY, n INT); INSERT INTO beat VALUES (1, 0)")
    one = reader(
        shop,
        table_include_list=["public.orders"],
        heartbeat_interval_ms=10,
        heartbeat_action_query="UPDATE beat SET n = n + 1",
        provide_transaction_metadata=True,
    )
    sql(shop, "SELECT 1")
    deadline = time.monotonic() + 60
    while not any(topic == "__debezium-heartbeat.shop" for topic, _, _ in one.records):
        assert time.monotonic() < deadline
        one.next()
    assert sql(shop, "SELECT n > 0 FROM beat") == [(True,)]
    sql(shop, "INSERT INTO orders VALUES (1, 'a', 0), (2, 'b', 0)")
    while sum(value.get("status") == "END" and value["event_count"] == 2 for _, _, value in one.records) < 1:
        assert time.monotonic() < deadline
        one.next()
    changes = [value for topic, _, value in one.records if topic == "shop.public.orders"]
    assert [each["transaction"]["total_order"] for each in changes] == [1, 2]
    ends = [value for _, key, value in one.records if value.get("status") == "END" and value["event_count"]]
    assert ends[0]["data_collections"] == [{"data_collection": "public.orders", "event_count": 2}]
    assert ends[0]["id"] == changes[0]["transaction"]["id"]


def test_an_incremental_snapshot_while_changes_flow(shop: str, sql: Sql, reader: Any) -> None:
    sql(shop, "CREATE TABLE signals (id VARCHAR(64) PRIMARY KEY, type VARCHAR(32), data TEXT)")
    sql(shop, "INSERT INTO orders SELECT n, 'old', n FROM generate_series(1, 50) n")
    one = reader(
        shop,
        snapshot_mode="no_data",
        signal_data_collection="public.signals",
        table_include_list=["public.orders"],
        incremental_snapshot_chunk_size=7,
    )
    one.settled()
    order = json.dumps({"data-collections": ["public.orders"], "type": "incremental"})
    sql(shop, f"INSERT INTO signals VALUES ('1', 'execute-snapshot', '{order}')")
    deadline, changed = time.monotonic() + 60, 0
    state: dict[int, Any] = {}
    seen = 0
    while len(state) < 60 or changed < 30:
        assert time.monotonic() < deadline, (len(state), changed)
        one.next()
        if changed < 30:
            changed += 1
            sql(shop, f"UPDATE orders SET name = 'new{changed}' WHERE id = {changed}")
            if changed % 3 == 0:
                sql(shop, f"INSERT INTO orders VALUES ({100 + changed}, 'more', 0)")
            if changed % 10 == 0:
                one.restart()
        for _, key, value in one.records[seen:]:
            state[key["id"]] = value["after"]["name"]
        seen = len(one.records)
    one.settled()
    for _, key, value in one.records[seen:]:
        state[key["id"]] = value["after"]["name"]
    assert state == dict(sql(shop, "SELECT id, name FROM orders"))
    reads = [value["source"]["snapshot"] for _, _, value in one.records if value["op"] == "r"]
    assert set(reads) == {"incremental"}


def test_types(postgres: str, sql: Sql, reader: Any) -> None:
    """The same in the snapshot and in the log."""
    sql(postgres, "CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE DOMAIN small AS INT CHECK (VALUE < 100)")
    sql(
        postgres,
        "CREATE TABLE orders (id BIGINT PRIMARY KEY, s SMALLINT, f REAL, b BOOLEAN, raw BYTEA, free NUMERIC, "
        "day DATE, clock TIME, at TIMESTAMP, at3 TIMESTAMP(3), zoned TIMESTAMPTZ, span INTERVAL, u UUID, "
        "doc "
        "JSONB, "
        "m mood, d small, bits BIT(12), tags TEXT[], many INT[])",
    )
    row = (
        "(%d, 2, 0.5, true, '\\x00ff', -12.345, '1969-12-31', '10:11:12.5', '2024-02-29 00:00:00.000001', "
        "'2024-02-29 00:00:00.123', '2024-02-29 02:00:00.5+02', '1 day 2 hours', "
        "'00000000-0000-0000-0000-000000000001', '{\"a\": 1}', 'ok', 7, B'000000000011', "
        "'{a,NULL,\"b\\\",\\\\c\"}', '{{1,2},{3,4}}'::int[][])"
    )
    sql(
        postgres,
        f"INSERT INTO orders (id) VALUES (0); INSERT INTO orders VALUES {row % 1}".replace(
            "{{1,2},{3,4}}", "{1,2}"
        ),
    )
    one = reader(postgres)
    one.until(2)
    sql(postgres, f"INSERT INTO orders VALUES {row % 2}".replace("{{1,2},{3,4}}", "{1,2}"))
    values = [value["after"] for _, _, value in one.until(3)]
    assert all(value is None for name, value in values[0].items() if name != "id")
    day = 19782 * 86_400_000_000
    wanted = {
        "s": 2,
        "f": 0.5,
        "b": True,
        "raw": b"\x00\xff",
        "free": {"scale": 3, "value": (-12345).to_bytes(2, "big", signed=True)},
        "day": -1,
        "clock": 36_672_500_000,
        "at": day + 1,
        "at3": day // 1000 + 123,
        "zoned": "2024-02-29T00:00:00.5Z",
        "span": 26 * 3_600_000_000,
        "u": "00000000-0000-0000-0000-000000000001",
        "doc": '{"a": 1}',
        "m": "ok",
        "d": 7,
        "bits": b"\x03\x00",
        "tags": ["a", None, 'b",\\c'],
        "many": [1, 2],
    }
    for value in values[1:]:
        value.pop("id")
        assert value == wanted


def test_a_crash_of_the_server_in_between(postgres_server: Any, shop: str, sql: Sql, reader: Any) -> None:
    from database_connections import connected

    one = reader(shop)
    one.settled()
    sql(shop, "INSERT INTO orders VALUES (1, 'a', 0)")
    one.until(1)
    postgres_server.stop()
    with pytest.raises(Retriable):
        one.until(2)  # what was sent before may come first
    one.restart()
    with pytest.raises(Retriable):
        one.next()
    postgres_server.start()
    with connected(shop) as again:
        again.execute("INSERT INTO orders VALUES (2, 'b', 0)")
    one.restart()
    assert short(one.until(2)) == [("c", None, 1), ("c", None, 2)]


def test_settings_that_contradict_one_another(postgres: str, reader: Any) -> None:
    one = reader(postgres)

    def wrong(**given: Any) -> list[str]:
        return list(one.source.check({**one.settings, **{k.replace("_", "."): v for k, v in given.items()}}))

    assert wrong() == []
    assert wrong(slot_name="No") == ["slot.name"]
    assert wrong(table_include_list=["a"], table_exclude_list=["b"]) == ["table.exclude.list"]
    assert wrong(skipped_operations=["x"]) == ["skipped.operations"]
    assert wrong(database_hostname="/nowhere") == ["database.hostname"]


def test_a_transaction_that_commits_while_nothing_else_happens(shop: str, sql: Sql, reader: Any) -> None:
    """Its commit is the next record of the log behind the one that the server told to have been read."""
    one = reader(shop, status_update_interval_ms=10)
    one.settled()
    with psycopg.connect(
        host=one.settings["database.hostname"], user="moldau", dbname=one.settings["database.dbname"]
    ) as it:
        it.execute("INSERT INTO orders VALUES (1, 'a', 1)")
        sql(shop, "CHECKPOINT")
        ((end,),) = sql(shop, "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")
        deadline = time.monotonic() + 60
        while not one.offset or one.offset["moldau_end_lsn"] < end:
            assert time.monotonic() < deadline
            one.next()
        it.commit()
    assert short(one.until(1)) == [("c", None, 1)]


def test_a_database_with_habits_of_its_own(postgres: str, sql: Sql, reader: Any) -> None:
    """Not in UTF-8, bytes escaped, numbers in hundreds."""
    name = postgres.partition("@/")[2].partition("?")[0]
    sql(postgres, f"CREATE DATABASE {name}l ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    sql(postgres, f"ALTER DATABASE {name}l SET bytea_output = 'escape'")
    url = postgres.replace(f"@/{name}?", f"@/{name}l?")
    sql(
        url,
        "CREATE TABLE t (id INT PRIMARY KEY, name TEXT, data BYTEA, hundreds NUMERIC(3, -2), price MONEY)",
    )
    insert = "INSERT INTO t VALUES ({}, 'M\u00fcller', '\\x00ff', 12300, -1234.5)"
    sql(url, insert.format(1))
    one = reader(url)
    one.until(1)
    one.settled()
    sql(url, insert.format(2))
    for _, _, value in one.until(2):
        row = value["after"]
        assert (row["name"], row["data"]) == ("M\u00fcller", b"\x00\xff")
        assert (row["hundreds"], row["price"]) == (Decimal(12300), Decimal("-1234.50"))


@pytest.mark.parametrize("gone", [False, True])
def test_a_table_that_is_changed_before_it_is_read(shop: str, sql: Sql, reader: Any, gone: bool) -> None:
    """The catalog knows the key as it is now, the log as it was."""
    one = reader(shop)
    one.settled()
    sql(shop, "INSERT INTO orders VALUES (1, 'a', 1)")
    sql(shop, "ALTER TABLE orders RENAME COLUMN id TO number")
    sql(shop, "INSERT INTO orders VALUES (2, 'b', 1)")
    if gone:
        sql(shop, "DROP TABLE orders")
    assert [key for _, key, _ in one.until(2)] == [{"id": 1}, {"number": 2}]


def test_rows_that_share_a_key_are_not_taken_for_one(
    shop: str, sql: Sql, reader: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """An incremental snapshot goes by key: of a table whose records have another one, none is made."""
    sql(shop, "CREATE TABLE signals (id VARCHAR(64) PRIMARY KEY, type VARCHAR(32), data TEXT)")
    sql(shop, "CREATE TABLE items (id INT PRIMARY KEY)")
    sql(shop, "INSERT INTO orders SELECT n, 'same', n FROM generate_series(1, 5) n")
    sql(shop, "INSERT INTO items SELECT n FROM generate_series(1, 5) n")
    one = reader(
        shop,
        snapshot_mode="no_data",
        signal_data_collection="public.signals",
        table_exclude_list=["public.signals"],
        message_key_columns=["public.orders:name"],
        incremental_snapshot_chunk_size=2,
    )
    one.settled()
    order = json.dumps({"data-collections": ["public.orders", "public.items"]})
    sql(shop, f"INSERT INTO signals VALUES ('1', 'execute-snapshot', '{order}')")
    assert short(one.until(5)) == [("r", None, n) for n in range(1, 6)]
    assert {topic for topic, _, _ in one.records} == {"shop.public.items"}
    assert "table public.orders has no primary key, or its records have another key" in caplog.text


def test_an_incremental_snapshot_with_skipped_updates_and_truncate(shop: str, sql: Sql, reader: Any) -> None:
    """A row that is updated, deleted or truncated between reading and mark goes out as it is then."""
    sql(shop, "CREATE TABLE signals (id VARCHAR(64) PRIMARY KEY, type VARCHAR(32), data TEXT)")
    sql(shop, "INSERT INTO orders SELECT n, 'old', n FROM generate_series(1, 6) n")
    one = reader(
        shop,
        snapshot_mode="no_data",
        signal_data_collection="public.signals",
        table_exclude_list=["public.signals"],
        skipped_operations=["u", "d", "t"],
        incremental_snapshot_chunk_size=4,
        max_batch_size=1,
    )
    one.settled()
    order = json.dumps({"data-collections": ["public.orders"]})
    sql(shop, f"INSERT INTO signals VALUES ('1', 'execute-snapshot', '{order}')")
    read = Incremental.read_next

    def change_after(self: Incremental) -> None:
        before = self.window
        with pytest.MonkeyPatch.context() as patch:
            mark = type(self._database).mark

            def changes_first(database: Any, name: str) -> None:
                if not done:
                    done.append(name)
                    sql(shop, "UPDATE orders SET name = 'new' WHERE id = 1")
                    sql(shop, "DELETE FROM orders WHERE id = 2")
                mark(database, name)

            patch.setattr(type(self._database), "mark", changes_first)
            read(self)
        assert before is None or self.window is before

    done: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Incremental, "read_next", change_after)
        one.until(5)
    assert done
    found = [(value["after"]["id"], value["after"]["name"]) for _, _, value in one.records]
    assert found == [(1, "new"), (3, "old"), (4, "old"), (5, "old"), (6, "old")]


def test_a_change_that_waits_for_a_standby_is_newer_than_what_is_read(
    postgres_server: Any, shop: str, sql: Sql, reader: Any
) -> None:
    """It is in the log, and delivered, before any reading sees it."""
    sql(shop, "CREATE TABLE signals (id VARCHAR(64) PRIMARY KEY, type VARCHAR(32), data TEXT)")
    sql(shop, "INSERT INTO orders VALUES (1, 'old', 1)")
    one = reader(
        shop,
        snapshot_mode="no_data",
        signal_data_collection="public.signals",
        table_exclude_list=["public.signals"],
    )
    one.settled()
    sql(shop, "SET synchronous_commit = local")
    sql(shop, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
    sql(shop, "SELECT pg_reload_conf()")
    options = {"host": postgres_server.folder, "user": "moldau", "dbname": one.settings["database.dbname"]}
    try:
        with psycopg.connect(**options, autocommit=True) as other:
            until_true(lambda: other.execute("SHOW synchronous_standby_names").fetchone() == ("nobody",))
            waiting = threading.Thread(target=other.execute, args=["UPDATE orders SET name = 'new'"])
            waiting.start()
            one.until(1)
            assert sql(shop, "SELECT name FROM orders") == [("old",)]
            order = json.dumps({"data-collections": ["public.orders"]})
            sql(shop, f"INSERT INTO signals VALUES ('1', 'execute-snapshot', '{order}')")
            for _ in range(10):
                one.next()
            assert len(one.records) == 1
            sql(shop, "ALTER SYSTEM RESET synchronous_standby_names")
            sql(shop, "SELECT pg_reload_conf()")
            waiting.join(60)
            assert not waiting.is_alive()
    finally:
        sql(shop, "ALTER SYSTEM RESET synchronous_standby_names")
        sql(shop, "SELECT pg_reload_conf()")
    one.until(2)
    assert [(value["op"], value["after"]["name"]) for _, _, value in one.records] == [
        ("u", "new"), ("r", "new")]  # fmt: skip


def test_a_table_that_is_truncated_while_the_snapshot_begins(
    shop: str, sql: Sql, reader: Any, monkeypatch: Any
) -> None:
    """It would look empty, with all that is written into it before it is read."""
    sql(shop, "INSERT INTO orders VALUES (1, 'a', 1)")
    create = Replication.create_slot

    def truncated_behind(self: Any, *given: Any) -> Any:
        made = create(self, *given)
        sql(shop, "ALTER TABLE orders ALTER COLUMN name TYPE VARCHAR(20) USING left(name, 20)")
        return made

    monkeypatch.setattr(Replication, "create_slot", truncated_behind)
    one = reader(shop)
    with pytest.raises(Retriable, match=r"public\.orders was truncated or written anew"):
        one.until(1)
    monkeypatch.undo()
    one.restart()
    assert short(one.until(1)) == [("r", None, 1)]


def until_true(found: Any) -> None:
    deadline = time.monotonic() + 60
    while not found():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_wrong_login_fails_the_task_and_is_not_waited_for(postgres: str, reader: Any) -> None:
    one = reader(postgres, database_user="nobody")
    with pytest.raises(ConnectError, match='role "nobody" does not exist') as caught:
        one.next()
    assert not isinstance(caught.value, Retriable)
    other = reader(postgres)
    wrong = {**other.settings, "message.key.columns": ["no colon"]}
    assert list(other.source.check(wrong)) == ["message.key.columns"]


def test_names_that_need_quotes(postgres: str, sql: Sql, reader: Any) -> None:
    """Also within statements with parameters."""
    sql(postgres, """CREATE TABLE "or%s ""der's" (id INT PRIMARY KEY, "a %(b)s" TEXT)""")
    sql(postgres, """CREATE TABLE "sig%nals" (id VARCHAR(64) PRIMARY KEY, type VARCHAR(32), data TEXT)""")
    sql(postgres, """INSERT INTO "or%s ""der's" VALUES (1, 'x')""")
    one = reader(postgres, signal_data_collection="public.sig%nals", table_exclude_list=["public.sig.*"])
    one.until(1)
    one.settled()
    order = json.dumps({"data-collections": ["""public.or%s "der's"""]}).replace("'", "''")
    sql(postgres, f"""INSERT INTO "sig%nals" VALUES ('1', 'execute-snapshot', '{order}')""")
    assert short(one.until(2)) == [("r", None, 1), ("r", None, 1)]
    assert {topic for topic, _, _ in one.records} == {"shop.public.or_s__der_s"}


def test_rows_that_policies_hide_are_an_error_and_not_left_out(shop: str, sql: Sql, reader: Any) -> None:
    """The log would have their changes."""
    role = f"hidden_{shop.partition('@/')[2].partition('?')[0]}"
    sql(shop, f"CREATE ROLE {role} LOGIN REPLICATION")
    sql(shop, f"GRANT SELECT ON orders TO {role}")
    sql(shop, "CREATE PUBLICATION dbz_publication FOR ALL TABLES")
    sql(shop, "INSERT INTO orders VALUES (1, 'a', 1), (2, 'b', 2)")
    sql(shop, "ALTER TABLE orders ENABLE ROW LEVEL SECURITY")
    sql(shop, "CREATE POLICY mine ON orders USING (id = 1)")
    one = reader(shop, database_user=role)
    with pytest.raises(ConnectError, match="row-level security"):
        one.until(2)
    sql(shop, f"ALTER ROLE {role} BYPASSRLS")
    one.restart()
    assert short(one.until(2)) == [("r", None, 1), ("r", None, 2)]


def test_a_filtered_publication_has_the_table_of_signals(shop: str, sql: Sql, reader: Any) -> None:
    """Or orders would be written, and never read."""
    sql(shop, "CREATE TABLE signals (id VARCHAR(64) PRIMARY KEY, type VARCHAR(32), data TEXT)")
    sql(shop, "INSERT INTO orders VALUES (1, 'a', 1)")
    one = reader(
        shop,
        snapshot_mode="no_data",
        publication_autocreate_mode="filtered",
        table_include_list=["public.orders"],
        signal_data_collection="public.signals",
    )
    one.settled()
    order = json.dumps({"data-collections": ["public.orders"]})
    sql(shop, f"INSERT INTO signals VALUES ('1', 'execute-snapshot', '{order}')")
    assert short(one.until(1)) == [("r", None, 1)]
    assert {topic for topic, _, _ in one.records} == {"shop.public.orders"}
