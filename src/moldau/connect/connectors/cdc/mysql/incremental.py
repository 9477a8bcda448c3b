"""Snapshots while changes flow, of MySQL and MariaDB; ordered as with PostgreSQL (orders.py).

The server says up to which place of its log the rows have all changes (chunks.py), so nothing is written: a
change behind the place is newer than its row (window.py), and when reading is at the place, what is left goes
out as op r. If reading has passed it already (a change is in the log a moment before it is visible), the rows
are read again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from moldau.connect.connectors.cdc.converting import Unreadable
from moldau.connect.connectors.cdc.envelope import Change
from moldau.connect.connectors.cdc.mysql.chunks import Chunk
from moldau.connect.connectors.cdc.mysql.positions import Place
from moldau.connect.connectors.cdc.mysql.tables import MysqlTable
from moldau.connect.connectors.cdc.orders import Orders
from moldau.connect.connectors.cdc.window import Window, key_text
from moldau.connect.errors import Retriable
from moldau.connect.source import Refused

_LOG = logging.getLogger(__name__)
_AGAIN_SECONDS = 0.1


class Made(NamedTuple):
    """What goes out."""

    table: MysqlTable
    changes: list[Change]
    """Without a source."""
    refused: list[Refused]


class Database(Protocol):
    """See chunks.py."""

    def read(
        self, table: tuple[str, str], columns: Sequence[str], keys: Sequence[str], last: Sequence[Any] | None,
        count: int,
    ) -> Chunk:  # fmt: skip
        """The next rows of a table."""


class Incremental:
    """`find`: a table by its name as it is now, None: it is not to be read."""

    def __init__(
        self,
        database: Database,
        find: Callable[[str], MysqlTable | None],
        chunk_size: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.orders = Orders()
        self._database = database
        self._find = find
        self._chunk_size = chunk_size
        self._clock = clock
        self._window: Window | None = None
        self._place = Place("", 0)
        self._table: MysqlTable | None = None
        self._refused: list[Refused] = []
        self._not_before = 0.0

    def signal(self, row: Sequence[Any]) -> None:
        """A row of the table of signals."""
        if self.orders.take(row):
            self._window = None

    def see(self, schema: str, table: str, place: Place, changes: Sequence[Change], is_skipped: bool) -> None:
        """Changes of a table, which end at this place."""
        if self._window is None or self._table is None or place <= self._place:
            return
        if (schema, table) == (self._table.schema, self._table.name):
            self._window.see(changes, is_skipped)

    def spoil(self, schema: str, table: str) -> None:
        """A table was truncated or altered, or has a change that is not known by its key."""
        if self._window is None or self._table is None:
            return
        if not table or (schema, table) == (self._table.schema, self._table.name):
            self._window.is_spoiled = True

    def read_next(self, reached: Place) -> None:
        """Read the next rows, if any are to be; `reached`: where reading of the log is. ConnectError."""
        while self.orders.waiting and self._window is None and self._clock() >= self._not_before:
            table = self._find(self.orders.waiting[0])
            if table is None:
                self.orders.next_table()
                continue
            keys = [table.columns[place] for place in table.records.key_places]
            try:
                chunk = self._database.read(
                    (table.schema, table.name), table.columns, keys, self.orders.last_key, self._chunk_size
                )
            except Retriable as error:
                _LOG.warning("%s", error)
                self._not_before = self._clock() + 1.0
                return
            if chunk.place < reached:  # a change that was delivered may be missing in the rows
                self._not_before = self._clock() + _AGAIN_SECONDS
                return
            self._open(table, chunk)

    def _open(self, table: MysqlTable, chunk: Chunk) -> None:
        records, rows = table.records, {}
        self._refused = []
        for given in chunk.rows:
            try:
                row = table.values(given)
            except Unreadable as error:
                self._refused.append(records.refused(error, "r", None, given))
                continue
            rows[key_text(records.key_of(row) or ())] = row
        last = [_key_value(chunk.rows[-1][place]) for place in records.key_places] if chunk.rows else []
        self._window = Window(rows, last, len(chunk.rows) < self._chunk_size)
        self._table, self._place = table, chunk.place

    def reached(self, place: Place) -> Made | None:
        """All changes up to this place were seen."""
        window, table = self._window, self._table
        if window is None or table is None or place < self._place:
            return None
        self._window = None
        if window.is_spoiled:
            return None  # from the same key on, again
        if window.is_last:
            self.orders.next_table()
        else:
            self.orders.last_key = window.last_key
        changes = [Change("r", None, row, (), table.records.key_of(row)) for row in window.rows.values()]
        return Made(table, changes, self._refused)


def _key_value(value: Any) -> Any:
    """A key as an offset can have it, and the server compares it."""
    if value is None or isinstance(value, (int, float, str)):
        return value
    return value.decode("utf-8", "surrogateescape") if isinstance(value, (bytes, bytearray)) else str(value)
