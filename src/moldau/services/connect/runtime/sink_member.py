"""A sink's task as a member of its consumer group.

Rebalances are cooperative, and come while the task polls. Messages that were handed out by a poll in which a
rebalance happened are dropped and read again, because they may belong to partitions that have gone since.

What a commit runs into:
    SessionLost         the group has gone on without this member: nothing of it counts any more
    RebalanceUnderWay   poll, so that the rebalance can end, then try again
    Retriable           the coordinator is away
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
)
from confluent_kafka import TopicPartition as KafkaPartition

from moldau.connect.batch import TopicPartition
from moldau.connect.errors import ConnectError, Retriable

log = logging.getLogger("moldau.connect")

_TIMEOUT_SECONDS = 30.0
_COMMIT_SECONDS = 20.0
_LOST = {
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.FENCED_INSTANCE_ID,
    KafkaError.FENCED_MEMBER_EPOCH,
    KafkaError.STALE_MEMBER_EPOCH,
    KafkaError._ASSIGNMENT_LOST,
    KafkaError._MAX_POLL_EXCEEDED,
}
_WAITING = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}


class SessionLost(Exception):
    """The group has taken the partitions away."""


class RebalanceUnderWay(Exception):
    """Offsets cannot be committed now."""


class Committed(NamedTuple):
    """A group's offset of a partition."""

    offset: int | None
    metadata: str | None


class Polled(NamedTuple):
    """What a poll brought."""

    messages: dict[TopicPartition, list[Any]]
    ends: dict[TopicPartition, int]
    """Partitions whose end was reached, and where it is."""


class Member:
    """See the module. `assigned` is told of new partitions and answers where to begin (None: at the start);
    `revoked` of partitions that go, and whether they are lost already."""

    def __init__(
        self,
        consumer: Consumer,
        cooperative: bool,
        assigned: Callable[[Sequence[TopicPartition]], dict[TopicPartition, int | None]],
        revoked: Callable[[Sequence[TopicPartition], bool], None],
    ) -> None:
        self.consumer = consumer
        self._cooperative = cooperative
        self._assigned = assigned
        self._revoked = revoked
        self._thread = threading.get_ident()
        self._failure: BaseException | None = None
        self._rebalanced = False
        self.paused = False

    @property
    def in_own_thread(self) -> bool:
        """Whether this is the task's thread (and not the keeper's, see sink_keeper.py)."""
        return threading.get_ident() == self._thread

    def subscribe(self, topics: Sequence[str]) -> None:
        """Read these topics."""
        self.consumer.subscribe(
            list(topics), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    def poll(self, count_max: int, timeout_seconds: float) -> Polled | None:
        """Messages; None: a rebalance happened, read again from where the partitions stand (`realign`).

        ConnectError, SessionLost, and what `assigned` and `revoked` raised.
        """
        self._rebalanced = False
        first = self.consumer.poll(timeout_seconds)
        rest = self.consumer.consume(count_max - 1, 0) if first is not None and count_max > 1 else []
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        if self._rebalanced:
            return None
        polled = Polled({}, {})
        for message in (first, *rest):
            if message is None:
                continue
            error = message.error()
            place = TopicPartition(str(message.topic()), int(message.partition() or 0))
            if error is None:
                polled.messages.setdefault(place, []).append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                polled.ends[place] = int(message.offset() or 0)
            else:
                _judge(error)
        return polled

    def realign(self, starts: dict[TopicPartition, int | None]) -> None:
        """Fetch each of these partitions from there."""
        places = [_kafka(each, start) for each, start in starts.items()]
        if not places:
            return
        if self._cooperative:
            self.consumer.incremental_unassign(places)
            self.consumer.incremental_assign(places)
        else:
            self.consumer.assign(places)
        if self.paused:
            self.consumer.pause(places)

    def pause(self) -> None:
        """Fetch nothing, and stay in the group."""
        self.paused = True
        self.consumer.pause(self.consumer.assignment())

    def resume(self) -> None:
        """Fetch again."""
        self.paused = False
        self.consumer.resume(self.consumer.assignment())

    def committed(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, Committed]:
        """The group's offsets. Retriable."""
        try:
            found = self.consumer.committed([_kafka(each, None) for each in places], _TIMEOUT_SECONDS)
        except KafkaException as error:
            raise _commit_error(error.args[0]) from error
        made = {}
        for each in found:
            if each.error is not None:
                raise _commit_error(each.error)
            offset = each.offset if each.offset >= 0 else None
            made[TopicPartition(each.topic, each.partition)] = Committed(offset, each.metadata)
        return made

    def end(self, place: TopicPartition) -> int:
        """The offset behind a partition's last record. Retriable."""
        try:
            _, end = self.consumer.get_watermark_offsets(_kafka(place, None), _TIMEOUT_SECONDS)
        except KafkaException as error:
            raise Retriable(f"the end of {place.topic}-{place.partition}: {error.args[0].str()}") from error
        return int(end)

    def commit(self, offsets: Sequence[KafkaPartition]) -> None:
        """Commit, and wait for it. SessionLost, RebalanceUnderWay, Retriable."""
        until = time.monotonic() + _COMMIT_SECONDS
        while True:
            try:
                for each in self.consumer.commit(offsets=list(offsets), asynchronous=False):
                    if each.error is not None:
                        raise KafkaException(each.error)
                return
            except KafkaException as refused:
                raised = _commit_error(refused.args[0])
                if not isinstance(raised, Retriable) or time.monotonic() > until:
                    raise raised from refused
                time.sleep(0.1)

    def _on_assign(self, consumer: Consumer, given: Sequence[KafkaPartition]) -> None:
        self._rebalanced = True
        places = [TopicPartition(each.topic, each.partition) for each in given]
        starts: dict[TopicPartition, int | None] = {}
        try:
            starts = self._assigned(places) if places else {}
        except BaseException as failure:
            self._failure = failure
        wanted = [_kafka(each, starts.get(each)) for each in places]
        if self._cooperative:
            consumer.incremental_assign(wanted)
        else:
            consumer.assign(wanted)
        if self.paused or self._failure is not None:
            consumer.pause(wanted)

    def _on_revoke(self, consumer: Consumer, given: Sequence[KafkaPartition]) -> None:
        self._gone(consumer, given, False)

    def _on_lost(self, consumer: Consumer, given: Sequence[KafkaPartition]) -> None:
        self._gone(consumer, given, True)

    def _gone(self, consumer: Consumer, given: Sequence[KafkaPartition], lost: bool) -> None:
        self._rebalanced = True
        try:
            self._revoked([TopicPartition(each.topic, each.partition) for each in given], lost)
        except BaseException as failure:
            self._failure = failure
        if self._cooperative:
            consumer.incremental_unassign(list(given))
        else:
            consumer.unassign()

    def close(self) -> None:
        """Leave the group."""
        try:
            self.consumer.close()
        except (RuntimeError, KafkaException) as error:  # closed by another thread: the task was abandoned
            log.debug("a consumer that was closed before: %s", error)


def _kafka(place: TopicPartition, start: int | None) -> KafkaPartition:
    return KafkaPartition(place.topic, place.partition, OFFSET_BEGINNING if start is None else start)


def offset_of(place: TopicPartition, offset: int | None, metadata: str) -> KafkaPartition:
    """What to commit."""
    return KafkaPartition(
        place.topic, place.partition, OFFSET_INVALID if offset is None else offset, metadata
    )


def _judge(error: KafkaError) -> None:
    """What comes in place of a message: wait, or give up."""
    code = error.code()
    if code in _LOST:
        raise SessionLost(error.str())
    if code in _WAITING:
        return
    if error.fatal() or code in (
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError._AUTO_OFFSET_RESET,
        KafkaError.INVALID_GROUP_ID,
        KafkaError.INCONSISTENT_GROUP_PROTOCOL,
    ):
        raise ConnectError(f"the consumer cannot go on: {error.str()}")
    log.info("a consumer is told: %s", error.str())


def _commit_error(error: KafkaError) -> Exception:
    code = error.code()
    if code in _LOST:
        return SessionLost(error.str())
    if code == KafkaError.REBALANCE_IN_PROGRESS:
        return RebalanceUnderWay(error.str())
    sentence = f"the group's offsets cannot be read or committed: {error.str()}"
    if error.fatal() or code in (
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.OFFSET_METADATA_TOO_LARGE,
    ):
        return ConnectError(sentence)
    return Retriable(sentence)
