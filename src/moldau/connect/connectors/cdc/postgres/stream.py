"""PostgreSQL's log from a position on, read in turns: changes, heartbeats, chunks of incremental snapshots,
and what is confirmed to the server."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from moldau.connect.batch import Batch
from moldau.connect.connectors.cdc.envelope import Change, EnvelopeTable
from moldau.connect.connectors.cdc.postgres.catalog import Catalog, Slot
from moldau.connect.connectors.cdc.postgres.chunks import Chunks
from moldau.connect.connectors.cdc.postgres.incremental import Incremental
from moldau.connect.connectors.cdc.postgres.metadata import heartbeat, transaction
from moldau.connect.connectors.cdc.postgres.pgoutput import Malformed, decode
from moldau.connect.connectors.cdc.postgres.positions import Position, lsn_text
from moldau.connect.connectors.cdc.postgres.replication import Replication
from moldau.connect.connectors.cdc.postgres.tables import Tables
from moldau.connect.connectors.cdc.postgres.transactions import Event, Transactions
from moldau.connect.errors import ConnectError, Retriable
from moldau.connect.source import Read, Refused

_LOG = logging.getLogger(__name__)
RETAINED_BYTES_WARNED = 1 << 30
SLOT_LOOK_SECONDS = 300.0
READ_SECONDS_MAX = 1.0
READ_BYTES_MAX = 16 << 20
"""What is read of the log at a time, whatever it is: changes that are not captured cost time, too, and the
server ends a connection that it does not hear of for wal_sender_timeout."""


class Stream:
    """What is read between two answers of `read`."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        tables: Tables,
        catalog: Catalog,
        transactions: Transactions,
        replication: Replication,
        confirmed_lsn: Callable[[], int],
    ) -> None:
        """`confirmed_lsn`: what the server may forget."""
        self._settings = settings
        self._server: str = settings["topic.prefix"]
        self._slot: str = settings["slot.name"]
        self._confirmed_lsn = confirmed_lsn
        self._tables, self._catalog = tables, catalog
        self._transactions = transactions
        self._replication = replication
        self._yielded = transactions.position
        self._server_lsn = 0
        now = time.monotonic()
        self._moved_at = self._heartbeat_at = now
        self._slot_at = now - SLOT_LOOK_SECONDS
        signals = self._settings["signal.data.collection"] or ""
        self._has_signals = transactions.with_skipped = bool(signals)
        self._incremental = Incremental(
            Chunks(catalog, signals),
            tables.by_name,
            max(self._settings["incremental.snapshot.chunk.size"], 1),
        )
        self._incremental.orders.restore(transactions.position.incremental)

    def next(self) -> Read | None:
        """Wait a moment for changes; None: there are none."""
        collected = Collected(self._server)
        count = size_bytes = 0
        until = time.monotonic() + self._settings["poll.interval.ms"] / 1000 + READ_SECONDS_MAX
        for received in self._replication.received(self._settings["poll.interval.ms"] / 1000):
            self._server_lsn = max(received.lsn, self._server_lsn) if not received.data else self._server_lsn
            if received.data:
                try:
                    message = decode(received.data)
                except Malformed as error:
                    raise ConnectError(
                        f"the log at {lsn_text(received.lsn)} cannot be read: {error}"
                    ) from error
                for event in self._transactions.handle(received.lsn, message):
                    self._take(event, collected)
                    count += 1
            size_bytes += len(received.data)
            if count >= self._settings["max.batch.size"] or size_bytes >= READ_BYTES_MAX:
                break
            if time.monotonic() >= until:
                break
        self._replication.confirm(self._confirmed_lsn(), self._settings["status.update.interval.ms"] / 1000)
        self._look_at_slot()
        if self._incremental.orders.waiting and self._transactions.idle:
            self._incremental.read_next()
        return self._read(collected)

    def _take(self, event: Event, collected: Collected) -> None:
        followed = event.followed
        if followed is None:
            collected.transaction(event)
            return
        if self._has_signals:
            self._incremental.see(event)
        if event.is_skipped and not self._tables.is_signals(followed.relation):
            return
        if self._tables.captured(followed.relation) and not event.is_skipped:
            collected.changes(followed.table, event.changes)
            if event.refused is not None:
                collected.refused.append(event.refused)
        if self._tables.is_signals(followed.relation):
            for change in event.changes:
                if change.op == "c" and change.after is not None:
                    self._signal(change.after, event.position, collected)

    def _signal(self, row: Sequence[Any], position: Position, collected: Collected) -> None:
        made = self._incremental.signal(row)
        if made is None:
            return
        followed, changes, refused = made
        collected.refused += refused
        relation = followed.relation
        source = self._tables.source_of(
            relation.schema,
            relation.table,
            position.lsn,
            0,
            time.time_ns() // 1000,
            position.commit_lsn,
            "incremental",
        )
        collected.changes(followed.table, [replace(each, source=source) for each in changes])

    def _read(self, collected: Collected) -> Read | None:
        now = time.monotonic()
        interval = self._settings["heartbeat.interval.ms"] / 1000
        if interval and now - self._heartbeat_at >= interval:
            self._heartbeat_at = now
            self._act()
            collected.batches.append(heartbeat(self._settings["topic.heartbeat.prefix"], self._server))
        transactions = self._transactions
        position = transactions.position
        # Changes of other databases; a transaction that was cut comes again first, and its count is needed.
        if transactions.idle and not position.tx_lsn and self._server_lsn > position.end_lsn:
            transactions.position = position.behind(self._server_lsn, self._server_lsn)
        transactions.position = replace(transactions.position, incremental=self._incremental.orders.state())
        batches = collected.all()
        refused = collected.refused
        due = now - self._moved_at >= self._settings["status.update.interval.ms"] / 1000
        if not batches and not refused and (transactions.position == self._yielded or not due):
            return None
        self._moved_at, self._yielded = now, transactions.position
        return Read(batches, transactions.position.offset(), refused=refused)

    def _act(self) -> None:
        statement = self._settings["heartbeat.action.query"]
        if not statement:
            return
        try:
            self._catalog.rows(statement)
        except Retriable:
            raise
        except ConnectError as error:
            raise ConnectError(f"heartbeat.action.query: {error}") from error

    def _look_at_slot(self) -> None:
        now = time.monotonic()
        if now - self._slot_at < SLOT_LOOK_SECONDS:
            return
        self._slot_at = now
        try:
            slot: Slot | None = self._catalog.slot(self._slot)
        except Retriable:
            return  # the stream will notice, if it is the server
        if slot is not None and (
            slot.retained_bytes > RETAINED_BYTES_WARNED or slot.status in ("extended", "unreserved", "lost")
        ):
            _LOG.warning(
                "replication slot %s keeps %d MiB of the server's log (%s): the connector is behind, or no "
                "change "
                "of "
                "its tables comes (set heartbeat.interval.ms and heartbeat.action.query)",
                self._slot,
                slot.retained_bytes >> 20,
                slot.status,
            )


class Collected:
    """Changes by table, as batches in the end; records of one topic keep their order."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._parts: list[tuple[EnvelopeTable, list[Change]]] = []
        self._newest: dict[str, tuple[EnvelopeTable, list[Change]]] = {}
        self.batches: list[Batch] = []
        self.refused: list[Refused] = []

    def changes(self, table: EnvelopeTable, changes: Sequence[Change]) -> None:
        """Of one event."""
        newest = self._newest.get(table.topic)
        if newest is None or newest[0] is not table:
            newest = self._newest[table.topic] = (table, [])
            self._parts.append(newest)
        newest[1].extend(changes)

    def transaction(self, event: Event) -> None:
        """A beginning or an end."""
        if event.begins is not None:
            name = f"{event.xid}:{event.begins.final_lsn}"
            self.batches.append(transaction(self._server, name, event.begins.time_us, None))
        elif event.ends is not None and event.with_metadata:
            name = f"{event.xid}:{event.ends.lsn}"
            self.batches.append(transaction(self._server, name, event.ends.time_us, event.table_counts))

    def all(self) -> list[Batch]:
        """Batches of everything."""
        made: list[Batch] = []
        for table, changes in self._parts:
            if changes:
                batches, refused = table.records(changes)
                made += batches
                self.refused += refused
        return made + self.batches
