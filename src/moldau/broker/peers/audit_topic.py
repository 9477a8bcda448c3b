"""Audit events as JSON records of a topic (`moldau.audit.topic`).

    write -> queue -> one Produce at a time, acks=all -> the topic, made by the first broker that needs it

No request waits for it. While the topic cannot be written, and for what does not fit into the queue, events
go to the log instead: none is lost, and one that was written without an answer may be in both. The next event
after a pause tries the topic again.

Writing is this broker's own request, on its connection to the leader: there it is authorised like any
client's, so that brokers need WRITE on the topic (they usually are super users). That they may is no event
(security/audit.py), or each would make the next one.
"""

import json
import logging
from asyncio import Task
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from moldau.broker.metadata.image import Image
from moldau.broker.peers.peers import Peers
from moldau.broker.peers.round_trip import Machine
from moldau.broker.security.audit import Event, Sink
from moldau.common.core.logs import SayOnce
from moldau.common.protocol.errors import error_name
from moldau.common.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.common.records.builder import build_simple_batch

log = logging.getLogger("moldau.audit")

QUEUED_MAX = 5_000
EVENTS_A_BATCH = 500
TIMEOUT_MS = 10_000
PAUSE_MS = 5_000
_BY_NAME_MAX = 12  # the versions of Produce in which a topic is named


class NotWritten(Exception):
    """The topic could not be written; the message says why."""


class TopicSink:
    """Writes events to a topic, or to `fallback` while that does not work."""

    def __init__(
        self,
        topic: str,
        fallback: Sink,
        node_id: int,
        image: Callable[[], Image],
        host: Machine,
        peers: Peers,
        create_topic: Callable[[str], Awaitable[str | None]],
        run: Callable[[Coroutine[Any, Any, None]], Task[None]],
    ) -> None:
        """`create_topic(name)` gives None or why it failed; `run` starts a task."""
        self._topic = topic
        self._fallback = fallback
        self._node_id = node_id
        self._image = image
        self._host = host
        self._peers = peers
        self._create_topic = create_topic
        self._run = run
        self._queue: list[Event] = []
        self._under_way: list[Event] = []
        self._task: Task[None] | None = None
        self._paused_until_ms = 0.0
        self._say = SayOnce(log, now_ms=host.clock.monotonic_ms)

    def write(self, event: Event) -> None:
        """Take one event."""
        if len(self._queue) >= QUEUED_MAX or self._host.clock.monotonic_ms() < self._paused_until_ms:
            self._fallback.write(event)
            return
        self._queue.append(event)
        if self._task is None:
            self._task = self._run(self._drain())

    def stop(self) -> None:
        """End: what is not written yet goes to the log."""
        self._paused_until_ms = 1 << 62
        if self._task is not None:
            self._task.cancel()
        self._fall_back()

    async def _drain(self) -> None:
        try:
            while self._queue:
                self._under_way, self._queue = self._queue[:EVENTS_A_BATCH], self._queue[EVENTS_A_BATCH:]
                await self._produce(self._under_way)
                self._under_way = []
        except Exception as failure:  # whatever it is: the events must be written somewhere
            self._paused_until_ms = self._host.clock.monotonic_ms() + PAUSE_MS
            why = str(failure) or type(failure).__name__
            self._say.warning(
                "topic",
                "audit events cannot be written to the topic %s, and go to this log until they can: %s",
                self._topic,
                why,
            )
            self._fall_back()
        finally:
            self._task = None

    def _fall_back(self) -> None:
        events = [*self._under_way, *self._queue]
        self._under_way, self._queue = [], []
        for event in events:
            self._fallback.write(event)

    async def _produce(self, events: list[Event]) -> None:
        topic = self._image().topics.get(self._topic)
        if topic is None:
            problem = await self._create_topic(self._topic)
            topic = self._image().topics.get(self._topic)
            if topic is None:
                raise NotWritten(f"it could not be made: {problem or 'it is not known yet'}")
        index = self._node_id % len(topic.partitions)
        led = [number for number, state in enumerate(topic.partitions) if state.leader == self._node_id]
        index = led[0] if led else index
        leader = topic.partitions[index].leader
        if leader < 0:
            raise NotWritten(f"partition {index} has no leader")
        rows = [(None, json.dumps(event).encode()) for event in events]
        batch = build_simple_batch(rows, self._host.clock.now_ms())
        data = TopicProduceData(
            name=self._topic, partition_data=[PartitionProduceData(index=index, records=memoryview(batch))]
        )
        request = ProduceRequest(acks=-1, timeout_ms=TIMEOUT_MS, topic_data=[data])
        response = await self._peers.send(
            leader, request, timeout_ms=2 * TIMEOUT_MS, version_max=_BY_NAME_MAX
        )
        code = response.responses[0].partition_responses[0].error_code
        if code:
            raise NotWritten(f"Produce to partition {index} at broker {leader}: {error_name(code)}")
