"""`write.format("moldau")` and `writeStream.format("moldau")`: what Spark calls, in tasks and on the driver.

    delivery        a task (write)                      the driver (commit)
    at-least-once   encodes, sends, waits for answers   -
    exactly-once    encodes, hands the batches over     sends all of them in one transaction (sink_commit.py)

Exactly once, tasks send nothing to Kafka. So it does not matter how often a task is tried, or that two
attempts run at once (speculation), or when an executor dies: Spark takes one attempt's batches, and only
the driver, which alone knows the number of the micro-batch, writes. docs/decisions has the reasons and the
price.

At least once, a task that is repeated writes its rows again.

Spark makes a writer anew for every micro-batch, but keeps the processes; connections and producers live in
the process (sink_process.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from moldau.client.encoder import EncodedBatch
from pyspark_moldau import sink_commit, sink_process
from pyspark_moldau.errors import SinkError
from pyspark_moldau.sink_options import SinkOptions
from pyspark_moldau.sink_rows import encoded_rows

QUERY_ID, BATCH_ID, RUN_ID = "sql.streaming.queryId", "streaming.sql.batchId", "spark.jobGroup.id"
"""Local properties that Spark gives to the tasks of a micro-batch; a stream's job group is its run's id."""


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What a task has to say: whose it was, how many rows, and the batches that the driver is to send."""

    query_id: str | None
    run_id: str | None
    row_count: int
    batches: tuple[tuple[object, ...], ...]


class MoldauWriter(DataSourceArrowWriter):
    """A batch write."""

    def __init__(self, options: SinkOptions) -> None:
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """In a task."""
        return write_rows(iterator, self.options)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """On the driver, when all tasks are done."""
        if self.options.is_exactly_once:
            written = [message for message in messages if isinstance(message, Written)]
            query_id = next((message.query_id for message in written), None)
            run_id = next((message.run_id for message in written if query_id), None)
            sink_commit.commit_batch(self.options, query_id, run_id, _batches(written))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """A task has failed for good. Exactly once, nothing was written; else what was, stays."""


class MoldauStreamWriter(DataSourceStreamArrowWriter):
    """The writes of a streaming query, one micro-batch after the other."""

    def __init__(self, options: SinkOptions) -> None:
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """In a task."""
        return write_rows(iterator, self.options)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """On the driver, when all tasks of a micro-batch are done."""
        written = [message for message in messages if isinstance(message, Written)]
        if not self.options.is_exactly_once or not any(message.row_count for message in written):
            return
        query_id, run_id = written[0].query_id, written[0].run_id
        if query_id is None or run_id is None:
            raise SinkError("Spark did not say which streaming query this is; exactly-once needs its id")
        sink_commit.commit_micro_batch(self.options, query_id, run_id, batchId, _batches(written))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """As in a batch write."""


def write_rows(rows: Iterator[pa.RecordBatch], options: SinkOptions) -> Written:
    """A task's work: encode its rows, and send them or hand them over."""
    context = TaskContext.get()
    query_id, run_id, first_run = None, None, 0
    if context is not None:
        query_id, run_id = context.getLocalProperty(QUERY_ID), context.getLocalProperty(RUN_ID)
        first_run = context.partitionId() + int(context.getLocalProperty(BATCH_ID) or 0)
    with sink_process.writing(options) as kept:
        staged: list[EncodedBatch] = []
        row_count = 0
        for batches in encoded_rows(rows, options, kept.topics, first_run):
            row_count += sum(batch.record_count for batch in batches)
            if options.is_exactly_once:
                staged += batches
            else:
                kept.producer.send(batches)
    # Plain tuples: a pickled class of ours would have to be looked up once a batch.
    return Written(query_id, run_id, row_count, tuple(map(tuple, staged)))


def _batches(written: Sequence[Written]) -> list[EncodedBatch]:
    return [EncodedBatch(*batch) for message in written for batch in message.batches]  # type: ignore[arg-type]
