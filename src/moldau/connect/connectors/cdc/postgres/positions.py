"""Where reading stands, in Debezium's words, and one of ours.

    {"lsn": L, "lsn_proc": L, "lsn_commit": C, "txId": X, "ts_usec": T}      after the transaction that
    committed at C {..., "moldau_tx_lsn": F, "moldau_tx_events": n}                      and n events of the
    one that commits at F

PostgreSQL sends whole transactions in the order of their commits, the same ones again from wherever a slot
was confirmed. So the commit's LSN says which were delivered, and a count how much of one that was cut.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from moldau.connect.errors import ConnectError

_NUMBERS = (
    "lsn",
    "lsn_proc",
    "lsn_commit",
    "txId",
    "ts_usec",
    "moldau_end_lsn",
    "moldau_tx_lsn",
    "moldau_tx_events",
)


@dataclass(frozen=True, slots=True)
class Position:
    """After which event."""

    lsn: int
    """Of the last event."""
    commit_lsn: int
    """Of the last transaction that is complete; 0: none yet."""
    end_lsn: int
    """Behind that transaction: what may be confirmed to the server."""
    xid: int = 0
    time_us: int = 0
    tx_lsn: int = 0
    """Of the commit of a transaction that is not complete, 0 if there is none."""
    tx_events: int = 0
    snapshot: str = ""
    """INITIAL while one is going on."""
    incremental: str = ""
    """The state of an incremental snapshot, JSON."""

    def offset(self) -> dict[str, Any]:
        """As it is kept in Kafka."""
        made: dict[str, Any] = {
            "lsn": self.lsn,
            "lsn_proc": self.lsn,
            "lsn_commit": self.commit_lsn,
            "txId": self.xid,
            "ts_usec": self.time_us,
            "moldau_end_lsn": self.end_lsn,
        }
        if self.tx_lsn:
            made |= {"moldau_tx_lsn": self.tx_lsn, "moldau_tx_events": self.tx_events}
        if self.snapshot:
            made |= {"snapshot": self.snapshot, "snapshot_completed": False}
        if self.incremental:
            made["moldau_incremental"] = self.incremental
        return made

    def delivered(self, final_lsn: int) -> int | None:
        """How many events of the transaction that commits there were delivered; None: all.

        `final_lsn` is where its commit begins, and may be the very place where what was read before ends:
        then it is new. So the server decides, too.
        """
        if final_lsn < self.end_lsn:
            return None
        return self.tx_events if final_lsn == self.tx_lsn else 0

    def within(self, lsn: int, xid: int, time_us: int, final_lsn: int, events: int) -> Position:
        """After so many events of a transaction."""
        return Position(
            lsn,
            self.commit_lsn,
            self.end_lsn,
            xid,
            time_us,
            final_lsn,
            events,
            self.snapshot,
            self.incremental,
        )

    def behind(self, commit_lsn: int, end_lsn: int) -> Position:
        """After a transaction."""
        return replace(
            self, lsn=max(self.lsn, commit_lsn), commit_lsn=commit_lsn, end_lsn=end_lsn, tx_lsn=0, tx_events=0
        )


def position_of(offset: Mapping[str, Any] | None) -> Position | None:
    """Read an offset, Debezium's too; None without one. ConnectError."""
    if not offset:
        return None
    given = {name: offset.get(name) or 0 for name in _NUMBERS}
    for name, value in given.items():
        if not isinstance(value, int):
            raise ConnectError(f"{name} of an offset is a whole number, not {value!r}")
    if not given["lsn"] and not given["lsn_commit"]:
        raise ConnectError("an offset of PostgreSQL has lsn (a whole number)")
    going_on = bool(offset.get("snapshot")) and not (
        offset.get("snapshot_completed") or offset.get("last_snapshot_record")
    )
    commit = given["lsn_commit"] or given["lsn_proc"] or given["lsn"]
    return Position(
        given["lsn"],
        commit,
        given["moldau_end_lsn"] or commit,
        given["txId"],
        given["ts_usec"],
        given["moldau_tx_lsn"],
        given["moldau_tx_events"],
        "INITIAL" if going_on else "",
        str(offset.get("moldau_incremental") or ""),
    )


def lsn_text(lsn: int) -> str:
    """As PostgreSQL writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def lsn_number(text: str) -> int:
    """Of PostgreSQL's text."""
    high, low = text.split("/")
    return (int(high, 16) << 32) + int(low, 16)
