"""A sink's task on Spark: one streaming query, whose micro-batches executors write with the same sink class.

    readStream.format("moldau") ── foreachBatch ── mapInArrow: convert, transform, Sink.write ── letters, ends
                                                                     group connect-NAME: offsets committed

The checkpoint says what a micro-batch has, and repeats it as it was; the group's offsets follow, so that
lag is seen and the local engine can go on from there. A new checkpoint begins at the group's offsets.

Not exact: rows that the sink itself refuses may miss their dead letter where the driver dies between the
write and the letter (refusals of converters and transforms are found again). Switch engines at a stop, not
after a crash.
"""

from __future__ import annotations

import json
import logging
import re
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
from moldau.services.connect.runtime.sink_notes import notes_from
from moldau.services.connect.runtime.spark_work import OUT_SCHEMA, Cuts, work_of

log = logging.getLogger("moldau.connect")

CHECKPOINTS = "moldau.connect.spark.checkpoints"
"""The worker's setting: a folder, or a URL that Spark can write to."""
_TIMEOUT_SECONDS = 30.0
_LOOK_SECONDS = 0.5
_OWN = {"ConnectError", "Retriable", "Failed", "BadRecord", "BadRecords", "OptionError"}
_SENTENCE = re.compile(
    r"^(?:[\w.]*\.)?(\w+(?:Error|Exception|Retriable|Failed|BadRecords?)): (.+)", re.MULTILINE
)


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
        self._cuts: Cuts = {}

    def run(self) -> None:
        """Until stopped. ConnectError."""
        try:
            while not self._control.stopping():
                if self._control.paused:
                    self._control.wait_change(60.0)
                else:
                    self._run_query()
        finally:
            self._consumer.close()

    def _run_query(self) -> None:
        session = self._session()
        starts = self._starts()
        reader = session.readStream.format("moldau").option("includeHeaders", "true")
        for name, value in self._kafka_options().items():
            reader = reader.option(name, value)
        if self._topics["topics.regex"]:
            reader = reader.option("subscribePattern", self._topics["topics.regex"])
        else:
            reader = reader.option("subscribe", ",".join(self._topics["topics"]))
        rows = reader.option("startingOffsets", json.dumps(starts) if starts else "earliest").load()
        query = (
            rows.writeStream.foreachBatch(self._write)
            .queryName(f"connect-{self._setup.connector}")
            .option("checkpointLocation", self._checkpoint())
            .trigger(
                processingTime=f"{self._setup.setting('offset.flush.interval.ms', '60000')} milliseconds"
            )
            .start()
        )
        try:
            while not self._control.stopping() and not self._control.paused:
                if not query.isActive:
                    raise _failure(query.exception())
                self._control.wait_change(_LOOK_SECONDS)
        finally:
            query.stop()

    def _checkpoint(self) -> str:
        folder = self._setup.worker.get(CHECKPOINTS)
        if not folder:
            raise ConnectError(f"the worker needs {CHECKPOINTS}, a folder, for connectors that run on Spark")
        name = re.sub(r"[^A-Za-z0-9._-]", lambda found: f"%{ord(found.group()):02X}", self._setup.connector)
        return f"{folder.rstrip('/')}/{name}" if "://" in folder else str(Path(folder) / name)

    def _kafka_options(self) -> dict[str, str]:
        return {f"kafka.{name}": value for name, value in self._setup.consumer_texts().items()}

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

    def _starts(self) -> Mapping[str, Mapping[str, int]]:
        """Where a new checkpoint begins: at the group's offsets, else at the start (-2)."""
        starts: dict[str, dict[str, int]] = {}
        cuts: dict[TopicPartition, Sequence[int]] = {}
        try:
            places = self._places()
            wanted = [KafkaPartition(*each) for each in places]
            found = self._consumer.committed(wanted, _TIMEOUT_SECONDS) if wanted else []
        except KafkaException as error:
            raise Retriable(f"the group's offsets cannot be read: {error.args[0].str()}") from error
        for each in found:
            offset = each.offset if each.offset >= 0 else None
            starts.setdefault(each.topic, {})[str(each.partition)] = -2 if offset is None else offset
            notes = notes_from(offset, each.metadata)
            if notes.bad:
                raise ConnectError(
                    "dead letters are noted for an unfinished run: start it with engine local once"
                )
            if notes.ends:
                cuts[TopicPartition(each.topic, each.partition)] = notes.ends
        self._cuts = cuts
        return starts

    def _write(self, rows: Any, batch_id: int) -> None:
        """A micro-batch, on the driver."""
        work = work_of(self._setup, self._cuts)
        answers = rows.mapInArrow(work, OUT_SCHEMA).collect()
        letters = [each for each in answers if each["letter"]]
        if letters and self._letters_topic:
            self._write_letters(rows.sparkSession, letters, batch_id)
        ends: dict[TopicPartition, int] = {}
        for each in answers:
            if not each["letter"]:
                place = TopicPartition(each["topic"], each["partition"])
                ends[place] = max(ends.get(place, 0), each["end"])
                self._metrics.add("sink-record-send-total", each["count"])
                self._topic_used(each["topic"])
        self._commit(ends)

    def _write_letters(self, session: Any, letters: Sequence[Any], batch_id: int) -> None:
        schema = "key binary, value binary, headers array<struct<key:string,value:binary>>"
        made = session.createDataFrame(
            [(each["key"], each["value"], each["headers"]) for each in letters], schema
        )
        writer = made.write.format("moldau").option("topic", self._letters_topic)
        writer = writer.option("delivery", "exactly-once")
        for name, value in self._kafka_options().items():
            writer = writer.option(name, value)
        transactional_id = f"{self._setup.transactional_id}-dead-letters-spark"
        writer.option("transactionalId", transactional_id).option("batchId", str(batch_id)).mode(
            "append"
        ).save()

    def _commit(self, ends: Mapping[TopicPartition, int]) -> None:
        if not ends or self._control.abandoned:
            return
        try:
            self._consumer.commit(
                offsets=[KafkaPartition(*place, end) for place, end in ends.items()], asynchronous=False
            )
            self._metrics.add("offset-commit-completion-total")
        except KafkaException as error:  # the checkpoint has it; the group follows with the next one
            log.warning("%s: the group's offsets: %s", self._setup.client_id, error.args[0].str())
            self._metrics.add("offset-commit-skip-total")


def _failure(error: Any) -> ConnectError:
    """The sentence of what a query failed with."""
    text = "" if error is None else str(error)
    found = _SENTENCE.findall(text)
    if not found:
        return ConnectError(f"the Spark query ended: {text[:2000]}")
    kind, sentence = found[-1]
    return ConnectError(sentence if kind in _OWN else f"{kind}: {sentence}")
