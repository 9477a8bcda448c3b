"""Snapshots while changes flow, ordered by a row in `signal.data.collection` (DBLog's way, with two
watermarks).

    signal   id | type | data        execute-snapshot {"data-collections": ["schema.table"]}     stop-snapshot

    write the signal snapshot-window-open, read the next rows by key, write snapshot-window-close;
    in the log, between the two: a changed row is newer than the one that was read, which is left out
    at the second: what is left goes out as op r, and the last key into the offset

So it can be stopped at any moment and goes on behind the last key that is committed. (Andreakis,
Papapanagiotou: DBLog, 2020.)
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from moldau.connect.connectors.cdc.envelope import Change
from moldau.connect.connectors.cdc.postgres.catalog import Catalog
from moldau.connect.connectors.cdc.postgres.replication import quoted
from moldau.connect.connectors.cdc.postgres.rows import copied, select_of, values_of
from moldau.connect.connectors.cdc.postgres.tables import Tables
from moldau.connect.connectors.cdc.postgres.transactions import Event, Followed

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class Window:
    """Rows that were read between the two signals."""

    id: str
    followed: Followed
    rows: dict[str, list[Any]]
    last_key: list[str | None]
    is_last: bool
    open: bool = False


@dataclass(slots=True)
class Incremental:
    """Tables to read, and how far."""

    catalog: Catalog
    tables: Tables
    signals: str
    chunk_size: int
    waiting: list[str] = field(default_factory=list)
    last_key: list[str | None] | None = None
    window: Window | None = None

    def state(self) -> str:
        """For the offset; empty: nothing is going on."""
        return json.dumps({"tables": self.waiting, "last": self.last_key}) if self.waiting else ""

    def restore(self, state: str) -> None:
        """Go on from an offset."""
        if state:
            kept = json.loads(state)
            self.waiting, self.last_key = kept["tables"], kept["last"]

    def signal(self, row: Sequence[Any]) -> tuple[Followed, list[Change], Any] | None:
        """A row of the table of signals (id, type, data); gives what is to go out, with a source to be
        made."""
        name, kind, data = (list(row) + [None] * 3)[:3]
        if kind == "execute-snapshot":
            for each in self._tables_in(data):
                if each not in self.waiting:
                    self.waiting.append(each)
        elif kind == "stop-snapshot":
            named = self._tables_in(data)
            stopped = self.waiting[:1]
            self.waiting = [each for each in self.waiting if named and each not in named]
            if self.waiting[:1] != stopped:
                self.window = self.last_key = None
        elif self.window is not None and name == f"{self.window.id}-open":
            self.window.open = True
        elif self.window is not None and name == f"{self.window.id}-close":
            return self._closed()
        return None

    def _tables_in(self, data: Any) -> list[str]:
        try:
            named = list(json.loads(data or "{}").get("data-collections") or [])
        except (ValueError, AttributeError, TypeError, RecursionError):
            _LOG.warning("a signal has data that is no JSON object, and is passed over: %.200r", data)
            return []
        return [".".join(str(each).replace('"', "").split(".")[-2:]) for each in named]

    def see(self, event: Event) -> None:
        """A change in the log: what was read of its row is old."""
        window = self.window
        if window is None or not window.open or event.followed is None:
            return
        if event.followed.relation.id == window.followed.relation.id:
            for change in event.changes:
                if change.key is not None:
                    window.rows.pop(repr(list(change.key)), None)

    def read_next(self) -> None:
        """Read the next rows, if any are to be and none are waiting. Retriable, ConnectError."""
        while self.waiting and self.window is None:
            followed = self._followed(self.waiting[0])
            if followed is None:
                self._next_table()
                continue
            name = str(uuid.uuid4())
            self._write(f"{name}-open", "snapshot-window-open")
            window = self._read(name, followed)
            self._write(f"{name}-close", "snapshot-window-close")
            self.window = window

    def _followed(self, name: str) -> Followed | None:
        for each in self.tables.chosen():
            if f"{each.schema}.{each.name}" == name:
                followed = self.tables.of_catalog(each)
                primary = {column.name for column in self.catalog.columns(each.id) if column.key_place}
                names = {
                    followed.relation.columns[followed.places[at]].name for at in followed.table.key_places
                }
                if primary and names == primary:  # rows that share a key would be taken for one
                    return followed
                _LOG.warning(
                    "table %s has no primary key, or its records have another key (message.key.columns): no "
                    "incremental snapshot of it is made",
                    name,
                )
                return None
        _LOG.warning("table %s is not captured: no incremental snapshot of it is made", name)
        return None

    def _next_table(self) -> None:
        self.waiting, self.last_key = self.waiting[1:], None

    def _write(self, name: str, kind: str) -> None:
        schema, table = self.signals.split(".")[-2:]
        self.catalog.rows(
            f"INSERT INTO {quoted(schema)}.{quoted(table)} VALUES (%s, %s, '{{}}')", (name, kind)
        )

    def _read(self, name: str, followed: Followed) -> Window:
        relation, places = followed.relation, followed.table.key_places
        keys = ", ".join(quoted(relation.columns[followed.places[place]].name) for place in places)
        behind = f"ORDER BY {keys} LIMIT {self.chunk_size}"
        if self.last_key is not None:
            literals = ", ".join("'" + str(each).replace("'", "''") + "'" for each in self.last_key)
            behind = f"WHERE ({keys}) > ({literals}) {behind}"
        texts = [
            row
            for part in copied(self.catalog.connection(), select_of(followed, behind), self.chunk_size)
            for row in part
        ]
        rows = {}
        if texts:
            for row in values_of(followed, texts):
                rows[repr(followed.table.key_of(row))] = row
        last = [texts[-1][place] for place in places] if texts else []
        return Window(name, followed, rows, last, len(texts) < self.chunk_size)

    def _closed(self) -> tuple[Followed, list[Change], Any]:
        window, self.window = self.window, None
        assert window is not None
        if window.is_last:
            self._next_table()
        else:
            self.last_key = window.last_key
        table = window.followed.table
        changes = [Change("r", None, row, (), table.key_of(row)) for row in window.rows.values()]
        return window.followed, changes, None
