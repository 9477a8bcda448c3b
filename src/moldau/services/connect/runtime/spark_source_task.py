"""A source's task on Spark: a streaming query whose every micro-batch is a turn of the task in an executor.

    readStream.format("rate"): the clock ── foreachBatch ── mapInArrow, in an executor:
        open the task's transactional id ── read, convert, transform, write, commit ── for TURN_SECONDS, or
        until there is nothing ──> how many, which topics, what failed

The task is the local engine's own (source_task.py), with its transactions: records and offsets are committed
together in the executor, under the task's transactional id, which the next turn opens and so fences what was
left of this one. The query itself keeps nothing: its checkpoint is thrown away, and what a turn that was
killed had not committed is read again.

A turn that is to stop is killed with its executor's process. Its transaction is ended at once, here, so that
readers need not wait for its time-out.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaException

from moldau.common.core.clock import SystemClock
from moldau.connect.errors import ConnectError
from moldau.services.connect.runtime.control import Control
from moldau.services.connect.runtime.hiding import Hiding
from moldau.services.connect.runtime.metrics import SOURCE, TaskMetrics
from moldau.services.connect.runtime.problems import sentence_and_details
from moldau.services.connect.runtime.rows import ENGINE_ROW
from moldau.services.connect.runtime.setup import TaskSetup
from moldau.services.connect.runtime.sink_keeper import Keeper
from moldau.services.connect.runtime.source_offsets import SourceOffsets
from moldau.services.connect.runtime.spark_task import failure_of

log = logging.getLogger("moldau.connect")

TURN_SECONDS = 30.0
IDLE_SECONDS = 1.0
"""After so long without a record the turn is over."""
_PAUSE_SECONDS_MAX = 5.0
"""Between turns that find nothing."""
_LOOK_SECONDS = 0.5
_WATCH_SECONDS = 0.1
_FENCE_SECONDS = 30.0
_OUT_SCHEMA = "counts map<string,double>, topics array<string>, failure string"
_OUT = pa.schema(
    [
        ("counts", pa.map_(pa.string(), pa.float64())),
        ("topics", pa.list_(pa.string())),
        ("failure", pa.string()),
    ]
)
_offsets: dict[tuple[tuple[str, str], ...], SourceOffsets] = {}
"""Of an executor's process, which runs turn after turn: what it has read of connect-offsets."""


class SparkSourceTask:
    """One run of it, from start to stop or failure."""

    def __init__(
        self,
        setup: TaskSetup,
        session: Callable[[], Any],
        control: Control,
        metrics: TaskMetrics,
        topic_used: Callable[[str], None],
    ) -> None:
        """`session`: gives the worker's Spark session."""
        self._setup, self._session, self._control = setup, session, control
        self._metrics, self._topic_used = metrics, topic_used
        self._is_over = False
        self._failure: str | None = None
        self._pause_seconds = 0.0

    def run(self) -> None:
        """Until stopped. ConnectError."""
        while not self._control.stopping():
            if self._control.paused:
                self._control.wait_change(60.0)
            else:
                self._run_query()

    def abandon(self) -> None:
        """From another thread: it did not end in time."""
        self._is_over = True

    def _run_query(self) -> None:
        session = self._session()
        self._is_over, self._failure = False, None
        folder = tempfile.mkdtemp(prefix="connect-")
        query = (
            session.readStream.format("rate")
            .option("rowsPerSecond", 1)
            .load()
            .writeStream.foreachBatch(self._turn)
            .queryName(f"connect-{self._setup.client_id}")
            .option("checkpointLocation", f"file://{folder}")
            .start()
        )
        try:
            while not self._control.stopping() and not self._control.paused:
                if not query.isActive:
                    raise ConnectError(self._failure) if self._failure else failure_of(query.exception())
                self._control.wait_change(_LOOK_SECONDS)
        finally:
            self._is_over = True
            query.stop()
            self._fence()
            shutil.rmtree(folder, ignore_errors=True)

    def _turn(self, clock: Any, number: int) -> None:
        """A micro-batch, in a thread of the query; its rows mean nothing."""
        if self._is_over or self._control.abandoned or self._control.wait(self._pause_seconds):
            return
        one = clock.sparkSession.range(0, 1, 1, 1)
        for each in one.mapInArrow(_turn_of(self._setup), _OUT_SCHEMA).collect():
            for topic in each["topics"]:
                self._topic_used(topic)
            for name, amount in each["counts"].items():
                self._metrics.add(name, amount)
            if each["failure"]:
                self._failure = each["failure"]
                raise ConnectError(self._failure)
            found = each["counts"].get("source-record-poll-total", 0)
            pause = 0.0 if found else min(max(self._pause_seconds * 2, 0.1), _PAUSE_SECONDS_MAX)
            self._pause_seconds = pause

    def _fence(self) -> None:
        """End what the last turn may have left open."""
        if self._setup.worker.get("exactly.once.source.support", "enabled").strip().lower() != "enabled":
            return
        if self._control.abandoned:
            return  # another task may have the id by now
        try:
            producer = self._setup.producer(transactional_id=self._setup.transactional_id)
            producer.init_transactions(_FENCE_SECONDS)
        except (KafkaException, ConnectError) as failed:
            log.warning("%s: what its last turn left open ends later: %s", self._setup.client_id, failed)


def _turn_of(setup: TaskSetup) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For `mapInArrow`."""
    config = {**setup.config, ENGINE_ROW.name: "local"}
    here = TaskSetup(setup.task, config, setup.worker)

    def work(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if any(each.num_rows for each in rows):
            yield pa.RecordBatch.from_pylist([_turn(here)], schema=_OUT)

    return work


def _turn(setup: TaskSetup) -> Mapping[str, Any]:
    """The task, until it has found nothing for a while; what came of it. In an executor."""
    from moldau.services.connect.runtime.building import Shared, build, connector_class, secret_rows

    clock = SystemClock()
    metrics, control = TaskMetrics(clock), _TurnControl()
    topics: set[str] = set()
    worker = tuple(sorted(setup.worker.items()))
    offsets = _offsets.setdefault(worker, SourceOffsets(setup.worker))
    shared = Shared(setup.worker, clock, Keeper(), offsets, lambda _, topic: topics.add(topic))
    failure = None
    try:
        run = build(setup, shared, control, metrics)
        over = threading.Event()
        threading.Thread(target=_watch, args=(control, metrics, over), daemon=True).start()
        try:
            run.run()
        finally:
            over.set()
            run.close()
    except Exception as failed:
        rows = secret_rows(connector_class(setup.config))
        failure = Hiding(setup.config, rows).text(sentence_and_details(failed))
    counts = {name: metrics.total(name) for name in (*SOURCE, "deadletterqueue-produce-requests")}
    return {"counts": list(counts.items()), "topics": sorted(topics), "failure": failure}


class _TurnControl(Control):
    """Knows since when the task has found nothing for the first time: until then it opens, or is reading."""

    rested_at: float | None = None

    def wait_change(self, seconds: float) -> None:
        """See Control."""
        if self.rested_at is None:
            self.rested_at = time.monotonic()
        super().wait_change(seconds)


def _watch(control: _TurnControl, metrics: TaskMetrics, over: threading.Event) -> None:
    """End the turn when its time is over, or nothing comes."""
    began = last = time.monotonic()
    seen = 0.0
    while not over.wait(_WATCH_SECONDS):
        now, polled = time.monotonic(), metrics.total("source-record-poll-total")
        if polled != seen:
            seen, last = polled, now
        is_idle = control.rested_at is not None and now - max(last, control.rested_at) > IDLE_SECONDS
        if now - began > TURN_SECONDS or is_idle:
            control.stop()
            return
