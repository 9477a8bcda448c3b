"""A member of a consumer group that hands out batches of records which it owns.

Callbacks of a rebalance come in the middle of `consume`, so that its result may hold records of partitions
that have just been taken away, and of partitions that went and came back. Handling those would handle records
twice, under each delivery. Invariant: `read` returns only records of partitions that this member has held
without a break since they were fetched. For this, newly assigned partitions stay paused until `read` has
returned: what a result holds of them is of the time before.

The first record of a batch is waited for, the others are taken as they are there: `consume(n, timeout)` alone
would hold back the first record until n are there or the time is over.

Cost: beside `consume` itself, one pass for errors (30 ns a record). Not here: when offsets are committed
(delivery.py).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from moldau.common.core.backoff import pauses
from moldau.common.core.unreadable import UNREADABLE
from moldau.kit.client_config import client_log, kafka_error, log, sentence, unreadable
from moldau.kit.errors import KitError

Partition = tuple[str, int]
"""Topic and number."""
Offsets = dict[Partition, int]
"""The next offset to read of each partition."""

_TRY_AGAIN = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._WAIT_COORD,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RETRY,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,  # a coordinator that has just started does not know all topics yet
    }
)
_HOPELESS = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError._AUTHENTICATION,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.INCONSISTENT_GROUP_PROTOCOL,
        KafkaError.INVALID_GROUP_ID,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError._AUTO_OFFSET_RESET,
    }
)
_SEEK_SECONDS = 10.0
_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 2.0


class Owner(Protocol):
    """Keeps what has been done with the partitions of a reader. Called inside `read` and `close`."""

    def assigned(self, partitions: list[Partition]) -> Offsets | None:
        """Partitions have come; answers where to start those that shall not start at the committed offset."""

    def revoked(self, partitions: list[Partition]) -> None:
        """Partitions go; they are still this member's, and offsets can be committed."""

    def lost(self, partitions: list[Partition]) -> None:
        """Partitions have gone; others may hold them already."""


def ends(records: Sequence[Message]) -> Offsets:
    """The offset after the last record of each partition (120 ns a record)."""
    keys = zip(map(Message.topic, records), map(Message.partition, records), strict=True)
    last: Any = dict(zip(keys, map(Message.offset, records), strict=True))
    return {key: offset + 1 for key, offset in last.items()}


def starts(records: Sequence[Message]) -> Offsets:
    """The offset of the first record of each partition."""
    return {key: offset - 1 for key, offset in ends(records[::-1]).items()}


class GroupReader:
    """A consumer in a group; `config` is complete. One thread at a time."""

    def __init__(self, topics: list[str], config: Mapping[str, Any], owner: Owner) -> None:
        self._owner = owner
        self._topics = topics
        self.rebalance_count = 0
        self.owned: set[Partition] = set()
        self._paused: set[Partition] = set()  # newly assigned
        self._failure: BaseException | None = None
        self._unreadable: KitError | None = None
        strategy = str(config.get("partition.assignment.strategy", ""))
        self._incremental = config.get("group.protocol") == "consumer" or "cooperative" in strategy
        self._max_poll_ms = int(config.get("max.poll.interval.ms", 300_000))
        self._commit_failed: Callable[[Offsets], None] = lambda offsets: None
        self._commit_done: Callable[[Offsets], None] = lambda offsets: None
        own = {**config, "error_cb": self._note_error, "on_commit": self._note_commit}
        try:
            self._consumer = Consumer(own, logger=client_log)
        except (KafkaException, TypeError, ValueError) as error:
            raise KitError(f"the consumer's settings are refused: {sentence(error)}") from error
        self._consumer.subscribe(
            topics, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )

    @property
    def consumer(self) -> Consumer:
        """The client itself."""
        return self._consumer

    def read(self, count: int, wait_seconds: float, linger_seconds: float = 0.0) -> list[Message]:
        """At most so many records; empty after `wait_seconds`. Raises KitError for what cannot get better."""
        if self._paused:
            self._resume()
        before = self.rebalance_count
        first = self._consumer.poll(wait_seconds)
        records = [] if first is None else [first]
        if records and count > 1 and not self._failure:
            records += self._consumer.consume(count - 1, linger_seconds)
        if any(map(Message.error, records)):
            records = self._without_errors(records)
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        if self._unreadable is not None and not records:  # first what lies before it
            raise self._unreadable
        if self.rebalance_count != before:
            held = self.owned - self._paused
            records = [one for one in records if (one.topic(), one.partition()) in held]
        return records

    def _resume(self) -> None:
        back = [TopicPartition(*one) for one in sorted(self._paused & self.owned)]
        self._paused.clear()
        if back:
            self._consumer.resume(back)

    def _without_errors(self, records: list[Message]) -> list[Message]:
        good = []
        for record in records:
            error = record.error()
            if error is None:
                good.append(record)
            elif error.code() == KafkaError._MAX_POLL_EXCEEDED:
                log.warning(
                    "handling took longer than max.poll.interval.ms (%d ms): the partitions of %s go to "
                    "others, and what was not committed is handled again. Make batches smaller or the "
                    "interval longer",
                    self._max_poll_ms,
                    ", ".join(self._topics),
                )
            elif error.name() in UNREADABLE:
                self._unreadable = self._unreadable or KitError(unreadable(record, error))
            elif error.code() in _HOPELESS or error.fatal():
                where = record.topic() or ", ".join(self._topics)
                self._failure = self._failure or KitError(f"{where} cannot be read: {sentence(error)}")
            elif error.code() != KafkaError._PARTITION_EOF:
                log.warning("%s: %s; still trying", record.topic() or self._topics, sentence(error))
        return good

    def _note_error(self, error: KafkaError) -> None:
        if error.fatal() or error.code() in _HOPELESS:
            self._failure = self._failure or KitError(
                f"{', '.join(self._topics)} cannot be read: {sentence(error)}"
            )
        elif error.code() == KafkaError._ALL_BROKERS_DOWN:
            log.warning("no broker answers: %s; still trying", sentence(error))

    # --- rebalances -------------------------------------------------------------------------------

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.rebalance_count += 1
        keys = [(one.topic, one.partition) for one in partitions]
        try:
            begin = self._owner.assigned(keys) or {}
        except Exception as error:  # out of `read`, when the client's own work is done
            self._failure = self._failure or error
            begin, partitions = {}, []
        for one in partitions:
            if (one.topic, one.partition) in begin:
                one.offset = begin[one.topic, one.partition]
        if self._incremental:
            consumer.incremental_assign(partitions)
        else:
            consumer.assign(partitions)
            self.owned.clear()
        if partitions:
            consumer.pause(partitions)
        now = {(one.topic, one.partition) for one in partitions}
        self.owned |= now
        self._paused |= now

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._gone(partitions, self._owner.revoked)

    def _lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._gone(partitions, self._owner.lost)

    def _gone(self, partitions: list[TopicPartition], tell: Callable[[list[Partition]], None]) -> None:
        self.rebalance_count += 1
        keys = [(one.topic, one.partition) for one in partitions]
        try:
            tell(keys)
        except Exception as error:
            self._failure = self._failure or error
        self.owned.difference_update(keys)
        self._paused.difference_update(keys)

    # --- offsets ----------------------------------------------------------------------------------

    def on_commits(self, done: Callable[[Offsets], None], failed: Callable[[Offsets], None]) -> None:
        """Who is told how commits without waiting ended."""
        self._commit_done, self._commit_failed = done, failed

    def _note_commit(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        good: Offsets = {}
        bad: Offsets = {}
        for one in partitions:
            (bad if error or one.error else good)[one.topic, one.partition] = one.offset
        if good:
            self._commit_done(good)
        if bad:
            log.warning("offsets were not committed: %s; they are committed with the next ones", error)
            self._commit_failed(bad)

    def commit_soon(self, offsets: Offsets) -> None:
        """Commit without waiting; the answer comes within a later `read`."""
        try:
            self._consumer.commit(offsets=_as_list(offsets), asynchronous=True)
        except KafkaException as error:
            log.warning("offsets were not committed: %s; tried again", sentence(error))
            self._commit_failed(offsets)

    def commit_now(self, offsets: Offsets, go_on: Callable[[], bool] = lambda: False) -> bool:
        """Commit and wait; whether it is done. Tries again while a broker is away and `go_on()`.

        False without further tries: the group has moved on, and others may hold the partitions.
        """
        left, between = dict(offsets), pauses(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS, random.random)
        while left:
            error = self._try_commit(left)
            if error is None:
                return True
            if error.code() not in _TRY_AGAIN or not go_on():
                log.warning("offsets were not committed: %s", sentence(error))
                return False
            time.sleep(next(between))
        return True

    def _try_commit(self, left: Offsets) -> KafkaError | None:
        """Take out of `left` what is committed."""
        try:
            answers = self._consumer.commit(offsets=_as_list(left), asynchronous=False)
        except KafkaException as raised:
            return kafka_error(raised)
        failed = None
        for one in answers or ():
            if one.error is None:
                left.pop((one.topic, one.partition), None)
            else:
                failed = one.error
        return failed

    def rewind(self, offsets: Offsets) -> None:
        """Read again from these offsets, as far as the partitions are still this member's."""
        for (topic, number), offset in offsets.items():
            deadline = time.monotonic() + _SEEK_SECONDS
            while (topic, number) in self.owned:
                try:
                    self._consumer.seek(TopicPartition(topic, number, offset))
                    break
                except KafkaException as error:  # fetching has not begun yet
                    if time.monotonic() > deadline:
                        raise KitError(
                            f"{topic}[{number}] cannot be read again from {offset}: {sentence(error)}"
                        ) from error
                    time.sleep(_FIRST_PAUSE_SECONDS)

    def close(self) -> None:
        """Leave the group; `Owner.revoked` is told."""
        self._consumer.close()
        if self._failure is not None:
            log.warning("while leaving the group: %s", sentence(self._failure))
            self._failure = None


def _as_list(offsets: Mapping[Partition, int]) -> list[TopicPartition]:
    return [TopicPartition(topic, number, offset) for (topic, number), offset in offsets.items()]


def names(partitions: Iterable[Partition]) -> str:
    """Partitions as text: orders[0], orders[1]."""
    return ", ".join(f"{topic}[{number}]" for topic, number in sorted(partitions))
