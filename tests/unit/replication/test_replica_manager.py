"""The replica manager follows the metadata: partitions come, change their settings and go."""

import asyncio
import errno
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from moldau.broker.coordinator.machine import EndedTransaction, TransactionalRecord
from moldau.broker.coordinator.markers import Marker
from moldau.broker.coordinator.result import Producer
from moldau.broker.log.manager import LogManager
from moldau.broker.metadata.changes import (
    BrokerRegistered,
    ConfigsChanged,
    LeadershipRenewed,
    PartitionChanged,
    TopicCreated,
    TopicDeleted,
    replay,
)
from moldau.broker.metadata.difference import changes_between
from moldau.broker.metadata.image import EMPTY_IMAGE, Image, PartitionState, ResourceType
from moldau.broker.replication.coordinator_log import ReplicaError, ReplicatedLog
from moldau.broker.replication.group_commit import GroupCommit
from moldau.broker.replication.manager import ReplicaManager
from moldau.common.core.clock import ManualClock
from moldau.common.core.timers import ManualTimers
from moldau.common.protocol.errors import ErrorCode
from moldau.common.settings.broker import BrokerSettings
from moldau.common.settings.topic import TopicSettings

TOPIC_ID = bytes(range(16))
CREATED = TopicCreated("t", TOPIC_ID, (PartitionState.fresh((1,)),) * 2)


class World:
    def __init__(self, folder: Path) -> None:
        settings = BrokerSettings(log_dirs=(str(folder),))
        clock = ManualClock()
        self.logs = LogManager(settings, clock=clock, timers=ManualTimers(clock), source=random.Random(1))
        self.logs.startup.load("cluster", 1, lambda topic: TopicSettings())
        self.group_commit = GroupCommit(
            asyncio.get_running_loop(), ThreadPoolExecutor(1), lambda partition, error: None
        )
        self.replicas = ReplicaManager(1, settings, self.logs, clock, self.group_commit)
        self.log = ReplicatedLog(self.replicas.partition, clock)
        self.image = EMPTY_IMAGE

    def apply(self, *changes: object) -> Image:
        old, self.image = self.image, replay(self.image, self.image.version + 1, changes)  # type: ignore[arg-type]
        self.replicas.apply(old, self.image, changes)  # type: ignore[arg-type]
        return self.image


def test_partitions_come_with_their_topic_and_go_with_it(tmp_path: Path) -> None:
    async def scene() -> None:
        world = World(tmp_path)
        world.apply(CREATED)
        partition = world.replicas.partition("t", 1)
        assert partition is not None
        assert partition.writable
        assert world.replicas.by_topic_id[TOPIC_ID][1] is partition
        assert world.replicas.by_name_bytes[b"t"][1] is partition
        assert (tmp_path / "t-1").is_dir()
        world.apply(TopicDeleted("t"))
        assert world.replicas.partition("t", 1) is None
        assert not world.replicas.by_topic_id
        assert not partition.writable
        assert not (tmp_path / "t-1").exists()

    asyncio.run(scene())


def test_a_topic_that_was_made_again_under_its_name_begins_empty(tmp_path: Path) -> None:
    """Also where the image goes from the one to the other at once: this broker was away in between."""

    async def scene() -> None:
        world = World(tmp_path)
        world.apply(CREATED)
        await asyncio.wait_for(world.log.append_records("t", 0, 0, [(b"a", b"1")]), 60)
        former = world.replicas.partition("t", 0)
        assert former is not None
        assert former.high_watermark == 1
        again = CREATED._replace(topic_id=b"another topic id")
        old = world.image
        world.image = replay(EMPTY_IMAGE, old.version + 5, [again])
        world.replicas.apply(old, world.image, changes_between(old, world.image))
        partition = world.replicas.partition("t", 0)
        assert partition is not None
        assert partition is not former
        assert not former.writable
        assert partition.log.log_end_offset == partition.high_watermark == 0
        assert partition.log.topic_id == again.topic_id
        assert list(world.replicas.by_topic_id) == [again.topic_id]

    asyncio.run(scene())


def test_what_it_led_before_a_restart_it_leads_again_in_the_next_epoch_only(tmp_path: Path) -> None:
    async def scene() -> None:
        world = World(tmp_path)
        world.replicas.takes_part = False
        world.apply(CREATED, BrokerRegistered(2, 1, {}, None))
        partition = world.replicas.partition("t", 1)
        assert partition is not None
        assert not partition.leads
        assert partition.refusal() == ErrorCode.NOT_LEADER_OR_FOLLOWER
        followed = PartitionState(2, 0, 0, (2, 1), (2, 1))
        world.apply(TopicCreated("u", b"u" * 16, (followed,)))
        other = world.replicas.partition("u", 0)
        assert other is not None
        assert other.leader == -1, "it does not fetch either"
        world.apply(BrokerRegistered(1, 2, {}, None), LeadershipRenewed(1))
        assert other.leader == 2
        assert partition.leads
        assert partition.leader_epoch == 1

    asyncio.run(scene())


def test_settings_reach_the_logs_and_flush_messages_one_asks_for_the_fsync(tmp_path: Path) -> None:
    async def scene() -> None:
        world = World(tmp_path)
        world.apply(CREATED)
        partition = world.replicas.partition("t", 0)
        assert partition is not None
        assert not partition.flush_before_commit
        world.apply(
            ConfigsChanged(ResourceType.TOPIC, "t", {"flush.messages": "1", "max.message.bytes": "1000"})
        )
        assert partition.log.settings.max_message_bytes == 1000
        assert partition.flush_before_commit
        world.apply(ConfigsChanged(ResourceType.TOPIC, "t", {"flush.messages": None}))
        assert not partition.flush_before_commit

    asyncio.run(scene())


def test_what_a_coordinator_appends_is_read_back_once_committed(tmp_path: Path) -> None:
    async def scene() -> None:
        world = World(tmp_path)
        world.apply(CREATED)
        written = [(b"a", b"1"), (b"b", None), (b"a", b"2")]
        done = world.log.append_records("t", 0, 0, written)
        with pytest.raises(ReplicaError) as too_early:  # its own append, whose outcome it does not know
            list(world.log.committed_records("t", 0, 0))
        assert too_early.value.error_code == ErrorCode.OFFSET_NOT_AVAILABLE
        await asyncio.wait_for(world.log.all_committed("t", 0, 0), 5)
        assert done.done()
        assert list(world.log.committed_records("t", 0, 0)) == written
        with pytest.raises(ReplicaError) as refused:
            await world.log.append_records("nowhere", 0, 0, written)
        assert refused.value.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    asyncio.run(scene())


def test_a_coordinator_reads_nothing_of_a_damaged_batch(tmp_path: Path) -> None:
    async def scene() -> None:
        world = World(tmp_path)
        world.apply(CREATED)
        await asyncio.wait_for(world.log.append_records("t", 0, 0, [(b"a", b"1")]), 5)
        partition = world.replicas.partition("t", 0)
        assert partition is not None
        (segment,) = partition.log.segments
        segment.write([b"\x7f"], 1, 0)  # the base offset's first byte
        partition.log.reader.forget()  # the last write is in memory
        with pytest.raises(ReplicaError) as damaged:
            list(world.log.committed_records("t", 0, 0))
        assert damaged.value.error_code == ErrorCode.CORRUPT_MESSAGE
        assert partition.log.damage is not None, "health tells it"

    asyncio.run(scene())


def test_a_coordinator_of_an_earlier_leader_epoch_neither_writes_nor_reads(tmp_path: Path) -> None:
    async def scene() -> None:
        world = World(tmp_path)
        world.apply(CREATED)
        await asyncio.wait_for(world.log.append_records("t", 0, 0, [(b"a", b"1")]), 5)
        led_again = CREATED.partitions[0]._replace(leader_epoch=2)
        world.apply(PartitionChanged("t", 0, led_again))
        for leader_epoch, error_code in (
            (0, ErrorCode.FENCED_LEADER_EPOCH),
            (3, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ):
            for attempt in (
                world.log.append_records("t", 0, leader_epoch, [(b"a", b"2")]),
                world.log.append_marker("t", 0, leader_epoch, Marker(7, 2, 5, True, 0)),
            ):
                with pytest.raises(ReplicaError) as refused:
                    await attempt
                assert refused.value.error_code == error_code
            with pytest.raises(ReplicaError) as refused:
                list(world.log.committed_records("t", 0, leader_epoch))
            assert refused.value.error_code == error_code
        assert list(world.log.committed_records("t", 0, 2)) == [(b"a", b"1")]

    asyncio.run(scene())


def test_a_new_leader_with_records_that_are_not_committed_yet_is_not_read(tmp_path: Path) -> None:
    async def scene() -> None:
        world = World(tmp_path)
        world.apply(TopicCreated("t", TOPIC_ID, (PartitionState.fresh((1, 2)),)))
        appended = world.log.append_records("t", 0, 0, [(b"a", b"1")])
        partition = world.replicas.partition("t", 0)
        assert partition is not None
        while partition.log.written_end_offset < 1:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        led_again = PartitionState(1, 1, 1, (1, 2), (1, 2))
        world.apply(PartitionChanged("t", 0, led_again))  # broker 2 has not fetched it yet
        with pytest.raises(ReplicaError) as refused:
            list(world.log.committed_records("t", 0, 1))
        assert refused.value.error_code == ErrorCode.OFFSET_NOT_AVAILABLE
        committed = world.log.all_committed("t", 0, 1)
        deposed = world.log.all_committed("t", 0, 0)
        assert not committed.done()
        with pytest.raises(ReplicaError) as refused:
            await deposed
        assert refused.value.error_code == ErrorCode.FENCED_LEADER_EPOCH
        world.apply(PartitionChanged("t", 0, led_again._replace(isr=(1,), partition_epoch=2)))
        assert committed.done()
        assert list(world.log.committed_records("t", 0, 1)) == [(b"a", b"1")]
        appended.cancel()

    asyncio.run(scene())


def test_a_transaction_is_read_back_as_one(tmp_path: Path) -> None:
    async def scene() -> None:
        world = World(tmp_path)
        world.apply(CREATED)
        producer = Producer(7, 2)
        world.log.append_records("t", 0, 0, [(b"a", b"1")])
        world.log.append_records("t", 0, 0, [(b"a", b"2"), (b"b", b"2")], producer)
        world.log.append_records("t", 0, 0, [(b"b", b"3")])
        world.log.append_marker("t", 0, 0, Marker(7, 2, 5, True, 0))
        await asyncio.wait_for(world.log.append_marker("t", 0, 0, Marker(8, 0, 5, False, 0)), 5)
        assert list(world.log.committed_records("t", 0, 0)) == [
            (b"a", b"1"),
            TransactionalRecord(producer, b"a", b"2"),
            TransactionalRecord(producer, b"b", b"2"),
            (b"b", b"3"),
            EndedTransaction(7, True),
            EndedTransaction(8, False),
        ]
        for outdated, error in (
            (world.log.append_marker("t", 0, 0, Marker(7, 1, 5, True, 0)), ErrorCode.INVALID_PRODUCER_EPOCH),
            (
                world.log.append_marker("t", 0, 0, Marker(7, 2, 4, True, 0)),
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
            ),
            (
                world.log.append_records("t", 0, 0, [(b"a", b"4")], Producer(7, 1)),
                ErrorCode.INVALID_PRODUCER_EPOCH,
            ),
            (
                world.log.append_marker("nowhere", 0, 0, Marker(7, 2, 5, True, 0)),
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ),
        ):
            with pytest.raises(ReplicaError) as refused:
                await outdated
            assert refused.value.error_code == error

    asyncio.run(scene())


def test_a_log_without_a_topic_is_set_aside_and_not_deleted(tmp_path: Path) -> None:
    async def scene() -> None:
        world = World(tmp_path)
        world.logs.create("gone", 0, bytes(16), TopicSettings())
        world.apply(CREATED)
        world.replicas.set_strays_aside()
        assert world.replicas.partition("t", 0) is not None
        assert world.logs.get("gone", 0) is None
        assert not (tmp_path / "gone-0").exists()
        (kept,) = tmp_path.glob("gone-0.*-stray")  # noqa: ASYNC240
        assert (kept / "00000000000000000000.log").exists()
        world.logs.close()
        again = World(tmp_path)  # a later start leaves it alone
        assert [each.topic for each in again.logs] == ["t", "t"]
        assert kept.exists()

    asyncio.run(scene())


def test_a_partition_that_found_no_room_is_opened_when_there_is_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        world = World(tmp_path)
        (directory,) = world.logs.directories

        def refuse(*_: object, **__: object) -> None:
            error = OSError(errno.ENOSPC, "no space left on device")
            directory.report(error)
            raise error

        with monkeypatch.context() as full:
            full.setattr(world.logs, "create", refuse)
            world.apply(CREATED)
            world.replicas.open_missing(world.image)
        assert world.replicas.partition("t", 0) is None
        assert directory.check_room()
        world.replicas.open_missing(world.image)
        partition = world.replicas.partition("t", 0)
        assert partition is not None
        assert partition.writable

    asyncio.run(scene())


def test_a_log_that_cannot_be_opened_is_a_partition_that_answers_with_the_cause(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene() -> None:
        world = World(tmp_path)
        world.apply(CREATED)
        world.logs.close()
        segment = tmp_path / "t-0" / "00000000000000000000.log"
        segment.unlink()
        segment.mkdir()
        again = World(tmp_path)
        again.apply(CREATED)
        again.replicas.set_strays_aside()
        damaged, sound = (again.replicas.partition("t", index) for index in range(2))
        assert damaged is not None
        assert sound is not None
        assert (damaged.online, damaged.writable) == (False, False)
        assert (sound.online, sound.writable) == (True, True)
        refused = damaged.append(memoryview(bytes(100)), 0, 1)
        assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert segment.name in (refused.error_message or "")
        with pytest.raises(ReplicaError):
            list(again.log.committed_records("t", 0, 0))
        again.apply(TopicDeleted("t"))
        assert not (tmp_path / "t-0").exists()
        again.logs.close()

    asyncio.run(scene())


def test_a_full_disk_is_told_once_for_a_topic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene() -> None:
        world = World(tmp_path)

        def refuse(*_: object, **__: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(world.logs, "create", refuse)
        world.apply(TopicCreated("t", TOPIC_ID, (PartitionState.fresh((1,)),) * 50))
        assert "No space left on device" in world.replicas.unopened["t"]
        assert len([r for r in caplog.records if "No space left" in r.getMessage()]) == 1

    asyncio.run(scene())
