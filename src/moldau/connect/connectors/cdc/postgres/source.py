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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from moldau.connect.connectors.cdc.postgres.catalog import Catalog
from moldau.connect.connectors.cdc.postgres.positions import Position, lsn_number, lsn_text, position_of
from moldau.connect.connectors.cdc.postgres.replication import Replication
from moldau.connect.connectors.cdc.postgres.settings import POSTGRES_SETTINGS, check_postgres
from moldau.connect.connectors.cdc.postgres.snapshot import Snapshot
from moldau.connect.connectors.cdc.postgres.stream import Stream
from moldau.connect.connectors.cdc.postgres.tables import Tables, key_columns
from moldau.connect.connectors.cdc.postgres.transactions import Transactions
from moldau.connect.errors import ConnectError, Retriable
from moldau.connect.source import Read, Source, SourceContext, SourceOffset, SourcePartition

_LOG = logging.getLogger(__name__)
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
            self._tables.published(),
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
        stream = Stream(
            self.config, self._tables, self._catalog, transactions, self._replication, self.confirmed_lsn
        )
        while not self.context.stopping():
            yield stream.next()

    def confirmed_lsn(self) -> int:
        """What the server may forget."""
        return self._committed.end_lsn if self._committed else 0


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
