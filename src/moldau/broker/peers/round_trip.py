"""`RoundTrips`: this broker writes a record through its own listener from time to time, and reads it back.

Every other health condition looks at one part. This one asks the whole: listener, append, replication,
commit, read. Off unless moldau.health.round.trip.interval.ms is set, since it writes.

    topic __moldau_health   made by the first broker that needs it, with a partition for each broker
    partition               the first that this broker leads; if there is none, that of its node id modulo
                            their count, at its leader
    Produce acks=all        16 random bytes; a Fetch from the record's offset must give the same

Not here: what failures mean for the verdict (monitor/round_trip_probe.py).
"""

import random
from asyncio import Task
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from moldau.broker.metadata.image import Image, PartitionState
from moldau.broker.peers.peers import Peers
from moldau.common.core.clock import Clock
from moldau.common.core.timers import TimerHandle, Timers
from moldau.common.protocol.errors import error_name
from moldau.common.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.common.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.common.records.batch import CorruptBatch, iter_batches
from moldau.common.records.builder import build_simple_batch

TOPIC = "__moldau_health"
TIMEOUT_MS = 10_000
_BY_NAME_MAX = 12  # the versions of Produce and Fetch in which a topic is named
_NONCE_BYTES = 16
_FETCH_BYTES = 64 * 1024
_JITTER = 0.1


class RoundTripFailed(Exception):
    """The record was not written or not read; the message says at which step."""


@dataclass(slots=True)
class RoundTripCounts:
    """What monitoring shows. Times in milliseconds; `last_ms` is None before the first one succeeded."""

    done: int = 0
    failed: int = 0
    failed_in_a_row: int = 0
    last_ms: float | None = None
    problem: str = ""


class Machine(Protocol):
    """What is needed of the machine (moldau/broker/host.py)."""

    @property
    def clock(self) -> Clock: ...
    @property
    def timers(self) -> Timers: ...
    @property
    def random(self) -> random.Random: ...


class RoundTrips:
    """Makes a round trip every `interval_ms`, one at a time, until `stop`."""

    def __init__(
        self,
        node_id: int,
        image: Callable[[], Image],
        host: Machine,
        peers: Peers,
        create_topic: Callable[[str, int], Awaitable[str | None]],
        run: Callable[[Coroutine[Any, Any, None]], Task[None]],
        interval_ms: int,
    ) -> None:
        """`create_topic(name, partition_count)` gives None or why it failed; `run` starts a task."""
        self.counts = RoundTripCounts()
        self._node_id = node_id
        self._image = image
        self._host = host
        self._peers = peers
        self._create_topic = create_topic
        self._run = run
        self._interval_ms = interval_ms
        self._timer: TimerHandle | None = None
        self._task: Task[None] | None = None

    def start(self) -> None:
        """Make the first one after an interval."""
        # Brokers that were started together do not probe together for ever.
        delay_ms = self._interval_ms * (1 + _JITTER * (2 * self._host.random.random() - 1))
        self._timer = self._host.timers.call_later(delay_ms, self._begin)

    def stop(self) -> None:
        """End; one that is under way is called off."""
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def _begin(self) -> None:
        self._task = self._run(self._once())

    async def _once(self) -> None:
        counts, clock = self.counts, self._host.clock
        began_ms = clock.monotonic_ms()
        try:
            await self._trip()
        except Exception as failure:  # whatever it is: the next round trip must be tried
            counts.failed += 1
            counts.failed_in_a_row += 1
            counts.problem = str(failure) or type(failure).__name__
        else:
            counts.done += 1
            counts.failed_in_a_row = 0
            counts.last_ms = clock.monotonic_ms() - began_ms
        self.start()

    async def _trip(self) -> None:
        if TOPIC not in self._image().topics:
            live = sum(not each.fenced for each in self._image().brokers.values())
            problem = await self._create_topic(TOPIC, max(live, 1))
            if problem is not None:
                raise RoundTripFailed(f"the topic {TOPIC} could not be made: {problem}")
        topic = self._image().topics.get(TOPIC)
        if topic is None:
            raise RoundTripFailed(f"the topic {TOPIC} was made, and this broker does not know it yet")
        index, leader = self._choose(topic.partitions)
        nonce = self._host.random.randbytes(_NONCE_BYTES)
        offset = await self._write(index, leader, nonce)
        await self._read(index, leader, offset, nonce)

    def _choose(self, partitions: Sequence[PartitionState]) -> tuple[int, int]:
        """A partition and its leader."""
        for index, partition in enumerate(partitions):
            if partition.leader == self._node_id:
                return index, self._node_id
        index = self._node_id % len(partitions)
        leader = partitions[index].leader
        if leader < 0:
            raise RoundTripFailed(f"{TOPIC}-{index} has no leader")
        return index, leader

    async def _write(self, index: int, leader: int, nonce: bytes) -> int:
        """Returns the record's offset."""
        batch = build_simple_batch([(None, nonce)], self._host.clock.now_ms())
        data = TopicProduceData(
            name=TOPIC, partition_data=[PartitionProduceData(index=index, records=memoryview(batch))]
        )
        request = ProduceRequest(acks=-1, timeout_ms=TIMEOUT_MS, topic_data=[data])
        response = await self._peers.send(
            leader, request, timeout_ms=2 * TIMEOUT_MS, version_max=_BY_NAME_MAX
        )
        answer = response.responses[0].partition_responses[0]
        if answer.error_code:
            raise RoundTripFailed(
                f"Produce to {TOPIC}-{index} at broker {leader}: {error_name(answer.error_code)}"
            )
        return int(answer.base_offset)

    async def _read(self, index: int, leader: int, offset: int, nonce: bytes) -> None:
        """What was acknowledged is committed, so one Fetch must give it."""
        asked = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=_FETCH_BYTES)
        request = FetchRequest(
            max_wait_ms=TIMEOUT_MS,
            min_bytes=1,
            max_bytes=_FETCH_BYTES,
            topics=[FetchTopic(topic=TOPIC, partitions=[asked])],
        )
        response = await self._peers.send(
            leader, request, timeout_ms=2 * TIMEOUT_MS, version_max=_BY_NAME_MAX
        )
        where = f"Fetch from {TOPIC}-{index} at broker {leader}"
        if response.error_code:
            raise RoundTripFailed(f"{where}: {error_name(response.error_code)}")
        answer = response.responses[0].partitions[0]
        if answer.error_code:
            raise RoundTripFailed(f"{where}: {error_name(answer.error_code)}")
        try:
            found = _value_at(answer.records or b"", offset)
        except (CorruptBatch, ValueError) as damage:
            raise RoundTripFailed(f"{where}: offset {offset} is damaged ({damage})") from None
        if found != nonce:
            raise RoundTripFailed(f"{where}: offset {offset} is not the record that was acknowledged there")


def _value_at(records: bytes | memoryview, offset: int) -> bytes | None:
    """The value of the record at this offset; None if it is not among these batches."""
    for batch in iter_batches(records, allow_partial_tail=True):
        for record in batch.records():
            if record.offset == offset:
                return record.value
    return None
