"""What a loop of moldau.kit costs beside confluent-kafka's own `consume`: CPU of the reading process.

A million records of 100 bytes in three partitions, read by one consumer; handlers do nothing.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import native
from bench.figures import Figure, Row, Start, Subject, Values

RECORDS, RECORD_BYTES, PARTITIONS, BATCH = 1_000_000, 100, 3, 1000
TOPIC = "records"
Read = Callable[[str], None]


def create_topic(address: str, name: str, partitions: int, config: dict[str, str]) -> None:
    """Create a topic and wait for it."""
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result(60)


def _consume(address: str) -> None:
    from confluent_kafka import Consumer

    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": "plain", "auto.offset.reset": "earliest",
         "enable.auto.commit": False}
    )  # fmt: skip
    consumer.subscribe([TOPIC])
    left = RECORDS
    while left > 0:  # one more record is there: the writer sends one to warm up
        left -= len(consumer.consume(BATCH, 0.1))
    consumer.close()


def _loop(delivery: str, whole: bool) -> Read:
    def read(address: str) -> None:
        from moldau.kit.delivery import ConsumerLoop

        loop = ConsumerLoop(
            TOPIC, group=f"{delivery}-{whole}", delivery=delivery, bootstrap_servers=address, batch=BATCH,  # type: ignore[arg-type]
        )  # fmt: skip
        left = [RECORDS]

        def handle(records: list[Any]) -> None:
            left[0] -= len(records)
            if left[0] <= 0:
                loop.stop()

        def handle_one(record: Any) -> None:
            left[0] -= 1
            if left[0] <= 0:
                loop.stop()

        if whole:
            loop.run_batches(handle)
        else:
            loop.run(handle_one)

    return read


def _target(address: str) -> None:
    from moldau.kit.target import SqliteStore, TargetLoop

    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder) / "records.db")
        loop = TargetLoop(
            TOPIC,
            group="target",
            store=store,
            bootstrap_servers=address,
            batch=10 * BATCH,
            linger_seconds=0.05,
        )
        left = [RECORDS]

        def write(connection: Any, records: list[Any]) -> None:
            if left[0] == RECORDS:
                connection.execute("CREATE TABLE records (value BLOB)")
            connection.executemany("INSERT INTO records VALUES (?)", [(one.value(),) for one in records])
            left[0] -= len(records)
            if left[0] <= 0:
                loop.stop()

        loop.run(write)


def _measured(title: str, read: Read) -> Subject:
    def measure(start: Start) -> Values:
        with start() as broker:
            create_topic(broker.address, TOPIC, PARTITIONS, {})
            native.run("produce", broker.address, TOPIC, RECORDS, RECORD_BYTES, 50, PARTITIONS)
            began, cpu = time.monotonic(), time.process_time()
            read(broker.address)
            seconds, cpu_seconds = time.monotonic() - began, time.process_time() - cpu
        return {"cpu_us": cpu_seconds / RECORDS * 1e6, "records_per_s": RECORDS / seconds}

    return Subject(title, measure)


FIGURE = Figure(
    "kit-consume",
    "moldau.kit: reading",
    None,
    (
        Row("cpu_us", "CPU a record of 100 bytes", "µs", 2),
        Row("records_per_s", "records a second", "/s", 0),
    ),
    subjects={
        "consume": _measured("Consumer.consume alone", _consume),
        "batches": _measured("at_least_once, lists", _loop("at_least_once", True)),
        "records": _measured("at_least_once, records", _loop("at_least_once", False)),
        "at-most-once": _measured("at_most_once, lists", _loop("at_most_once", True)),
        "target": _measured("Target, SQLite", _target),
    },
)
