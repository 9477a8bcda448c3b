"""aiokafka as a client under test: its event loop runs in a thread, and the scenario stays ordinary code."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError
from client_members import PollingMember
from client_model import CODECS, Member, Message, Place, Received


class AiokafkaClient:
    name = "aiokafka"
    codecs = CODECS

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Any], timeout_s: float = 30.0) -> Any:
        """Run a coroutine on the client's loop and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout_s)

    def produce(self, topic: str, messages: Sequence[Message], codec: str = "none", **config: Any) -> None:
        self.run(self._produce(topic, messages, codec, config))

    async def _produce(
        self, topic: str, messages: Sequence[Message], codec: str, config: Mapping[str, Any]
    ) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=self.bootstrap,
            compression_type=None if codec == "none" else codec,
            linger_ms=20,
            max_request_size=5_000_000,
            acks="all",
            **config,
        )
        await producer.start()
        try:
            sent = [
                await producer.send(
                    topic,
                    key=one.key,
                    value=one.value,
                    headers=list(one.headers),
                    partition=one.partition,
                    timestamp_ms=one.timestamp_ms,
                )
                for one in messages
            ]
            await asyncio.gather(*sent)
        finally:
            await producer.stop()

    def read(self, counts: Mapping[str, int]) -> dict[str, list[Received]]:
        return self.run(self._read(counts))  # type: ignore[no-any-return]

    async def _read(self, counts: Mapping[str, int]) -> dict[str, list[Received]]:
        consumer = AIOKafkaConsumer(bootstrap_servers=self.bootstrap, fetch_max_wait_ms=100)
        await consumer.start()
        try:
            await consumer._client.set_topics(list(counts))
            places = [TopicPartition(t, p) for t in counts for p in sorted(consumer.partitions_for_topic(t))]
            consumer.assign(places)
            await consumer.seek_to_beginning(*places)
            found: dict[str, list[Received]] = {topic: [] for topic in counts}
            deadline = time.monotonic() + 20
            while time.monotonic() < deadline and sum(map(len, found.values())) < sum(counts.values()):
                for one in _flat(await consumer.getmany(timeout_ms=200)):
                    found[one.topic].append(one)
            return found
        finally:
            await consumer.stop()

    def open_member(self, group: str, topics: Sequence[str], **config: Any) -> Member:
        async def start() -> AIOKafkaConsumer:
            consumer = AIOKafkaConsumer(
                *topics,
                bootstrap_servers=self.bootstrap,
                group_id=group,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                heartbeat_interval_ms=300,
                session_timeout_ms=6000,
                fetch_max_wait_ms=100,
                metadata_max_age_ms=1000,
                **config,
            )
            await consumer.start()
            return consumer

        async def poll(consumer: AIOKafkaConsumer) -> list[Received]:
            records = _flat(await consumer.getmany(timeout_ms=50))
            if records:
                with contextlib.suppress(KafkaError):  # rebalanced away: the next owner reads and commits
                    await consumer.commit()
            return records

        consumer = self.run(start())

        def step() -> tuple[list[Received], set[Place]]:
            return self.run(poll(consumer)), {(one.topic, one.partition) for one in consumer.assignment()}

        return PollingMember(step, lambda: self.run(consumer.stop()))

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)


def _flat(polled: Mapping[TopicPartition, Sequence[Any]]) -> list[Received]:
    return [
        Received(one.topic, one.partition, one.offset, one.key, one.value, tuple(one.headers), one.timestamp)
        for records in polled.values()
        for one in records
    ]
