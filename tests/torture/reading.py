"""What a read_committed consumer sees: afterwards from the beginning, and all the while as a witness.

The witness reads from the first record to the last, through every restart. A broker that shows a record and
later takes it back, or shows one later that belongs before what was read already, differs from what is read
afterwards.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from torture.load import QUICK_RECONNECT

Place = tuple[str, int]


class Seen(NamedTuple):
    """One record as a consumer got it."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


class Witness:
    """A consumer of its own thread that reads all partitions until it has reached their ends."""

    def __init__(self, address: str, topics: Mapping[str, int]) -> None:
        self.seen: list[Seen] = []
        self.counts: Counter[str] = Counter()
        self._reached: dict[Place, int] = {}
        self._places = [(topic, number) for topic, count in topics.items() for number in range(count)]
        self._address = address
        self._ends: dict[Place, int] | None = None
        self._deadline = float("inf")
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def finish(self, ends: Mapping[Place, int], timeout_s: float = 30.0) -> list[Seen]:
        """All it has seen up to these ends (high watermarks, when nothing is open any more)."""
        self._deadline = time.monotonic() + timeout_s
        self._ends = dict(ends)
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        return self.seen

    def _run(self) -> None:
        config: dict[str, Any] = {
            **QUICK_RECONNECT,
            "bootstrap.servers": self._address,
            "group.id": "torture-witness",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            # An offset that is there no more is a lost record; nothing may be skipped silently.
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 50,
            "fetch.error.backoff.ms": 20,
        }
        consumer = Consumer(config)
        try:
            consumer.assign([TopicPartition(topic, number, 0) for topic, number in self._places])
            while not self._done():
                self._take(consumer.consume(1000, 0.05))
        except Exception as error:
            self._failure = error
        finally:
            consumer.close()

    def _take(self, messages: list[Any]) -> None:
        for one in messages:
            error = one.error()
            if error is None:
                self.seen.append(Seen(one.topic(), one.partition(), one.offset(), one.key(), one.value()))
                self.counts[one.topic()] += 1
            elif error.code() == KafkaError._PARTITION_EOF:
                self._reached[one.topic(), one.partition()] = one.offset()
            elif error.code() == KafkaError._AUTO_OFFSET_RESET or not _passes(error):
                raise KafkaException(error)

    def _done(self) -> bool:
        if self._ends is None:
            return False
        missing = {
            place: (self._reached.get(place, 0), end)
            for place, end in self._ends.items()
            if self._reached.get(place, 0) < end
        }
        if missing and time.monotonic() > self._deadline:
            raise TimeoutError(f"a read_committed consumer does not reach the end: {missing}")
        return not missing


def read_committed(address: str, topics: Mapping[str, int], ends: Mapping[Place, int]) -> list[Seen]:
    """Everything that is committed, from the beginning."""
    return Witness(address, topics).finish(ends)


def by_place(seen: list[Seen]) -> dict[Place, list[Seen]]:
    """The records of each partition in the order in which they came."""
    found: dict[Place, list[Seen]] = {}
    for one in seen:
        found.setdefault((one.topic, one.partition), []).append(one)
    return found


def _passes(error: KafkaError) -> bool:
    """Whether time heals it: a broker that is away, or that has not opened its partitions yet."""
    return error.retriable() or error.code() in (
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError._RESOLVE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
    )
