"""Messages of the log -> changes of captured tables, each with the position behind it. No input or output.

A transaction that was delivered is left out; of one that was delivered in part, so many of its events. An
event is what becomes one record or one change with its tombstone: an update that changes the key is a
deletion and a creation, and counts once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from moldau.connect.connectors.cdc.envelope import CapturedColumn, Change, EnvelopeTable
from moldau.connect.connectors.cdc.postgres.pgoutput import (
    Begin,
    Commit,
    LogicalMessage,
    Message,
    Relation,
    RowChange,
    Truncate,
    Tuple,
    Unchanged,
)
from moldau.connect.connectors.cdc.postgres.positions import Position
from moldau.connect.errors import ConnectError


class Followed(NamedTuple):
    """A relation that is captured: its table in records, which of its columns, and its names."""

    relation: Relation
    table: EnvelopeTable
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Event:
    """Changes that belong together, and where reading stands behind them. No changes: the end of a
    transaction."""

    followed: Followed | None
    changes: tuple[Change, ...]
    position: Position
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
        if followed is None or op in self._skipped:
            return
        position = self._counted(lsn, followed)
        if position is None:
            return
        yield Event(followed, tuple(self._changes(followed, message, op, lsn)), position)

    def _changes(self, followed: Followed, message: RowChange, op: str, lsn: int) -> Iterator[Change]:
        table = followed.table
        source, transaction = self._context(followed, lsn)
        before = after = None
        if message.old is not None:
            before = _values(followed, message.old, None)
            if message.old_kind == "K":
                before = table.filled(before)
        if message.new is not None:
            after = _values(followed, message.new, message.old if message.old_kind == "O" else None)
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
        if "t" in self._skipped:
            return
        for relation_id in message.relation_ids:
            followed = self._relations.get(relation_id)
            if followed is None:
                continue
            position = self._counted(lsn, followed)
            if position is not None:
                source, transaction = self._context(followed, lsn)
                yield Event(followed, (Change("t", None, None, source, None, transaction),), position)


def _values(followed: Followed, given: Tuple, old: Tuple | None) -> list[Any]:
    """Texts of the log as values of the table's columns."""
    made: list[Any] = []
    for column, place in zip(followed.table.columns, followed.places, strict=True):
        text = given[place]
        if isinstance(text, Unchanged) and old is not None:
            text = old[place]
        if text is None:
            made.append(None)
        elif isinstance(text, Unchanged):
            made.append(column.missing)
        elif column.convert is None:
            made.append(text)
        else:
            try:
                made.append(column.convert(text))
            except (ConnectError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
                raise unreadable(followed, column, error, text) from error
    return made


def unreadable(
    followed: Followed, column: CapturedColumn, error: Exception, text: str | None = None
) -> ConnectError:
    """A value that has none in records."""
    relation = followed.relation
    what = f"the value {text[:100]!r}" if text is not None else "a value"
    return ConnectError(
        f"{what} of column {column.name} of table {relation.schema}.{relation.table} cannot be a "
        f"{column.schema.name or column.schema.type.value}: {error}. Have it as text "
        f"(decimal.handling.mode=string), its time as adaptive (time.precision.mode), or leave the column "
        f"out (column.exclude.list)"
    )
