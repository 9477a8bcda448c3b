"""The share coordinators of the cluster, as group coordinators and leaders of partitions see them.

    ask(call) ──┬── the key's coordinator is here ──> ShareCoordinator
                └── elsewhere ──> the API's request, with this one share-partition

The coordinator of a share-partition is the leader of its key's partition of `__share_group_state`, which is
made by the first call. A call that got no answer is `NETWORK_EXCEPTION`: whether it was carried out is
unknown, and it may be made again, because all of them say what is to be. `until_done` does so while that can
help.

Not here: what the calls mean (shard.py), the receiving end.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from moldau.broker.coordinator.share.service import ShareCoordinator, key_text
from moldau.broker.coordinator.share.shard import Outcome, Write
from moldau.broker.coordinator.share.state import Key, ShareState, StateBatch
from moldau.broker.metadata.image import SHARE_STATE_TOPIC, Image
from moldau.broker.metadata.leaders import leading_broker
from moldau.broker.peers.peers import PeerError, Peers
from moldau.common.core.waiting import Answer, settled
from moldau.common.protocol.declare import Message
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages import delete_share_group_state as delete_messages
from moldau.common.protocol.messages import initialize_share_group_state as initialize_messages
from moldau.common.protocol.messages import read_share_group_state as read_messages
from moldau.common.protocol.messages import read_share_group_state_summary as summary_messages
from moldau.common.protocol.messages import write_share_group_state as write_messages

REQUEST_TIMEOUT_MS = 10_000
RETRY_PAUSES_MS = (50, 100, 200, 400, 800)
RETRIED = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
"""Errors after which the same call may succeed soon."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call: how the coordinator here takes it, the request for another one, and what its answer says."""

    key: Key
    here: Callable[[ShareCoordinator], Answer[Outcome]]
    request: Callable[[], Message]
    outcome: Callable[[Any], Outcome] = lambda row: Outcome(row.error_code)


class ShareStates:
    """See the module."""

    def __init__(
        self,
        node_id: int,
        image: Callable[[], Image],
        coordinator: Callable[[], ShareCoordinator],
        peers: Peers | None,
        ensure_topic: Callable[[], Awaitable[object]],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        """`ensure_topic` makes `__share_group_state` if it is missing; `sleep` waits so many milliseconds.
        Peers None: there is no other broker."""
        self._node_id = node_id
        self._image = image
        self._coordinator = coordinator
        self._peers = peers
        self._ensure_topic = ensure_topic
        self._sleep = sleep

    async def ask(self, call: Call) -> Outcome:
        """Make a call once."""
        image = self._image()
        if SHARE_STATE_TOPIC not in image.topics:
            await self._ensure_topic()
            image = self._image()
            if SHARE_STATE_TOPIC not in image.topics:
                return Outcome(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        coordinator = self._coordinator()
        leader = leading_broker(image, SHARE_STATE_TOPIC, coordinator.partition_for(key_text(call.key)))
        if leader is None:
            return Outcome(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if leader.node_id == self._node_id:
            return await settled(call.here(coordinator))
        if self._peers is None:
            return Outcome(ErrorCode.NOT_COORDINATOR)
        try:
            response = await self._peers.send(leader.node_id, call.request(), timeout_ms=REQUEST_TIMEOUT_MS)
        except PeerError:
            return Outcome(ErrorCode.NETWORK_EXCEPTION)
        rows = [row for topic in response.results for row in topic.partitions]
        return call.outcome(rows[0]) if len(rows) == 1 else Outcome(ErrorCode.UNKNOWN_SERVER_ERROR)

    async def until_done(self, call: Call, attempts_max: int | None = None) -> Outcome:
        """Make a call until it has an answer that another attempt would not change, with growing pauses."""
        attempts = 0
        while True:
            outcome = await self.ask(call)
            attempts += 1
            if outcome.error_code not in RETRIED or attempts == attempts_max:
                return outcome
            await self._sleep(RETRY_PAUSES_MS[min(attempts, len(RETRY_PAUSES_MS)) - 1])

    async def all_done(self, calls: list[Call], attempts_max: int) -> list[Outcome]:
        """The outcome of each of these, made side by side."""
        return await asyncio.gather(*(self.until_done(call, attempts_max) for call in calls))


# The calls


def initialize(key: Key, state_epoch: int, start_offset: int) -> Call:
    """Begin the state (anew)."""
    row = initialize_messages.PartitionData(
        partition=key.partition, state_epoch=state_epoch, start_offset=start_offset
    )
    topic = initialize_messages.InitializeStateData(topic_id=key.topic_id, partitions=[row])
    return Call(
        key,
        lambda coordinator: coordinator.initialize(key, state_epoch, start_offset),
        lambda: initialize_messages.InitializeShareGroupStateRequest(group_id=key.group_id, topics=[topic]),
    )


def delete(key: Key) -> Call:
    """Forget the state."""
    topic = delete_messages.DeleteStateData(
        topic_id=key.topic_id, partitions=[delete_messages.PartitionData(partition=key.partition)]
    )
    return Call(
        key,
        lambda coordinator: coordinator.delete(key),
        lambda: delete_messages.DeleteShareGroupStateRequest(group_id=key.group_id, topics=[topic]),
    )


def read(key: Key, leader_epoch: int) -> Call:
    """The state, for the leader in this epoch."""
    row = read_messages.PartitionData(partition=key.partition, leader_epoch=leader_epoch)

    def outcome(row: Any) -> Outcome:
        if row.error_code or (row.start_offset == -1 and not row.state_epoch):
            return Outcome(row.error_code)
        batches = tuple(
            StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
            for each in row.state_batches
        )
        state = ShareState(0, row.state_epoch, leader_epoch, row.start_offset, -1, 0, batches)
        return Outcome(ErrorCode.NONE, state)

    return Call(
        key,
        lambda coordinator: coordinator.read(key, leader_epoch),
        lambda: read_messages.ReadShareGroupStateRequest(
            group_id=key.group_id,
            topics=[read_messages.ReadStateData(topic_id=key.topic_id, partitions=[row])],
        ),
        outcome,
    )


def summary(key: Key) -> Call:
    """The state without its batches, for somebody who changes nothing."""
    row = summary_messages.PartitionData(partition=key.partition, leader_epoch=-1)

    def outcome(row: Any) -> Outcome:
        if row.error_code or (row.start_offset == -1 and not row.state_epoch):
            return Outcome(row.error_code)
        state = ShareState(
            0, row.state_epoch, row.leader_epoch, row.start_offset, row.delivery_complete_count, 0
        )
        return Outcome(ErrorCode.NONE, state)

    return Call(
        key,
        lambda coordinator: coordinator.summary(key),
        lambda: summary_messages.ReadShareGroupStateSummaryRequest(
            group_id=key.group_id,
            topics=[summary_messages.ReadStateSummaryData(topic_id=key.topic_id, partitions=[row])],
        ),
        outcome,
    )


def write(key: Key, change: Write) -> Call:
    """A leader's changes."""

    def request() -> Message:
        row = write_messages.PartitionData(
            partition=key.partition,
            state_epoch=change.state_epoch,
            leader_epoch=change.leader_epoch,
            start_offset=change.start_offset,
            delivery_complete_count=change.ended_count,
            state_batches=[
                write_messages.StateBatch(
                    first_offset=first, last_offset=last, delivery_state=state, delivery_count=deliveries
                )
                for first, last, state, deliveries in change.batches
            ],
        )
        topic = write_messages.WriteStateData(topic_id=key.topic_id, partitions=[row])
        return write_messages.WriteShareGroupStateRequest(group_id=key.group_id, topics=[topic])

    return Call(key, lambda coordinator: coordinator.write(key, change), request)
