"""The connection that changes come through: PostgreSQL's streaming replication over libpq (psycopg's pq
layer).

psycopg 3 has no cursor for replication, but all that one needs: a connection with `replication=database`,
copy in both directions, and a socket to wait on.

    server   w | start of WAL 8 | end 8 | clock 8 | a message of pgoutput |     k | end 8 | clock 8 | reply
    wanted 1 | client   r | written 8 | flushed 8 | applied 8 | clock 8 | reply wanted 1 |

What is confirmed as flushed the server forgets: only what is committed in Kafka.
"""

from __future__ import annotations

import selectors
import struct
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from moldau.connect.connectors.cdc.postgres.pgoutput import EPOCH_2000_US
from moldau.connect.connectors.cdc.postgres.positions import lsn_text
from moldau.connect.errors import ConnectError, Retriable

SESSION = (
    "-c datestyle=ISO -c intervalstyle=iso_8601 -c timezone=UTC -c client_encoding=UTF8 "
    "-c extra_float_digits=3 -c bytea_output=hex -c statement_timeout=0 "
    "-c idle_in_transaction_session_timeout=0 -c row_security=off"
)
"""Texts as the conversions know them; no end by a time of the user's; and where policies hide rows from the
user, which the log has, an error and not a snapshot without them."""


class Received(NamedTuple):
    """A message, or with no data only how far the server is."""

    lsn: int
    data: bytes


def quoted(name: str) -> str:
    """An identifier."""
    return '"' + name.replace('"', '""') + '"'


class Replication:
    """One connection; Retriable when it breaks."""

    def __init__(self, conninfo: str) -> None:
        from psycopg import conninfo as info
        from psycopg import pq

        self._pq = pq
        text = info.make_conninfo(conninfo, replication="database", options=SESSION)
        self._connection: Any = pq.PGconn.connect(text.encode())
        if self._connection.status != pq.ConnStatus.OK:
            raise Retriable(f"PostgreSQL is away or refuses: {self._said()}")
        self._status_at = 0.0
        self._flushed = 0

    def _said(self) -> str:
        return " ".join(self._connection.error_message.decode(errors="replace").split())

    def command(self, text: str) -> list[tuple[str, ...]]:
        """A command or statement, and its rows. ConnectError."""
        result = self._connection.exec_(text.encode())
        if result.status not in (self._pq.ExecStatus.TUPLES_OK, self._pq.ExecStatus.COMMAND_OK):
            said = " ".join(result.error_message.decode(errors="replace").split())
            kind = (
                Retriable
                if self._connection.status != self._pq.ConnStatus.OK or "is active" in said
                else ConnectError
            )
            raise kind(f"PostgreSQL refuses: {said}")
        return [
            tuple((result.get_value(row, place) or b"").decode() for place in range(result.nfields))
            for row in range(result.ntuples)
        ]

    def create_slot(self, name: str, temporary: bool = False) -> tuple[str, str]:
        """(LSN from which it has changes, the snapshot of that moment, readable while this connection does
        nothing)."""
        kind = "TEMPORARY " if temporary else ""
        rows = self.command(f"CREATE_REPLICATION_SLOT {quoted(name)} {kind}LOGICAL pgoutput EXPORT_SNAPSHOT")
        return rows[0][1], rows[0][2]

    def start(self, slot: str, publication: str, lsn: int) -> None:
        """Begin. ConnectError, Retriable."""
        names = publication.replace("'", "''")
        self._connection.send_query(
            f"START_REPLICATION SLOT {quoted(slot)} LOGICAL {lsn_text(lsn)} "
            f"(proto_version '1', publication_names '{quoted(names)}', messages 'true')".encode()
        )
        result = self._connection.get_result()
        if result.status != self._pq.ExecStatus.COPY_BOTH:
            said = " ".join(result.error_message.decode(errors="replace").split())
            kind = Retriable if "is active" in said or "starting up" in said else ConnectError
            raise kind(f"changes cannot be read from slot {slot}: {said}")
        self._connection.nonblocking = 1
        self._flushed = 0

    def received(self, timeout_seconds: float) -> Iterator[Received]:
        """Messages that are there; waits so long for the first. Retriable."""
        from psycopg import OperationalError

        waited = False
        while True:
            try:
                count, data = self._connection.get_copy_data(1)
                if count == 0:
                    if waited:
                        return
                    with selectors.DefaultSelector() as waiting:  # select() ends at descriptor 1024
                        waiting.register(self._connection.socket, selectors.EVENT_READ)
                        waiting.select(timeout_seconds)
                    waited = True
                    self._connection.consume_input()
                    continue
            except (OperationalError, OSError, ValueError) as error:
                raise Retriable(f"the connection for changes broke: {error}") from error
            if count < 0:
                result = self._connection.get_result()
                said = result.error_message.decode(errors="replace") if result else "the server closed it"
                raise Retriable(f"the connection for changes ended: {' '.join(said.split())}")
            waited = True
            made = self._unwrapped(bytes(data))
            if made is not None:
                yield made

    def _unwrapped(self, data: bytes) -> Received | None:
        if data[:1] == b"w":
            (start,) = struct.unpack_from(">Q", data, 1)
            return Received(start, data[25:])
        if data[:1] == b"k":
            end, _, wanted = struct.unpack_from(">QQB", data, 1)
            if wanted:
                self._status_at = 0.0
            return Received(end, b"")
        return None

    def confirm(self, lsn: int, interval_seconds: float) -> None:
        """Tell the server that everything before `lsn` is in Kafka: when it is news, asked for, or due."""
        now = time.monotonic()
        due = now - self._status_at >= interval_seconds
        if not due and (lsn <= self._flushed or now - self._status_at < min(1.0, interval_seconds)):
            return
        clock = time.time_ns() // 1000 - EPOCH_2000_US
        self._connection.put_copy_data(struct.pack(">cQQQqB", b"r", lsn, lsn, lsn, clock, 0))
        self._connection.flush()
        self._flushed, self._status_at = max(lsn, self._flushed), now

    def close(self) -> None:
        """Close it; the slot stays."""
        self._connection.finish()
