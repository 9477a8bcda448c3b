"""Damage at the start of a broker that is not the only one with a copy: the log ends there, is fetched again,
and counts as short, however clean the last stop was.
"""

import random
from collections.abc import Callable

import pytest

from moldau.broker.log.log import Log
from moldau.broker.log.manager import LogManager
from moldau.common.core.clock import ManualClock
from moldau.common.core.timers import ManualTimers
from moldau.common.records.builder import build_simple_batch
from moldau.common.settings.broker import BrokerSettings
from moldau.common.settings.topic import TopicSettings
from moldau.testing.simulated_files import SimulatedFiles

SETTINGS = TopicSettings(segment_bytes=1_048_576)
TOPIC_ID = b"t" * 16
LOG = "/data/t-0/00000000000000000000.log"


class Disk:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.files = SimulatedFiles(now_ms=self.clock.now_ms)

    def start(self, *, sole_copy: bool) -> tuple[LogManager, Log]:
        manager = LogManager(
            BrokerSettings(),
            clock=self.clock,
            timers=ManualTimers(self.clock),
            files=self.files,
            source=random.Random(1),
            paths=["/data"],
            descriptor_limit=20,
        )
        manager.startup.load("cluster", 1, lambda topic: SETTINGS, lambda topic, partition: sole_copy)
        log = manager.create("t", 0, TOPIC_ID, SETTINGS, sole_copy=sole_copy)
        manager.startup.is_over()
        return manager, log

    def stopped_with_ten(self) -> None:
        """A clean stop with ten batches of one record."""
        manager, log = self.start(sole_copy=True)
        for number in range(10):
            batch = build_simple_batch([(b"key", b"%d" % number)], self.clock.now_ms())
            log.leader.append(memoryview(batch), leader_epoch=0, now_ms=self.clock.now_ms())
        log.writer.flush_staged()
        manager.close(clean=True)

    def flip(self, position: int) -> None:
        fd = self.files.open(LOG)
        byte = self.files.pread(fd, 1, position)[0]
        self.files.pwrite(fd, bytes([byte ^ 1]), position)
        self.files.close(fd)

    def cut(self, size_bytes: int) -> None:
        fd = self.files.open(LOG)
        self.files.truncate(fd, self.files.size_bytes(fd) - size_bytes)
        self.files.close(fd)


def lose_the_end(disk: Disk) -> None:
    disk.cut(30)


def lose_a_bit_of_the_last_length(disk: Disk) -> None:
    disk.flip(disk.files.file_size_bytes(LOG) // 10 * 9 + 10)


def lose_whole_batches(disk: Disk) -> None:
    disk.cut(disk.files.file_size_bytes(LOG) * 3 // 10)


def lose_the_topic_id(disk: Disk) -> None:
    fd = disk.files.open("/data/t-0/partition.metadata", create=True, truncate=True)
    disk.files.pwrite(fd, b"version: 0\ntopic_id: eHh4eHh4eHh4eHh4eHh4eA\n", 0)
    disk.files.close(fd)


LOSSES = [lose_the_end, lose_a_bit_of_the_last_length, lose_whole_batches]


def test_a_clean_stop_without_losses_is_clean() -> None:
    disk = Disk()
    disk.stopped_with_ten()
    manager, log = disk.start(sole_copy=False)
    assert log.log_end_offset == 10
    assert not manager.startup.missing.short


@pytest.mark.parametrize("lose", LOSSES)
def test_a_copy_that_lost_records_ends_there_and_is_not_clean(lose: Callable[[Disk], None]) -> None:
    disk = Disk()
    disk.stopped_with_ten()
    lose(disk)
    manager, log = disk.start(sole_copy=False)
    assert log.log_end_offset < 10
    assert log.log_start_offset == 0
    assert manager.startup.missing.short == {("t", 0)}


@pytest.mark.parametrize("lose", LOSSES)
def test_the_sole_copy_uses_no_offset_twice(lose: Callable[[Disk], None]) -> None:
    disk = Disk()
    disk.stopped_with_ten()
    lose(disk)
    _, log = disk.start(sole_copy=True)
    assert log.log_end_offset == 10


def test_a_copy_with_another_topic_id_begins_at_the_beginning() -> None:
    disk = Disk()
    disk.stopped_with_ten()
    lose_the_topic_id(disk)
    _, log = disk.start(sole_copy=False)
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)
