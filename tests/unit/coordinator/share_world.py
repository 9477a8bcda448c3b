"""A shard with share groups, whose log, clock, topics and share coordinator a test moves by hand."""

from collections.abc import Mapping, Sequence
from typing import Any

from consumer_world import GROUP, FakeClient, World

from moldau.broker.coordinator.group.removals import Removals
from moldau.broker.coordinator.group.shard import GroupShard
from moldau.broker.coordinator.group.share.group import ShareGroup
from moldau.broker.coordinator.group.share.service import ShareGroups
from moldau.broker.coordinator.group.share.states import StateTopic
from moldau.broker.coordinator.result import Result
from moldau.common.core.clock import ManualClock
from moldau.common.core.timers import ManualTimers
from moldau.common.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)


class ShareWorld(World):
    """`asked` is what the share coordinator was asked to initialize; `confirm` answers it."""

    def __init__(self, topics: dict[str, int] | None = None, **settings: Any) -> None:
        self.asked: list[tuple[str, int, Mapping[bytes, StateTopic]]] = []
        self.deletes: list[tuple[str, Mapping[bytes, StateTopic]]] = []
        super().__init__(topics, **settings)

    def _new_shard(self) -> GroupShard:
        import random

        return GroupShard(
            settings=lambda: self.settings,
            image=lambda: self.image,
            random_source=random.Random(7),
            removals=Removals(ManualTimers(ManualClock())),
            share_groups=lambda shard: ShareGroups(
                shard, lambda *asked: self.asked.append(asked), lambda *gone: self.deletes.append(gone)
            ),
        )

    def apply(self, result: Result[Any]) -> Any:
        response = super().apply(result)
        if result.on_commit is not None and not (result.records and self.fail_appends):
            result.on_commit()
        return response

    def beat(
        self, member_id: str, member_epoch: int, topics: Sequence[str] | None = None, group_id: str = GROUP
    ) -> ShareGroupHeartbeatResponse:
        """Send a heartbeat."""
        request = ShareGroupHeartbeatRequest(
            group_id=group_id,
            member_id=member_id,
            member_epoch=member_epoch,
            subscribed_topic_names=None if topics is None else list(topics),
        )
        return self.apply(self.shard.share.heartbeat(request, FakeClient(), self.now_ms))

    def confirm(self) -> None:
        """The share coordinator has done what it was asked."""
        for group_id, _, topics in self.asked:
            self.apply(self.shard.share.confirm(group_id, topics, self.now_ms))
        self.asked.clear()

    @property
    def share_group(self) -> ShareGroup:
        group = self.shard.share.get(GROUP)
        assert group is not None
        return group

    def reload(self) -> None:
        """Another coordinator reads the log."""
        from moldau.broker.coordinator.last_values import LastValues

        values = LastValues()
        values.add(self.log)
        self.shard = self._new_shard()
        self.shard.journal.recording = False
        for key, value in values.latest.items():
            self.shard.load(key, value)
        self.shard.journal.recording = True
        self.apply(self.shard.loaded(self.now_ms))


def assigned(response: ShareGroupHeartbeatResponse) -> dict[str, list[int]] | None:
    """The assignment by topic; None if the response has none."""
    if response.assignment is None:
        return None
    return {
        row.topic_id.decode().partition(".")[0]: list(row.partitions)
        for row in response.assignment.topic_partitions
    }
