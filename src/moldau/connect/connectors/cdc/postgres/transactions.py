"""Messages of the log -> changes of captured tables, each with the position behind it. No input or output.

A transaction that was delivered is left out; of one that was delivered in part, so many of its events. An
event is what becomes one record or one change with its tombstone: an update that changes the key is a
deletion and a creation, and counts once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from moldau.connect.connectors.cdc.converting import (
    UNCHANGED,
    Unreadable,
    converted,
    with_placeholders,
)
from moldau.connect.connectors.cdc.envelope import Change, EnvelopeTable
from moldau.connect.connectors.cdc.postgres.pgoutput import (
    Begin,
    Commit,
    LogicalMessage,
    Message,
    Relation,
    RowChange,
    Truncate,
    Tuple,
)
from moldau.connect.connectors.cdc.postgres.positions import Position
from moldau.connect.errors import ConnectError
from moldau.connect.source import Refused


class Followed(NamedTuple):
    """A relation that is captured: its table in records, which of its columns, and its names."""

    relation: Relation
    table: EnvelopeTable
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Event:
    """Changes that belong together, and where reading stands behind them. No table: the beginning or end of
    a transaction."""

    followed: Followed | None
    changes: tuple[Change, ...]
    position: Position
    refused: Refused | None = None
    """Instead of changes: a row that is no record."""
    is_skipped: bool = False
    """Not to be delivered (`skipped.operations`); an incremental snapshot has to know of it. Values that were
    not logged are UNCHANGED."""
    begins: Begin | None = None
    """With provide.transaction.metadata: a transaction begins."""
    ends: Commit | None = None
    xid: int = 0
    table_counts: tuple[tuple[str, int], ...] = ()
    with_metadata: bool = False


SourceOf = Callable[[str, str, int, int, int, int], tuple[Any, ...]]
"""(schema, table, LSN, xid, commit time in us, LSN of the last commit) -> the source's values."""


class Transactions:
    """Follows the log from a position on."""

    def __init__(
        self,
        position: Position,
        follow: Callable[[Relation], Followed | None],
        source_of: SourceOf,
        skipped: frozenset[str],
        tombstones: bool,
        metadata: bool,
    ) -> None:
        self.position = position
        self._follow = follow
        self._source_of = source_of
        self._skipped = skipped
        self._tombstones = tombstones
        self._metadata = metadata
        self.with_skipped = False
        """Whether events that are skipped are wanted: an incremental snapshot is under way."""
        self._relations: dict[int, Followed | None] = {}
        self._begin: Begin | None = None
        self._events = 0
        self._left_out: int | None = 0
        self._counts: dict[str, int] = {}

    @property
    def idle(self) -> bool:
        """Between two transactions."""
        return self._begin is None

    def handle(self, lsn: int, message: Message) -> Iterator[Event]:
        """What a message means; ConnectError if the log is not as it should be."""
        if isinstance(message, Relation):
            self._relations[message.id] = self._follow(message)
        elif isinstance(message, Begin):
            self._begin, self._events, self._counts = message, 0, {}
            self._left_out = self.position.delivered(message.final_lsn)
            if self._metadata and self._left_out == 0:
                yield Event(None, (), self.position, begins=message, xid=message.xid)
        elif isinstance(message, Commit):
            yield from self._end(message)
        elif isinstance(message, RowChange):
            yield from self._row(lsn, message)
        elif isinstance(message, Truncate):
            yield from self._truncate(lsn, message)
        elif isinstance(message, LogicalMessage):
            pass  # of applications: not captured

    def _end(self, message: Commit) -> Iterator[Event]:
        begin, self._begin = self._begin, None
        if self._left_out is None or begin is None:
            return
        self.position = self.position.behind(message.lsn, message.end_lsn)
        counts = tuple(self._counts.items())
        yield Event(
            None,
            (),
            self.position,
            ends=message,
            xid=begin.xid,
            table_counts=counts,
            with_metadata=self._metadata,
        )

    def _counted(self, lsn: int, followed: Followed) -> Position | None:
        """The position behind the next event; None: it was delivered."""
        begin = self._begin
        if begin is None:
            raise ConnectError("the log has a change outside of a transaction")
        self._events += 1
        name = f"{followed.relation.schema}.{followed.relation.table}"
        self._counts[name] = self._counts.get(name, 0) + 1
        if self._left_out is None or self._events <= self._left_out:
            return None
        self.position = self.position.within(lsn, begin.xid, begin.time_us, begin.final_lsn, self._events)
        return self.position

    def _context(self, followed: Followed, lsn: int) -> tuple[tuple[Any, ...], tuple[str, int, int] | None]:
        begin, relation = self._begin, followed.relation
        assert begin is not None
        source = self._source_of(
            relation.schema, relation.table, lsn, begin.xid, begin.time_us, self.position.commit_lsn
        )
        if not self._metadata:
            return source, None
        name = f"{relation.schema}.{relation.table}"
        return source, (f"{begin.xid}:{begin.final_lsn}", self._events, self._counts[name])

    def _row(self, lsn: int, message: RowChange) -> Iterator[Event]:
        try:
            followed = self._relations[message.relation_id]
        except KeyError:
            raise ConnectError(
                f"the log has a change of relation {message.relation_id}, which it did not name"
            ) from None
        op = {"I": "c", "U": "u", "D": "d"}[message.kind]
        if followed is None:
            return
        if op in self._skipped:
            yield from self._skip(followed, message, op)
            return
        position = self._counted(lsn, followed)
        if position is None:  # delivered before, and yet news to an incremental snapshot
            yield from self._skip(followed, message, op)
            return
        old = _picked(followed, message.old)
        new = _picked(followed, message.new, old if message.old_kind == "O" else None)
        table = followed.table
        try:
            before = None if old is None else with_placeholders(table.columns, converted(table.columns, old))
            after = None if new is None else with_placeholders(table.columns, converted(table.columns, new))
        except Unreadable as error:
            yield Event(followed, (), position, table.refused(error, op, old, new), xid=position.xid)
            return
        if before is not None and message.old_kind == "K":
            before = table.filled(before)
        changes = tuple(self._changes(followed, op, before, after, lsn))
        yield Event(followed, changes, position, xid=position.xid)

    def _skip(self, followed: Followed, message: RowChange, op: str) -> Iterator[Event]:
        """What is skipped has no place in the count of events, and moves no position."""
        if self._begin is None or self._left_out is None or not self.with_skipped:
            return
        columns, table = followed.table.columns, followed.table
        old = _picked(followed, message.old)
        new = _picked(followed, message.new, old if message.old_kind == "O" else None)
        try:
            before = None if old is None else converted(columns, old)
            after = None if new is None else converted(columns, new)
        except Unreadable as error:
            refused = table.refused(error, op, old, new)
            yield Event(followed, (), self.position, refused, True, xid=self._begin.xid)
            return
        row = after if after is not None else before
        assert row is not None
        key = table.key_of(row)
        old_key = table.key_of(before) if before is not None else key
        changes: tuple[Change, ...] = (Change(op, before, after, (), key),)
        if op == "u" and key != old_key:
            changes = (Change("d", before, None, (), old_key), Change("c", None, after, (), key))
        yield Event(followed, changes, self.position, None, True, xid=self._begin.xid)

    def _changes(
        self, followed: Followed, op: str, before: list[Any] | None, after: list[Any] | None, lsn: int
    ) -> Iterator[Change]:
        table = followed.table
        source, transaction = self._context(followed, lsn)
        if op == "d":
            assert before is not None
            key = table.key_of(before)
            yield Change("d", before, None, source, key, transaction)
            if self._tombstones and key is not None:
                yield Change("", None, None, source, key)
            return
        assert after is not None
        key = table.key_of(after)
        old_key = table.key_of(before) if before is not None else key
        if op == "u" and key is not None and old_key != key:
            yield Change("d", before, None, source, old_key, transaction)
            if self._tombstones:
                yield Change("", None, None, source, old_key)
            yield Change("c", None, after, source, key, transaction)
            return
        yield Change(op, before, after, source, key, transaction)

    def _truncate(self, lsn: int, message: Truncate) -> Iterator[Event]:
        for relation_id in message.relation_ids:
            followed = self._relations.get(relation_id)
            if followed is None:
                continue
            if "t" in self._skipped:
                if self._begin is not None and self._left_out is not None and self.with_skipped:
                    change = Change("t", None, None, (), None)
                    yield Event(followed, (change,), self.position, None, True, xid=self._begin.xid)
                continue
            position = self._counted(lsn, followed)
            if position is not None:
                source, transaction = self._context(followed, lsn)
                change = Change("t", None, None, source, None, transaction)
                yield Event(followed, (change,), position, xid=position.xid)


def _picked(followed: Followed, given: Tuple | None, old: Sequence[Any] | None = None) -> list[Any] | None:
    """The captured columns' texts; what is not in the log is taken from the row as it was, if it is there."""
    if given is None:
        return None
    texts: list[Any] = [given[place] for place in followed.places]
    if old is not None:
        texts = [old[at] if text is UNCHANGED else text for at, text in enumerate(texts)]
    return texts
