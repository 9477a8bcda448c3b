"""Where reading stands in the log.

    {"file": "binlog.000003", "pos": P, "ts_sec": T, "row": 0, "event": 0}    behind the transaction that
    ends at P {..., "moldau_rows": n}                                                  and n rows of the one
    that begins there

Debezium's offsets are read, too: their `pos` is that of a transaction's beginning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from moldau.connect.errors import ConnectError


@dataclass(frozen=True, slots=True)
class BinlogPosition:
    """After which row."""

    file: str
    pos: int
    rows: int = 0
    time_s: int = 0
    snapshot: bool = False

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
    return BinlogPosition(file, pos, rows, offset.get("ts_sec") or 0)
