"""A partition and the turn that writes it: who is answered when, and what a failed write takes back."""

import asyncio
import errno
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from moldau.broker.log.appending.append_result import Appended, Refused
from moldau.broker.metadata.image import PartitionState
from moldau.broker.replication.group_commit import GroupCommit
from moldau.broker.replication.partition import Partition
from moldau.broker.replication.shared_parts import SharedParts
from moldau.broker.replication.topic_stats import TopicStats
from moldau.broker.replication.waiters import UNKNOWN_BYTES
from moldau.common.protocol.errors import ErrorCode
from moldau.common.settings.topic import TopicSettings


class FakeJob:
    def __init__(self, log: "FakeLog") -> None:
        self.log = log
        self.end_offset = log.written_end_offset

    def run(self) -> None:
        if self.log.fail_fsync:
            raise OSError(errno.EIO, "input/output error")


class FakeLog:
    """One offset a batch; writes and fsyncs fail when told to."""

    def __init__(self) -> None:
        self.settings = TopicSettings()
        self.offline_cause = ""
        self.damage: tuple[int, str] | None = None
        self.offline = False
        self.log_start_offset = 0
        self.log_end_offset = self.written_end_offset = self.flushed_end_offset = 0
        self.fail_write = self.fail_fsync = False
        self.job_errors: list[OSError] = []
        self.writes = 0
        self.stable: dict[int, int] = {}
        self.leader = self.writer = self.transactions = self.flusher = self  # it is its own parts

    def note_refused(self, batch: memoryview) -> None:
        """For what its producer sends next; test_refused_before_leading.py."""

    def append(self, batches: memoryview, leader_epoch: int, now_ms: int, origin: object) -> object:
        if bytes(batches) == b"bad":
            return Refused(ErrorCode.CORRUPT_MESSAGE, "bad")
        self.log_end_offset += 1
        return Appended(self.log_end_offset - 1, self.log_end_offset - 1, -1, 0)

    def flush_staged(self) -> None:
        self.writes += 1
        if self.fail_write:
            self.log_end_offset = self.written_end_offset
            raise OSError(errno.ENOSPC, "no space left")
        self.written_end_offset = self.log_end_offset

    def job(self) -> FakeJob | None:
        if self.job_errors:
            raise self.job_errors.pop()
        return FakeJob(self) if self.flushed_end_offset < self.written_end_offset else None

    def job_done(self, job: FakeJob) -> None:
        self.flushed_end_offset = max(self.flushed_end_offset, job.end_offset)

    def last_stable_offset(self, high_watermark: int) -> int:
        return self.stable.get(high_watermark, high_watermark)

    def go_offline(self) -> None:
        self.offline = True


class Waiting:
    def __init__(self) -> None:
        self.code: int | None = None

    def settle(self, error_code: int, partition: Partition) -> None:
        assert self.code is None, "settled twice"
        self.code = error_code


class Poll:
    def __init__(self) -> None:
        self.added: list[int] = []
        self.stable: list[int] = []

    def more(self, bytes_added: int, stable_bytes: int) -> None:
        self.added.append(bytes_added)
        self.stable.append(stable_bytes)


class Bench:
    def __init__(self, *, flush_before_commit: bool = False) -> None:
        self.failures: list[OSError] = []
        self.executor = ThreadPoolExecutor(1)
        loop = asyncio.get_running_loop()
        self.group_commit = GroupCommit(loop, self.executor, lambda _, error: self.failures.append(error))
        self.flush_before_commit = flush_before_commit
        self.log = FakeLog()
        self.partition = self.another(self.log)

    def another(self, log: FakeLog | None = None) -> Partition:
        shared = SharedParts(1, self.group_commit, lambda: 0.0)
        partition = Partition("t", bytes(16), 0, log or FakeLog(), shared, TopicStats())  # type: ignore[arg-type]
        partition.configure(flush_before_commit=self.flush_before_commit)
        partition.become(PartitionState.fresh((1,)))
        return partition

    def append(self, partition: Partition | None = None) -> Waiting:
        partition = partition or self.partition
        result = partition.append(memoryview(b"good"), 0, -1)
        assert not result.error_code
        waiter = Waiting()
        partition.wait_for(result.last_offset + 1, waiter)
        return waiter


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 5))


def test_all_appends_of_a_turn_share_one_write_and_are_answered_after_it() -> None:
    async def scene() -> None:
        bench = Bench()
        waiters = [bench.append() for _ in range(5)]
        assert [waiter.code for waiter in waiters] == [None] * 5
        assert bench.partition.high_watermark == 0
        await asyncio.sleep(0)
        assert [waiter.code for waiter in waiters] == [0] * 5
        assert bench.partition.high_watermark == 5
        assert bench.log.writes == 1

    run(scene())


def test_a_failed_write_is_told_to_those_whose_records_it_took_back_and_to_nobody_else() -> None:
    async def scene() -> None:
        bench = Bench()
        first = bench.append()
        await asyncio.sleep(0)
        bench.log.fail_write = True
        second, third = bench.append(), bench.append()
        await asyncio.sleep(0)
        lost = ErrorCode.KAFKA_STORAGE_ERROR
        assert (first.code, second.code, third.code) == (0, lost, lost)
        assert bench.partition.high_watermark == 1
        assert len(bench.failures) == 1
        bench.log.fail_write = False  # there is room again: it goes on by itself
        fourth = bench.append()
        await asyncio.sleep(0)
        assert fourth.code == 0
        assert bench.partition.high_watermark == 2

    run(scene())


def test_with_group_durability_the_answer_and_the_high_watermark_wait_for_the_fsync() -> None:
    async def scene() -> None:
        bench = Bench(flush_before_commit=True)
        waiter = bench.append()
        bench.group_commit.flush()
        assert waiter.code is None
        assert bench.partition.high_watermark == 0
        later = bench.append()  # comes while the fsync is on its way: shares the next one
        while later.code is None:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        assert (waiter.code, later.code) == (0, 0)
        assert bench.partition.high_watermark == 2

    run(scene())


def test_a_failed_fsync_acknowledges_nothing() -> None:
    async def scene() -> None:
        bench = Bench(flush_before_commit=True)
        bench.log.fail_fsync = True
        waiter = bench.append()
        while not bench.failures:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        assert waiter.code is None
        assert bench.partition.high_watermark == 0
        bench.partition.close(ErrorCode.KAFKA_STORAGE_ERROR)  # what the manager does then
        assert waiter.code == ErrorCode.KAFKA_STORAGE_ERROR

    run(scene())


def test_long_polls_hear_of_what_became_visible() -> None:
    async def scene() -> None:
        bench = Bench()
        poll = Poll()
        bench.partition.park(poll)
        bench.append()
        bench.append()
        assert poll.added == []
        await asyncio.sleep(0)
        assert len(poll.added) == 1
        assert poll.added[0] > 0
        bench.partition.changed()
        assert poll.added[1:] == [0]

    run(scene())


def test_too_few_in_sync_replicas_refuse_acks_all_only() -> None:
    async def scene() -> None:
        bench = Bench()
        bench.log.settings = TopicSettings(min_insync_replicas=2)
        bench.partition.configure(flush_before_commit=False)
        assert bench.partition.append(memoryview(b"good"), 0, -1).error_code == 0, "all that there are"
        bench.partition.become(PartitionState(1, 0, 1, (1, 2), (1,)))
        assert bench.partition.append(memoryview(b"good"), 0, -1).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert bench.partition.append(memoryview(b"good"), 0, 1).error_code == 0

    run(scene())


def test_a_closed_partition_takes_nothing_and_leaves_nobody_waiting() -> None:
    async def scene() -> None:
        bench = Bench()
        waiter = bench.append()
        bench.partition.close(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        assert waiter.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert bench.partition.append(memoryview(b"good"), 0, 1).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        await asyncio.sleep(0)

    run(scene())


@pytest.mark.parametrize("acks", [-1, 0, 1])
def test_a_refused_batch_writes_nothing(acks: int) -> None:
    async def scene() -> None:
        bench = Bench()
        result = bench.partition.append(memoryview(b"bad"), 0, acks)
        assert result.error_code == ErrorCode.CORRUPT_MESSAGE
        await asyncio.sleep(0)
        assert bench.log.writes == 0

    run(scene())


async def until(told: Callable[[], bool]) -> None:
    while not told():  # noqa: ASYNC110
        await asyncio.sleep(0.001)


def test_what_somebody_else_has_flushed_meanwhile_is_committed_too() -> None:
    async def scene() -> None:
        bench = Bench(flush_before_commit=True)
        busy = threading.Event()
        bench.executor.submit(busy.wait)
        other = bench.another()
        first = bench.append(other)
        bench.group_commit.flush()  # its fsync waits for the thread
        second = bench.append()
        bench.group_commit.flush()
        job = bench.log.flusher.job()  # as housekeeping does after a roll, and by flush.ms
        assert job is not None
        bench.log.flusher.job_done(job)
        busy.set()
        await until(lambda: first.code is not None)
        await until(lambda: second.code is not None)
        assert (first.code, second.code) == (0, 0)
        assert bench.partition.high_watermark == 1

    run(scene())


def test_long_polls_for_committed_records_hear_of_what_is_set_free_and_of_nothing_else() -> None:
    async def scene() -> None:
        bench = Bench()
        poll = Poll()
        bench.partition.park(poll)
        bench.log.stable = {2: 1, 3: 1, 4: 3, 7: 6}
        for told in (
            4,  # no transaction
            0,  # one begins
            0,  # it goes on
            UNKNOWN_BYTES,  # it ends, another is open
            UNKNOWN_BYTES,  # all have ended
            4,
            0,
            UNKNOWN_BYTES,
        ):
            bench.append()
            await asyncio.sleep(0)
            assert (poll.added.pop(), poll.stable.pop()) == (4, told)
            assert not poll.added

    run(scene())


def test_an_fsync_that_cannot_be_begun_for_a_moment_is_tried_again() -> None:
    async def scene() -> None:
        bench = Bench(flush_before_commit=True)
        bench.log.job_errors = [OSError(errno.EMFILE, "too many open files")]
        waiter = bench.append()
        await until(lambda: waiter.code is not None)
        assert waiter.code == 0
        assert [failure.errno for failure in bench.failures] == [errno.EMFILE]

    run(scene())


@pytest.mark.parametrize("flush_before_commit", [False, True])
def test_what_was_written_before_a_write_failed_is_committed(flush_before_commit: bool) -> None:
    async def scene() -> None:
        bench = Bench(flush_before_commit=flush_before_commit)
        large = bench.append()
        bench.log.writer.flush_staged()  # a large batch is written at once
        bench.log.fail_write = True
        lost = bench.append()
        await until(lambda: large.code is not None)
        assert (large.code, lost.code) == (0, ErrorCode.KAFKA_STORAGE_ERROR)
        assert bench.partition.high_watermark == 1

    run(scene())


@pytest.mark.parametrize("flush_before_commit", [False, True])
def test_a_bug_in_one_answer_costs_the_others_of_the_turn_nothing(flush_before_commit: bool) -> None:
    class Broken:
        def more(self, bytes_added: int, stable_bytes: int) -> None:
            raise RuntimeError("a bug")

    async def scene() -> None:
        bench = Bench(flush_before_commit=flush_before_commit)
        poll = Poll()
        bench.partition.park(Broken())
        bench.partition.park(poll)
        other = bench.another()
        waiters = [bench.append(), bench.append(other)]
        await until(lambda: all(waiter.code is not None for waiter in waiters))
        later = [bench.append(), bench.append(other)]
        await until(lambda: all(waiter.code is not None for waiter in later))
        assert [waiter.code for waiter in waiters + later] == [0] * 4
        assert len(poll.added) == 2
        bench.append()
        last = bench.append(other)
        bench.partition.close(ErrorCode.KAFKA_STORAGE_ERROR)
        await until(lambda: last.code == 0)
        assert poll.added[2:] == [0]

    run(scene())


@pytest.mark.parametrize("flush_before_commit", [False, True])
def test_of_a_partition_that_was_closed_nothing_is_written_or_forced(flush_before_commit: bool) -> None:
    """Its log may be deleted: its file would be opened again, and stay so."""

    async def scene() -> None:
        bench = Bench(flush_before_commit=flush_before_commit)
        other = bench.another()
        waiter, behind = bench.append(), bench.append(other)
        if flush_before_commit:
            bench.log.writer.flush_staged()
            bench.group_commit.fsync_soon(other)
            bench.group_commit.fsync_soon(bench.partition)
        bench.partition.close(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        await until(lambda: behind.code == 0)
        await bench.group_commit.settle()
        assert waiter.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert bench.log.writes == int(flush_before_commit)
        assert bench.log.flushed_end_offset == 0

    run(scene())


def test_a_bug_in_one_log_takes_its_partition_offline_and_the_others_of_the_turn_are_written() -> None:
    class BrokenLog(FakeLog):
        def flush_staged(self) -> None:
            raise RuntimeError("a bug")

    async def scene() -> None:
        bench = Bench()
        broken, whole = bench.another(BrokenLog()), bench.another()
        lost, kept = bench.append(broken), bench.append(whole)
        await until(lambda: kept.code == 0)
        assert lost.code == ErrorCode.KAFKA_STORAGE_ERROR
        assert broken.log.offline
        again = broken.append(memoryview(b"good"), 0, -1)
        assert again.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert "a bug" in (again.error_message or "")

    run(scene())


def test_a_mirrors_log_that_has_moved_keeps_all_too() -> None:
    """Retention by age stands still: the source's log start is followed."""

    async def scenario() -> None:
        bench = Bench()
        bench.partition.configure(flush_before_commit=False, is_mirror=True)
        moved: Any = FakeLog()
        bench.partition.replace_log(moved)
        assert moved.keeps_all

    asyncio.run(scenario())
