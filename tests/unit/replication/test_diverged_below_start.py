"""A follower whose history the leader has deleted begins at its log start, with nothing of its own."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from moldau.broker.replication.following.followed import Followed
from moldau.broker.replication.following.leader_fetch import LeaderFetch
from moldau.broker.replication.role_outputs import FetchFrom
from moldau.common.core.slow_lane import SlowLane
from moldau.common.protocol.messages.fetch import EpochEndOffset, PartitionData

LEADER = 2


class FakePartition:
    """Says what it was told to do with its log."""

    def __init__(self, log_start_offset: int, log_end_offset: int) -> None:
        self.topic, self.topic_id, self.index, self.isr = "t", bytes(16), 0, (LEADER,)
        self.follower_throttled = False
        self.log = SimpleNamespace(
            latest_leader_epoch=0, log_start_offset=log_start_offset, log_end_offset=log_end_offset
        )
        self.told: list[tuple[str, int]] = []

    def diverged(self, leader_epoch: int, epoch: int, end_offset: int) -> None:
        self.told.append(("truncate", end_offset))
        self.log.log_end_offset = end_offset

    def restart_at(self, leader_epoch: int, offset: int) -> bool:
        self.told.append(("restart", offset))
        return True


@pytest.mark.parametrize(
    ("own_start", "leader_start", "end_offset", "told"),
    [
        (14, 19, 19, ("restart", 19)),  # what both had in the epoch may be older, and is deleted there
        (14, 19, 20, ("truncate", 20)),
        (0, 0, 5, ("truncate", 5)),
        (0, 0, 0, ("truncate", 0)),
        (19, 19, 19, ("truncate", 19)),
        (14, -1, 19, ("truncate", 19)),  # a leader that does not tell its start
    ],
)
def test_a_diverging_epoch_that_ended_at_the_leaders_start(
    own_start: int, leader_start: int, end_offset: int, told: tuple[str, int]
) -> None:
    parts: Any = SimpleNamespace(node_id=1, quota=None, broker_epoch=lambda: -1)
    nobody: Any = None
    partition: Any = FakePartition(own_start, 23)
    fetch = LeaderFetch(LEADER, parts, nobody, None)
    fetch.follow(partition, FetchFrom(LEADER, 3, 23))
    (followed,) = fetch.all()
    assert isinstance(followed, Followed)
    row = PartitionData(
        log_start_offset=leader_start, diverging_epoch=EpochEndOffset(epoch=0, end_offset=end_offset)
    )
    slices = SlowLane(now_seconds=lambda: 0.0).slices()
    asyncio.run(fetch._take_row(followed, row, slices))
    assert partition.told == [told]
    assert not followed.ready  # until that is on the disk
