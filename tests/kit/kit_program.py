"""Programs that tests kill: `python kit_program.py JOB LINES BOOTSTRAP TOPIC ...`; they note what they do."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from confluent_kafka import Message
from kit_running import note


def delivery(lines: Path, bootstrap: str, topic: str, word: str) -> None:
    """Handle records and note each."""
    from moldau.kit.delivery import ConsumerLoop

    loop = ConsumerLoop(
        topic,
        group=f"group-{topic}",
        delivery=word,  # type: ignore[arg-type]
        bootstrap_servers=bootstrap,
        batch=50,
        commit_seconds=0.05,
        config={"group.instance.id": "one", "session.timeout.ms": 30_000},
    )
    loop.stop_on_signals()
    loop.run(lambda record: note(lines, (record.value() or b"").decode()))


def target(lines: Path, bootstrap: str, topic: str, database: str) -> None:
    """Write records into a database, where a counter makes each transaction last a while."""
    from moldau.kit.target import SqliteStore, TargetLoop

    store: Any = SqliteStore(database)
    if "://" in database:
        from moldau.kit.target.sqlalchemy import SqlAlchemyStore

        store = SqlAlchemyStore(database)

    def write(connection: Any, records: list[Message]) -> None:
        for one in records:
            statement = f"INSERT INTO records VALUES ('{(one.value() or b'').decode()}')"
            if "://" in database:
                connection.exec_driver_sql(statement)
            else:
                connection.execute(statement)
        note(lines, f"{len(records)} records in a transaction that is not committed")

    config = {"session.timeout.ms": 1000, "heartbeat.interval.ms": 200}
    loop = TargetLoop(
        topic, group="loader", store=store, bootstrap_servers=bootstrap, batch=20, config=config
    )
    loop.stop_on_signals()
    loop.run(write)


def table(lines: Path, bootstrap: str, topic: str, snapshot: str) -> None:
    """Write numbers into a table that takes snapshots all the time; what is noted was flushed."""
    from moldau.kit.table import Table

    begin = len(lines.read_text().splitlines()) if lines.exists() else 0
    with Table(topic, bootstrap_servers=bootstrap, snapshot=snapshot, snapshot_seconds=0.01) as content:
        for turn in range(begin, 100_000):
            for key in range(40):
                content[f"k{(turn * 7 + key) % 100}"] = turn
            del content[f"k{turn % 100}"]
            content.flush()
            note(lines, str(turn))


def resuming(lines: Path, bootstrap: str, topic: str, transactions: str) -> None:
    """Send numbers from where the topic ends; what is noted was flushed."""
    from moldau.kit.resuming import Resuming

    with Resuming(
        topic, source="numbers", bootstrap_servers=bootstrap, records=40, transactions=transactions == "yes"
    ) as out:
        for number in range((out.position or 0) + 1, 1_000_000):
            out.send(str(number), position=number, key=str(number))
            if out.position == number:
                note(lines, str(number))


def responder(lines: Path, bootstrap: str, topic: str) -> None:
    """Answer requests with their double."""
    from moldau.kit.requests import Responder

    def double(record: Message) -> bytes:
        value = record.value() or b""
        note(lines, value.decode())
        return value * 2

    config = {"session.timeout.ms": 1000, "heartbeat.interval.ms": 200}
    server = Responder(topic, group=f"group-{topic}", bootstrap_servers=bootstrap, config=config, batch=5)
    server.stop_on_signals()
    server.run(double)


JOBS = {"delivery": delivery, "target": target, "table": table, "resuming": resuming, "responder": responder}

if __name__ == "__main__":
    JOBS[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
