"""Snapshots while changes flow, ordered by a row in `signal.data.collection` (orders.py).

    read the next rows by key, write snapshot-window-close, and in the log, up to there: changes that the
    reading did not see are newer than its rows (window.py); then what is left goes out as op r, and the last
    key into the offset

So it can be stopped at any moment and goes on behind the last key that is committed.

A change may have been delivered before the rows are read, and yet not be visible to the reading (visibility.
py). Transactions that were delivered are remembered until they are visible; rows of a reading that does not
see one of them are thrown away, and read again. What a start did not deliver itself it cannot remember:
transactions that were in progress then must have ended, been delivered, or be seen not to be committing.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from moldau.connect.connectors.cdc.envelope import Change
from moldau.connect.connectors.cdc.orders import Orders
from moldau.connect.connectors.cdc.postgres.chunks import Chunk
from moldau.connect.connectors.cdc.postgres.rows import converted_rows
from moldau.connect.connectors.cdc.postgres.transactions import Event, Followed
from moldau.connect.connectors.cdc.postgres.visibility import Visibility
from moldau.connect.connectors.cdc.window import Window, key_text
from moldau.connect.source import Refused

_LOG = logging.getLogger(__name__)
_REMEMBERED_MAX = 10_000
_AGAIN_SECONDS = 0.1
_LOOK_SECONDS = 1.0
_PATIENCE_SECONDS = 60.0


class Database(Protocol):
    """See chunks.py."""

    def read(self, followed: Followed, last_key: list[str | None] | None, count: int) -> Chunk:
        """The next rows of a table."""

    def look(self) -> Visibility:
        """What is visible now."""

    def committing(self) -> set[int]:
        """Who may be in the log and not visible."""

    def mark(self, name: str) -> None:
        """Write the end of the window."""


class Incremental:
    """Tables to read, and how far. `find`: a table by its name, None: it is not to be read."""

    def __init__(
        self,
        database: Database,
        find: Callable[[str], Followed | None],
        chunk_size: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.orders = Orders()
        self.window: Window | None = None
        self._followed: Followed | None = None
        self._mark = ""
        self._seen: Visibility | None = None
        self._refused: list[Refused] = []
        self._database = database
        self._find = find
        self._chunk_size = chunk_size
        self._clock = clock
        self._delivered: set[int] = set()
        """Transactions of which changes were delivered, and which may not be visible yet."""
        self._suspects: set[int] | None = None
        """In progress when this began, and not delivered: their commit may lie before."""
        self._unsuspicious: dict[int, float] = {}
        """Suspects that do nothing suspicious, and since when."""
        self._not_before = self._look_at = 0.0
        self._waits_since: float | None = None

    def signal(self, row: Sequence[Any]) -> tuple[Followed, list[Change], list[Refused]] | None:
        """A row of the table of signals (id, type, data); gives what is to go out, with a source to be
        made."""
        if self.orders.take(row):
            self.window = None
        elif self.window is not None and row and row[0] == self._mark:
            return self._closed()
        return None

    def see(self, event: Event) -> None:
        """An event of the log, delivered or skipped."""
        if event.followed is None:
            return
        self._remember(event.xid)
        window, seen = self.window, self._seen
        if window is None or seen is None or self._followed is None or seen.sees(event.xid):
            return
        if event.followed.relation.id == self._followed.relation.id:
            window.see(event.changes, event.is_skipped)
            window.is_spoiled = window.is_spoiled or event.refused is not None

    def _remember(self, xid: int) -> None:
        self._delivered.add(xid)
        if self._suspects:
            self._suspects.discard(xid)
        if len(self._delivered) > _REMEMBERED_MAX and self._clock() >= self._look_at:
            self._look_at = self._clock() + _LOOK_SECONDS
            self._forget_visible(self._database.look())
            if len(self._delivered) > _REMEMBERED_MAX * 10:
                _LOG.warning(
                    "%d transactions were delivered and are not visible yet: does a synchronous standby not "
                    "answer?",
                    len(self._delivered),
                )

    def _forget_visible(self, seen: Visibility) -> None:
        self._delivered = {each for each in self._delivered if not seen.sees(each)}

    def read_next(self) -> None:
        """Read the next rows, if any are to be and none are waiting. Retriable, ConnectError."""
        while self.orders.waiting and self.window is None and self._clock() >= self._not_before:
            followed = self._find(self.orders.waiting[0])
            if followed is None:
                self.orders.next_table()
                continue
            chunk = self._database.read(followed, self.orders.last_key, self._chunk_size)
            self._forget_visible(chunk.seen)
            if self._is_too_early(chunk.seen):
                return
            self._open(followed, chunk)

    def _is_too_early(self, seen: Visibility) -> bool:
        """Whether a change that was delivered may be missing in the rows."""
        now = self._clock()
        if not self._delivered and not self._suspected(seen, now):
            self._waits_since = None
            return False
        if self._waits_since is None:
            self._waits_since = now
        waited = now - self._waits_since
        if waited > _PATIENCE_SECONDS:
            self._waits_since = now
            _LOG.warning(
                "the incremental snapshot waits for %d transactions that were in progress when it (or the "
                "connector) began, or whose changes are delivered and not visible: see pg_stat_activity",
                len(self._delivered) + len(self._suspects or ()),
            )
        self._not_before = now + (_AGAIN_SECONDS if self._delivered else _LOOK_SECONDS)
        return True

    def _suspected(self, seen: Visibility, now: float) -> bool:
        if self._suspects is None:
            self._suspects = {each % (1 << 32) for each in seen.running}
        self._suspects = {each for each in self._suspects if not seen.sees(each)}
        if not self._suspects:
            self._unsuspicious.clear()
            return False
        committing = self._database.committing()
        for each in list(self._suspects):
            if each in committing:
                self._unsuspicious.pop(each, None)
            elif now - self._unsuspicious.setdefault(each, now) >= _LOOK_SECONDS:
                self._suspects.discard(each)  # seen twice at work: it has not come to its commit
        return bool(self._suspects)

    def _open(self, followed: Followed, chunk: Chunk) -> None:
        table, texts = followed.table, chunk.texts
        values, refused = converted_rows(followed, texts)
        rows = {key_text(table.key_of(row) or ()): row for row in values}
        last = [texts[-1][place] for place in table.key_places] if texts else []
        self._mark = f"{uuid.uuid4()}-close"
        self._database.mark(self._mark)
        self._followed, self._seen, self._refused = followed, chunk.seen, refused
        self.window = Window(rows, last, len(texts) < self._chunk_size)

    def _closed(self) -> tuple[Followed, list[Change], list[Refused]] | None:
        window, followed, self.window = self.window, self._followed, None
        assert window is not None
        assert followed is not None
        if window.is_spoiled:
            return None  # from the same key on, again
        if window.is_last:
            self.orders.next_table()
        else:
            self.orders.last_key = window.last_key
        changes = [Change("r", None, row, (), followed.table.key_of(row)) for row in window.rows.values()]
        return followed, changes, self._refused
