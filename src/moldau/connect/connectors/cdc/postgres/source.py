"""PostgreSQL's changes as records.

no offset            publication, slot, snapshot as of the slot's beginning, then changes
an offset            changes behind it: the server sends again from what was confirmed, and what was
delivered is
                     left out by commit LSN and count
confirmed            only what `committed` says: a crash between delivery and commit repeats, and loses
nothing
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from moldau.connect.batch import Batch
from moldau.connect.connectors.cdc.envelope import Change, EnvelopeTable
from moldau.connect.connectors.cdc.postgres.catalog import Catalog, Slot
from moldau.connect.connectors.cdc.postgres.chunks import Chunks
from moldau.connect.connectors.cdc.postgres.incremental import Incremental
from moldau.connect.connectors.cdc.postgres.metadata import heartbeat, transaction
from moldau.connect.connectors.cdc.postgres.pgoutput import Malformed, decode
from moldau.connect.connectors.cdc.postgres.positions import Position, lsn_number, lsn_text, position_of
from moldau.connect.connectors.cdc.postgres.replication import Replication
from moldau.connect.connectors.cdc.postgres.settings import POSTGRES_SETTINGS, check_postgres
from moldau.connect.connectors.cdc.postgres.snapshot import Snapshot
from moldau.connect.connectors.cdc.postgres.tables import Tables, key_columns
from moldau.connect.connectors.cdc.postgres.transactions import Event, Transactions
from moldau.connect.errors import ConnectError, Retriable
from moldau.connect.source import Read, Refused, Source, SourceContext, SourceOffset, SourcePartition

_LOG = logging.getLogger(__name__)
RETAINED_BYTES_WARNED = 1 << 30
SLOT_LOOK_SECONDS = 300.0
READ_SECONDS_MAX = 1.0
_NO_DRIVER = "the connector needs psycopg: pip install 'moldau[connect-postgres]'"
READ_BYTES_MAX = 16 << 20
"""What is read of the log at a time, whatever it is: changes that are not captured cost time, too, and the
server ends a connection that it does not hear of for wal_sender_timeout."""


class PostgresSource(Source):
    """See the module."""

    settings = POSTGRES_SETTINGS

    def start(self, settings: Mapping[str, Any], context: SourceContext) -> None:
        """Connects when it is asked to read."""
        super().start(settings, context)
        try:
            self._conninfo = conninfo_of(settings)
        except ImportError:
            raise ConnectError(_NO_DRIVER) from None
        self._catalog = Catalog(self._conninfo)
        self._tables = Tables(self._catalog, settings)
        self._slot: str = settings["slot.name"]
        self._server: str = settings["topic.prefix"]
        self._committed: Position | None = None
        self._replication: Replication | None = None

    def check(self, settings: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
        """Contradictions; with none, whether the server can be reached and writes logical changes."""
        wrong: dict[str, list[str]] = check_postgres(settings)
        try:
            key_columns(settings["message.key.columns"])
        except ConnectError as error:
            wrong["message.key.columns"] = [str(error)]
        if wrong:
            return wrong
        try:
            catalog = Catalog(conninfo_of(settings))
        except ImportError:
            return {"database.hostname": [_NO_DRIVER]}
        try:
            level = catalog.rows("SHOW wal_level")[0][0]
        except ConnectError as error:
            return {"database.hostname": [str(error)]}
        finally:
            catalog.close()
        if level != "logical":
            return {
                "database.hostname": [
                    f"wal_level is {level}: set wal_level=logical, and start the server anew"
                ]
            }
        return {}

    def check_offsets(self, offsets: Mapping[str, Any]) -> None:
        """Debezium's, or ours."""
        position_of(offsets)

    def partitions(self) -> Sequence[SourcePartition]:
        """The server: its log is one."""
        return [{"server": self._server}]

    def committed(self, partition: SourcePartition, offset: SourceOffset) -> None:
        """From now on the server may forget what lies before."""
        self._committed = position_of(offset)

    def read(self, partition: SourcePartition, offset: SourceOffset | None) -> Iterator[Read | None]:
        """A snapshot if there is to be one, then changes."""
        position = position_of(offset)
        mode = self.config["snapshot.mode"].lower()
        if position is not None and position.snapshot:
            position = None  # it was broken off
        if position is not None and mode == "when_needed" and self._lost(position):
            _LOG.warning("%s: making a snapshot anew", self._lost(position))
            position = None
        try:
            if position is None or mode == "always":
                for each in self._begin(mode, is_own=offset is not None):
                    yield each
                    position = position_of(each.offset)
            assert position is not None
            if mode == "initial_only":
                while not self.context.stopping():
                    yield None
                return
            yield from self._follow(position)
        finally:
            self._close_replication()

    def stop(self) -> None:
        """Close the connections; with slot.drop.on.stop drop the slot."""
        if not hasattr(self, "_catalog"):
            return
        self._close_replication()
        try:
            if (
                self.config["slot.drop.on.stop"]
                and self.context.task is not None
                and self._catalog.slot(self._slot)
            ):
                self._catalog.drop_slot(self._slot)
        except ConnectError as error:
            _LOG.warning("slot %s could not be dropped: %s", self._slot, error)
        finally:
            self._catalog.close()

    def _close_replication(self) -> None:
        if self._replication is not None:
            self._replication.close()
            self._replication = None

    # The beginning

    def _begin(self, mode: str, *, is_own: bool) -> Iterator[Read]:
        """Publication, slot and snapshot; the last one's offset is where changes begin.

        `is_own`: this connector has an offset, so that a slot of the name is its own, and may be made anew.
        Any other may be somebody's, who would lose changes with it.
        """
        self._catalog.require_publication(
            self.config["publication.name"],
            self.config["publication.autocreate.mode"].lower(),
            self._tables.chosen(),
        )
        slot = self._catalog.slot(self._slot)
        without_rows = mode in ("no_data", "never")
        if slot is not None and without_rows:
            yield Read([], _at(slot.confirmed_lsn).offset())
            return
        if slot is not None and not is_own:
            raise ConnectError(
                f"there is a replication slot {self._slot} already, and this connector has no offset that "
                "says it is its own: name another one (slot.name), or, if nobody needs it, drop it: "
                f"SELECT pg_drop_replication_slot('{self._slot}')"
            )
        yield Read([], replace(_at(1), snapshot="INITIAL").offset())  # from here on the slot is our own
        if slot is not None:
            self._drop_slot()  # nothing was delivered from it, or all is read anew
        rows = None if without_rows else Snapshot(self._conninfo, self._tables, self.config)
        self._replication = Replication(self._conninfo)
        try:
            text, name = self._replication.create_slot(self._slot)
            position = _at(lsn_number(text))
            if rows is not None:
                going_on = replace(position, snapshot="INITIAL").offset()
                for batches, refused in rows.parts(name, position.lsn):
                    yield Read(batches, going_on, refused=refused)
        finally:
            self._close_replication()
        yield Read([], position.offset())

    def _drop_slot(self) -> None:
        """The server may take a moment to notice that its last reader is gone."""
        for _ in range(50):
            try:
                self._catalog.drop_slot(self._slot)
                return
            except Retriable as error:
                if "is active" not in str(error) or self.context.wait(0.2):
                    raise
        self._catalog.drop_slot(self._slot)

    def _lost(self, position: Position) -> str:
        """Why changes behind the position cannot be had any more; empty: they can."""
        slot = self._catalog.slot(self._slot)
        reached = lsn_text(position.end_lsn)
        if slot is None:
            return f"replication slot {self._slot} is gone, and with it the changes since {reached}"
        if slot.status == "lost":
            return (
                f"replication slot {self._slot} fell behind max_slot_wal_keep_size: changes since {reached} "
                "are lost"
            )
        if slot.plugin != "pgoutput":
            return f"replication slot {self._slot} is of the plugin {slot.plugin}, not pgoutput"
        if slot.confirmed_lsn > position.end_lsn:
            return (
                f"replication slot {self._slot} begins at {lsn_text(slot.confirmed_lsn)}, behind {reached}, "
                "where this connector stands: it was made anew, or somebody else read from it, and the "
                "changes between are lost"
            )
        return ""

    # Changes

    def _follow(self, position: Position) -> Iterator[Read | None]:
        lost = self._lost(position)
        if lost:
            raise ConnectError(
                f"{lost}. Stop the connector, delete its offsets (`moldau connect offsets NAME --reset`), "
                "drop the slot if it is still there, and resume: slot and snapshot are made anew. Or set "
                "snapshot.mode=when_needed, which does so by itself"
            )
        self._replication = Replication(self._conninfo)
        self._replication.start(self._slot, self.config["publication.name"], position.end_lsn)
        skipped = frozenset(self.config["skipped.operations"])
        transactions = Transactions(
            position,
            self._tables.follow,
            self._tables.source_of,
            skipped,
            self.config["tombstones.on.delete"],
            self.config["provide.transaction.metadata"],
        )
        stream = _Stream(self, transactions, self._replication)
        while not self.context.stopping():
            yield stream.next()

    def confirmed_lsn(self) -> int:
        """What the server may forget."""
        return self._committed.end_lsn if self._committed else 0


class _Stream:
    """What is read between two answers of `read`."""

    def __init__(self, source: PostgresSource, transactions: Transactions, replication: Replication) -> None:
        self._settings = source.config
        self._source = source
        self._tables, self._catalog = source._tables, source._catalog
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
            Chunks(source._catalog, signals),
            source._tables.by_name,
            max(self._settings["incremental.snapshot.chunk.size"], 1),
        )
        self._incremental.orders.restore(transactions.position.incremental)

    def next(self) -> Read | None:
        """Wait a moment for changes; None: there are none."""
        collected = _Collected(self._source._server)
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
        self._replication.confirm(
            self._source.confirmed_lsn(), self._settings["status.update.interval.ms"] / 1000
        )
        self._look_at_slot()
        if self._incremental.orders.waiting and self._transactions.idle:
            self._incremental.read_next()
        return self._read(collected)

    def _take(self, event: Event, collected: _Collected) -> None:
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

    def _signal(self, row: Sequence[Any], position: Position, collected: _Collected) -> None:
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

    def _read(self, collected: _Collected) -> Read | None:
        now = time.monotonic()
        interval = self._settings["heartbeat.interval.ms"] / 1000
        if interval and now - self._heartbeat_at >= interval:
            self._heartbeat_at = now
            self._act()
            collected.batches.append(
                heartbeat(self._settings["topic.heartbeat.prefix"], self._source._server)
            )
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
            slot: Slot | None = self._catalog.slot(self._source._slot)
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
                self._source._slot,
                slot.retained_bytes >> 20,
                slot.status,
            )


class _Collected:
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


def _at(lsn: int) -> Position:
    return Position(lsn, lsn, lsn)


def conninfo_of(settings: Mapping[str, Any]) -> str:
    """libpq's words for the connection."""
    from psycopg.conninfo import make_conninfo

    given = {
        "host": settings["database.hostname"],
        "port": settings["database.port"],
        "user": settings["database.user"],
        "password": settings["database.password"],
        "dbname": settings["database.dbname"],
        "application_name": "Moldau Connect",
        "connect_timeout": 10,
        "tcp_user_timeout": 60_000,
    }
    for name in ("sslmode", "sslrootcert", "sslcert", "sslkey"):
        given[name] = settings[f"database.{name}"]
    return str(make_conninfo("", **{name: value for name, value in given.items() if value is not None}))


__all__ = ["PostgresSource"]
