"""Where roles, fsyncs and fetches cross: who must go on fetching does, and from the right place."""

import threading
from pathlib import Path

import pytest
from test_partition_roles import Broker, copied, in_a_loop, state_of, until

from moldau.broker.log.upkeep.flushing import FsyncJob
from moldau.common.protocol.errors import ErrorCode


class Held:
    """Fsyncs that end when they are told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.may_end = threading.Event()
        self.started = 0
        run = FsyncJob.run

        def held(job: FsyncJob) -> None:
            self.started += 1
            self.may_end.wait(5)
            run(job)

        monkeypatch.setattr(FsyncJob, "run", held)


@in_a_loop
async def test_a_follower_whose_log_is_cut_while_an_fsync_is_under_way_fetches_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower = Broker(tmp_path / "2", 2, "group")
    follower.become(state_of(2, 0, 2))
    held = Held(monkeypatch)
    follower.append(b"a", acks=1)
    follower.append(b"b", acks=1)
    follower.group_commit.flush()
    await until(lambda: held.started == 1)
    follower.become(state_of(1, 1))
    assert not follower.fetches, "what is not on the disk yet is not vouched for"
    follower.partition.diverged(1, 0, 1)
    assert follower.partition.log.log_end_offset == 1
    held.may_end.set()
    await until(lambda: bool(follower.fetches))
    assert follower.fetches[-1].offset == 1


@in_a_loop
async def test_a_follower_that_is_told_to_force_what_it_writes_goes_on_fetching(tmp_path: Path) -> None:
    leader, follower = Broker(tmp_path / "1", 1), Broker(tmp_path / "2", 2)
    leader.become(state_of(1, 0))
    copy = follower.become(state_of(1, 0))
    leader.append()
    leader.group_commit.flush()
    copied(leader, follower)
    job = copy.log.flusher.job()
    assert job is not None
    job.run()
    copy.log.flusher.job_done(job)  # by flush.ms
    copy.configure(flush_before_commit=True)
    copied(leader, follower)
    await until(lambda: bool(follower.fetches))
    assert follower.fetches[-1].offset == 1


@in_a_loop
async def test_a_follower_vouches_for_nothing_that_is_only_staged_here(tmp_path: Path) -> None:
    leader = Broker(tmp_path / "1", 1)
    partition = leader.become(state_of(1, 0))
    waiter = leader.append()
    read = partition.read(1, 0, committed=False, first=False, leader_epoch=0, replica_id=2, broker_epoch=102)
    assert read.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    leader.group_commit.flush()
    assert (partition.high_watermark, waiter.code) == (0, None)


@in_a_loop
async def test_a_leader_that_hears_of_another_by_an_in_sync_answer_fetches_from_its_end(
    tmp_path: Path,
) -> None:
    broker = Broker(tmp_path, 1)
    partition = broker.become(state_of(1, 0))
    for _ in range(3):
        broker.append()
    broker.group_commit.flush()
    broker.timers.advance(60_000)
    asked = broker.asked[-1]
    partition.in_sync_change_answered(asked, 0, state_of(2, 1))
    assert [each.offset for each in broker.fetches] == [3]


@in_a_loop
async def test_nothing_is_fetched_for_a_log_that_could_not_be_opened(tmp_path: Path) -> None:
    broker = Broker(tmp_path, 1)
    partition = broker.become(state_of(1, 0))
    partition.online = False
    partition.become(state_of(2, 1))
    assert not broker.fetches
