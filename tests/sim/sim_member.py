"""Members of a group: of the classic protocol, and of the consumer protocol (KIP-848).

Both run beside their owner's work, and tell it `generation`, `member_id` and `assignment`: what it may read
and must commit with. A member that is told to rejoin does so at once; work of the old generation that is
still under way finds out when it commits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from sim_client import RETRIABLE, Disconnected, SimClient
from torture.reading import Place

from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from moldau.common.protocol.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
    TopicPartition,
)
from moldau.common.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from moldau.common.protocol.messages.heartbeat import HeartbeatRequest
from moldau.common.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from moldau.common.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.common.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

SESSION_TIMEOUT_MS = 2000
REBALANCE_TIMEOUT_MS = 5000
HEARTBEAT_MS = 300
_NEW_MEMBER = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.FENCED_INSTANCE_ID}
)
_REJOIN = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION}) | _NEW_MEMBER


class Member:
    """What both kinds have in common. `client` is the member's own connection: a join blocks it."""

    def __init__(self, client: SimClient, group_id: str, topics: dict[str, int]) -> None:
        self.client = client
        self.group_id = group_id
        self.topics = topics
        self.member_id = ""
        self.generation = -1
        self.assignment: tuple[Place, ...] = ()

    def start(self) -> None:
        """Join, and stay a member from now on."""
        self.client.background(self.run())

    async def run(self) -> None:
        raise NotImplementedError


class ClassicMember(Member):
    """JoinGroup, SyncGroup, Heartbeat; the leader deals the partitions out in turn, and anew when there are
    more of them.
    """

    def __init__(self, client: SimClient, group_id: str, topics: dict[str, int]) -> None:
        super().__init__(client, group_id, topics)
        self._dealt: dict[str, int] = {}

    async def run(self) -> None:
        while True:
            joined = await self._join()
            if joined is None or not await self._sync(joined):
                await self.client.pause()
                continue
            while self._dealt == self.topics and await self._beat():
                await self.client.world.sleep_ms(HEARTBEAT_MS)
            self.assignment = ()

    async def _join(self) -> Any:
        metadata = b"\0\0" + ConsumerProtocolSubscription(topics=sorted(self.topics)).encode(0)
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="in-turn", metadata=metadata)],
        )
        answer = await self.client.persist(request, 5)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            return None
        if answer.error_code:
            self._failed(answer.error_code)
            return None
        self.member_id = answer.member_id
        return answer

    async def _sync(self, joined: Any) -> bool:
        dealt = dict(self.topics)
        shares: list[SyncGroupRequestAssignment] = []
        if joined.leader == self.member_id:
            members = [each.member_id for each in joined.members]
            places = [(topic, one) for topic, count in sorted(self.topics.items()) for one in range(count)]
            shares = [
                SyncGroupRequestAssignment(
                    member_id=member, assignment=_encoded(places[number :: len(members)])
                )
                for number, member in enumerate(members)
            ]
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=joined.generation_id,
            member_id=self.member_id,
            assignments=shares,
        )
        answer = await self.client.persist(request, 3)
        if answer.error_code:
            self._failed(answer.error_code)
            return False
        self._dealt = dealt
        self.generation = joined.generation_id
        self.assignment = _decoded(answer.assignment)
        return True

    async def _beat(self) -> bool:
        request = HeartbeatRequest(
            group_id=self.group_id, generation_id=self.generation, member_id=self.member_id
        )
        code = (await self.client.persist(request, 3)).error_code
        if code and code not in RETRIABLE:
            self._failed(code)
            return False
        return True

    def _failed(self, code: int) -> None:
        assert code in _REJOIN or code in RETRIABLE, ErrorCode(code)
        if code in _NEW_MEMBER:
            self.member_id = ""


class ConsumerMember(Member):
    """ConsumerGroupHeartbeat; the broker assigns, and waits until what it takes away is given up."""

    def __init__(self, client: SimClient, group_id: str, topics: dict[str, int]) -> None:
        super().__init__(client, group_id, topics)
        self._names: dict[bytes, str] = {}
        self._owned: list[TopicPartitions] = []
        self._tells_all = False
        """After a failure all is told, and the answer has the whole assignment."""

    async def run(self) -> None:
        await self._learn_ids()
        self._join_anew()
        while True:
            try:
                answer = await self.client.call(self._request(), 0)
            except Disconnected:
                self._tells_all = True
                await self.client.pause()
                continue
            code = answer.error_code
            self._tells_all = bool(code)
            if code and code not in RETRIABLE:
                assert code in _NEW_MEMBER, (ErrorCode(code), answer.error_message)
                self._join_anew()
            elif code:
                await self.client.pause()
                continue
            else:
                self._take(answer)
            await self.client.world.sleep_ms(20 if self.generation <= 0 else HEARTBEAT_MS)

    def _join_anew(self) -> None:
        self.generation, self.assignment, self._owned, self.member_id = 0, (), [], ""

    def _request(self) -> ConsumerGroupHeartbeatRequest:
        joins = self.generation == 0 or self._tells_all
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self.generation,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS if joins else -1,
            subscribed_topic_names=sorted(self.topics) if joins else None,
            topic_partitions=self._owned,
        )

    def _take(self, answer: Any) -> None:
        self.member_id, self.generation = answer.member_id, answer.member_epoch
        if answer.assignment is not None:
            rows = answer.assignment.topic_partitions
            self._owned = [
                TopicPartitions(topic_id=each.topic_id, partitions=list(each.partitions)) for each in rows
            ]
            self.assignment = tuple(
                sorted((self._names[each.topic_id], one) for each in rows for one in each.partitions)
            )

    async def _learn_ids(self) -> None:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in sorted(self.topics)])
        answer = await self.client.persist(request, 10)
        self._names = {topic.topic_id: topic.name for topic in answer.topics}


def _encoded(places: Sequence[Place]) -> bytes:
    topics: dict[str, list[int]] = {}
    for topic, partition in places:
        topics.setdefault(topic, []).append(partition)
    rows = [TopicPartition(topic=topic, partitions=found) for topic, found in topics.items()]
    return b"\0\0" + ConsumerProtocolAssignment(assigned_partitions=rows).encode(0)


def _decoded(data: bytes) -> tuple[Place, ...]:
    if not data:
        return ()
    rows = ConsumerProtocolAssignment.decode(data[2:], 0).assigned_partitions
    return tuple(sorted((each.topic, one) for each in rows for one in each.partitions))


async def assigned(member: Member) -> tuple[int, str, tuple[Place, ...]]:
    """Wait until it has partitions; generation, member id and partitions of one moment."""
    while not member.assignment:  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    return member.generation, member.member_id, member.assignment
