"""Which transactions a snapshot sees: PostgreSQL's `pg_current_snapshot`, `xmin:xmax:xip,xip,...`

A transaction is in the log before it is visible: between its commit record and the end of its entry among
those in progress lies, with synchronous replication, the wait for a standby. So a row that is read after a
change was delivered may be older than the change; whether it is, only the snapshot of the reading says.
"""

from __future__ import annotations

from typing import NamedTuple

_WRAP = 1 << 32


class Visibility(NamedTuple):
    """All below xmin has ended, none from xmax on has begun to be seen; between, those of `running` are in
    progress. Numbers of 64 bits."""

    xmin: int
    xmax: int
    running: frozenset[int]

    def sees(self, xid: int) -> bool:
        """Whether it is visible; `xid` as the log has it, of 32 bits."""
        whole = self.whole(xid)
        if whole < self.xmin:
            return True
        return whole < self.xmax and whole not in self.running

    def whole(self, xid: int) -> int:
        """The number of 64 bits that is nearest to the snapshot's."""
        made = self.xmax - self.xmax % _WRAP + xid % _WRAP
        if made - self.xmax > _WRAP // 2:
            return made - _WRAP
        return made + _WRAP if self.xmax - made > _WRAP // 2 else made


def visibility(text: str) -> Visibility:
    """Of PostgreSQL's text."""
    xmin, xmax, running = text.split(":")
    return Visibility(int(xmin), int(xmax), frozenset(map(int, filter(None, running.split(",")))))
