"""A start on a full disk: partitions that cannot be opened now are opened once there is room, with their
records and their offsets.
"""

import asyncio
import errno
import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from moldau.broker.log.log import Log
from moldau.broker.log.manager import LogManager
from moldau.broker.metadata.changes import TopicCreated, replay
from moldau.broker.metadata.image import EMPTY_IMAGE, PartitionState
from moldau.broker.replication.group_commit import GroupCommit
from moldau.broker.replication.manager import ReplicaManager
from moldau.common.core.clock import ManualClock
from moldau.common.core.timers import ManualTimers
from moldau.common.records.builder import build_simple_batch
from moldau.common.settings.broker import BrokerSettings
from moldau.common.settings.topic import TopicSettings
from moldau.testing.simulated_files import SimulatedFiles

TOPIC_ID = bytes(range(16))
SETTINGS = TopicSettings(internal_segment_bytes=1200, index_interval_bytes=200)
IMAGE = replay(EMPTY_IMAGE, 1, [TopicCreated("t", TOPIC_ID, (PartitionState.fresh((1,)),))])


class Broker:
    """The parts of one life of a broker that decide about partitions' folders."""

    def __init__(self, files: SimulatedFiles, clock: ManualClock) -> None:
        settings = BrokerSettings()
        self.logs = LogManager(
            settings,
            clock=clock,
            timers=ManualTimers(clock),
            files=files,
            source=random.Random(1),
            paths=["/data"],
        )
        self.logs.startup.load("cluster", 1, lambda topic: SETTINGS)
        group_commit = GroupCommit(
            asyncio.get_running_loop(), ThreadPoolExecutor(1), lambda partition, error: None
        )
        self.replicas = ReplicaManager(1, settings, self.logs, clock, group_commit)
        self.replicas.apply(EMPTY_IMAGE, IMAGE, ())
        self.replicas.set_strays_aside()

    def log(self) -> Log | None:
        return self.logs.get("t", 0)

    def make_room(self) -> None:
        for directory in self.logs.directories:
            directory.full = False
        self.replicas.open_missing(IMAGE)


@pytest.mark.parametrize("missing", ["index", "partition.metadata", "folder"])
def test_a_partition_that_finds_no_room_at_the_start_keeps_records_and_offsets(missing: str) -> None:
    async def scene() -> None:
        clock = ManualClock()
        files = SimulatedFiles(now_ms=clock.now_ms)
        before = Broker(files, clock)
        log = before.log()
        assert log is not None
        log.reconfigure(SETTINGS)
        for _ in range(100):
            batch = build_simple_batch([(b"key", b"v" * 200)], clock.now_ms())
            log.leader.append(memoryview(batch), leader_epoch=0, now_ms=clock.now_ms())
            log.writer.flush_staged()
        before.logs.checkpoints.save_high_watermarks({("t", 0): 100})
        files.process_kill()
        if missing == "folder":
            files.remove_tree("/data/t-0")
        elif missing == "partition.metadata":
            files.remove("/data/t-0/partition.metadata")

        def full(operation: str, path: str) -> None:
            meant = missing == "index" or path.endswith("partition.metadata.tmp")
            if meant and operation in ("write", "create") and "/t-0/" in path:
                raise OSError(errno.ENOSPC, "no space left", path)

        files.fault = full
        broker = Broker(files, clock)
        assert not [name for name in files.list_directory("/data") if name.endswith("-stray")]
        assert not [path for path in files.open_paths() if "/t-0/" in path], "each attempt leaves files open"
        files.fault = lambda operation, path: None
        broker.make_room()
        log = broker.log()
        assert log is not None
        assert broker.replicas.partition("t", 0) is not None
        assert log.log_end_offset == 100
        assert log.log_start_offset == (100 if missing == "folder" else 0)

    asyncio.run(scene())


def test_what_is_appended_behind_a_gap_found_when_there_was_room_again_survives_a_kill() -> None:
    async def scene() -> None:
        clock = ManualClock()
        files = SimulatedFiles(now_ms=clock.now_ms)
        before = Broker(files, clock)
        log = before.log()
        assert log is not None
        log.reconfigure(SETTINGS)
        batch = build_simple_batch([(b"key", b"v" * 200)], clock.now_ms())
        for _ in range(100):
            log.leader.append(memoryview(batch), leader_epoch=0, now_ms=clock.now_ms())
            log.writer.flush_staged()
        before.logs.checkpoints.save_high_watermarks({("t", 0): 150})  # fifty more were lost with a power cut
        files.process_kill()

        def full(operation: str, path: str) -> None:
            if operation in ("write", "create") and "/t-0/" in path:
                raise OSError(errno.ENOSPC, "no space left", path)

        files.fault = full
        broker = Broker(files, clock)
        files.fault = lambda operation, path: None
        broker.make_room()
        log = broker.log()
        assert log is not None
        assert log.leader.append(memoryview(batch), leader_epoch=0, now_ms=clock.now_ms()).base_offset == 150
        log.writer.flush_staged()
        files.process_kill()
        log = Broker(files, clock).log()
        assert log is not None
        assert log.log_end_offset == 151
        assert log.reader.read(150, 1000, end_offset=151)

    asyncio.run(scene())
