"""A sink's task on Spark: one streaming query, whose micro-batches executors write with the same sink class.

    readStream.format("moldau") ── foreachBatch: note the runs' ends ── mapInArrow: convert, transform,
                                                                        Sink.write ── commit ends, letters

Where the connector stands, its group's offsets say, as with the local engine: each query begins there, with a
checkpoint that is thrown away when it ends. Runs are noted beside the offsets before they are written for
the first time; so those that a crash has left come again as they were, whichever engine is next.

A query that is to stop finishes its micro-batch first. Not exact: rows that the sink itself refuses may miss
their dead letter where the driver dies between the write and the letter (what converters and transforms
refuse is found again).
"""

from __future__ import annotations

import json
import logging
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from moldau.common.core.java_patterns import compile_java
from moldau.connect.batch import TopicPartition
from moldau.connect.errors import ConnectError, Retriable
from moldau.services.connect.runtime.control import Control
from moldau.services.connect.runtime.metrics import TaskMetrics
from moldau.services.connect.runtime.rows import ERROR_ROWS, SINK_ROWS, settings_of
from moldau.services.connect.runtime.setup import TaskSetup
from moldau.services.connect.runtime.sink_notes import Notes
from moldau.services.connect.runtime.spark_commits import SparkCommits
from moldau.services.connect.runtime.spark_ranges import (
    TRIGGER_OFFSETS_MAX,
    ends_of,
    ranges_of,
    run_ends,
)
from moldau.services.connect.runtime.spark_work import OUT_SCHEMA, work_of

log = logging.getLogger("moldau.connect")

CHECKPOINTS = "moldau.connect.spark.checkpoints"
"""The worker's setting: a folder of this machine, for what queries note while they run."""
_TIMEOUT_SECONDS = 30.0
_LOOK_SECONDS = 0.5
_OWN = {"ConnectError", "Retriable", "Failed", "BadRecord", "BadRecords", "OptionError"}
_SENTENCE = re.compile(
    r"^(?:[\w.]*\.)?(\w+(?:Error|Exception|Retriable|Failed|BadRecords?)): (.+)", re.MULTILINE
)

Starts = dict[TopicPartition, int]


class SparkSinkTask:
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
        self._setup = setup
        self._session = session
        self._control = control
        self._metrics = metrics
        self._topic_used = topic_used
        self._topics = settings_of(SINK_ROWS, setup.config, setup.connector)
        errors = settings_of(ERROR_ROWS, setup.config, setup.connector)
        self._letters_topic: str = errors["errors.deadletterqueue.topic.name"].strip()
        self._consumer: Consumer = setup.consumer()
        self._commits = SparkCommits(setup, self._consumer)
        self._writing = threading.Lock()
        """Held by a micro-batch that is being written."""
        self._is_over = False
        """No micro-batch is begun any more."""
        self._failure: BaseException | None = None

    def run(self) -> None:
        """Until stopped. ConnectError, Retriable."""
        try:
            while not self._control.stopping():
                if self._control.paused:
                    self._control.wait_change(60.0)
                else:
                    self._run_query()
        finally:
            self._commits.close()
            self._consumer.close()

    def abandon(self) -> None:
        """From another thread: it did not end in time."""
        self._is_over = True

    def _run_query(self) -> None:
        session = self._session()
        self._is_over, self._failure = False, None
        starts = self._begin(session)
        if not starts:
            self._control.wait(_LOOK_SECONDS)
            return  # no topic is there yet
        folder = tempfile.mkdtemp(prefix="connect-", dir=self._folder())
        query = (
            self._reader(session.readStream)
            .option("startingOffsets", _json(starts))
            .option("maxOffsetsPerTrigger", str(TRIGGER_OFFSETS_MAX))
            .load()
            .writeStream.foreachBatch(
                lambda rows, number: self._micro_batch(Path(folder), starts, rows, number)
            )
            .queryName(f"connect-{self._setup.connector}")
            .option("checkpointLocation", f"file://{folder}")
            .trigger(
                processingTime=f"{self._setup.setting('offset.flush.interval.ms', '60000')} milliseconds"
            )
            .start()
        )
        try:
            while not self._control.stopping() and not self._control.paused:
                if not query.isActive:
                    raise self._failure_of(query)
                self._control.wait_change(_LOOK_SECONDS)
        finally:
            self._is_over = True
            with self._writing:
                query.stop()
            shutil.rmtree(folder, ignore_errors=True)

    def _folder(self) -> str | None:
        folder = self._setup.worker.get(CHECKPOINTS)
        if not folder:
            return None
        if "://" in folder:
            raise ConnectError(f"{CHECKPOINTS}={folder} must be a folder of the worker's machine")
        Path(folder).mkdir(parents=True, exist_ok=True)
        return str(Path(folder).resolve())

    def _reader(self, reader: Any, places: Sequence[TopicPartition] = ()) -> Any:
        """`places`: these alone, else the topics that the settings name."""
        reader = reader.format("moldau").option("includeHeaders", "true")
        for name, value in self._setup.consumer_texts().items():
            reader = reader.option(f"kafka.{name}", value)
        if places:
            assigned: dict[str, list[int]] = {}
            for each in places:
                assigned.setdefault(each.topic, []).append(each.partition)
            return reader.option("assign", json.dumps(assigned))
        if self._topics["topics.regex"]:
            return reader.option("subscribePattern", self._topics["topics.regex"])
        return reader.option("subscribe", ",".join(self._topics["topics"]))

    def _places(self) -> list[TopicPartition]:
        known = self._consumer.list_topics(timeout=_TIMEOUT_SECONDS).topics
        if self._topics["topics.regex"]:
            pattern = compile_java(self._topics["topics.regex"])
            names = [each for each in known if not each.startswith("__") and pattern.fullmatch(each)]
        else:
            names = [each for each in self._topics["topics"] if each in known]
        return [
            TopicPartition(name, each) for name in sorted(names) for each in sorted(known[name].partitions)
        ]

    # Where it stands

    def _begin(self, session: Any) -> Starts:
        """Where the query begins, when the runs are written that were left noted."""
        notes = self._commits.open(self._places())
        starts = {place: self._start(place, each.committed) for place, each in notes.items()}
        left = {place: each for place, each in notes.items() if each.ends and each.committed == starts[place]}
        if left:
            starts |= self._write_noted(session, left)
        return starts

    def _late_starts(self, late: Sequence[TopicPartition]) -> Starts:
        """Of topics and partitions that came after the query began: it reads them from their beginning.
        Retriable: the group has been there, the query begins anew where that stands."""
        if not late:
            return {}
        for place, each in self._commits.known(late).items():
            if each.committed is not None:
                raise Retriable(
                    f"{place.topic}-{place.partition} was not there when the query began, and the group's "
                    f"offset of it is {each.committed}: the query begins anew there"
                )
        if self._setup.offset_reset == "none":
            raise ConnectError(f"no offset is committed of {late[0].topic}-{late[0].partition}")
        return {place: self._ends_of(place)[0] for place in late}

    def _ends_of(self, place: TopicPartition) -> tuple[int, int]:
        """The first offset of a partition, and the one behind the last. Retriable."""
        try:
            low, high = self._consumer.get_watermark_offsets(KafkaPartition(*place), _TIMEOUT_SECONDS)
        except KafkaException as error:
            raise Retriable(f"the ends of {place.topic}-{place.partition}: {error.args[0].str()}") from error
        return int(low), int(high)

    def _start(self, place: TopicPartition, committed: int | None) -> int:
        """Within what there is in the partition."""
        low, high = self._ends_of(place)
        if committed is not None and low <= committed <= high:
            return committed
        reset = self._setup.offset_reset
        if committed is not None:
            log.warning(
                "%s: the group's offset %d of %s-%d is not there any more: it goes on at the %s",
                self._setup.client_id,
                committed,
                *place,
                reset,
            )
        if reset not in ("earliest", "latest"):
            raise ConnectError(f"no offset is committed of {place.topic}-{place.partition}")
        return low if reset == "earliest" else high

    def _write_noted(self, session: Any, left: Mapping[TopicPartition, Notes]) -> Starts:
        starts = {place: each.committed or 0 for place, each in left.items()}
        ends = {place: each.ends[-1] for place, each in left.items()}
        rows = (
            self._reader(session.read, list(left))
            .option("startingOffsets", _json(starts))
            .option("endingOffsets", _json(ends))
            .load()
        )
        bad = {place: frozenset(each.bad) for place, each in left.items() if each.bad}
        self._write(rows, {place: each.ends for place, each in left.items()}, bad)
        return ends

    # Micro-batches, in a thread of the query

    def _micro_batch(self, folder: Path, starts: Starts, rows: Any, number: int) -> None:
        """`starts`: where the query began; where this one begins, is noted there for the next one."""
        with self._writing:
            if self._is_over or self._control.abandoned:
                return  # nothing is committed: the next query begins there
            try:
                ends = ends_of((folder / "offsets" / str(number)).read_text())
                starts.update(self._late_starts(sorted(ends.keys() - starts.keys())))
                ranges = ranges_of(starts, ends)
                if ranges:
                    self._commits.note(ranges)
                    self._write(rows, {place: run_ends(each) for place, each in ranges.items()}, {})
                starts.update(ends)
            except BaseException as failure:
                self._failure = failure
                self._is_over = True
                raise

    def _write(
        self,
        rows: Any,
        ends: Mapping[TopicPartition, Sequence[int]],
        bad: Mapping[TopicPartition, frozenset[int]],
    ) -> None:
        """Write runs that end there, without the offsets in `bad`, and commit."""
        try:
            answers = rows.mapInArrow(work_of(self._setup, ends, bad), OUT_SCHEMA).collect()
        except Exception as failed:  # Spark's own, with the executor's traceback in it
            raise failure_of(failed) from None
        letters = [each for each in answers if each["letter"]] if self._letters_topic else []
        for each in answers:
            if not each["letter"]:
                self._metrics.add("sink-record-read-total", each["count"])
                self._metrics.add("sink-record-send-total", each["count"])
                self._topic_used(each["topic"])
        if self._control.abandoned:
            raise ConnectError("the task was left behind")
        self._commits.commit({place: each[-1] for place, each in ends.items()}, self._letters_topic, letters)
        self._metrics.add("offset-commit-completion-total")
        self._metrics.add("deadletterqueue-produce-requests", len(letters))

    def _failure_of(self, query: Any) -> Exception:
        """What the query ended with."""
        if isinstance(self._failure, (ConnectError, Retriable)):
            return self._failure
        return failure_of(query.exception())


def _json(offsets: Mapping[TopicPartition, int]) -> str:
    made: dict[str, dict[str, int]] = {}
    for place, offset in offsets.items():
        made.setdefault(place.topic, {})[str(place.partition)] = offset
    return json.dumps(made)


def failure_of(error: Any) -> ConnectError:
    """The sentence of what a query failed with."""
    text = "" if error is None else str(error)
    found = _SENTENCE.findall(text)
    if not found:
        return ConnectError(f"the Spark query ended: {text[:2000]}")
    kind, sentence = found[-1]
    return ConnectError(sentence if kind in _OWN else f"{kind}: {sentence}")
