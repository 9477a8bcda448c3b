"""kill -9 of worker, PostgreSQL and broker: changes of a table through a topic into two others, and each
once.

    orders --CDC--> topic --JDBC upsert, delete--> copy       the same rows as orders in the end
                          --JDBC insert----------> journal    every change once, those of one key in order

Counts, order and content are compared by SQL on a connection of the test's own. `ROUNDS=200 pytest -m slow
...` for the long form.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from connect_parts import eventually
from test_connect_kills import SETTINGS, Worker

from moldau.testing import Broker

sys.path.insert(0, str(Path(__file__).parents[1] / "kit"))

from kit_postgres import Postgres, running_postgres

JSON = "org.apache.kafka.connect.json.JsonConverter"
TOPIC = "shop.public.orders"
TABLES = """
CREATE TABLE orders (id INT PRIMARY KEY, seq BIGINT NOT NULL, name TEXT);
ALTER TABLE orders REPLICA IDENTITY FULL;
CREATE SCHEMA out;
CREATE TABLE out.copy (id INT PRIMARY KEY, seq BIGINT NOT NULL, name TEXT);
CREATE TABLE out.journal (place BIGSERIAL, id INT, seq BIGINT, name TEXT, __deleted TEXT);
CREATE TABLE wanted (place BIGSERIAL, id INT, seq BIGINT, name TEXT, deleted TEXT);
"""
SAME_ROWS = """
SELECT (SELECT count(*) FROM (TABLE orders EXCEPT TABLE out.copy) a)
     + (SELECT count(*) FROM (TABLE out.copy EXCEPT TABLE orders) b)
"""
SAME_CHANGES = """
SELECT count(*) FROM
    (SELECT id, seq, name, deleted, row_number() OVER (PARTITION BY id ORDER BY place) AS n FROM wanted) w
FULL JOIN
    (SELECT id, seq, name, __deleted, row_number() OVER (PARTITION BY id ORDER BY place) AS n FROM
    out.journal) j ON w.id = j.id AND w.n = j.n AND w.seq = j.seq AND w.deleted = j.__deleted AND w.name IS
    NOT DISTINCT FROM j.name WHERE w.id IS NULL OR j.id IS NULL
"""


@pytest.fixture
def databases() -> Iterator[Postgres]:
    with running_postgres("-c wal_level=logical -c max_wal_senders=10") as server:
        yield server


@pytest.fixture
def killed_broker() -> Iterator[Broker]:
    with Broker(SETTINGS, process=True) as broker:
        yield broker


class Shop:
    """The database, asked by psycopg alone."""

    def __init__(self, server: Postgres) -> None:
        self._server = server
        self.seq = 0
        self._rows: dict[int, tuple[int, str]] = {}

    def ask(self, statement: str) -> list[Any]:
        import psycopg

        with psycopg.connect(
            host=self._server.folder, user="moldau", dbname="postgres", autocommit=True
        ) as connection:
            cursor = connection.execute(statement)
            return list(cursor.fetchall()) if cursor.description else []

    def change(self, chance: random.Random, count: int) -> None:
        """A transaction of so many changes, which are noted in `wanted` too."""
        import psycopg

        with psycopg.connect(host=self._server.folder, user="moldau", dbname="postgres") as connection:
            for _ in range(count):
                self.seq += 1
                key, name = chance.randrange(60), f"n{self.seq}"
                if key in self._rows and chance.random() < 0.3:
                    seq, old = self._rows.pop(key)
                    connection.execute("DELETE FROM orders WHERE id = %s", (key,))
                    noted = (key, seq, old, "true")
                else:
                    connection.execute(
                        "INSERT INTO orders VALUES (%s, %s, %s) "
                        "ON CONFLICT (id) DO UPDATE SET seq = EXCLUDED.seq, name = EXCLUDED.name",
                        (key, self.seq, name),
                    )
                    self._rows[key] = (self.seq, name)
                    noted = (key, self.seq, name, "false")
                connection.execute(
                    "INSERT INTO wanted (id, seq, name, deleted) VALUES (%s, %s, %s, %s)", noted
                )

    def crash(self) -> None:
        self._server.stop()
        self._server.start()


def connectors(server: Postgres) -> dict[str, dict[str, str]]:
    quick = {
        "moldau.restart.delay.ms": "100",
        "moldau.restart.delay.max.ms": "500",
        "errors.retry.delay.max.ms": "500",
        "consumer.override.session.timeout.ms": "1500",
        "consumer.override.heartbeat.interval.ms": "300",
        "consumer.override.max.poll.records": "40",
    }
    sink = {
        **quick,
        "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector",
        "connection.url": server.url,
        "topics": TOPIC,
        "retry.backoff.ms": "100",
        "max.retries": "2",
        "batch.size": "25",
        "tasks.max": "2",
        "transforms": "row",
        "transforms.row.type": "io.debezium.transforms.ExtractNewRecordState",
    }
    return {
        "changes": {
            **quick,
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "database.hostname": server.folder,
            "database.user": "moldau",
            "database.dbname": "postgres",
            "topic.prefix": "shop",
            "table.include.list": "public.orders",
            "publication.autocreate.mode": "filtered",
            "status.update.interval.ms": "200",
            "poll.interval.ms": "50",
            "max.batch.size": "7",
            "topic.creation.default.partitions": "2",
            "topic.creation.default.replication.factor": "1",
        },
        "copy": {
            **sink,
            "table.name.format": "out.copy",
            "insert.mode": "upsert",
            "pk.mode": "record_key",
            "pk.fields": "id",
            "delete.enabled": "true",
            "transforms.row.delete.tombstone.handling.mode": "tombstone",
        },
        "journal": {
            **sink,
            "table.name.format": "out.journal",
            "fields.whitelist": "id,seq,name,__deleted",
            "transforms.row.delete.tombstone.handling.mode": "rewrite",
        },
    }


def run(broker: Broker, server: Postgres, folder: Path, rounds: int, seed: int) -> None:
    chance, shop = random.Random(seed), Shop(server)
    shop.ask(TABLES)
    worker = Worker(
        folder,
        {
            "worker": {
                "bootstrap.servers": broker.bootstrap_servers,
                "group.id": "workers",
                "offset.storage.topic": "connect-offsets",
                "offset.storage.partitions": "2",
                "offset.storage.replication.factor": "1",
                "offset.flush.interval.ms": "250",
                "key.converter": JSON,
                "value.converter": JSON,
            },
            "connectors": connectors(server),
        },
    )

    def journal() -> int:
        return int(shop.ask("SELECT count(*) FROM out.journal")[0][0])

    try:
        worker.start()
        shop.change(chance, 1)
        eventually(lambda: journal() == 1)  # the first snapshot is over
        for number in range(rounds):
            done = journal()
            for _ in range(chance.randint(2, 5)):
                shop.change(chance, chance.randint(1, 40))
                time.sleep(chance.random() * 0.2)
            if (
                chance.random() < 0.6
            ):  # let something get through; else it is killed in the middle of its start
                eventually(lambda done=done: journal() > done)
            worker.kill()
            if number % 3 == 1:
                broker.kill()
                broker.restart()
            if number % 3 == 2:
                shop.crash()
            worker.start()
            if number % 4 == 3:
                shop.crash()  # while the worker starts
        eventually(lambda: journal() >= shop.seq, 240)
        eventually(lambda: shop.ask(SAME_ROWS) == [(0,)], 120)
        time.sleep(1)  # what comes twice would come now
        assert shop.ask(SAME_ROWS) == [(0,)]
        assert shop.ask(SAME_CHANGES) == [(0,)]
        assert journal() == shop.seq
    except AssertionError:
        print(worker.said)
        raise
    finally:
        worker.kill()


def test_each_change_comes_once_over_kills(killed_broker: Broker, databases: Postgres, tmp_path: Path):
    run(killed_broker, databases, tmp_path, 3, 1)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_each_change_comes_once_over_many_kills(killed_broker: Broker, databases: Postgres, tmp_path: Path):
    run(killed_broker, databases, tmp_path, int(os.environ.get("ROUNDS", "30")), 7)
