"""A source's task: reads its partitions in turns, converts, and commits records with offsets.

    Source.read ── transforms, converters ── producer ─┐   transaction.boundary says when:
              offsets in connect-offsets ──────────────┴─> poll: what came at once, for a tenth of a second
              at most
                                                           interval: what came in an interval
                                                           connector: where the source ends a transaction
    then Source.committed(partition, offset)

An aborted transaction sets all partitions back to what is committed. Not here: which partitions a task has
(connector_instance.py), restarts (task_thread.py).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from confluent_kafka.admin import AdminClient

from moldau.common.core.clock import Clock
from moldau.connect.batch import Batch
from moldau.connect.errors import ConnectError, Retriable
from moldau.connect.source import Read, Source
from moldau.services.connect.runtime.control import Control
from moldau.services.connect.runtime.dead_letters import LetterWriter
from moldau.services.connect.runtime.metrics import TaskMetrics
from moldau.services.connect.runtime.offsets_copy import OffsetsCopy
from moldau.services.connect.runtime.problems import ErrorPolicy, Problem, Stage, class_name
from moldau.services.connect.runtime.setup import TaskSetup
from moldau.services.connect.runtime.source_offsets import (
    SourceOffsets,
    key_bytes,
    partition_text,
    value_bytes,
)
from moldau.services.connect.runtime.source_reading import Reading
from moldau.services.connect.runtime.source_writer import SourceWriter, TooLarge, Undone
from moldau.services.connect.runtime.topics import TopicCreation
from moldau.services.connect.runtime.writing import Outgoing, Writing

log = logging.getLogger("moldau.connect")

PARTITIONS = "moldau.task.partitions"
"""In a task's configuration: its source partitions, a JSON list."""
_TOGETHER_MS = 100.0
_RECORDS_MAX = 10_000
_BYTES_MAX = 16 * 1024 * 1024
_IDLE_SECONDS = 5.0
_UNDONE_SECONDS = 1.0


class SourceTask:
    """One run of it, from start to stop or failure; made anew for each."""

    def __init__(
        self,
        setup: TaskSetup,
        settings: Mapping[str, Any],
        source: Source,
        writing: Writing,
        writer: SourceWriter,
        policy: ErrorPolicy,
        letters: LetterWriter,
        creation: TopicCreation,
        offsets: SourceOffsets,
        control: Control,
        clock: Clock,
        metrics: TaskMetrics,
        topic_used: Callable[[str], None],
    ) -> None:
        """`settings`: those of SOURCE_ROWS."""
        self._setup = setup
        self._topic_used = topic_used
        self._source = source
        self._writing = writing
        self._writer = writer
        self._policy = policy
        self._letters = letters
        self._creation = creation
        self._offsets = offsets
        self._control = control
        self._clock = clock
        self._metrics = metrics
        self._admin: AdminClient | None = None
        self._boundary: str = settings["transaction.boundary"]
        if source.ends_transactions and "transaction.boundary" not in setup.config:
            self._boundary = "connector"
        interval = settings["transaction.boundary.interval.ms"]
        flush_ms = float(setup.setting("offset.flush.interval.ms", "60000"))
        self._interval_ms = float(interval) if interval is not None else flush_ms
        self._own_topic: str | None = settings["offsets.storage.topic"]
        self._worker_topic = setup.worker.get("offset.storage.topic", "connect-offsets")
        has_own = self._own_topic is not None and self._own_topic != self._worker_topic
        self._copy = OffsetsCopy(setup, self._worker_topic) if has_own else None
        self._readings: list[Reading] = []
        self._held: Reading | None = None
        """The partition that is in the middle of a transaction of its own."""
        self._began_ms: float | None = None
        """When the first record since the last commit was read."""
        self._records = 0
        self._bytes = 0

    def run(self) -> None:
        """Until stopped. ConnectError, Retriable, Failed."""
        if self._control.stopping():
            return  # a start that took long must not fence the task that has taken its place
        try:
            self._writer.open()
            self._open_readings()
            while not self._control.stopping():
                if self._control.paused:
                    self._stand_still()
                else:
                    self._turn()
            self._finish()
        finally:
            for each in self._readings:
                each.close()
            if not self._control.abandoned:
                self._writer.abort()
            self._writer.close()
            if self._copy is not None:
                self._copy.close()

    def abandon(self) -> None:
        """What it has not committed, nobody reads: the task that takes its place fences it."""

    def _open_readings(self) -> None:
        """After older tasks are fenced: what they have committed by now is all that they ever will."""
        name = self._setup.connector
        known = self._offsets.read(self._worker_topic, name)
        if self._own_topic:
            known |= self._offsets.read(self._own_topic, name)
        partitions = json.loads(self._setup.config.get(PARTITIONS, "[]"))
        self._readings = [
            Reading(self._source, each, known.get(partition_text(each)), self._clock) for each in partitions
        ]

    def _turn(self) -> None:
        """Ask each partition that is due once; wait if none is."""
        now_ms = self._clock.monotonic_ms()
        readings = self._readings if self._held is None else [self._held]
        has_read = False
        for reading in readings:
            if self._control.stopping() or self._control.paused:
                return
            if reading.due_ms <= now_ms:
                has_read = self._ask(reading) or has_read
        if self._is_due(has_read):
            self._commit()
        elif not has_read:
            self._rest()

    def _ask(self, reading: Reading) -> bool:
        """Read once from it; whether there was something."""
        began_ms = self._clock.monotonic_ms()
        try:
            read = reading.next()
        except Retriable as failed:
            if reading.pauses is None:
                reading.pauses = self._policy.pauses(endless=True)
            seconds = reading.pauses.next_seconds(failed)
            if self._held is not None:  # the next iterator begins the source's transaction again
                self._writer.abort()
                self._forget_uncommitted()
            reading.due_ms = self._clock.monotonic_ms() + seconds * 1000
            return False
        reading.pauses = None
        if read is None:
            return False
        self._metrics.took("poll-batch", self._clock.monotonic_ms() - began_ms)
        try:
            self._take(reading, read)
        except Undone as undone:
            self._go_back(undone)
            return True
        if self._boundary == "connector":
            self._held = None if read.ends_transaction else reading
            if read.ends_transaction:
                self._commit()
        elif self._boundary == "poll" and (self._records >= _RECORDS_MAX or self._bytes >= _BYTES_MAX):
            self._commit()
        return True

    def _take(self, reading: Reading, read: Read) -> None:
        if self._began_ms is None:
            self._began_ms = self._clock.monotonic_ms()
        for batch in read.batches:
            if len(batch):
                self._send(reading, batch)
        if read.refused:
            self._metrics.add("source-record-poll-total", len(read.refused))
        for each in read.refused:
            problem = Problem(0, Stage.TASK_POLL, class_name(self._source), each.error, each.batch)
            self._meet(reading, problem)
        reading.offset = read.offset
        if reading.offset is reading.committed:
            reading.offset = dict(read.offset)  # the same object, perhaps with other contents

    def _send(self, reading: Reading, batch: Batch) -> None:
        self._metrics.add("source-record-poll-total", len(batch))
        made, problems = self._policy.repeated(
            lambda: self._writing.outgoing(batch), self._control.wait, endless=False
        )
        for each in made:
            if self._creation:
                self._ensure(each.topic)
            problems += self._add(each)
            self._topic_used(each.topic)
            self._records += len(each.values)
            self._bytes += sum(len(value or b"") for value in each.values)
            self._metrics.add("source-record-write-total", len(each.values))
        for problem in problems:
            self._meet(reading, problem)

    def _meet(self, reading: Reading, problem: Problem) -> None:
        """Leave a record out, with a dead letter where there is a topic for these; or fail: Failed."""
        self._policy.meet(problem, partial(self._named, reading, problem))
        if self._letters.is_wanted:
            letter = self._letters.of_row(problem, reading.partition, reading.offset)
            self._writer.add_letters(self._letters.topic, [letter])
            self._metrics.add("deadletterqueue-produce-requests")

    def _named(self, reading: Reading, problem: Problem) -> str:
        topic = problem.batch.topic if problem.batch is not None else ""
        return f"{dict(reading.partition)} behind {reading.offset} for the topic {topic}"

    def _add(self, outgoing: Outgoing) -> list[Problem]:
        """Hand records to the producer; those that are too large are problems."""
        problems: list[Problem] = []
        first = 0
        while True:
            try:
                self._writer.add(outgoing, first)
                return problems
            except TooLarge as error:
                index: int = error.index  # type: ignore[attr-defined]
                problems.append(
                    Problem(outgoing.rows[index], Stage.KAFKA_PRODUCE, "producer", error, outgoing.given)
                )
                first = index + 1

    def _ensure(self, topic: str) -> None:
        if self._admin is None:
            self._admin = self._setup.admin()
        admin = self._admin
        self._policy.repeated(lambda: self._creation.ensure(admin, topic), self._control.wait, endless=True)

    def _is_due(self, has_read: bool) -> bool:
        if self._began_ms is None or self._boundary == "connector":
            return False
        open_ms = self._clock.monotonic_ms() - self._began_ms
        if self._boundary == "interval":
            return open_ms >= self._interval_ms
        return not has_read or open_ms >= _TOGETHER_MS

    def _rest(self) -> None:
        now_ms = self._clock.monotonic_ms()
        readings = self._readings if self._held is None else [self._held]
        due_ms = min((each.due_ms for each in readings), default=now_ms + _IDLE_SECONDS * 1000)
        if self._began_ms is not None and self._boundary == "interval":
            due_ms = min(due_ms, self._began_ms + self._interval_ms)
        if due_ms > now_ms:
            self._control.wait_change(min((due_ms - now_ms) / 1000, _IDLE_SECONDS))

    def _commit(self) -> None:
        """Records and offsets; then the source may forget. Fenced, ConnectError."""
        if self._control.abandoned:
            raise ConnectError("the task was left behind")
        dirty = [each for each in self._readings if each.is_dirty]
        if not dirty:
            return
        began_ms = self._clock.monotonic_ms()
        offsets = [
            (key_bytes(self._setup.connector, each.partition), value_bytes(each.offset)) for each in dirty
        ]
        try:
            self._writer.commit(self._own_topic or self._worker_topic, offsets)
        except Undone as undone:
            self._go_back(undone)
            return
        if self._copy is not None:
            self._copy.put(offsets)
        self._metrics.add("transaction-total")
        self._metrics.set("transaction-size-avg", self._records)
        self._metrics.took("offset-commit", self._clock.monotonic_ms() - began_ms)
        self._reset()
        for each in dirty:
            each.committed = each.offset
        self._tell(dirty)

    def _tell(self, dirty: Sequence[Reading]) -> None:
        for each in dirty:
            if each.offset is None:
                continue
            try:
                self._source.committed(each.partition, each.offset)
            except Retriable as failed:
                log.warning("%s: %s; it is told with the next commit", self._setup.client_id, failed)

    def _reset(self) -> None:
        self._began_ms = None
        self._records = self._bytes = 0

    def _go_back(self, undone: Undone) -> None:
        log.warning("%s: a transaction was undone, reading again: %s", self._setup.client_id, undone)
        self._metrics.failed_operation(self._clock.now_ms())
        self._forget_uncommitted()
        self._control.wait(_UNDONE_SECONDS)

    def _forget_uncommitted(self) -> None:
        for each in self._readings:
            each.go_back()
        self._held = None
        self._reset()

    def _finish(self) -> None:
        """At a stop or a pause: commit, unless a transaction of the source is in its middle."""
        if self._control.abandoned:
            return
        if self._held is None:
            self._commit()
        else:
            self._writer.abort()
            self._forget_uncommitted()

    def _stand_still(self) -> None:
        self._finish()
        for each in self._readings:
            each.close()
        while self._control.paused and not self._control.stopping():
            self._control.wait_change(60.0)
