"""A compacted topic that a worker reads from its beginning on, writes to, and can read to its end.

    records ──> thread: replay(key, value, partition, offset), in order
                                  read_to_end() returns when all that was there when it was called is replayed

The end counts control records too, of which a reader is told nothing but "the end is at offset N": positions
come from there as well. With `read_committed`, an open transaction holds the end back, and no reader waits
for it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from threading import Condition, Event, Lock, Thread
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from moldau.client.cluster import Cluster
from moldau.client.errors import ClientError
from moldau.client.librdkafka_settings import client_settings, create

log = logging.getLogger("moldau.connect.stores.log")

Replay = Callable[[bytes | None, bytes | None, int, int], None]
"""Key, value, partition, offset."""
_POLL_SECONDS = 0.5
_RECORDS_AT_ONCE = 1000
_EARLIEST, _LATEST = -2, -1
_DENIED_AGAIN_SECONDS = 5.0
_LASTING_SECONDS = 60.0
_FENCED = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)
_TOO_LARGE = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE)


class LogFailed(Exception):
    """The topic cannot be read or written; the message says which and why."""


class NotWritten(LogFailed):
    """A record was not written; `fenced`: another producer with the same transactional id has taken over;
    `too_large`: it never will be, as long as it is that long."""

    def __init__(self, message: str, *, fenced: bool = False, too_large: bool = False) -> None:
        super().__init__(message)
        self.fenced, self.too_large = fenced, too_large


class KafkaLog:
    """One topic, all of its partitions."""

    def __init__(
        self,
        topic: str,
        clients: Callable[[str], Mapping[str, str]],
        connect: Callable[[], Cluster],
        replay: Replay,
        *,
        client_id: str,
        committed_only: bool = True,
        wait_ms: int = 500,
    ) -> None:
        """`clients`: a client's settings under Kafka's names, by kind (consumer, producer); `connect` makes a
        client that is asked for the topic's end; `wait_ms`: a control record at the end is known of so long
        after it, at most, for the client tells of it with the empty answer that follows."""
        self._wait_ms = wait_ms
        self.topic = topic
        self._asking, self._asking_lock = connect(), Lock()
        self._clients, self._replay, self._client_id = clients, replay, client_id
        self._committed_only = committed_only
        self._moved = Condition()
        self._positions: dict[int, int] = {}
        self._stopping = Event()
        self._consumer: Consumer | None = None
        self._producer: Producer | None = None
        self._thread = Thread(target=self._run, name=f"connect-{topic}", daemon=True)
        self.failure: str | None = None
        """Why the topic is not read any more."""
        self.trouble: str | None = None
        """What kept the last poll from reading, while it lasts."""
        self._trouble_since = 0.0
        self._is_denied = False
        """The worker may not read the topic; asked again from time to time, for rights may come back."""

    @property
    def lasting_trouble(self) -> str:
        """What has kept the topic from being read for long, or may for long; empty: nothing."""
        why = self.failure or self.trouble
        if why is None:
            return ""
        lasted = time.monotonic() - self._trouble_since > _LASTING_SECONDS
        is_lasting = self.failure is not None or self._is_denied or lasted
        return f"the topic {self.topic} cannot be read: {why}" if is_lasting else ""

    def start(self, timeout_seconds: float) -> None:
        """Begin to read, and return when all that is there has been read. LogFailed."""
        own = {
            "client.id": f"{self._client_id}-reader",
            "group.id": f"{self._client_id}-reader",
            "isolation.level": "read_committed" if self._committed_only else "read_uncommitted",
            "fetch.wait.max.ms": self._wait_ms,
            "queued.max.messages.kbytes": 16 * 1024,
        }
        settings = {
            **client_settings(self._clients("consumer"), own),
            "group.id": own["group.id"],
            "isolation.level": own["isolation.level"],
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "log_level": 3,
        }
        self._consumer = create(Consumer, settings)
        partitions = self._known_partitions(timeout_seconds)
        self._positions = dict.fromkeys(partitions, 0)
        self._consumer.assign([TopicPartition(self.topic, each, _EARLIEST) for each in partitions])
        self._thread.start()
        self._producer = self.producer()  # now, so that the first write does not wait for its id
        self.read_to_end(timeout_seconds)

    def _known_partitions(self, timeout_seconds: float) -> Sequence[int]:
        assert self._consumer is not None
        deadline = time.monotonic() + timeout_seconds
        while True:
            try:
                found = self._consumer.list_topics(self.topic, timeout=min(10.0, timeout_seconds)).topics[
                    self.topic
                ]
                if found.error is None and found.partitions:
                    return sorted(found.partitions)
                why = "it has no partitions" if found.error is None else found.error.str()
            except KafkaException as problem:
                why = problem.args[0].str()
            if time.monotonic() > deadline:
                raise LogFailed(f"the topic {self.topic} cannot be read: {why}")
            time.sleep(0.1)

    def close(self) -> None:
        """End reading and writing."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(10)
        with self._moved:
            self.failure = self.failure or "the worker stops"
            self._moved.notify_all()
        if self._producer is not None:
            self._producer.flush(5)
            self._producer = None
        if self._consumer is not None:
            self._consumer.close()
        with self._asking_lock:
            self._asking.close()

    def read_to_end(self, timeout_seconds: float) -> None:
        """Return when everything that is there now has been replayed. LogFailed, TimeoutError."""
        deadline = time.monotonic() + timeout_seconds
        ends = self._ends(timeout_seconds)
        with self._moved:
            while any(self._positions[each] < end for each, end in ends.items()):
                self._check()
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TimeoutError(
                        f"the topic {self.topic} was not read to its end: {self.trouble or 'no answer'}"
                    )
                self._moved.wait(left)

    def read_past(self, partition: int, offset: int, timeout_seconds: float) -> None:
        """Return when the record there has been replayed. LogFailed, TimeoutError."""
        with self._moved:
            self._check()
            done = self._moved.wait_for(
                lambda: self._positions[partition] > offset or self._is_denied or self.failure is not None,
                timeout_seconds,
            )
            self._check()
        if not done:
            raise TimeoutError(
                f"what was written to {self.topic} was not read back: {self.trouble or 'no answer'}"
            )

    def _ends(self, timeout_seconds: float) -> dict[int, int]:
        """LogFailed, TimeoutError: also where others ask, and wait."""
        deadline = time.monotonic() + timeout_seconds
        if not self._asking_lock.acquire(timeout=max(timeout_seconds, 0)):
            raise TimeoutError(f"the end of {self.topic} is not known: {self.trouble or 'no answer'}")
        try:
            with self._within(max(deadline - time.monotonic(), 0.1)):
                places = {(self.topic, each): _LATEST for each in self._positions}
                ends = self._asking.offsets(places, read_committed=self._committed_only)
                if any(ends.values()):
                    places = dict.fromkeys(places, _EARLIEST)
                    starts = self._asking.offsets(places, read_committed=self._committed_only)
                    return {at[1]: end for at, end in ends.items() if end > starts[at]}
                return {}
        except (ClientError, OSError) as problem:
            raise LogFailed(f"the end of {self.topic} is not known: {problem}") from None
        finally:
            self._asking_lock.release()

    @contextmanager
    def _within(self, seconds: float) -> Iterator[None]:
        """A client repeats a question for minutes, and the worker's loop waits for the answer. (One attempt
        may take longer than this: as long as a request may.)"""
        patient = self._asking.options
        limit = min(patient.api_timeout_seconds, seconds)
        self._asking.options = replace(patient, api_timeout_seconds=limit)
        try:
            yield
        finally:
            self._asking.options = patient

    def _check(self) -> None:
        why = self.failure or (self.trouble if self._is_denied else None)
        if why is not None:
            raise LogFailed(f"the topic {self.topic} is not read: {why}")

    # The reading thread

    def _run(self) -> None:
        assert self._consumer is not None
        ask_again_at = 0.0
        while not self._stopping.is_set():
            try:
                # `consume` waits for as many as it is asked for: the first one is polled for alone.
                first = self._consumer.poll(_POLL_SECONDS)
                if first is not None:
                    self._take(first)
                    for message in self._consumer.consume(_RECORDS_AT_ONCE, 0):
                        self._take(message)
                if self._is_denied and time.monotonic() > ask_again_at:
                    ask_again_at = time.monotonic() + _DENIED_AGAIN_SECONDS
                    self._read_from_positions()
            except Exception as problem:
                log.exception("the topic %s is not read any more", self.topic)
                with self._moved:
                    self.failure = str(problem) or type(problem).__name__
                    self._moved.notify_all()
                return

    def _take(self, message: Message) -> None:
        error = message.error()
        partition, offset = message.partition(), message.offset()
        if error is None:
            assert partition is not None
            assert offset is not None
            key, value = message.key(), message.value()
            self._replay(_bytes(key), _bytes(value), partition, offset)
            self._at(partition, offset + 1)
        elif error.code() == KafkaError._PARTITION_EOF:
            assert partition is not None
            assert offset is not None
            self._at(partition, offset)
        elif error.fatal():
            raise LogFailed(error.str())
        else:
            with self._moved:
                if self.trouble is None:
                    log.warning("the topic %s cannot be read at the moment: %s", self.topic, error.str())
                    self._trouble_since = time.monotonic()
                self.trouble = error.str()
                self._is_denied = error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
                self._moved.notify_all()

    def _read_from_positions(self) -> None:
        """Whoever may not read is told so once. Asked anew, the client says it again, or that the end was
        reached."""
        assert self._consumer is not None
        self._consumer.assign([TopicPartition(self.topic, each, at) for each, at in self._positions.items()])

    def _at(self, partition: int, position: int) -> None:
        with self._moved:
            self.trouble, self._is_denied = None, False
            self._positions[partition] = max(position, self._positions[partition])
            self._moved.notify_all()

    # Writing

    def producer(self, **settings: Any) -> Producer:
        """A producer for this topic; settings with `_` for `.`."""
        own = {"client.id": f"{self._client_id}-writer", "linger.ms": 0}
        return create(
            Producer,
            {
                **client_settings(self._clients("producer"), own),
                "partitioner": "murmur2_random",
                "enable.idempotence": True,
                "acks": "all",
                "log_level": 3,
                **{name.replace("_", "."): value for name, value in settings.items()},
            },
        )

    def send(self, records: Iterable[tuple[str | bytes, bytes | None]], timeout_seconds: float) -> int:
        """Write records in order, and return when all are; the last one's offset. NotWritten."""
        if self._producer is None:
            self._producer = self.producer()
        return deliver(self._producer, self.topic, records, timeout_seconds)

    def send_soon(self, key: str | bytes, value: bytes | None) -> None:
        """Write a record without waiting; a failure is logged. The client repeats what may succeed later."""
        if self._producer is None:
            self._producer = self.producer()

        def told(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                log.error("a record was not written to %s: %s", self.topic, error.str())

        try:
            self._producer.produce(self.topic, value, key, on_delivery=told)
            self._producer.poll(0)
        except BufferError:
            log.error("a record was not written to %s: too many wait", self.topic)


def deliver(
    producer: Producer,
    topic: str,
    records: Iterable[tuple[str | bytes, bytes | None]],
    timeout_seconds: float,
) -> int:
    """Write records in order, and return when all are there; the greatest of their offsets, -1 where none is
    known. NotWritten: one is not, or nobody knows."""
    left, last = 0, -1
    failed: list[KafkaError] = []

    def told(error: KafkaError | None, message: Message) -> None:
        nonlocal left, last
        left -= 1
        last = max(last, message.offset() or -1)
        if error is not None:
            failed.append(error)

    for key, value in records:
        left += 1
        try:
            producer.produce(topic, value, key, on_delivery=told)
        except KafkaException as problem:
            raise _not_written(topic, problem.args[0]) from None
    deadline = time.monotonic() + timeout_seconds
    while left > 0 and time.monotonic() < deadline:
        producer.poll(0.05)
    if failed:
        raise _not_written(topic, failed[0])
    if left > 0:
        raise NotWritten(f"{topic} was not written within {timeout_seconds:g} seconds")
    return last


def _not_written(topic: str, error: KafkaError) -> NotWritten:
    if error.code() in _TOO_LARGE:
        return NotWritten(
            f"a record for {topic} is larger than the producer or the topic takes: make the settings "
            f"shorter, or raise producer.max.request.size of the workers and max.message.bytes of {topic}",
            too_large=True,
        )
    return NotWritten(f"{topic} was not written: {error.str()}", fenced=error.code() in _FENCED)


def _bytes(value: Any) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
