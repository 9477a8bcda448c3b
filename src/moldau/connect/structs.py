"""Struct columns taken apart and put together; nulls of a struct are those of its fields, too."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from moldau.connect.arrow_types import arrow_field
from moldau.connect.schema import Schema


def fields_of(array: pa.Array) -> list[pa.Array]:
    """The columns of a struct; null in them is also where the struct is null."""
    made: list[pa.Array] = array.flatten()
    return made


def struct_of(schema: Schema, columns: Sequence[pa.Array], like: pa.Array | None, count: int) -> pa.Array:
    """A struct of these columns; null where `like` is (None: nowhere)."""
    fields = [arrow_field(each.name, each.schema) for each in schema.fields]
    mask = None if like is None or not like.null_count else like.is_null()
    if mask is not None or not columns:
        mask = pa.array(np.zeros(count, np.bool_)) if mask is None else mask
    return pa.StructArray.from_arrays(list(columns), fields=fields, mask=mask)


def repeated(value: pa.Scalar, count: int) -> pa.Array:
    """A column with one value."""
    return pa.repeat(value, count)


def runs_of(flags: Sequence[bool]) -> list[tuple[int, int, bool]]:
    """(first, count, flag) of runs of equal flags."""
    made: list[tuple[int, int, bool]] = []
    first = 0
    for row in range(1, len(flags) + 1):
        if row == len(flags) or flags[row] != flags[first]:
            made.append((first, row - first, bool(flags[first])))
            first = row
    return made


def true_rows(mask: pa.Array) -> list[int]:
    """Where a boolean column is true."""
    found: list[int] = pc.indices_nonzero(pc.fill_null(mask, False)).to_pylist()
    return found
