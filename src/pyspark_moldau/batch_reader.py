"""The batch reader: the records between two positions, which are fixed when the query is planned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyspark_moldau.cluster_view import ClusterView
from pyspark_moldau.data_loss import LossReport
from pyspark_moldau.offsets import Offsets, TopicPartition, names
from pyspark_moldau.options import SourceOptions
from pyspark_moldau.ranges import Range
from pyspark_moldau.tasks import plan, read_task

if TYPE_CHECKING:
    import pyarrow


class MoldauBatchReader(DataSourceReader):
    """Reads topics once."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks of the query, from the log start and end offsets of its partitions."""
        options = self._options
        view = ClusterView(options)
        try:
            start = view.resolve(
                options.starting, options.starting_option, latest_where_no_match=options.latest_where_no_match
            )
            end = view.resolve(options.ending, options.ending_option, latest_where_no_match=True)
            both = start.keys() & end.keys()  # a topic may come or go between the two questions
            first, last = view.earliest(both), view.latest(dict.fromkeys(both, 0))
        finally:
            view.close()
        ranges = [self._range(one, start, end, first, last) for one in sorted(both)]
        return plan(options, [one for one in ranges if one.size > 0])

    def _range(
        self, one: TopicPartition, start: Offsets, end: Offsets, first: Offsets, last: Offsets
    ) -> Range:
        """The requested range, cut to the existing offsets; raises if that loses records and must not."""
        loss = LossReport(self._options.fail_on_data_loss)
        begin, until = start[one], end[one]
        if begin < first[one]:
            loss.report(f"{names([one])} begins at offset {first[one]}, after {begin} where the query begins")
        if until > last.get(one, until):
            loss.report(f"{names([one])} ends at offset {last[one]}, before {until} where the query ends")
        return Range(*one, max(begin, first[one]), min(until, last.get(one, until)))

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Run a task, on an executor."""
        return read_task(self._options, partition)
