"""Rows of a table that were read while changes flow, until the log is past them.

    read at a moment         rows by key, as of then
    the log, up to a mark    a change that the moment does not see is newer: its row goes out as a change,
                             and not as it was read; one that is not delivered (skipped.operations) is
                             carried over into the row; TRUNCATE leaves none
    the mark                 what is left goes out as op r

The mark is written after the reading, so that all changes which the moment sees come before it.
(Andreakis, Papapanagiotou: DBLog, 2020.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from moldau.connect.connectors.cdc.converting import UNCHANGED
from moldau.connect.connectors.cdc.envelope import Change


@dataclass(slots=True)
class Window:
    """One chunk."""

    rows: dict[str, list[Any]]
    """By `key_text`."""
    last_key: list[str | None]
    """Of the last row that was read, as the database writes it."""
    is_last: bool
    """The table has no more."""
    is_spoiled: bool = False
    """A change cannot be put in its place: the chunk is to be read again."""

    def see(self, changes: Sequence[Change], is_skipped: bool) -> None:
        """Changes of the table that the moment of reading does not see, in order."""
        for change in changes:
            if change.op == "t":
                self.rows.clear()
            elif change.key is None:
                self.is_spoiled = True
            elif is_skipped and change.op != "d":
                self._carry(change)
            else:
                self.rows.pop(key_text(change.key), None)

    def _carry(self, change: Change) -> None:
        """An update (or a row that was deleted and comes again) that is not delivered itself."""
        key = key_text(change.key or ())
        row = self.rows.get(key)
        if row is None or change.after is None:
            return  # created meanwhile: not delivered, as the settings say
        if len(row) != len(change.after):
            self.is_spoiled = True  # the table has other columns now
            return
        self.rows[key] = [
            old if new is UNCHANGED else new for old, new in zip(row, change.after, strict=True)
        ]


def key_text(key: Sequence[Any]) -> str:
    """A key as one that a dictionary can have."""
    return repr(list(key))
