"""How many partitions a topic has, asked before records are written to it.

Without that, records for a topic that does not exist would wait in the producer until they time out. The
question creates the topic where the brokers allow that (`auto.create.topics.enable`): Kafka first answers
that it is unknown, and knows it a moment later, so it is asked again for some seconds.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import monotonic

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import TopicMetadata

from moldau.client.admin.problem import KafkaProblem
from moldau.common.core.backoff import pauses
from moldau.common.protocol.errors import ErrorCode
from moldau.services.kafka.librdkafka_errors import problem_in, problem_of

_THREADS = 4
_WAITING_MAX = 1_000
_TOPICS_MAX = 10_000
_FRESH_SECONDS = 300.0
_CHECK_AGAIN_SECONDS = 1.0
_REQUEST_SECONDS = 10.0
_CREATION_SECONDS = 3.0
_FIRST_PAUSE_SECONDS = 0.05
_IN_CREATION = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE)


class TopicSizes:
    """Partition counts by topic, kept for some minutes; each topic is asked for once at a time."""

    def __init__(self, producer: Callable[[], Producer]) -> None:
        self._producer = producer
        self._known: dict[str, tuple[int, float]] = {}
        self._asking: dict[str, asyncio.Task[int]] = {}
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="rest-topics")

    async def partitions(self, topic: str, *, newer: bool = False) -> int:
        """The count; `newer`: no older than a second. KafkaProblem: unknown, not allowed, not reached."""
        if "\0" in topic:
            raise KafkaProblem(
                int(ErrorCode.INVALID_TOPIC_EXCEPTION), "The topic's name has a NUL character."
            )
        known = self._known.get(topic)
        fresh_seconds = _CHECK_AGAIN_SECONDS if newer else _FRESH_SECONDS
        if known is not None and monotonic() - known[1] < fresh_seconds:
            return known[0]
        task = self._asking.get(topic)
        if task is None:
            if len(self._asking) >= _WAITING_MAX:
                raise KafkaProblem(
                    int(ErrorCode.REQUEST_TIMED_OUT), "Too many requests wait for the cluster."
                )
            task = self._asking[topic] = asyncio.ensure_future(self._ask(topic))
            task.add_done_callback(partial(self._asked, topic))
        return await asyncio.shield(task)

    def _asked(self, topic: str, task: asyncio.Task[int]) -> None:
        self._asking.pop(topic, None)
        if not task.cancelled():
            task.exception()  # whoever asked has it, or went away

    def forget(self, topic: str) -> None:
        """Ask again next time."""
        self._known.pop(topic, None)

    async def _ask(self, topic: str) -> int:
        loop = asyncio.get_running_loop()
        between = pauses(_FIRST_PAUSE_SECONDS, _CREATION_SECONDS, random.random)
        ends = monotonic() + _CREATION_SECONDS
        while True:
            found = await loop.run_in_executor(self._pool, self._look, topic)
            if found.error is None:
                break
            if found.error.code() not in _IN_CREATION or monotonic() > ends:
                raise problem_of(found.error)
            await asyncio.sleep(next(between))
        if len(self._known) >= _TOPICS_MAX:
            self._known.pop(next(iter(self._known)))
        self._known[topic] = (len(found.partitions), monotonic())
        return len(found.partitions)

    def _look(self, topic: str) -> TopicMetadata:
        """Runs in a thread."""
        try:
            found: TopicMetadata = self._producer().list_topics(topic, _REQUEST_SECONDS).topics[topic]
        except KafkaException as failed:
            raise problem_in(failed) from None
        return found

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(wait=False, cancel_futures=True)
