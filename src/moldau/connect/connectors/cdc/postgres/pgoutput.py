"""Messages of logical replication, plugin pgoutput, protocol version 1: bytes in, messages out.

    Begin     B | final LSN 8 | commit time 8 | xid 4 |
    Commit    C | flags 1 | LSN of the commit 8 | LSN behind it 8 | commit time 8 |
    Relation  R | id 4 | schema 0 | table 0 | identity 1 | columns 2 | (flags 1 | name 0 | type 4 | modifier
    4) ... | Insert    I | id 4 | N | tuple |
    Update    U | id 4 | [K or O | tuple] | N | tuple |
    Delete    D | id 4 | K or O | tuple |
    Truncate  T | count 4 | options 1 | ids 4 ... |
    Message   M | flags 1 | LSN 8 | prefix 0 | length 4 | content |
    tuple     columns 2 | (n | u | t length 4 text) ... |     null, unchanged TOAST, a text

Texts end with a zero byte. Times are microseconds since 2000-01-01. (Documentation of PostgreSQL, 55.9.)
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TypeAlias

from moldau.connect.connectors.cdc.converting import UNCHANGED, Unchanged

EPOCH_2000_US = 946_684_800_000_000


Tuple: TypeAlias = tuple[str | Unchanged | None, ...]


class Malformed(ValueError):
    """Bytes that are no message of pgoutput."""


@dataclass(frozen=True, slots=True)
class Begin:
    """Changes of a transaction follow."""

    final_lsn: int
    time_us: int
    xid: int


@dataclass(frozen=True, slots=True)
class Commit:
    """They are complete."""

    lsn: int
    end_lsn: int
    time_us: int


@dataclass(frozen=True, slots=True)
class RelationColumn:
    """A column as it was when the change was made."""

    name: str
    type_id: int
    modifier: int
    in_key: bool


@dataclass(frozen=True, slots=True)
class Relation:
    """What following changes of a table have; sent before the first, and after each ALTER."""

    id: int
    schema: str
    table: str
    identity: str
    columns: tuple[RelationColumn, ...]


@dataclass(frozen=True, slots=True)
class RowChange:
    """`kind` I, U or D. `old_kind`: K (only the key's columns are in `old`), O (all), or nothing."""

    kind: str
    relation_id: int
    old_kind: str
    old: Tuple | None
    new: Tuple | None


@dataclass(frozen=True, slots=True)
class Truncate:
    """These tables are empty now."""

    relation_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LogicalMessage:
    """What pg_logical_emit_message wrote."""

    transactional: bool
    lsn: int
    prefix: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Ignored:
    """Origin and Type: nothing that is needed here."""

    kind: str


Message: TypeAlias = Begin | Commit | Relation | RowChange | Truncate | LogicalMessage | Ignored


class _Reader:
    __slots__ = ("at", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def numbers(self, form: str) -> tuple[int, ...]:
        made = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return made

    def letter(self) -> str:
        (made,) = self.numbers(">B")
        return chr(made)

    def text(self) -> str:
        end = self.data.index(b"\0", self.at)
        made = self.data[self.at : end].decode()
        self.at = end + 1
        return made

    def taken(self, count: int) -> bytes:
        if count < 0 or self.at + count > len(self.data):
            raise Malformed(f"{count} bytes announced, {len(self.data) - self.at} are there")
        made = self.data[self.at : self.at + count]
        self.at += count
        return made

    def tuple_(self) -> Tuple:
        """Where most of the time goes: without calls for a value."""
        (count,) = self.numbers(">H")
        data, at, size = self.data, self.at, len(self.data)
        made: list[str | Unchanged | None] = []
        for _ in range(count):
            kind = data[at : at + 1]
            at += 1
            if kind == b"t":
                start = at + 4
                length = int.from_bytes(data[at:start], "big", signed=True)
                at = start + length
                if length < 0 or at > size:
                    raise Malformed(f"a text of {length} bytes, {size - start} are there")
                made.append(data[start:at].decode())
            elif kind == b"n":
                made.append(None)
            elif kind == b"u":
                made.append(UNCHANGED)
            else:
                raise Malformed(f"a value of kind {kind!r}")
        self.at = at
        return tuple(made)


def decode(data: bytes) -> Message:
    """One message. Malformed."""
    try:
        reader = _Reader(data)
        made = _decoded(reader)
    except (struct.error, ValueError) as error:
        if isinstance(error, Malformed):
            raise
        raise Malformed(f"a message of pgoutput ends too early or has no text: {error}") from error
    if reader.at != len(data):
        raise Malformed(f"{len(data) - reader.at} bytes are left behind a message {data[:1]!r}")
    return made


def _decoded(reader: _Reader) -> Message:
    kind = reader.letter()
    if kind in "IUD":
        return _row_change(reader, kind)
    if kind == "B":
        final, time_us, xid = reader.numbers(">QqI")
        return Begin(final, time_us + EPOCH_2000_US, xid)
    if kind == "C":
        _, lsn, end, time_us = reader.numbers(">BQQq")
        return Commit(lsn, end, time_us + EPOCH_2000_US)
    if kind == "R":
        return _relation(reader)
    if kind == "T":
        count, _ = reader.numbers(">IB")
        return Truncate(tuple(reader.numbers(">I")[0] for _ in range(count)))
    if kind == "M":
        flags, lsn = reader.numbers(">BQ")
        prefix = reader.text()
        return LogicalMessage(bool(flags & 1), lsn, prefix, reader.taken(reader.numbers(">I")[0]))
    if kind in "OY":
        reader.at = len(reader.data)
        return Ignored(kind)
    raise Malformed(f"a message of kind {kind!r}")


def _row_change(reader: _Reader, kind: str) -> RowChange:
    (relation_id,) = reader.numbers(">I")
    old_kind, old, new = "", None, None
    letter = reader.letter()
    if kind != "I" and letter in "KO":
        old_kind, old = letter, reader.tuple_()
        letter = reader.letter() if kind == "U" else ""
    if kind != "D":
        if letter != "N":
            raise Malformed(f"a row of kind {letter!r} in a message {kind}")
        new = reader.tuple_()
    elif old is None:
        raise Malformed("a deletion of no row")
    return RowChange(kind, relation_id, old_kind, old, new)


def _relation(reader: _Reader) -> Relation:
    (relation_id,) = reader.numbers(">I")
    schema, table = reader.text(), reader.text()
    identity, count = reader.letter(), reader.numbers(">H")[0]
    columns = []
    for _ in range(count):
        (flags,) = reader.numbers(">B")
        name = reader.text()
        type_id, modifier = reader.numbers(">Ii")
        columns.append(RelationColumn(name, type_id, modifier, bool(flags & 1)))
    return Relation(relation_id, schema or "pg_catalog", table, identity, tuple(columns))
