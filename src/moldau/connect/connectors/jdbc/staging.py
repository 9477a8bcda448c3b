"""What is written and not committed: rows by table in the order in which they came, and how far they go by
partition."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from moldau.connect.batch import TopicPartition
from moldau.connect.connectors.jdbc.record_columns import Rows
from moldau.connect.connectors.jdbc.tables import Table

_PLACE, _GONE = "moldau place", "moldau gone"


@dataclass(slots=True)
class Staging:
    """Rows for one transaction."""

    parts: list[tuple[Table, Rows]] = field(default_factory=list)
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    rows: int = 0
    size_bytes: int = 0

    def add(self, table: Table, rows: Rows) -> None:
        """Rows of a run."""
        self.parts.append((table, rows))
        self.rows += len(rows)
        self.size_bytes += rows.size_bytes

    def groups(self) -> list[tuple[Table, list[Rows]]]:
        """Parts that are written together: neighbours in a table with the same columns. Rows of different
        tables keep no order among each other."""
        by_table: dict[object, list[tuple[Table, list[Rows]]]] = {}
        for table, rows in self.parts:
            runs = by_table.setdefault(table.name, [])
            if runs and _alike(runs[-1][1][-1], rows):
                runs[-1] = (table, [*runs[-1][1], rows])
            else:
                runs.append((table, [rows]))
        return [run for runs in by_table.values() for run in runs]


def _alike(one: Rows, other: Rows) -> bool:
    return one.keys == other.keys and {name: each.type for name, each in one.columns.items()} == {
        name: each.type for name, each in other.columns.items()
    }


def together(parts: list[Rows]) -> tuple[dict[str, pa.Array], np.ndarray]:
    """Columns of parts that are alike, and which of their rows are deletions."""
    columns = {name: pa.concat_arrays([each.columns[name] for each in parts]) for name in parts[0].columns}
    gone = np.concatenate(
        [np.zeros(len(each), np.bool_) if each.deleted is None else each.deleted for each in parts]
    )
    return columns, gone


def settled(
    columns: dict[str, pa.Array],
    gone: np.ndarray,
    keys: list[str],
) -> tuple[dict[str, pa.Array], dict[str, pa.Array]]:
    """The last row of each key, and the keys that were deleted in between: these first, and the rows after
    them, come to the same as all in order."""
    table = pa.table({each: columns[each] for each in keys})
    table = table.append_column(_PLACE, pa.array(np.arange(len(gone))))
    table = table.append_column(_GONE, pa.array(gone))
    last = table.group_by(keys, use_threads=False).aggregate([(_PLACE, "max"), (_GONE, "any")])
    places = last.column(f"{_PLACE}_max").combine_chunks()
    deleted = last.filter(last.column(f"{_GONE}_any")).select(keys).combine_chunks() if gone.any() else None
    if len(places) == len(gone) and not gone.any():
        return columns, {}
    kept = np.sort(places.to_numpy())
    kept = pa.array(kept[~gone[kept]])
    return (
        {name: pc.take(each, kept) for name, each in columns.items()},
        {} if deleted is None else {each: deleted.column(each).combine_chunks() for each in keys},
    )
