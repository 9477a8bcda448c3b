"""SQLite as a target, through Python's own sqlite3: two tables beside the data, made on first use.

A write transaction begins with BEGIN IMMEDIATE, so that a claim is checked and used under the same lock. The
handler gets the connection and must not commit: that would part the data from its offsets, and is refused.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from moldau.kit.errors import BadCall, Fenced, KitError
from moldau.kit.group_reader import Partition
from moldau.kit.target.store import Claim, OffsetRow, SeenRow

_TABLES = (
    """CREATE TABLE IF NOT EXISTS moldau_offsets (
        consumer_group TEXT NOT NULL, topic TEXT NOT NULL, partition_number INTEGER NOT NULL,
        next_offset INTEGER NOT NULL, claim INTEGER NOT NULL, topic_id TEXT NOT NULL,
        PRIMARY KEY (consumer_group, topic, partition_number)) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS moldau_seen (
        consumer_group TEXT NOT NULL, record_id TEXT NOT NULL, topic TEXT NOT NULL,
        partition_number INTEGER NOT NULL, record_offset INTEGER NOT NULL,
        PRIMARY KEY (consumer_group, record_id)) WITHOUT ROWID""",
    """CREATE INDEX IF NOT EXISTS moldau_seen_place
        ON moldau_seen (consumer_group, topic, partition_number, record_offset)""",
)
_PLACE = "consumer_group = ? AND topic = ? AND partition_number = ?"
_MAY_PASS = frozenset(
    {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR,
     sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_NOMEM}
)  # fmt: skip
_IDS_A_QUERY = 500


class SqliteStore:
    """A database file, or a function that connects to one. `timeout_seconds`: how long to wait for a lock."""

    def __init__(
        self, database: str | Path | Callable[[], sqlite3.Connection], timeout_seconds: float = 10.0
    ) -> None:
        self._database = database
        self._timeout_seconds = timeout_seconds
        self._connection: sqlite3.Connection | None = None

    def _connect(self) -> sqlite3.Connection:
        if self._connection is None:
            if callable(self._database):
                connection = self._database()
                connection.isolation_level = None
            else:
                connection = sqlite3.connect(
                    self._database,
                    timeout=self._timeout_seconds,
                    isolation_level=None,
                    check_same_thread=False,  # one thread at a time: the loop's
                )
            for table in _TABLES:
                connection.execute(table)
            self._connection = connection
        return self._connection

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        connection = self._connect()
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def claim(self, group: str, first: dict[Partition, Callable[[], Claim]]) -> dict[Partition, Claim]:
        """Take partitions (store.py)."""
        with self._transaction() as connection:
            return {place: self._claim_one(connection, group, place, make) for place, make in first.items()}

    @staticmethod
    def _claim_one(
        connection: sqlite3.Connection, group: str, place: Partition, make: Callable[[], Claim]
    ) -> Claim:
        found = connection.execute(
            f"SELECT next_offset, claim, topic_id FROM moldau_offsets WHERE {_PLACE}", (group, *place)
        ).fetchone()
        if found is None:
            new = make()
            connection.execute("INSERT INTO moldau_offsets VALUES (?, ?, ?, ?, ?, ?)", (group, *place, *new))
            return new
        claim = Claim(found[0], found[1] + 1, found[2])
        connection.execute(
            f"UPDATE moldau_offsets SET claim = ? WHERE {_PLACE}", (claim.number, group, *place)
        )
        return claim

    def write(self, group: str, rows: list[OffsetRow], work: Callable[[Any], Any]) -> None:
        """Write under the claims (store.py)."""
        with self._transaction() as connection:
            for row in rows:
                found = connection.execute(
                    f"SELECT claim FROM moldau_offsets WHERE {_PLACE}", (group, row.topic, row.partition)
                ).fetchone()
                if found is None or found[0] != row.claim:
                    raise Fenced(f"{row.topic}[{row.partition}] has been taken over by another process")
            work(connection)
            if not connection.in_transaction:
                raise BadCall(
                    "the handler has ended the transaction by itself (commit, rollback, executescript): the "
                    "offsets are no longer written with the data. Only execute statements in it"
                )
            connection.executemany(
                f"UPDATE moldau_offsets SET next_offset = ? WHERE {_PLACE}",
                [(row.next_offset, group, row.topic, row.partition) for row in rows],
            )

    def seen(self, handle: sqlite3.Connection, group: str, ids: list[str]) -> set[str]:
        """Those of the ids that are known (store.py)."""
        known: set[str] = set()
        for at in range(0, len(ids), _IDS_A_QUERY):
            some = ids[at : at + _IDS_A_QUERY]
            marks = ",".join("?" * len(some))
            query = f"SELECT record_id FROM moldau_seen WHERE consumer_group = ? AND record_id IN ({marks})"
            known.update(row[0] for row in handle.execute(query, (group, *some)))
        return known

    def remember(self, handle: sqlite3.Connection, group: str, rows: list[SeenRow], window: int) -> None:
        """Keep ids for a while (store.py)."""
        handle.executemany("INSERT INTO moldau_seen VALUES (?, ?, ?, ?, ?)", [(group, *row) for row in rows])
        for (topic, partition), offset in {(row.topic, row.partition): row.offset for row in rows}.items():
            handle.execute(
                f"DELETE FROM moldau_seen WHERE {_PLACE} AND record_offset <= ?",
                (group, topic, partition, offset - window),
            )

    def may_pass(self, error: BaseException) -> bool:
        """Busy, full, unreadable: yes. A wrong statement or value: no."""
        code = getattr(error, "sqlite_errorcode", None)
        return isinstance(error, sqlite3.OperationalError) and code is not None and code & 0xFF in _MAY_PASS

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            try:
                self._connection.close()
            except sqlite3.Error as error:
                raise KitError(f"the database does not close: {error}") from error
            finally:
                self._connection = None
