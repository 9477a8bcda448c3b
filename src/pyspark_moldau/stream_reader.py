"""The streaming reader: the offsets of each micro-batch, and the tasks that read it.

Spark runs this object in a Python process of its own for the life of the query and calls repeatedly:

    latestOffset(start, limit)  ->  end      the end of the next micro-batch; `start` if there is nothing new
    partitions(start, end)      ->  tasks    `read` of each runs on an executor, in a pickled copy of this
    commit(end)                              the micro-batch before is done

A micro-batch is its two offsets: a restarted query calls partitions(start, end) of the last one again and
must get the same records. So no state that affects records is kept between two calls, except the end that
Trigger.AvailableNow fixes when it begins.

The first micro-batch is the exception: its start is in no checkpoint. Spark calls `initialOffset` again when
it plans it, and once more after a crash, when the latest offset has changed. So if "latest" is part of the
start, the first micro-batch is empty: it ends where it starts, and its end is in the checkpoint.

A recreated topic has another id, which is detected within a run; a checkpoint has no place for ids. The
micro-batch then ends at the new topic's start, before its own start, and reads nothing of these partitions.
This is in the checkpoint before anything is reported, so a query that stops for it (failOnDataLoss) stops
again after a restart, and one that may go on reads the new topic from its start, whenever it crashes.

Committed offsets. Spark calls `commit` only when the next micro-batch begins, which in a quiet stream is
never. But it calls `latestOffset(start)` only when everything before `start` is done, so offsets are
committed there too. A failed commit is reported once and does not stop the query: committed offsets are for
tools, the checkpoint counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from pyspark_moldau.cluster_view import ClusterView
from pyspark_moldau.data_loss import LossReport, to_stderr
from pyspark_moldau.errors import ClientError
from pyspark_moldau.offsets import Offsets, TopicPartition, from_json, names, to_json
from pyspark_moldau.options import SourceOptions
from pyspark_moldau.ranges import Range, limited
from pyspark_moldau.tasks import plan, read_task

if TYPE_CHECKING:
    import pyarrow


COMMIT_PAUSE_SECONDS = 30.0
"""After a group could not be written to, it is left alone for so long."""


class MoldauStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads topics micro-batch by micro-batch."""

    def __init__(
        self,
        options: SourceOptions,
        clock: Callable[[], float] = time.monotonic,
        tell: Callable[[str], None] = to_stderr,
    ) -> None:
        self._options = options
        self._clock = clock
        self._tell = tell
        self._view = ClusterView(options, clock)
        self._loss = LossReport(options.fail_on_data_loss, tell)
        self._initial: Offsets | None = None
        self._first_is_due = False
        self._has_looked = False
        self._latest: Offsets = {}
        self._fixed_end: Offsets | None = None
        self._topic_ids: dict[str, bytes] = {}
        self._former_ids: set[bytes] = set()
        self._made_again: set[TopicPartition] = set()
        self._committed: Offsets = {}
        self._group_failed = False
        self._commit_not_before = float("-inf")
        self._last_batch_at: float | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # What goes to executors: connections and what was seen stay here.
        return type(self), (self._options,)

    def initialOffset(self) -> dict[str, dict[str, int]]:
        """The start of a query without a checkpoint."""
        options = self._options
        if self._initial is None:
            self._initial = self._view.resolve(
                options.starting, options.starting_option, latest_where_no_match=options.latest_where_no_match
            )
            self._note_topic_ids()
            self._first_is_due = options.latest_where_no_match or options.starting.has_latest
        return to_json(self._initial)

    def getDefaultReadLimit(self) -> ReadLimit:
        """The limit of the options; if both are set, `latestOffset` applies the lower one."""
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the end: read only what is there now."""
        self._fixed_end = self._view.latest({})
        self._note_topic_ids()

    def latestOffset(self, start: dict[str, dict[str, int]], limit: ReadLimit) -> dict[str, dict[str, int]]:
        """The end of the next micro-batch."""
        begin = from_json(start)
        self._has_looked = True
        self._show_progress(begin)
        end = self._end(begin)
        if again := self._partitions_made_again(begin):
            back = self._view.earliest(again)
            self._fixed_end = self._fixed_end and self._view.latest({})
            self._note_topic_ids()  # not before everything is known, or a failure would be the end of it
            self._made_again = again
            return to_json({**begin, **back})
        self._note_topic_ids()
        self._report_losses(begin, end)
        self._latest = end
        if self._first_is_due and begin == self._initial:
            self._first_is_due = False
            return start
        if isinstance(limit, ReadAllAvailable):
            return to_json(end)
        new = end.keys() - begin.keys()
        begin_of_all = {**{one: begin[one] for one in end if one in begin}, **self._view.earliest(new)}
        end = {one: end[one] for one in begin_of_all}
        if self._should_wait(sum(end[one] - begin_of_all[one] for one in end)):
            return start
        if isinstance(limit, ReadMaxRows):
            end = limited(begin_of_all, end, limit.max_rows)
        return to_json(end)

    def _end(self, begin: Offsets) -> Offsets:
        if self._fixed_end is None:
            return self._view.latest(begin)
        self._view.recent_partitions(begin)
        return self._fixed_end

    def _partitions_made_again(self, begin: Offsets) -> set[TopicPartition]:
        """Partitions of recreated topics, by their topic ids."""
        # A broker that lags behind the others may give an older id once more.
        new = {topic for topic, each in self._view.topic_ids.items() if each not in self._former_ids}
        there = begin.keys() & set(self._view.recent_partitions(begin))
        return {one for one in there if one[0] in new & self._topic_ids.keys() and begin[one] > 0}

    def _note_topic_ids(self) -> None:
        self._topic_ids = dict(self._view.topic_ids)
        self._former_ids.update(self._topic_ids.values())

    def _should_wait(self, waiting: int) -> bool:
        """Whether minOffsetsPerTrigger delays this micro-batch; never with a fixed end."""
        least = self._options.min_offsets_per_trigger
        if least is None or self._fixed_end is not None:
            return False
        now = self._clock()
        last, delay = self._last_batch_at, self._options.max_trigger_delay_seconds
        if waiting < least and last is not None and now - last < delay:
            return True
        self._last_batch_at = now
        return False

    def _report_losses(self, begin: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> None:
        gone = begin.keys() - end.keys()
        if gone:
            self._loss.report(f"{names(gone)} was deleted, and with it what was not read yet")
        for one in _shrunken(begin, end):
            if one in self._made_again:
                self._loss.report(
                    f"{names([one])} was deleted and made again: what was not read yet is lost, and offset "
                    f"{begin[one]}, where the query goes on, is a place in the topic before"
                )
                continue
            self._loss.report(
                f"{names([one])} ends at offset {end[one]}, before {begin[one]} where the query goes on: "
                "the topic was deleted and made again, or lost records"
            )

    def reportLatestOffset(self) -> dict[str, dict[str, int]] | None:
        """The last seen ends, for the query's progress; minus its position they are the lag."""
        return to_json(self._latest) or None

    def partitions(
        self, start: dict[str, dict[str, int]], end: dict[str, dict[str, int]]
    ) -> Sequence[InputPartition]:
        """The tasks of a micro-batch; new partitions are read from their start."""
        begin, until = from_json(start), from_json(end)
        if begin == self._initial:
            begin = {one: min(offset, until.get(one, offset)) for one, offset in begin.items()}
        self._report_losses(begin, until)
        new = until.keys() - begin.keys()
        if new:
            first = self._view.earliest(new)
            late = {one: offset for one, offset in first.items() if offset > 0}
            if late:
                self._loss.report(
                    f"{names(late)} is new to the query, and its first records are gone already"
                )
            begin |= first
        # Taken for a topic that was made again, and read from its beginning.
        begin |= self._view.earliest(_shrunken(begin, until))
        if not self._has_looked:
            until = self._cut(until)
        ranges = [Range(*one, begin[one], until[one]) for one in sorted(until) if until[one] > begin[one]]
        return plan(self._options, ranges)

    def _cut(self, until: Offsets) -> Offsets:
        """Ends planned by an earlier run, cut to the existing offsets."""
        last = self._view.latest(until)
        shorter = {one: last[one] for one, offset in until.items() if last.get(one, offset) < offset}
        for one, offset in shorter.items():
            self._loss.report(
                f"{names([one])} ends at offset {offset}, before {until[one]} up to which it was to be read"
            )
        return until | shorter

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Run a task, on an executor."""
        return read_task(self._options, partition)

    def commit(self, end: dict[str, dict[str, int]]) -> None:
        """Everything before `end` has been processed."""
        self._show_progress(from_json(end))

    def stop(self) -> None:
        """The query has ended."""
        self._view.close()

    def _show_progress(self, done: Offsets) -> None:
        group = self._options.group_id
        changed = {one: offset for one, offset in done.items() if self._committed.get(one) != offset}
        if group is None or not changed or self._clock() < self._commit_not_before:
            return
        try:
            self._view.commit(group, changed)
        except ClientError as failure:
            self._commit_not_before = self._clock() + COMMIT_PAUSE_SECONDS
            if not self._group_failed:
                self._tell(f"the query's offsets can not be given to the group {group}: {failure}")
            self._group_failed = True
        else:
            self._group_failed = False
            self._committed |= changed


def _shrunken(begin: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> list[TopicPartition]:
    """Partitions that end before they start."""
    return [one for one in sorted(end.keys() & begin.keys()) if end[one] < begin[one]]
