"""Ranges as Spark's input partitions: planned on the driver, read on an executor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from pyspark_moldau.options import SourceOptions
from pyspark_moldau.ranges import Range, shared, split
from pyspark_moldau.reading import ReadSettings, read_ranges
from pyspark_moldau.schema_options import RecordFormats

if TYPE_CHECKING:
    import pyarrow


class RangesPartition(InputPartition):
    """The ranges of one task: a few small ones, or a large one."""

    def __init__(self, ranges: tuple[Range, ...]) -> None:
        self.ranges = ranges


def plan(options: SourceOptions, ranges: Sequence[Range]) -> list[InputPartition]:
    """The tasks that read these ranges."""
    pieces = split(ranges, options.min_partitions, options.max_records_per_partition)
    if options.min_partitions is not None or options.max_records_per_partition is not None:
        return [RangesPartition((piece,)) for piece in pieces]
    return [RangesPartition(task) for task in shared(pieces)]


def read_task(options: SourceOptions, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
    """The records of a task. Spark passes an empty InputPartition to a query without tasks."""
    ranges = partition.ranges if isinstance(partition, RangesPartition) else ()
    settings = ReadSettings(
        options.bootstrap_servers,
        tuple(sorted(options.client_options.items())),
        options.read_committed,
        options.include_headers or options.formats.has_schemas,
        options.fail_on_data_loss,
    )
    records = read_ranges(settings, ranges)
    return decoded_task(records, options.formats, keep_headers=options.include_headers)


def decoded_task(
    records: Iterator[pyarrow.RecordBatch], formats: RecordFormats, *, keep_headers: bool
) -> Iterator[pyarrow.RecordBatch]:
    """The records with decoded keys and values, where they have a schema; these must come with headers."""
    if not formats.has_schemas:
        return records
    from pyspark_moldau.decoding import decoded

    return decoded(records, formats, keep_headers=keep_headers)
