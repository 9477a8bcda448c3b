"""Partitions with real logs in their roles: leader and follower, restarts, durability, timeouts."""

import asyncio
import errno
import functools
import random
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from moldau.broker.log.manager import LogManager
from moldau.broker.log.reading.reader import Reader
from moldau.broker.log.startup import Startup
from moldau.broker.log.state.epochs import LeaderEpochs
from moldau.broker.log.upkeep.truncation import CutJob
from moldau.broker.metadata.changes import ConfigsChanged, PartitionChanged, TopicCreated, replay
from moldau.broker.metadata.image import EMPTY_IMAGE, BrokerState, Image, PartitionState, ResourceType
from moldau.broker.replication.group_commit import GroupCommit
from moldau.broker.replication.manager import ReplicaManager
from moldau.broker.replication.partition import CONSUMER, Partition
from moldau.broker.replication.reading import Read
from moldau.broker.replication.role_outputs import AskInSync, FetchFrom
from moldau.common.core.clock import ManualClock
from moldau.common.core.timers import ManualTimers
from moldau.common.protocol.errors import ErrorCode
from moldau.common.records.batch import iter_batches
from moldau.common.records.builder import build_batch
from moldau.common.records.control import ControlType, EndTransactionMarker
from moldau.common.records.record import Record
from moldau.common.settings.broker import BrokerSettings
from moldau.common.settings.topic import TopicSettings

TOPIC_ID = bytes(range(16))


def state_of(leader: int, leader_epoch: int, *in_sync: int) -> PartitionState:
    """Brokers 1 and 2 have a replica."""
    return PartitionState(leader, leader_epoch, leader_epoch, (1, 2), in_sync or (1, 2))


def batch_of(text: bytes) -> memoryview:
    return memoryview(build_batch([Record(0, 1_700_000_000_000, None, text, ())]))


class Waiting:
    def __init__(self) -> None:
        self.code: int | None = None

    def settle(self, error_code: int, partition: Partition) -> None:
        assert self.code is None, "settled twice"
        self.code = error_code


class Broker:
    """One broker's partitions on a disk of its own; it keeps what is asked of others."""

    def __init__(self, folder: Path, node_id: int, durability: str = "os") -> None:
        settings = BrokerSettings(node_id=node_id, log_dirs=(str(folder),), moldau_durability=durability)
        self.clock = ManualClock()
        self.timers = ManualTimers(self.clock)
        self.logs = LogManager(settings, clock=self.clock, timers=self.timers, source=random.Random(1))
        self.logs.startup.load("cluster", node_id, lambda topic: TopicSettings())
        self.workers = ThreadPoolExecutor(1)
        self.group_commit = GroupCommit(asyncio.get_running_loop(), self.workers, lambda _, error: None)
        self.fetches: list[FetchFrom] = []
        self.asked: list[AskInSync] = []
        self.replicas = ReplicaManager(
            node_id, settings, self.logs, self.clock, self.group_commit, in_sync_changes=self, fetcher=self
        )
        self.image: Image = EMPTY_IMAGE._replace(
            brokers={node: BrokerState(node, 100 + node, {}) for node in (1, 2)}
        )

    def ask(self, partition: Partition, asked: AskInSync) -> None:
        self.asked.append(asked)

    def fetch_from(self, partition: Partition, fetch: FetchFrom) -> None:
        self.fetches.append(fetch)

    def stop(self, partition: Partition) -> None:
        self.fetches.clear()

    def become(self, state: PartitionState) -> Partition:
        change = (
            PartitionChanged("t", 0, state)
            if "t" in self.image.topics
            else TopicCreated("t", TOPIC_ID, (state,))
        )
        old, self.image = self.image, replay(self.image, self.image.version + 1, [change])
        self.replicas.apply(old, self.image, [change])
        return self.partition

    @property
    def partition(self) -> Partition:
        partition = self.replicas.partition("t", 0)
        assert partition is not None
        return partition

    def append(self, text: bytes = b"x", acks: int = -1, timeout_ms: int | None = None) -> Waiting:
        partition, waiter = self.partition, Waiting()
        result = partition.append(batch_of(text), self.clock.now_ms(), acks)
        assert not result.error_code
        partition.wait_for(result.last_offset + 1, waiter, acks, timeout_ms)
        return waiter

    def values(self) -> list[bytes | None]:
        log = self.partition.log
        data = log.reader.read(0, 1 << 20, end_offset=log.log_end_offset)
        return [record.value for batch in iter_batches(data) for record in batch.records()]

    def crash(self) -> None:
        """Nothing is written down any more; what was written stays."""
        self.logs.close(clean=False)


def copied(leader: Broker, follower: Broker) -> None:
    """One fetch of the follower, and what comes of it."""
    fetch = follower.fetches.pop()
    copy = follower.partition
    read = leader.partition.read(
        fetch.offset,
        1 << 20,
        committed=False,
        first=True,
        leader_epoch=fetch.leader_epoch,
        replica_id=2,
        last_fetched_epoch=copy.log.latest_leader_epoch,
        broker_epoch=102,
    )
    assert not read.error_code
    if read.diverging is not None:
        copy.diverged(fetch.leader_epoch, *read.diverging)
    else:
        result = copy.append_as_follower(
            memoryview(read.records), fetch.leader_epoch, read.high_watermark, follower.clock.now_ms()
        )
        assert not result.error_code
        follower.group_commit.flush()


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), 10))

    return run


async def until(told: Callable[[], bool]) -> None:
    while not told():  # noqa: ASYNC110
        await asyncio.sleep(0.001)


@in_a_loop
async def test_a_follower_copies_its_leader_and_moves_the_high_watermark(tmp_path: Path) -> None:
    leader, follower = Broker(tmp_path / "1", 1), Broker(tmp_path / "2", 2)
    leader.become(state_of(1, 0))
    follower.become(state_of(1, 0))
    all_of_them, one_of_them = leader.append(b"a"), leader.append(b"b", acks=1)
    leader.group_commit.flush()
    assert (all_of_them.code, one_of_them.code) == (None, 0)
    copied(leader, follower)
    assert follower.values() == [b"a", b"b"]
    assert leader.partition.high_watermark == 0
    copied(leader, follower)
    assert all_of_them.code == 0
    assert leader.partition.high_watermark == 2
    assert follower.partition.high_watermark == 2, "told by the answer to the fetch that moved it"


@in_a_loop
async def test_a_deposed_leader_cuts_off_what_its_follower_never_had(tmp_path: Path) -> None:
    first, second = Broker(tmp_path / "1", 1), Broker(tmp_path / "2", 2)
    for broker in (first, second):
        broker.become(state_of(1, 0))
    first.append(b"a")
    first.group_commit.flush()
    copied(first, second)
    lost = first.append(b"lost")
    first.group_commit.flush()
    second.become(state_of(2, 1))
    second.append(b"b")
    second.group_commit.flush()
    first.become(state_of(2, 1))
    assert lost.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    refused = first.partition.append(batch_of(b"c"), 0, -1)
    assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    # Replicas are told apart by their ids: here it is broker 1 that follows.
    for _ in range(3):
        fetch = first.fetches.pop()
        read = second.partition.read(
            fetch.offset,
            1 << 20,
            committed=False,
            first=True,
            leader_epoch=1,
            replica_id=1,
            broker_epoch=101,
            last_fetched_epoch=first.partition.log.latest_leader_epoch,
        )
        if read.diverging is not None:
            assert read.diverging == (0, 1)
            first.partition.diverged(1, *read.diverging)
            assert not first.fetches, "fetched before the cut was on the disk"
            await first.group_commit.finish()
        else:
            first.partition.append_as_follower(memoryview(read.records), 1, read.high_watermark, 0)
    assert first.values() == second.values() == [b"a", b"b"]
    assert second.partition.high_watermark == 2


@in_a_loop
async def test_a_leader_that_restarts_begins_at_its_checkpoint_when_others_are_in_sync(
    tmp_path: Path,
) -> None:
    before = Broker(tmp_path, 1)
    before.become(state_of(1, 0, 1))
    before.append()
    before.append()
    before.group_commit.flush()
    assert before.partition.high_watermark == 2
    before.logs.checkpoints.save_high_watermarks({("t", 0): 1})
    before.crash()
    after = Broker(tmp_path, 1)
    partition = after.become(state_of(1, 1))
    assert (partition.log.log_end_offset, partition.high_watermark) == (2, 1)
    assert not partition.end_is_known()
    read = partition.read(1, 1 << 20, committed=False, first=True)
    assert (read.error_code, read.high_watermark, bytes(read.records)) == (0, 1, b"")
    alone = after.become(state_of(1, 2, 1))  # the other one is gone
    assert alone.high_watermark == 2
    assert alone.end_is_known()


@in_a_loop
async def test_what_a_crash_has_left_unsynced_is_not_committed_with_durability_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = Broker(tmp_path, 1, "group")
    before.become(PartitionState.fresh((1,)))
    waiter = before.append()
    before.group_commit.flush()
    assert waiter.code is None
    await until(lambda: waiter.code is not None)
    before.append()
    before.partition.log.writer.flush_staged()
    before.crash()
    monkeypatch.setattr(Startup, "_force_recovered", lambda self: None)  # it could not, at the start
    after = Broker(tmp_path, 1, "group")
    partition = after.become(PartitionState.fresh((1,)))
    assert partition.log.log_end_offset == 2
    assert partition.high_watermark < 2
    await until(lambda: partition.high_watermark == 2)
    assert partition.log.flushed_end_offset == 2


@in_a_loop
async def test_an_append_that_waits_for_too_long_is_told_so_and_stays(tmp_path: Path) -> None:
    leader = Broker(tmp_path, 1)
    leader.become(state_of(1, 0))
    short, long, endless = leader.append(timeout_ms=500), leader.append(timeout_ms=9000), leader.append()
    leader.group_commit.flush()
    leader.timers.advance(499)
    assert short.code is None
    leader.timers.advance(101)
    assert (short.code, long.code, endless.code) == (ErrorCode.REQUEST_TIMED_OUT, None, None)
    later = leader.append(timeout_ms=500)
    leader.group_commit.flush()
    leader.timers.advance(700)
    assert later.code == ErrorCode.REQUEST_TIMED_OUT
    assert leader.partition.log.log_end_offset == 4
    leader.become(state_of(1, 1, 1))
    assert (long.code, endless.code) == (0, 0)
    leader.timers.advance(60_000)
    assert leader.partition.waiting_count == 0


@in_a_loop
async def test_a_batch_that_comes_again_after_its_timeout_times_out_again(tmp_path: Path) -> None:
    leader = Broker(tmp_path, 1)
    partition = leader.become(state_of(1, 0))
    record = Record(0, leader.clock.now_ms(), None, b"x", ())
    batch = bytes(build_batch([record], producer_id=7, producer_epoch=0, base_sequence=0))
    for number in range(3):
        result = partition.append(memoryview(bytearray(batch)), leader.clock.now_ms(), -1)
        assert (result.error_code, result.duplicate) == (0, number > 0)
        waiter = Waiting()
        partition.wait_for(result.last_offset + 1, waiter, -1, 500)
        leader.group_commit.flush()
        leader.timers.advance(700)
        assert waiter.code == ErrorCode.REQUEST_TIMED_OUT
    assert partition.log.log_end_offset == 1


@in_a_loop
async def test_a_role_that_comes_in_the_middle_of_a_turn_forgets_no_timeout(tmp_path: Path) -> None:
    leader = Broker(tmp_path, 1)
    leader.become(state_of(1, 0))
    waiter = leader.append(timeout_ms=500)
    leader.become(state_of(1, 1))
    leader.group_commit.flush()
    leader.timers.advance(700)
    assert waiter.code == ErrorCode.REQUEST_TIMED_OUT


@in_a_loop
async def test_a_follower_that_falls_behind_is_asked_out_of_the_set_and_back_in(tmp_path: Path) -> None:
    leader = Broker(tmp_path, 1)
    partition = leader.become(state_of(1, 0))
    leader.append()
    leader.group_commit.flush()
    leader.timers.advance(60_000)
    (asked,) = leader.asked
    assert asked == AskInSync((1,), (-1,), 0, 0)
    partition.in_sync_change_answered(asked, 0, PartitionState(1, 0, 1, (1, 2), (1,)))
    assert partition.high_watermark == 1
    for broker_epoch, is_asked in ((101, False), (102, True)):  # 102 is what is registered
        leader.asked.clear()
        partition.read(1, 1, committed=False, first=True, replica_id=2, broker_epoch=broker_epoch)
        assert bool(leader.asked) is is_asked
    assert leader.asked == [AskInSync((1, 2), (-1, 102), 0, 1)]


@in_a_loop
async def test_a_parked_fetch_that_is_read_again_says_nothing_new_of_its_follower(tmp_path: Path) -> None:
    leader = Broker(tmp_path, 1)
    partition = leader.become(state_of(1, 0))

    def fetch(was_parked: bool) -> Read:
        return partition.read(0, 1, False, True, 0, replica_id=2, broker_epoch=102, was_parked=was_parked)

    assert not fetch(was_parked=False).records
    leader.timers.advance(20_000)
    assert not fetch(was_parked=True).error_code
    leader.append()
    leader.group_commit.flush()
    assert fetch(was_parked=True).records
    leader.timers.advance(20_000)
    assert leader.asked == [AskInSync((1,), (-1,), 0, 0)], "it is silent since it came, for 40 s"


@in_a_loop
async def test_a_leader_says_where_epochs_ended(tmp_path: Path) -> None:
    leader = Broker(tmp_path, 1)
    partition = leader.become(state_of(1, 0))
    assert partition.epoch_end(0) == (0, 0)
    leader.append()
    leader.group_commit.flush()
    # Of the present epoch it is the log's end, and not the high watermark (KIP-101).
    assert (partition.high_watermark, partition.epoch_end(0)) == (0, (0, 1))
    leader.become(state_of(1, 4))
    assert partition.epoch_end(4) == (4, 1)
    assert partition.epoch_end(2) == (0, 1)  # never wrote
    assert partition.epoch_end(0) == (0, 1)
    leader.append()
    leader.append()
    assert partition.epoch_end(4) == (4, 1), "what is only staged may be taken back"
    leader.group_commit.flush()
    assert partition.epoch_end(4) == (4, 3)
    assert partition.epoch_end(3) == (0, 1)
    assert partition.epoch_end(5) == (-1, -1)
    assert partition.epoch_end(-1) == (-1, -1)


@in_a_loop
async def test_a_follower_takes_batches_of_its_leader_in_its_epoch_only(tmp_path: Path) -> None:
    follower = Broker(tmp_path, 2)
    partition = follower.become(state_of(1, 3))
    for leader_epoch, error in ((2, ErrorCode.FENCED_LEADER_EPOCH), (4, ErrorCode.UNKNOWN_LEADER_EPOCH)):
        assert partition.append_as_follower(batch_of(b"x"), leader_epoch, 0, 0).error_code == error
    damaged = bytearray(batch_of(b"x"))
    damaged[-1] ^= 1
    follower.fetches.clear()
    refused = partition.append_as_follower(memoryview(damaged), 3, 0, 0)
    assert refused.error_code == ErrorCode.CORRUPT_MESSAGE
    assert follower.fetches == [FetchFrom(1, 3, 0)]  # from the same place again
    follower.become(state_of(2, 4))
    assert follower.fetches == []
    assert partition.append_as_follower(batch_of(b"x"), 4, 0, 0).error_code == (
        ErrorCode.NOT_LEADER_OR_FOLLOWER
    )


@in_a_loop
async def test_a_disk_that_cannot_be_read_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Broker(tmp_path, 1)
    partition = broker.become(PartitionState.fresh((1,)))
    broker.append()
    broker.group_commit.flush()

    def fail(*_: object, **__: object) -> bytes:
        raise OSError(errno.EIO, "input/output error")

    reported: list[OSError] = []
    monkeypatch.setattr(broker.logs.open_logs, "storage_failed", lambda log, error: reported.append(error))
    monkeypatch.setattr(Reader, "read", fail)
    assert partition.read(0, 100, committed=False, first=True).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert [error.errno for error in reported] == [errno.EIO]


def throttle(broker: Broker, rate: int, pairs: str = "0:1") -> None:
    """Set the settings of a throttled reassignment (KIP-73)."""
    changes = [
        ConfigsChanged(ResourceType.BROKER, "1", {"leader.replication.throttled.rate": str(rate)}),
        ConfigsChanged(ResourceType.TOPIC, "t", {"leader.replication.throttled.replicas": pairs}),
    ]
    old, broker.image = broker.image, replay(broker.image, broker.image.version + 1, changes)
    broker.replicas.apply(old, broker.image, changes)


@in_a_loop
async def test_a_leader_withholds_records_from_a_throttled_replica_until_it_is_in_sync(tmp_path):
    leader = Broker(tmp_path / "1", 1)
    leader.become(state_of(1, 1, 1))
    throttle(leader, 10)
    partition = leader.partition
    for _ in range(3):
        leader.append()
        leader.group_commit.flush()

    def fetched(offset: int, bytes_max: int = 1) -> Read:
        return partition.read(offset, bytes_max, False, True, 1, replica_id=2, broker_epoch=102)

    size_bytes = len(fetched(0).records)
    assert size_bytes > 10, "the first response is sent before the rate is known"
    read = fetched(1)
    assert (read.error_code, bytes(read.records), read.high_watermark) == (0, b"", 3)
    assert partition.withholds_from(2)
    assert not partition.withholds_from(CONSUMER)
    assert len(partition.read(1, 1, False, True).records) == size_bytes, "consumers are not throttled"
    waiter = Woken()
    partition.park(waiter, 2)
    leader.append()
    leader.group_commit.flush()
    assert waiter.bytes_added == 0, "it would be answered without records, and ask again at once"
    partition.parked.remove(waiter)
    leader.clock.advance(12_000)
    assert len(fetched(1).records) == size_bytes
    assert len(fetched(2).records) == 0
    leader.become(state_of(1, 1, 1, 2)._replace(partition_epoch=2))
    assert len(fetched(2).records) == size_bytes, "it is in sync"


@in_a_loop
async def test_only_the_replicas_of_the_setting_are_throttled(tmp_path):
    leader = Broker(tmp_path / "1", 1)
    leader.become(state_of(1, 1, 1))
    throttle(leader, 0, "0:2,1:1")
    leader.append()
    leader.group_commit.flush()
    for _ in range(3):
        assert leader.partition.read(0, 1, False, True, 1, replica_id=2, broker_epoch=102).records
    throttle(leader, 0, "*")
    leader.partition.read(0, 1, False, True, 1, replica_id=2, broker_epoch=102)
    assert not leader.partition.read(0, 1, False, True, 1, replica_id=2, broker_epoch=102).records


class Woken:
    bytes_added = 0

    def more(self, bytes_added: int, stable_bytes: int) -> None:
        self.bytes_added += bytes_added


@in_a_loop
async def test_a_cut_that_cannot_be_forced_to_the_disk_for_a_moment_is_forced_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No descriptor was left, say; the follower goes on afterwards."""
    monkeypatch.setattr("moldau.broker.replication.group_commit._RETRY_SECONDS", 0.0)
    broker = Broker(tmp_path, 1)
    broker.become(state_of(1, 0))
    for text in (b"a", b"b"):
        broker.append(text)
    broker.group_commit.flush()
    partition = broker.become(state_of(2, 1))
    broker.fetches.clear()
    errors, run = [OSError(errno.EMFILE, "too many open files")], CutJob.run

    def fails_once(job: CutJob) -> None:
        if errors:
            raise errors.pop()
        run(job)

    monkeypatch.setattr(CutJob, "run", fails_once)
    partition.diverged(1, 0, 1)
    await until(lambda: broker.fetches == [FetchFrom(2, 1, 1)])


@in_a_loop
async def test_who_is_elected_before_its_cut_is_on_the_disk_appends_only_afterwards(tmp_path: Path) -> None:
    """A crash of the machine could bring back what was cut off, behind what was appended since."""
    broker = Broker(tmp_path, 1)
    broker.become(state_of(1, 0))
    for text in (b"a", b"b"):
        broker.append(text)
    broker.group_commit.flush()
    broker.become(state_of(2, 1))
    blocked = threading.Event()
    broker.workers.submit(blocked.wait, 60)
    broker.partition.diverged(1, 0, 1)
    partition = broker.become(state_of(1, 2))
    assert partition.leads
    refused = partition.append(batch_of(b"c"), broker.clock.now_ms(), -1)
    assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    blocked.set()
    await until(lambda: not partition.log.is_cutting)
    broker.append(b"d")
    broker.group_commit.flush()
    assert broker.values() == [b"a", b"d"]


@in_a_loop
async def test_a_reader_of_a_later_epoch_than_any_here_is_out_of_range(tmp_path: Path) -> None:
    """Metadata that were set back; a diverging epoch that names no place would be asked for without end."""
    broker = Broker(tmp_path, 1)
    partition = broker.become(state_of(1, 3))
    broker.append(b"a")
    broker.group_commit.flush()
    read = partition.read(1, 1000, False, True, last_fetched_epoch=7, replica_id=2, broker_epoch=102)
    assert (read.error_code, read.diverging) == (ErrorCode.OFFSET_OUT_OF_RANGE, None)


@in_a_loop
async def test_a_leader_whose_disk_fails_at_a_deletion_does_not_confirm_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next leader knows nothing of it, and shows the records (random cluster, seed 700517)."""

    def fail(epochs: LeaderEpochs) -> None:
        raise OSError(errno.EIO, "input/output error")

    leader = Broker(tmp_path, 1)
    partition = leader.become(state_of(1, 1, 1))
    for _ in range(3):
        leader.append()
    leader.group_commit.flush()
    monkeypatch.setattr(LeaderEpochs, "write", fail)
    assert partition.high_watermark == 3
    assert partition.delete_records(2) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert partition.log.offline


@in_a_loop
async def test_with_too_few_in_sync_a_transaction_neither_begins_nor_ends(tmp_path: Path) -> None:
    broker = Broker(tmp_path, 1)
    broker.image = replay(
        broker.image, 1, [ConfigsChanged(ResourceType.TOPIC, "t", {"min.insync.replicas": "2"})]
    )
    partition = broker.become(state_of(1, 0, 1))
    now_ms = broker.clock.now_ms()

    def begin() -> int:
        guard = partition.log.transactions.begin_verification(7, 0)
        assert guard is not None
        first = build_batch(
            [Record(0, now_ms, None, b"x", ())],
            producer_id=7,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
        return partition.append_verified(memoryview(first), now_ms, -1, guard).error_code

    def end() -> int:
        marker = EndTransactionMarker(ControlType.COMMIT, 0)
        return partition.append_marker(marker, 7, 0, now_ms).error_code

    assert (begin(), end()) == (ErrorCode.NOT_ENOUGH_REPLICAS,) * 2
    assert partition.log.log_end_offset == 0
    broker.become(state_of(1, 1, 1, 2))
    assert (begin(), end()) == (0, 0)
    broker.group_commit.flush()
