"""A leader whose log is cut, as a mirror's is where its source was: nothing that followers had counts on."""

from __future__ import annotations

from moldau.broker.metadata.image import PartitionState
from moldau.broker.replication.role import Role
from moldau.broker.replication.role_outputs import HighWatermark

LEADS = PartitionState(1, 5, 1, (1, 2), (1, 2))


def leader() -> Role:
    role = Role(1, high_watermark=0, written_end_offset=0, flushed_end_offset=0)
    role.become(LEADS, 0, 0.0)
    role.configured(1, False)
    role.written(10)
    role.follower_fetched(2, 10, -1, True, 1.0)
    assert role.high_watermark == 10
    return role


def test_the_high_watermark_falls_and_waits_for_followers_to_have_the_new_records() -> None:
    role = leader()
    role.truncated(6)
    assert (role.high_watermark, role.progress, role.epoch_start_offset) == (6, 6, 0)
    assert not role.written(9)  # the follower's old records up to 10 are others
    assert role.high_watermark == 6
    assert tuple(role.follower_fetched(2, 9, -1, True, 2.0)) == (HighWatermark(6, 9),)


def test_a_log_that_begins_anew_behind_its_end_waits_too() -> None:
    role = leader()
    role.restarted(20)
    assert role.high_watermark == 20
    assert not role.written(25)
    assert tuple(role.follower_fetched(2, 25, -1, True, 2.0)) == (HighWatermark(20, 25),)
