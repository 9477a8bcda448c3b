"""A topic as a table in a streaming join: its records as of each micro-batch.

Spark asks a Python data source once for its partitions, when a DataFrame is made, and keeps the answer; so
a batch of the format "moldau" joined with a stream would stay for ever what it was when the stream began.
Only a task's `read` runs anew in every micro-batch. Here, therefore, the partitions say who reads, and
`read` finds out how far.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pyspark_moldau.cluster_view import ClusterView
from pyspark_moldau.data_source import columns
from pyspark_moldau.options import BATCH, SourceOptions, parse_options
from pyspark_moldau.ranges import Range
from pyspark_moldau.tasks import RangesPartition, read_task

if TYPE_CHECKING:
    import pyarrow


class TableSource(DataSource):
    """The records of topics that are there whenever somebody looks."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "moldau-table"

    def schema(self) -> StructType | str:
        """The columns of the format "moldau"."""
        return columns(parse_options(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """A side of a join."""
        return TableReader(parse_options(self.options, BATCH))


class Share(InputPartition):
    """One of `count` tasks, which reads each partition whose place in the list is `index` modulo `count`."""

    def __init__(self, index: int, count: int) -> None:
        self.index, self.count = index, count


class TableReader(DataSourceReader):
    """Reads all that is there, each time."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """A task for each partition that there is now; later ones are added to them."""
        view = ClusterView(self._options)
        try:
            count = max(len(view.partitions()), 1)
        finally:
            view.close()
        return [Share(index, count) for index in range(count)]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Run a task, on an executor."""
        if not isinstance(partition, Share):
            return iter(())
        view = ClusterView(self._options)
        try:
            mine = view.partitions()[partition.index :: partition.count]
            first, last = view.earliest(mine), view.latest({})
        finally:
            view.close()
        ranges = [Range(*one, first[one], last[one]) for one in mine if last.get(one, 0) > first[one]]
        return read_task(self._options, RangesPartition(tuple(ranges)))
