"""Puts a converter's answer together: columns of rows, in order, as runs without the rows that are refused.

A null row (a tombstone) goes into the run that it stands in, whatever its schema: it has none.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import chain

import pyarrow as pa

from moldau.connect.arrow_types import arrow_type
from moldau.connect.batch import Column
from moldau.connect.converter import Converted, Refused


class Runs:
    """Takes columns of rising rows."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._pieces: list[tuple[int, Column]] = []
        self._refused: dict[int, str] = {}

    def refuse(self, reasons: Mapping[int, str]) -> None:
        """These rows are in no column, whatever was or will be added for them."""
        self._refused.update(reasons)

    def add_all(self, column: Column) -> None:
        """A column of all rows."""
        self._pieces.append((0, column))

    def add(self, rows: Sequence[int], column: Column) -> None:
        """A column of consecutive rows."""
        if rows:
            self._pieces.append((rows[0], column))

    def done(self) -> tuple[Sequence[Converted], Sequence[Refused]]:
        """The runs and the refused rows."""
        refused = [Refused(row, self._refused[row]) for row in sorted(self._refused)]
        pieces = self._whole() if refused else self._pieces
        return _joined(pieces), refused

    def _whole(self) -> list[tuple[int, Column]]:
        """The pieces cut where rows are refused."""
        cuts = sorted(self._refused)
        made: list[tuple[int, Column]] = []
        for first, column in self._pieces:
            at, end = first, first + len(column)
            for cut in (*cuts[bisect_left(cuts, first) : bisect_left(cuts, end)], end):
                if cut > at:
                    made.append((at, column.slice(at - first, cut - at)))
                at = cut + 1
        return made


def _joined(pieces: list[tuple[int, Column]]) -> list[Converted]:
    groups: list[list[tuple[int, Column]]] = []
    schema: object = None
    for first, column in pieces:
        is_null = column.schema is None and all(each is None for each in column.values)
        last = groups[-1][-1] if groups else None
        follows = last is not None and last[0] + len(last[1]) == first
        if follows and (is_null or schema is _NULLS or _same(schema, column.schema)):
            groups[-1].append((first, column))
            if schema is _NULLS and not is_null:
                schema = column.schema
        else:
            groups.append([(first, column)])
            schema = _NULLS if is_null else column.schema
    return [Converted(group[0][0], _one(group)) for group in groups]


_NULLS = object()


def _same(one: object, other: object) -> bool:
    return one is other or one == other


def _one(group: list[tuple[int, Column]]) -> Column:
    if len(group) == 1:
        return group[0][1]
    columns = [column for _, column in group]
    schema = next((each.schema for each in columns if each.schema is not None), None)
    if schema is None:
        return Column(None, list(chain.from_iterable(each.values for each in columns)))
    kind = arrow_type(schema)
    arrays = [pa.nulls(len(each), kind) if each.schema is None else each.values for each in columns]
    return Column(schema, pa.concat_arrays(arrays))
