"""Rows that replace one another by key: the last one of a commit counts, and a tombstone deletes.

A staged row has one column more than the table, MARK: true for a row of a key alone, which is to be deleted.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from moldau.connect.batch import Batch
from moldau.connect.errors import BadRecord
from moldau.connect.schema import Type

MARK = "__moldau_deleted"
_PLACE = "__moldau_place"


def marked(rows: pa.Table, deleted: bool) -> pa.Table:
    """With the column MARK, which has one value for all."""
    return rows.append_column(MARK, pa.array([deleted] * rows.num_rows, pa.bool_()))


def last_of_each(rows: pa.Table, keys: Sequence[str]) -> pa.Table:
    """The last row of each key, in the order of the rows."""
    placed = rows.append_column(_PLACE, pa.array(range(rows.num_rows), pa.int64()))
    last = placed.group_by(list(keys), use_threads=False).aggregate([(_PLACE, "max")])
    return rows.take(last.column(f"{_PLACE}_max").sort())


def require_keys(rows: pa.Table, keys: Sequence[str]) -> None:
    """Every row has its key. BadRecord with the row."""
    for name in keys:
        if name not in rows.column_names:
            raise BadRecord(f"there is no field {name}, which key.columns names")
        valid = rows.column(name).is_valid()
        if not pc.all(valid).as_py():
            raise BadRecord(f"field {name} is null, and key.columns names it", valid.to_pylist().index(False))


def keys_of_tombstone(batch: Batch, row: int, keys: Sequence[str]) -> dict[str, object]:
    """The key columns of a deletion, from the record's key. BadRecord."""
    schema, values = batch.key.schema, batch.key.values
    value = values[row] if isinstance(values, list) else values[row].as_py()
    if isinstance(value, dict):
        missing = [name for name in keys if value.get(name) is None]
        if missing:
            raise BadRecord(f"the key of a tombstone has no field {missing[0]}", row)
        return {name: value[name] for name in keys}
    if value is None or (schema is not None and schema.type in (Type.ARRAY, Type.MAP)) or len(keys) != 1:
        raise BadRecord(f"the key of a tombstone does not have the columns {', '.join(keys)}", row)
    return {keys[0]: value}
