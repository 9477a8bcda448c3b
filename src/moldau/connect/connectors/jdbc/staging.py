"""What is written and not committed: runs in the order in which they came, each with its rows by table and
how far it goes in its partition. It can be cut in two wherever an offset is, so that less is one transaction.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from moldau.connect.batch import Batch, TopicPartition
from moldau.connect.connectors.jdbc.record_columns import Rows
from moldau.connect.connectors.jdbc.tables import Table

_PLACE, _GONE = "moldau place", "moldau gone"


@dataclass(slots=True)
class Run:
    """Consecutive records of a partition. `end`: the offset behind them."""

    origin: TopicPartition
    end: int
    batch: Batch
    parts: list[tuple[Table, Rows]]

    @property
    def rows(self) -> int:
        """How many; records that were reported are none."""
        return sum(len(rows) for _, rows in self.parts)

    def cut(self, place: int) -> tuple[Run, Run]:
        """The records of the batch before a place, and from there on."""
        assert self.batch.offsets is not None
        first, last = [], []
        for table, rows in self.parts:
            at = int(np.searchsorted(rows.places, place))
            first.append((table, rows.cut(0, at)))
            last.append((table, rows.cut(at, len(rows))))
        middle = self.batch.offsets[place].as_py()
        return (
            Run(self.origin, middle, self.batch, [each for each in first if len(each[1])]),
            Run(self.origin, self.end, self.batch, [each for each in last if len(each[1])]),
        )


@dataclass(slots=True)
class Staging:
    """Rows for one transaction."""

    runs: list[Run] = field(default_factory=list)
    rows: int = 0
    size_bytes: int = 0

    def add(self, run: Run) -> None:
        """Behind those that are there."""
        self.runs.append(run)
        self.rows += run.rows
        self.size_bytes += sum(rows.size_bytes for _, rows in run.parts)

    @property
    def ends(self) -> dict[TopicPartition, int]:
        """How far all of it goes, by partition."""
        made: dict[TopicPartition, int] = {}
        for each in self.runs:
            made[each.origin] = max(each.end, made.get(each.origin, 0))
        return made

    def halves(self) -> list[Staging]:
        """The same as two; of more than one row."""
        runs = self.runs
        if len([run for run in runs if run.rows]) == 1:
            at = next(place for place, run in enumerate(runs) if run.rows)
            places = np.sort(np.concatenate([rows.places for _, rows in runs[at].parts]))
            first, last = runs[at].cut(int(places[len(places) // 2]))
            return [_staged([*runs[:at], first]), _staged([last, *runs[at + 1 :]])]
        count, at = 0, 0
        while at < len(runs) - 1 and count + runs[at].rows <= self.rows // 2:
            count += runs[at].rows
            at += 1
        at = max(at, next(place for place, run in enumerate(runs) if run.rows) + 1)
        return [_staged(runs[:at]), _staged(runs[at:])]

    def groups(self) -> list[tuple[Table, list[Rows]]]:
        """Parts that are written together: neighbours in a table with the same columns. Rows of different
        tables keep no order among each other."""
        by_table: dict[object, list[tuple[Table, list[Rows]]]] = {}
        for table, rows in (part for run in self.runs for part in run.parts):
            runs = by_table.setdefault(table.name, [])
            if runs and _alike(runs[-1][1][-1], rows):
                runs[-1] = (table, [*runs[-1][1], rows])
            else:
                runs.append((table, [rows]))
        return [run for runs in by_table.values() for run in runs]


def _staged(runs: list[Run]) -> Staging:
    made = Staging()
    for each in runs:
        made.add(each)
    return made


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
