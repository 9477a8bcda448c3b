"""A topic as a table in a streaming join: its latest rows as of each micro-batch.

Spark asks a Python data source once for its partitions, when a DataFrame is created, and keeps the answer; so
a batch of the format "moldau" joined with a stream would never change. Only a task's `read` runs in every
micro-batch. So here the partitions only name the reader, and `read` determines the range; it returns the
latest record of each key, most of them from the process's memory (table_cache.py).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from moldau.streams.output_topics import topic_setting
from pyspark_moldau.cluster_view import ClusterView
from pyspark_moldau.data_source import columns, with_schemas
from pyspark_moldau.offsets import TopicPartition
from pyspark_moldau.option_rows import BATCH
from pyspark_moldau.options import SourceOptions, parse_options
from pyspark_moldau.ranges import Range
from pyspark_moldau.schema_options import RecordFormats
from pyspark_moldau.tasks import RangesPartition, decoded_task, read_task

if TYPE_CHECKING:
    import pyarrow

    from moldau.client.cluster import Cluster
    from moldau.streams.table_cache import LogState, TableCache


class TableSource(DataSource):
    """The records that topics have at each read."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "moldau-table"

    def schema(self) -> StructType | str:
        """The columns of the format "moldau"."""
        return columns(with_schemas(parse_options(self.options)))

    def reader(self, schema: StructType) -> DataSourceReader:
        """A side of a join."""
        return TableReader(with_schemas(parse_options(self.options, BATCH)))


class Share(InputPartition):
    """One of `count` tasks; it reads the partitions whose index in the list is `index` modulo `count`."""

    def __init__(self, index: int, count: int) -> None:
        self.index, self.count = index, count


class TableReader(DataSourceReader):
    """Reads everything each time; what this process has read before comes from its memory."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """A task for each partition that exists now; later partitions are added to them."""
        view = ClusterView(self._options)
        try:
            count = max(len(view.partitions()), 1)
        finally:
            view.close()
        return [Share(index, count) for index in range(count)]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Run a task, on an executor."""
        if isinstance(partition, Share):
            options, formats = self._options, self._options.formats
            headers = options.include_headers or formats.has_schemas
            bytes_only = replace(options, formats=RecordFormats(), include_headers=headers)
            records = _latest(bytes_only, partition)
            yield from decoded_task(records, formats, keep_headers=options.include_headers)


_cache: TableCache | None = None
"""What this process keeps."""


def process_cache() -> TableCache:
    """The rows kept by this process."""
    global _cache
    if _cache is None:
        from moldau.streams.table_cache import TableCache

        _cache = TableCache()
    return _cache


def _latest(options: SourceOptions, share: Share) -> Iterator[pyarrow.RecordBatch]:
    view = ClusterView(options)
    try:
        for one in view.partitions()[share.index :: share.count]:
            name = (
                options.bootstrap_servers,
                tuple(sorted(options.client_options.items())),
                options.read_committed,
                options.include_headers,
                one,
            )
            yield from process_cache().latest(
                name, functools.partial(_look, view, one), _reading(options, one)
            )
    finally:
        view.close()


def _look(view: ClusterView, one: TopicPartition) -> LogState:
    from moldau.streams.table_cache import LogState

    first, last = view.earliest([one]), view.ends([one])
    view.partitions()  # after the ends: a topic that is the same now was the same when it had them
    place = view.cluster.persist(f"find the leader of {one[0]}-{one[1]}", lambda: view.cluster.place(*one))
    keeps = tombstones_seconds(view.cluster, one[0])
    return LogState(view.cluster.topic_id(one[0]), place.leader_epoch, first[one], last[one], keeps)


def tombstones_seconds(cluster: Cluster, topic: str) -> float:
    """How long the topic keeps tombstones at least; 0 if the broker does not report it."""
    setting = topic_setting(cluster, topic, "delete.retention.ms")
    return int(setting) / 1000 if setting is not None and setting.isdigit() else 0.0


def _reading(
    options: SourceOptions, one: TopicPartition
) -> Callable[[int, int], Iterator[pyarrow.RecordBatch]]:
    return lambda start, end: read_task(options, RangesPartition((Range(*one, start, end),)))
