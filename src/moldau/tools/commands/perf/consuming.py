"""Reads records as fast as one process can, and measures reading apart from joining the group."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import methodcaller
from typing import TYPE_CHECKING, Any

from moldau.tools.shared.errors import CommandError, explain_kafka_error

if TYPE_CHECKING:
    from confluent_kafka import Consumer

RECORDS_AT_ONCE = 1000
MIB = 1024 * 1024
_WAIT_SECONDS = 0.1
_key_of = methodcaller("key")

DEFAULTS: Mapping[str, Any] = {
    "auto.offset.reset": "earliest",
    # After its queue was full, librdkafka would not fetch for a whole second, however fast it is emptied.
    "fetch.queue.backoff.ms": 10,
}


@dataclass
class Read:
    """What was read, and the time of it: whole, and of it that spent in rebalances."""

    began: float
    ended: float
    records: int = 0
    bytes: int = 0
    rebalance_seconds: float = 0.0

    @property
    def seconds(self) -> float:
        """How long it took; never 0."""
        return max(self.ended - self.began, 1e-9)

    @property
    def fetch_seconds(self) -> float:
        """The time outside of rebalances; never 0."""
        return max(self.seconds - self.rebalance_seconds, 1e-9)

    @property
    def mib(self) -> float:
        """MiB of keys and values."""
        return self.bytes / MIB


@dataclass
class Wanted:
    """What to read: topics and how many records."""

    topics: Sequence[str]
    records: int
    patience_seconds: float = 10.0
    """Give up after so long without a record."""
    choose: Callable[[Consumer], Sequence[str]] | None = None
    """Finds out the topics, once the consumer is there."""


class ConsumerLoad:
    """One run. `report` gets the whole so far, and what it was at the last report, every `window_seconds`."""

    def __init__(
        self,
        wanted: Wanted,
        settings: Mapping[str, Any],
        report: Callable[[Read, Read], None] = lambda total, before: None,
        window_seconds: float = 5.0,
        connect: Callable[[dict[str, Any]], Consumer] | None = None,
        clock: Callable[[], float] = time.time,
        at_end: Callable[[Callable[[float], Any]], None] | None = None,
    ) -> None:
        """`at_end` is called with the client's `poll` before it is closed."""
        self._at_end = at_end
        self._wanted = wanted
        self._report = report
        self._window_seconds = window_seconds
        self._clock = clock
        self._consumer = (connect or _connect)({**DEFAULTS, **settings})
        self._rebalance_began: float | None = None
        self._total = Read(0.0, 0.0)

    def run(self) -> Read:
        """Read until there are enough, or nothing comes any more. CommandError, KafkaException."""
        now = self._clock()
        self._total = total = Read(now, now)
        self._rebalance_began = now
        choose = self._wanted.choose
        topics = list(self._wanted.topics if choose is None else choose(self._consumer))
        if topics:  # of a pattern that nothing matches, nothing comes
            self._consumer.subscribe(topics, on_assign=self._assigned, on_revoke=self._revoked)
        before, last_seconds = _copy(total), now
        try:
            while total.records < self._wanted.records:
                self._take(min(RECORDS_AT_ONCE, self._wanted.records - total.records))
                now = self._clock()
                if total.ended > last_seconds:
                    last_seconds = total.ended
                elif now - last_seconds > self._wanted.patience_seconds:
                    total.ended = now
                    break
                if total.records and now - before.ended >= self._window_seconds:
                    self._report(total, before)
                    before = _copy(total)
                    before.ended = now
            if self._at_end is not None:
                self._at_end(self._consumer.poll)
        finally:
            self._consumer.close()
        return total

    def _take(self, count: int) -> None:
        records = self._consumer.consume(count, _WAIT_SECONDS)
        if not records:
            return
        failed = [error for record in records if (error := record.error()) is not None]
        for error in failed:
            if not error.retriable() and error.name() != "_PARTITION_EOF":
                raise CommandError(explain_kafka_error(error))
        if failed:
            records = [record for record in records if record.error() is None]
        if records:
            total = self._total
            total.records += len(records)
            total.bytes += sum(map(len, records)) + sum(map(len, filter(None, map(_key_of, records))))
            total.ended = self._clock()

    def _assigned(self, consumer: Any, partitions: Any) -> None:
        if self._rebalance_began is not None:
            self._total.rebalance_seconds += self._clock() - self._rebalance_began
            self._rebalance_began = None

    def _revoked(self, consumer: Any, partitions: Any) -> None:
        self._rebalance_began = self._clock()


def _copy(read: Read) -> Read:
    return Read(read.began, read.ended, read.records, read.bytes, read.rebalance_seconds)


def _connect(settings: dict[str, Any]) -> Consumer:
    from confluent_kafka import Consumer as ConfluentConsumer

    return ConfluentConsumer(settings)
