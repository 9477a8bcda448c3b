"""A shard with a log, a clock and topics that a test moves by hand, for the consumer-group tests.

`World.heartbeat` decides, replays and appends as the runtime does, or fails to append and rolls back. After
each step `check` asserts what must hold at all times.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from moldau.broker.coordinator.group.consumer.group import ConsumerGroup
from moldau.broker.coordinator.group.removals import Removals
from moldau.broker.coordinator.group.shard import GroupShard
from moldau.broker.coordinator.records import encode
from moldau.broker.coordinator.result import Result
from moldau.broker.metadata.image import Image, PartitionState, TopicState
from moldau.common.core.clock import ManualClock
from moldau.common.core.timers import ManualTimers
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from moldau.common.settings.broker import BrokerSettings

GROUP = "g"


class FakeClient(NamedTuple):
    """Who sends a request."""

    api_version: int = 1
    client_id: str = "client"
    client_host: str = "127.0.0.1"
    sees_topic: Callable[[str], bool] | None = None


def topic_id(name: str, incarnation: int = 0) -> bytes:
    """A topic id that a reader of a failure can read."""
    return f"{name}.{incarnation}".encode().ljust(16, b"_")


def image_of(partition_counts: dict[str, int], version: int = 1, incarnation: int = 0) -> Image:
    """A metadata image with these topics."""
    topics = {
        name: TopicState(name, topic_id(name, incarnation), (PartitionState.fresh((0,)),) * count)
        for name, count in partition_counts.items()
    }
    return Image(
        version=version, topics=topics, topic_names={topic.topic_id: name for name, topic in topics.items()}
    )


class World:
    """One shard and everything around it."""

    def __init__(self, topics: dict[str, int] | None = None, **settings: Any) -> None:
        self.settings = BrokerSettings(**settings)
        self.image = image_of({"a": 6, "b": 4} if topics is None else topics)
        self.now_ms = 1_000_000
        self.log: list[tuple[bytes, bytes | None]] = []
        self.shard = self._new_shard()
        self.fail_appends = False

    def _new_shard(self) -> GroupShard:
        return GroupShard(
            settings=lambda: self.settings,
            image=lambda: self.image,
            random_source=random.Random(7),
            removals=Removals(ManualTimers(ManualClock())),
        )

    def apply(self, result: Result[Any]) -> Any:
        """Replay and append what was decided; None if the append failed (and was undone)."""
        journal = self.shard.journal
        mark = journal.mark()
        for effect in result.effects:
            effect()
        for record in result.records:
            self.shard.replay(record)
        if result.records and self.fail_appends:
            journal.roll_back(mark)
            if result.on_failure is not None:
                result.on_failure(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return None
        self.log += [encode(record) for record in result.records]
        journal.commit(journal.mark())
        return result.response

    def heartbeat(
        self,
        member_id: str,
        member_epoch: int,
        topics: Sequence[str] | None = None,
        *,
        owned: dict[str, Sequence[int]] | None = None,
        version: int = 1,
        group_id: str = GROUP,
        **fields: Any,
    ) -> ConsumerGroupHeartbeatResponse:
        """Send a heartbeat; a join fills in what a client would."""
        if member_epoch == 0:
            fields.setdefault("rebalance_timeout_ms", 30_000)
            owned = owned or {}
            if topics is None and "subscribed_topic_regex" not in fields:
                topics = ["a"]
        rows = None
        if owned is not None:
            ids = {name: topic.topic_id for name, topic in self.image.topics.items()}
            rows = [TopicPartitions(topic_id=ids[name], partitions=list(owned[name])) for name in owned]
        request = ConsumerGroupHeartbeatRequest(
            group_id=group_id,
            member_id=member_id,
            member_epoch=member_epoch,
            subscribed_topic_names=None if topics is None else list(topics),
            topic_partitions=rows,
            **fields,
        )
        response = self.apply(self.shard.consumer.heartbeat(request, FakeClient(version), self.now_ms))
        return response or ConsumerGroupHeartbeatResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def advance(self, duration_ms: int) -> None:
        """Let time pass; deadlines ring when they are due."""
        end_ms = self.now_ms + duration_ms
        while True:
            earliest_ms = self.shard.deadlines.earliest_ms()
            if earliest_ms is None or earliest_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, earliest_ms)
            for key in self.shard.deadlines.pop_due(self.now_ms):
                self.apply(self.shard.due(key, self.now_ms))
        self.now_ms = end_ms

    def set_topics(self, partition_counts: dict[str, int], incarnation: int = 0) -> None:
        """Publish another metadata image."""
        old, self.image = self.image, image_of(partition_counts, self.image.version + 1, incarnation)
        self.apply(self.shard.consumer.metadata_changed(old, self.image, self.now_ms))

    def restart(self) -> None:
        """Lose everything but the log, and load it as the runtime does: the last value of each key."""
        self.shard = self.loaded_again()
        self.apply(self.shard.loaded(self.now_ms))

    def loaded_again(self) -> GroupShard:
        """A second shard with what the log holds."""
        shard = self._new_shard()
        shard.journal.recording = False
        latest: dict[bytes, bytes] = {}
        for key, value in self.log:
            latest.pop(key, None)
            if value is not None:
                latest[key] = value
        for key, value in latest.items():
            shard.load(key, value)
        shard.journal.recording = True
        return shard

    def group(self, group_id: str = GROUP) -> ConsumerGroup:
        """The group; it has to be there."""
        group = self.shard.groups[group_id]
        assert isinstance(group, ConsumerGroup)
        return group

    def held(self, member_id: str) -> dict[str, list[int]]:
        """What a member may consume, by topic name."""
        names = self.image.topic_names
        assigned = self.group().members[member_id].assigned
        return {names.get(topic, topic.decode()): sorted(epochs) for topic, epochs in assigned.items()}


def state_of(shard: GroupShard) -> dict[str, Any]:
    """Everything persisted about the consumer groups of a shard, comparable."""
    return {
        group_id: {
            "epochs": (group.group_epoch, group.assignment_epoch, group.assigned_at_ms, group.metadata_hash),
            "members": dict(group.members),
            "static": dict(group.static_members),
            "targets": dict(group.targets),
            "regexes": dict(group.regexes),
            "holders": dict(group._holders),
        }
        for group_id, group in shard.groups.items()
        if isinstance(group, ConsumerGroup)
    }


def check_ownership(group: ConsumerGroup) -> None:
    """No partition is with two members, and the index of holders says the same as the members."""
    holders: dict[tuple[bytes, int], str] = {}
    for member_id, member in group.members.items():
        for partitions in (member.assigned, member.pending):
            for topic, epochs in partitions.items():
                for index in epochs:
                    assert (topic, index) not in holders, f"{topic!r}-{index} is with two members"
                    holders[topic, index] = member_id
    assert holders == dict(group._holders)


def assignment(response: ConsumerGroupHeartbeatResponse) -> dict[bytes, list[int]] | None:
    """The assignment in an answer; None if it has none."""
    if response.assignment is None:
        return None
    return {row.topic_id: list(row.partitions) for row in response.assignment.topic_partitions}
