"""Where reading stands in the log, and which transactions lie before (GTIDs), so that another server of the
same data can be gone on with.

    {"file": "binlog.000003", "pos": P, "ts_sec": T, "row": 0, "event": 0}    behind the transaction that
    ends at P {..., "moldau_rows": n}                                                  and n rows of the one
    that begins there

    "gtids"            MySQL: 3E11FA47-…:1-5      MariaDB: 0-1-5,1-1-3, the last one of each domain
    "moldau_gtid"      of the transaction whose rows were delivered in part: on another server the next one
                       may be another
    "moldau_server"    whose files and places these are

Debezium's offsets are read, too: their `pos` is that of a transaction's beginning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from moldau.connect.errors import ConnectError


class Place(NamedTuple):
    """A place in a server's log; in order, since names of its files are numbered with as many digits."""

    file: str
    pos: int


@dataclass(frozen=True, slots=True)
class BinlogPosition:
    """After which row."""

    file: str
    pos: int
    rows: int = 0
    time_s: int = 0
    snapshot: bool = False
    gtids: str = ""
    rows_gtid: str = ""
    server: str = ""
    incremental: str = ""

    def offset(self) -> dict[str, Any]:
        """As it is kept in Kafka."""
        made: dict[str, Any] = {
            "file": self.file,
            "pos": self.pos,
            "ts_sec": self.time_s,
            "row": 0,
            "event": 0,
        }
        if self.rows:
            made["moldau_rows"] = self.rows
            if self.rows_gtid:
                made["moldau_gtid"] = self.rows_gtid
        for name, value in (
            ("gtids", self.gtids), ("moldau_server", self.server), ("moldau_incremental", self.incremental),
        ):  # fmt: skip
            if value:
                made[name] = value
        if self.snapshot:
            made["snapshot"] = True
        return made


def position_of(offset: Mapping[str, Any] | None) -> BinlogPosition | None:
    """Read an offset; None without one, or with that of a snapshot that was broken off. ConnectError."""
    if not offset or offset.get("snapshot"):
        return None
    file, pos, rows = offset.get("file"), offset.get("pos"), offset.get("moldau_rows") or 0
    if not isinstance(file, str) or not isinstance(pos, int) or not isinstance(rows, int):
        raise ConnectError('an offset of the binary log is {"file": "binlog.000001", "pos": 4}')
    texts = [
        str(offset.get(name) or "")
        for name in ("gtids", "moldau_gtid", "moldau_server", "moldau_incremental")
    ]
    return BinlogPosition(file, pos, rows, offset.get("ts_sec") or 0, False, *texts)
