"""`write.format("moldau")` and `writeStream.format("moldau")`: what Spark calls, in tasks and on the driver.

    delivery        a task (write)                      the driver (commit)
    at-least-once   encodes, sends, waits for answers   -
    exactly-once    encodes, hands the batches over     sends all of them in one transaction (sink_commit.py)
                    (sink_staging.py)

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

from moldau.client.sealing import EncodedBatch
from pyspark_moldau import sink_commit, sink_process
from pyspark_moldau.errors import SinkError
from pyspark_moldau.sink_options import SinkOptions
from pyspark_moldau.sink_rows import encoded_rows
from pyspark_moldau.sink_staging import Stage, Staged, make_folder, remove_folder
from pyspark_moldau.worker_process import begins_work

QUERY_ID, BATCH_ID, RUN_ID = "sql.streaming.queryId", "streaming.sql.batchId", "spark.jobGroup.id"
"""Local properties that Spark gives to the tasks of a micro-batch; a stream's job group is its run's id."""


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """A task's commit message: its attempt, the number of rows, and the batches for the driver to send."""

    query_id: str | None
    run_id: str | None
    row_count: int
    staged: Staged
    folder: str | None


class _Writer:
    """The common part of both writers."""

    def __init__(self, options: SinkOptions) -> None:
        begins_work()
        self.options = options
        self.folder: str | None = None

    def __getstate__(self) -> dict[str, object]:
        """Spark pickles the writer for tasks, but not the one on which it calls `commit`."""
        if self.folder is None and self.options.is_exactly_once:
            self.folder = make_folder()
        return self.__dict__

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Run in a task."""
        return write_rows(iterator, self.options, self.folder)

    def finish(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Remove the tasks' files."""
        for folder in {self.folder, *(one.folder for one in messages if isinstance(one, Written))}:
            remove_folder(folder)


class MoldauWriter(_Writer, DataSourceArrowWriter):
    """A batch write."""

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Called on the driver when all tasks are done."""
        written = [message for message in messages if isinstance(message, Written)]
        try:
            if self.options.is_exactly_once:
                query_id = next((message.query_id for message in written), None)
                run_id = next((message.run_id for message in written if query_id), None)
                sink_commit.commit_batch(self.options, query_id, run_id, _batches(written))
        finally:
            self.finish(messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """A task has failed for good. Exactly once: nothing was written; at least once: what was
        written stays.
        """
        self.finish(messages)


class MoldauStreamWriter(_Writer, DataSourceStreamArrowWriter):
    """The writer of a streaming query, for one micro-batch after the other."""

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Called on the driver when all tasks of a micro-batch are done."""
        written = [message for message in messages if isinstance(message, Written)]
        try:
            if self.options.is_exactly_once and any(message.row_count for message in written):
                self._commit(written, batchId)
        finally:
            self.finish(messages)

    def _commit(self, written: Sequence[Written], batch_id: int) -> None:
        query_id, run_id = written[0].query_id, written[0].run_id
        if query_id is None or run_id is None:
            raise SinkError("Spark did not say which streaming query this is; exactly-once needs its id")
        sink_commit.commit_micro_batch(self.options, query_id, run_id, batch_id, _batches(written))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """As in a batch write."""
        self.finish(messages)


def write_rows(rows: Iterator[pa.RecordBatch], options: SinkOptions, folder: str | None) -> Written:
    """Encode a task's rows, and send or stage them."""
    begins_work()
    context = TaskContext.get()
    query_id, run_id, first_run = None, None, 0
    if context is not None:
        query_id, run_id = context.getLocalProperty(QUERY_ID), context.getLocalProperty(RUN_ID)
        first_run = context.partitionId() + int(context.getLocalProperty(BATCH_ID) or 0)
    stage, row_count = Stage(folder), 0
    try:
        with sink_process.writing(options) as kept:
            for batches in encoded_rows(rows, options, kept.topics, first_run):
                row_count += sum(batch.record_count for batch in batches)
                if options.is_exactly_once:
                    stage.add(batches)
                else:
                    kept.producer.send(batches)
    except BaseException:
        stage.discard()
        raise
    return Written(query_id, run_id, row_count, stage.done(), folder)


def _batches(written: Sequence[Written]) -> list[EncodedBatch]:
    return [batch for message in written for batch in message.staged.batches()]
