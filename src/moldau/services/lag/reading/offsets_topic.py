"""Follows `__consumer_offsets`: every commit, at the coordinator's own time, without asking any group.

Needs READ on the topic. Commits inside open transactions are not seen before they are committed.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from moldau.client.librdkafka_settings import client_settings, create
from moldau.services.lag.reading.commits import committed
from moldau.services.lag.store import ClusterStore

log = logging.getLogger("moldau.lag")

OFFSETS_TOPIC = "__consumer_offsets"
_RECORDS_AT_ONCE = 2000
_POLL_SECONDS = 0.5
_ASK_SECONDS = 10.0
_EARLIEST, _LATEST = -2, -1


class CannotRead(Exception):
    """The topic cannot be read; the message says why."""


class OffsetsTopic:
    """A thread that hands the topic's commits to the store."""

    def __init__(
        self,
        store: ClusterStore,
        servers: str,
        settings: Mapping[str, str],
        *,
        topic: str = OFFSETS_TOPIC,
        start_latest: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store, self._topic, self._clock = store, topic, clock
        own: dict[str, Any] = {
            "bootstrap.servers": servers,
            "group.id": f"moldau-lag-{store.name}",  # wanted by the library; nothing is committed
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "queued.max.messages.kbytes": 8 * 1024,
            "log_level": 3,
        }
        self._consumer = create(Consumer, {**client_settings(settings, own), "group.id": own["group.id"]})
        self._start = _LATEST if start_latest else _EARLIEST
        self._stopping = threading.Event()
        self._behind: set[int] = set()
        self.trouble: str | None = None
        """Why nothing is read at the moment."""
        self._thread = threading.Thread(target=self._run, name=f"lag-offsets-{store.name}", daemon=True)

    @property
    def is_current(self) -> bool:
        """Whether all that was in the topic at the start has been read."""
        return not self._behind

    def start(self) -> None:
        """Begin to read. CannotRead: there is no such topic yet, or no right to read it."""
        try:
            found = self._consumer.list_topics(self._topic, timeout=_ASK_SECONDS).topics[self._topic]
            if found.error is not None:
                raise CannotRead(f"{self._topic}: {found.error.str()}")
            partitions = sorted(found.partitions)
            if not partitions:
                raise CannotRead(f"{self._topic} has no partition yet")
            place = TopicPartition(self._topic, partitions[0])
            self._consumer.get_watermark_offsets(place, timeout=_ASK_SECONDS)  # READ or DESCRIBE
        except KafkaException as problem:
            raise CannotRead(f"{self._topic}: {problem.args[0].str()}") from None
        self._behind = set(partitions)
        self._consumer.assign([TopicPartition(self._topic, each, self._start) for each in partitions])
        self._thread.start()

    def stop(self) -> None:
        """End reading."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(10)
        self._consumer.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                messages = self._consumer.consume(_RECORDS_AT_ONCE, _POLL_SECONDS)
            except KafkaException as problem:
                self._note(problem.args[0].str())
                self._stopping.wait(_POLL_SECONDS)
                continue
            now_ms = int(self._clock() * 1000)
            for message in messages:
                error = message.error()
                if error is None:
                    self._take(message, now_ms)
                elif error.code() == KafkaError._PARTITION_EOF:
                    self._behind.discard(message.partition())
                    self.trouble = None
                else:
                    self._note(error.str())

    def _take(self, message: Any, now_ms: int) -> None:
        self.trouble = None
        commit = committed(message.key(), message.value())
        if commit is None:
            return
        place = (commit.topic, commit.partition)
        if commit.offset is None:
            self._store.forget_commit(commit.group, place)
        else:
            self._store.commit(commit.group, place, commit.offset, commit.timestamp_ms, now_ms)

    def _note(self, trouble: str) -> None:
        if self.trouble is None:
            log.warning("cluster %s: %s cannot be read: %s", self._store.name, self._topic, trouble)
        self.trouble = trouble
