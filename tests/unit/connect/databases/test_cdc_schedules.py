"""Incremental snapshots of real databases under random changes and restarts: the topic ends as the table.

Another connection changes rows all the while; the reader is thrown away at any read, committed or not, and
goes on at what is committed. `SEEDS=50 pytest -m slow ...` for the long form.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from cdc_reader import Reader, Sql
from database_connections import connected

KEYS = 40
ORDERS = 2


class Writer(threading.Thread):
    """Changes rows until it is told to end."""

    def __init__(self, url: str, seed: int) -> None:
        super().__init__(daemon=True)
        self._url, self._chance = url, random.Random(seed)
        self.done = threading.Event()
        self.failed: Exception | None = None

    def run(self) -> None:
        try:
            with connected(self._url) as connection:
                cursor, n = connection.cursor(), 0
                while not self.done.is_set():
                    cursor.execute("BEGIN")
                    for _ in range(self._chance.randint(1, 4)):
                        n += 1
                        key = self._chance.randrange(KEYS)
                        cursor.execute(f"DELETE FROM orders WHERE id = {key}")
                        if self._chance.random() < 0.8:
                            cursor.execute(f"INSERT INTO orders VALUES ({key}, {n})")
                    cursor.execute("COMMIT" if self._chance.random() < 0.9 else "ROLLBACK")
                    time.sleep(self._chance.random() * 0.03)
        except Exception as error:
            self.failed = error


def followed(one: Reader) -> dict[int, int]:
    """What a compacted topic has."""
    topic: dict[int, int] = {}
    for _, key, value in one.records:
        if value is None or value["op"] == "d":
            topic.pop(key["id"], None)
        else:
            topic[key["id"]] = value["after"]["n"]
    return topic


def run(url: str, sql: Sql, start: Callable[..., Reader], table: str, signals: str, seed: int) -> None:
    chance = random.Random(seed)
    sql(url, "CREATE TABLE orders (id INT PRIMARY KEY, n INT)")
    sql(url, "CREATE TABLE signals (id VARCHAR(64) PRIMARY KEY, type VARCHAR(32), data TEXT)")
    sql(url, f"INSERT INTO orders VALUES {', '.join(f'({key}, 0)' for key in range(KEYS))}")
    one = start(
        url,
        snapshot_mode="no_data",
        signal_data_collection=signals,
        table_exclude_list=[signals],
        incremental_snapshot_chunk_size=7,
        max_batch_size=20,
        poll_interval_ms=10,
    )
    one.settled()
    writer = Writer(url, seed)
    writer.start()
    try:
        order = json.dumps({"data-collections": [table]})
        for number in range(ORDERS):
            sql(url, f"INSERT INTO signals VALUES ('{number}', 'execute-snapshot', '{order}')")
            deadline = time.monotonic() + 60
            begun = False
            while not begun or one.offset.get("moldau_incremental"):
                assert time.monotonic() < deadline
                assert writer.failed is None
                is_lost = chance.random() < 0.03
                one.next(commit=not is_lost)
                begun = begun or bool(one.offset and one.offset.get("moldau_incremental"))
                if is_lost or chance.random() < 0.03:
                    one.restart()
    finally:
        writer.done.set()
        writer.join(60)
    deadline = time.monotonic() + 60
    wanted = dict(sql(url, "SELECT id, n FROM orders"))
    one.restart()
    while followed(one) != wanted:
        assert time.monotonic() < deadline, (followed(one), wanted)
        one.next()
    assert sum(value is not None and value["op"] == "r" for _, _, value in one.records) > KEYS


def of_postgres(url: str, sql: Sql, start: Any, seed: int) -> None:
    run(url, sql, start, "public.orders", "public.signals", seed)


def of_mariadb(url: str, sql: Sql, start: Any, seed: int) -> None:
    database = url.rsplit("/", 1)[1]
    run(url, sql, start, f"{database}.orders", f"{database}.signals", seed)


def test_postgres(postgres: str, sql: Sql, postgres_readers: Any) -> None:
    of_postgres(postgres, sql, postgres_readers, 1)


def test_mariadb(mariadb: str, sql: Sql, mariadb_readers: Any) -> None:
    of_mariadb(mariadb, sql, mariadb_readers, 1)


SEEDS = range(100, 100 + int(os.environ.get("SEEDS", "5")))


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_postgres_with_more_seeds(postgres: str, sql: Sql, postgres_readers: Any, seed: int) -> None:
    of_postgres(postgres, sql, postgres_readers, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_mariadb_with_more_seeds(mariadb: str, sql: Sql, mariadb_readers: Any, seed: int) -> None:
    of_mariadb(mariadb, sql, mariadb_readers, seed)
