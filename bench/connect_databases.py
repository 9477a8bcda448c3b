"""Large tables and topics through Connect: `python -m bench.connect_databases WHAT --count 10000000`.

    snapshot   PostgresSource's first snapshot, the class alone: rows a second, CPU a million, memory
    source     PostgreSQL --JdbcSource--> topic, by a worker
    parquet    topic --FileSink--> Parquet, by a worker (of what `source` has written; it runs first)

The table has five columns (bigint, text, numeric(9,2), timestamp, boolean). PostgreSQL without fsync, on the
same cores; its own CPU is not counted, but its wall time is. Records are JSON with schemas, as the converter
has it by default. Memory is the largest that the worker's process had.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.connect_files import Worker, end_of, until, worker
from bench.proc import cpu_time, resident_bytes
from moldau.testing import Broker

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "kit"))
JSON = "org.apache.kafka.connect.json.JsonConverter"
TABLE = """
CREATE TABLE orders (id BIGINT PRIMARY KEY, name TEXT NOT NULL, price NUMERIC(9, 2) NOT NULL,
    at TIMESTAMP NOT NULL, paid BOOLEAN NOT NULL);
INSERT INTO orders SELECT n, 'customer ' || n % 1000, n % 100000 / 100.0,
    timestamp '2024-01-01' + n * interval '1 second', n % 3 = 0 FROM generate_series(1, {count}) n;
ANALYZE orders
"""


@contextmanager
def filled(count: int) -> Iterator[Any]:
    """A server with so many rows."""
    import psycopg
    from kit_postgres import running_postgres

    options = "-c wal_level=logical -c max_wal_size=4GB -c shared_buffers=64MB -c synchronous_commit=off"
    with running_postgres(options) as server:
        with psycopg.connect(host=server.folder, user="moldau", dbname="postgres", autocommit=True) as one:
            for statement in TABLE.format(count=count).split(";"):
                one.execute(statement)
        yield server


class Memory:
    """The most that a process has had, looked at ten times a second."""

    def __init__(self, pid: int) -> None:
        self.most = resident_bytes(pid)
        self._pid = pid
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._done.wait(0.1):
            self.most = max(self.most, resident_bytes(self._pid))

    def end(self) -> int:
        self._done.set()
        self._thread.join()
        return self.most


def said(what: str, count: int, seconds: float, cpu: float, memory: int) -> None:
    print(
        f"{what}: {count} rows, {count / seconds:,.0f} a second, {cpu / count * 1e6:.2f} CPU s a million, "
        f"{memory >> 20} MiB at most"
    )


def snapshot(count: int) -> None:
    """The class alone."""
    from moldau.connect import SourceContext
    from moldau.connect.connectors.cdc.postgres.source import PostgresSource
    from moldau.connect.settings import REQUIRED

    with filled(count) as server:
        given = {
            "database.hostname": server.folder,
            "database.user": "moldau",
            "database.dbname": "postgres",
            "topic.prefix": "shop",
            "snapshot.mode": "initial_only",
        }
        settings = {row.name: row.default for row in PostgresSource.settings if row.default is not REQUIRED}
        source = PostgresSource()
        context = SourceContext("c", 0, lambda: False, lambda _: False, lambda: None)
        source.start({**settings, **given}, context)
        memory = Memory(__import__("os").getpid())
        before, began, rows = memory.most, time.monotonic(), 0
        cpu = time.process_time()
        for read in source.read({"server": "shop"}, None):
            if read is None:
                break
            rows += sum(len(batch) for batch in read.batches)
        cpu, seconds = time.process_time() - cpu, time.monotonic() - began
        assert rows == count
        said("first snapshot", rows, seconds, cpu, memory.end())
        print(f"  of which {before >> 20} MiB before it began")
        source.stop()


def moved(what: str, one: Worker, count: int, config: dict[str, str], done: Any) -> None:
    """By a worker's connector."""
    memory = Memory(one.pid)
    cpu, began = cpu_time(one.pid), time.monotonic()
    one.create(what, config)
    until_long(done, count / 2000)
    seconds = time.monotonic() - began
    said(what, count, seconds, (cpu_time(one.pid) - cpu).total_s, memory.end())


def until_long(done: Any, seconds: float) -> None:
    deadline = time.monotonic() + seconds + 300
    while True:
        try:
            return until(done)
        except TimeoutError:
            if time.monotonic() > deadline:
                raise


def through(count: int, parts: tuple[str, ...]) -> None:
    """A table to a topic, and the topic to files."""
    from pyarrow import dataset

    converters = {"key.converter": JSON, "value.converter": JSON}
    with tempfile.TemporaryDirectory() as name, filled(count) as server:
        folder = Path(name)
        with Broker({"log.segment.bytes": str(256 << 20)}, process=True) as broker:
            with worker("moldau", broker, folder) as one:
                source = {
                    "connector.class": "JdbcSource",
                    "connection.url": server.url,
                    "mode": "incrementing",
                    "incrementing.column.name": "id",
                    "table.whitelist": "orders",
                    "topic.prefix": "shop-",
                    "batch.max.rows": "10000",
                    "producer.override.compression.type": "lz4",
                    **converters,
                }
                moved("source", one, count, source, lambda: end_of(broker, "shop-orders") >= count)
            if "parquet" not in parts:
                return
            with worker("moldau", broker, folder) as one:
                sink = {
                    "connector.class": "FileSink",
                    "topics": "shop-orders",
                    "path": str(folder / "out"),
                    "flush.size": "1000000",
                    "rotate.interval.ms": "5000",
                    "consumer.override.auto.offset.reset": "earliest",
                    **converters,
                }

                def rows() -> int:
                    place = folder / "out" / "shop-orders"
                    return dataset.dataset(place, format="parquet").count_rows() if place.exists() else 0

                moved("parquet", one, count, sink, lambda: rows() >= count)
                table = dataset.dataset(folder / "out" / "shop-orders", format="parquet")
                assert table.count_rows() == count


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["snapshot", "source", "parquet"])
    parser.add_argument("--count", type=int, default=1_000_000)
    given = parser.parse_args()
    if given.what == "snapshot":
        snapshot(given.count)
    else:
        through(given.count, ("source", given.what))


if __name__ == "__main__":
    main()
