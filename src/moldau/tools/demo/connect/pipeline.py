"""Broker with registry, worker, and the two connectors, each a process or made over REST as anybody would."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from moldau.tools.commands.connect.requests import Connect
from moldau.tools.commands.connect.watching import wait_for
from moldau.tools.demo.connect.database import TABLE, USER, Database
from moldau.tools.shared.errors import CommandError

SOURCE, SINK = "flights-changes", "flights-lake"
TOPIC = f"shop.public.{TABLE}"
_WAIT_SECONDS = 120.0


@contextmanager
def worker(folder: Path, bootstrap_servers: str, registry_url: str) -> Iterator[str]:
    """The address of a worker that runs until the end of the block. CommandError."""
    settings = folder / "worker.properties"
    lines = [
        f"bootstrap.servers={bootstrap_servers}",
        "group.id=demo",
        *(f"{what}.storage.topic=connect-{what}s" for what in ("config", "offset")),
        "status.storage.topic=connect-status",
        *(f"{what}.storage.replication.factor=1" for what in ("config", "offset", "status")),
        "listeners=http://127.0.0.1:0",
        "offset.flush.interval.ms=2000",
        *(
            f"{side}.converter{rest}"
            for side in ("key", "value")
            for rest in ("=io.confluent.connect.avro.AvroConverter", f".schema.registry.url={registry_url}")
        ),
    ]
    settings.write_text("\n".join(lines) + "\n")
    log = folder / "worker.log"
    with log.open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "moldau", "connect", "run", str(settings), "--json"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=said,
        )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if not line:
            last = log.read_text("utf-8", "replace").strip().splitlines()[-3:]
            raise CommandError(f"the worker does not start: {' '.join(last)}")
        yield str(json.loads(line)["addresses"][0])
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
        process.stdout.close()


def source_config(database: Database) -> dict[str, Any]:
    """The table's rows as they are, then every change of them, in Debezium's envelope."""
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.hostname": "127.0.0.1",
        "database.port": str(database.port),
        "database.user": USER,
        "database.dbname": "postgres",
        "topic.prefix": "shop",
        "table.include.list": f"public.{TABLE}",
        "slot.name": "demo",
        "publication.autocreate.mode": "filtered",
    }


def sink_config(folder: Path) -> dict[str, Any]:
    """Parquet by airline: of each change the row, what was done to it, and its place in the database's
    log."""
    return {
        "connector.class": "FileSink",
        "topics": TOPIC,
        "path": str(folder),
        "format": "parquet",
        "partitioner": "field",
        "partition.field.name": "carrier",
        "rotate.interval.ms": "3000",
        "behavior.on.null.values": "ignore",
        "transforms": "row",
        "transforms.row.type": "io.debezium.transforms.ExtractNewRecordState",
        "transforms.row.delete.tombstone.handling.mode": "rewrite",
        "transforms.row.add.fields": "op,source.lsn",
    }


def start(cluster: Connect, name: str, config: dict[str, Any]) -> None:
    """Make a connector and wait until it runs. CommandError with its cause."""
    cluster.post("connectors", body={"name": name, "config": config})
    wait_for(cluster, name, "RUNNING", _WAIT_SECONDS)
