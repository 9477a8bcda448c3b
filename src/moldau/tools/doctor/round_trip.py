"""The round trip: records written to each broker and read back, with the client's own settings.

A topic is made for it, with one partition led by each broker, and deleted at the end. Its timestamps are the
brokers' (LogAppendTime), so that each answer also tells the leader's clock: half a round trip is the error of
that measurement. With `--topic` the records go to a topic that exists; clocks are compared only if it has
LogAppendTime too.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from moldau.client.admin.topics import NewTopic, create_topics, delete_topics, leaders, raise_first
from moldau.client.errors import ClientError
from moldau.tools.doctor.findings import Report, Stopwatch
from moldau.tools.shared.causes import why_no_topic, why_not_read, why_not_written, why_stalled
from moldau.tools.shared.errors import CommandError, error_name, explain_kafka_failure

if TYPE_CHECKING:
    from moldau.tools.shared.connection import Connection

CLOCK_SKEW_MS_MAX = 5_000.0
"""More than this and time-outs, time indexes and windows surprise; Kafka refuses records beyond an hour."""
_SLOW_MS = 1000.0
_POLL_SECONDS = 0.05
_HEADER = "moldau-doctor"
_CONFIG = {"message.timestamp.type": "LogAppendTime", "retention.ms": "600000", "min.insync.replicas": "1"}


@dataclass(slots=True)
class Written:
    """An acknowledged record. `clock_ms` is the leader's time, None unless the topic has LogAppendTime."""

    partition: int
    offset: int
    took_ms: float
    sent_at_ms: float
    clock_ms: int | None


def check_round_trip(
    report: Report, connection: Connection, topic: str | None, node_ids: Sequence[int]
) -> None:
    """Write to each broker, read it back, compare clocks."""
    if topic is not None:
        _try_topic(report, connection, topic, {})
        return
    try:
        with _own_topic(report, connection, node_ids) as (name, leaders):
            _try_topic(report, connection, name, leaders)
    except CommandError as failure:
        report.fail(
            "round trip",
            f"the topic for it could not be made: {failure}",
            why_stalled(connection) or "give one that may be written with --topic, or --read-only",
        )


@contextmanager
def _own_topic(
    report: Report, connection: Connection, node_ids: Sequence[int]
) -> Iterator[tuple[str, dict[int, int]]]:
    """Make the topic, and delete it at the end. Yields its name and the leader of each partition."""
    name = f"moldau-doctor-{uuid.uuid4().hex[:12]}"
    # One replica a partition: Kafka before 3.7 would refuse every record by its own min.insync.replicas.
    replicas = {index: [node_id] for index, node_id in enumerate(node_ids)}
    cluster, seconds = connection.cluster(), connection.timeout_seconds
    try:
        _, refused = create_topics(
            cluster, [NewTopic(name, assignments=replicas, configs=_CONFIG)], timeout_seconds=seconds
        )
        raise_first(refused)
    except ClientError as failure:
        late = "TIMED_OUT" in error_name(failure)
        left = f" (should it appear yet: moldau topics delete {name})" if late else ""
        raise CommandError(f"{explain_kafka_failure(failure)}{left}") from None
    try:
        yield name, dict(enumerate(node_ids))
    finally:
        try:
            raise_first(delete_topics(cluster, [name], timeout_seconds=seconds))
        except ClientError as failure:
            report.warn(
                "round trip",
                f"the topic {name} could not be deleted: {explain_kafka_failure(failure)}",
                f"moldau topics delete {name}",
            )


def _try_topic(report: Report, connection: Connection, topic: str, leaders: dict[int, int]) -> None:
    run = uuid.uuid4().hex
    partitions = list(leaders) or _partitions(report, connection, topic)
    written, failures = _write(connection, topic, partitions, run)
    for partition, failure in failures.items():
        report.fail(
            "produce",
            f"{_place(topic, partition, leaders)}: {failure}",
            why_not_written(connection, topic, partition)
            or "see the broker's log and `moldau status`; acks=all waits for min.insync.replicas",
        )
    if not written:
        report.skip("consume", "nothing was written")
        return
    slowest = max(written, key=lambda each: each.took_ms)
    message = (
        f"{len(written)} records written with acks=all, one a partition, in at most {slowest.took_ms:.1f} ms"
    )
    if slowest.took_ms > _SLOW_MS:
        where = _place(topic, slowest.partition, leaders)
        report.warn("produce", f"{message} ({where})", "look at that broker with `moldau status`: disk, load")
    else:
        report.ok("produce", message)
    _read(report, connection, topic, written, run)
    _compare_clocks(report, written, leaders)


def _place(topic: str, partition: int, leaders: dict[int, int]) -> str:
    if partition in leaders:
        return f"broker {leaders[partition]}"
    return f"{topic}-{partition}"


def _partitions(report: Report, connection: Connection, topic: str) -> list[int]:
    known = leaders(connection.cluster(), [topic])
    if not known:
        why = why_no_topic(connection, topic) or "there is no such topic"
        report.fail("topic", f"{topic}: {why}", "name a topic that exists, or none")
        return []
    leaderless = [index for (_, index), leader in known.items() if leader < 0]
    if leaderless:
        report.fail(
            "topic",
            f"{topic}: partitions {', '.join(map(str, leaderless))} have no leader",
            "start the brokers that hold them: `moldau topics describe` names them",
        )
    return [index for _, index in known if index not in leaderless]


def _write(
    connection: Connection, topic: str, partitions: Sequence[int], run: str
) -> tuple[list[Written], dict[int, str]]:
    from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException

    from moldau.tools.shared.errors import explain_kafka_error

    timeout_ms = int(connection.timeout_seconds * 1000)
    producer = connection.producer(acks="all", linger_ms=0, message_timeout_ms=timeout_ms)
    written: list[Written] = []
    failures: dict[int, str] = {}
    # One at a time: each leader's answer is timed by itself. A first record opens the connection.
    for partition in [*partitions, *partitions]:
        if partition in failures:
            continue
        watch, sent_at_ms = Stopwatch(), time.time() * 1000

        def done(
            error: KafkaError | None, message: Any, watch: Stopwatch = watch, at: float = sent_at_ms
        ) -> None:
            if error is not None:
                failures[message.partition()] = explain_kafka_error(error)
                return
            kind, stamp = message.timestamp()
            clock_ms = stamp if kind == TIMESTAMP_LOG_APPEND_TIME else None
            written.append(Written(message.partition(), message.offset(), watch.ms, at, clock_ms))

        try:
            producer.produce(topic, value=run, partition=partition, headers={_HEADER: run}, on_delivery=done)
        except (KafkaException, BufferError) as failure:
            failures[partition] = explain_kafka_failure(failure) or str(failure)
            continue
        producer.flush(connection.timeout_seconds + 1)
    second = [each for index, each in enumerate(written) if index >= len(written) // 2]
    return second, failures


def _read(report: Report, connection: Connection, topic: str, written: Sequence[Written], run: str) -> None:
    from confluent_kafka import TopicPartition

    from moldau.tools.shared.errors import explain_kafka_error

    missing = {each.partition for each in written}
    consumer = connection.consumer(group_id=f"moldau-doctor-{run}", fetch_wait_max_ms=10)
    watch, problem = Stopwatch(), ""
    try:
        consumer.assign([TopicPartition(topic, each.partition, each.offset) for each in written])
        while missing and watch.ms < connection.timeout_seconds * 1000:
            record = consumer.poll(_POLL_SECONDS)
            if record is None:
                continue
            if record.error() is not None:
                problem = explain_kafka_error(record.error())
            elif record.value() == run.encode():
                missing.discard(record.partition())
    finally:
        consumer.close()
    if missing:
        places = ", ".join(map(str, sorted(missing)))
        report.fail(
            "consume",
            f"what was written to {topic} was not read from partitions {places} within "
            f"{connection.timeout_seconds:.0f} s{f': {problem}' if problem else ''}",
            why_not_read(connection, topic, min(missing))
            or "an acknowledged record is readable once the in-sync replicas have it: see `moldau status`",
        )
    else:
        report.ok("consume", f"{len(written)} records read back in {watch}")


def _compare_clocks(report: Report, written: Sequence[Written], leaders: dict[int, int]) -> None:
    timed = [each for each in written if each.clock_ms is not None]
    if not timed:
        report.skip("clock", "the topic keeps the clients' timestamps: brokers' clocks are not known")
        return
    off = False
    worst_ms = 0.0
    for each in timed:
        assert each.clock_ms is not None
        # The leader read its clock somewhere between the sending and the answer.
        early_ms = each.sent_at_ms - each.clock_ms
        late_ms = each.clock_ms - (each.sent_at_ms + each.took_ms)
        skew_ms = max(early_ms, late_ms, 0.0)
        worst_ms = max(worst_ms, skew_ms)
        if skew_ms > CLOCK_SKEW_MS_MAX:
            off = True
            side = "behind" if early_ms > 0 else "ahead of"
            where = _place("partition", each.partition, leaders)
            report.warn(
                "clock",
                f"{where} is {skew_ms / 1000:.0f} s {side} this machine",
                "let chrony or ntpd keep the time on both: timestamps, retention and windows depend on it; "
                "brokers refuse records from further ahead than message.timestamp.after.max.ms (an hour)",
            )
    if not off:
        report.ok("clock", f"the brokers' clocks and this one agree within {max(worst_ms, 1):.0f} ms")
