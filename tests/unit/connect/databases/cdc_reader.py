"""What a worker does with a source of changes: reads, commits, and starts again at what is committed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from sink_batches import settings_of

from moldau.connect import Read, Source, SourceContext, rows
from moldau.connect.connectors.cdc.mysql.source import MariadbSource
from moldau.connect.connectors.cdc.postgres.source import PostgresSource
from moldau.connect.errors import Retriable

SERVER = {"server": "shop"}
Sql = Callable[[str, str], list[Any]]
WAIT_SECONDS = 60


def wait(seconds: float) -> bool:
    time.sleep(seconds)
    return False


class Reader:
    """A worker's part: keeps the offset that is committed, and what came with it."""

    def __init__(self, kind: type[Source], settings: dict[str, Any]) -> None:
        self._kind = kind
        self.settings = settings_of(kind, settings)
        self.offset: Any = None
        self.records: list[tuple[str, Any, Any]] = []
        self.reads: list[Read] = []
        self.refused: list[str] = []
        self.stopping = False
        self._start()

    def _start(self) -> None:
        self.source = self._kind()
        context = SourceContext("c", 0, lambda: self.stopping, wait, lambda: None)
        self.source.start(self.settings, context)
        self.reading: Any = self.source.read(SERVER, self.offset)

    def restart(self) -> None:
        """As after a crash: from the committed offset on, everything else is forgotten."""
        self.close()
        self._start()

    def close(self) -> None:
        self.reading.close()
        self.source.stop()

    def next(self, commit: bool = True) -> Read | None:
        read: Read | None = next(self.reading)
        if read is not None and commit:
            self.reads.append(read)
            self.offset = json.loads(json.dumps(read.offset))
            self.source.committed(SERVER, self.offset)
            self.refused += [str(each.error) for each in read.refused]
            for batch in read.batches:
                self.records += [(batch.topic, row.key, row.value) for row in rows(batch)]
        return read

    def until(self, count: int) -> list[tuple[str, Any, Any]]:
        """Read until there are so many records, refused ones too, and show those that are none of these."""
        deadline = time.monotonic() + WAIT_SECONDS
        while len(self.records) + len(self.refused) < count:
            assert time.monotonic() < deadline, f"{len(self.records)} records, {self.refused} of {count}"
            try:
                self.next()
            except Retriable as problem:  # a worker reads again: the server may not have let the slot go yet
                if "is active" not in str(problem):
                    raise
                self.source.stop()
                wait(0.1)
                self._start()
        return self.records

    def settled(self) -> None:
        """Read until the snapshot is over and nothing comes."""
        while self.next() is not None:
            pass


def postgres_reader(url: str, **given: Any) -> Reader:
    """Of a database of PostgreSQL; `snapshot_mode` stands for the setting snapshot.mode."""
    parts = urlsplit(url)
    settings = {
        "database.hostname": dict(parse_qsl(parts.query))["host"],
        "database.user": "moldau",
        "database.dbname": parts.path[1:],
        "topic.prefix": "shop",
        "slot.name": parts.path[1:],
        "poll.interval.ms": 50,
        "status.update.interval.ms": 50,
    }
    return Reader(PostgresSource, settings | dotted(given))


def mariadb_reader(url: str, **given: Any) -> Reader:
    """Of a database of MariaDB."""
    parts = urlsplit(url)
    settings = {
        "database.hostname": "127.0.0.1",
        "database.port": parts.port,
        "database.user": "moldau",
        "database.include.list": [parts.path[1:]],
        "topic.prefix": "shop",
        "poll.interval.ms": 50,
    }
    return Reader(MariadbSource, settings | dotted(given))


def dotted(given: dict[str, Any]) -> dict[str, Any]:
    """Settings by their names."""
    return {name.replace("_", "."): value for name, value in given.items()}


def short(records: list[tuple[str, Any, Any]]) -> list[Any]:
    """(op, id before, id after), a tombstone as its key."""
    made = []
    for _, key, value in records:
        if value is None:
            made.append(key["id"])
            continue
        before, after = value["before"], value["after"]
        made.append((value["op"], before and before["id"], after and after["id"]))
    return made
