"""A follower that fetches whatever a leader writes, in answers cut anywhere, over a disk that fails and a
broker that is killed, has the leader's log: bytes, leader epochs, producers, open and aborted transactions.
"""

import errno

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from moldau.broker.log.log import Log
from moldau.broker.log.recovery.recovery import open_log
from moldau.common.protocol.errors import ErrorCode
from moldau.common.records.builder import build_batch
from moldau.common.records.control import ControlType, EndTransactionMarker
from moldau.common.records.record import Record
from moldau.common.settings.topic import TopicSettings
from moldau.testing.simulated_files import SimulatedFiles

NOW_MS = 1_700_000_000_000
producer_ids = st.integers(1, 3)


def settings_of(segment_bytes: int) -> TopicSettings:
    return TopicSettings(internal_segment_bytes=segment_bytes, index_interval_bytes=150)


class LeaderAndFollower(RuleBasedStateMachine):
    @initialize(segment_bytes=st.sampled_from([400, 900, 100_000]))
    def begin(self, segment_bytes: int) -> None:
        self.leader_epoch = 0
        self.sequences: dict[int, int] = {}
        self.recovery_point = 0
        self.leader = open_log(SimulatedFiles(), "/l/t-0", "t", 0, settings_of(900), now_ms=NOW_MS).log
        self.files = SimulatedFiles()
        self.segment_bytes = segment_bytes
        self.follower = self.open(clean=False)

    def open(self, *, clean: bool) -> Log:
        return open_log(
            self.files,
            "/f/t-0",
            "t",
            0,
            settings_of(self.segment_bytes),
            clean=clean,
            recovery_point=self.recovery_point,
            now_ms=NOW_MS,
        ).log

    # -- the leader --------------------------------------------------------------------------------

    @rule(count=st.integers(1, 4), codec=st.sampled_from(["none", "lz4"]), size=st.sampled_from([1, 60, 400]))
    def write(self, count: int, codec: str, size: int) -> None:
        records = [Record(i, NOW_MS, None, b"v" * size) for i in range(count)]
        data = memoryview(build_batch(records, compression=codec))
        self.accept(self.leader.leader.append(data, self.leader_epoch, NOW_MS))

    @rule(producer_id=producer_ids, count=st.integers(1, 3))
    def write_in_transaction(self, producer_id: int, count: int) -> None:
        sequence = self.sequences.get(producer_id, 0)
        data = build_batch(
            [Record(i, NOW_MS, None, b"t") for i in range(count)],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
            transactional=True,
        )
        guard = self.leader.transactions.begin_verification(producer_id, 0, sequence)
        self.accept(self.leader.leader.append_verified(memoryview(data), self.leader_epoch, NOW_MS, guard))
        self.sequences[producer_id] = sequence + count

    @rule(producer_id=producer_ids, kind=st.sampled_from([ControlType.ABORT, ControlType.COMMIT]))
    def end_transaction(self, producer_id: int, kind: ControlType) -> None:
        marker = EndTransactionMarker(kind, 2)
        self.accept(self.leader.leader.append_marker(marker, producer_id, 0, self.leader_epoch, NOW_MS))

    def accept(self, result: object) -> None:
        assert getattr(result, "error_code", -1) == 0
        self.leader.writer.flush_staged()

    @rule()
    def elect(self) -> None:
        self.leader_epoch += 1

    # -- the follower ------------------------------------------------------------------------------

    def answer(self, max_bytes: int) -> bytes:
        """What the leader has from the follower's end on, cut anywhere."""
        data, offset = b"", self.follower.log_end_offset
        end = self.leader.written_end_offset
        while offset < end and len(data) < max_bytes:
            data += bytes(self.leader.reader.read(offset, max_bytes, end_offset=end))
            offset = self.leader.reader.read_end
        return data[:max_bytes]

    @rule(max_bytes=st.one_of(st.integers(1, 2000), st.just(1 << 20)))
    def fetch(self, max_bytes: int) -> None:
        before = self.follower.log_end_offset
        data = self.answer(max_bytes)
        result = self.follower.append_as_follower(memoryview(data), self.leader_epoch, NOW_MS)
        assert result.error_code == 0
        assert result.end_offset == self.follower.log_end_offset == self.follower.written_end_offset
        assert (result.size_bytes > 0) == (result.end_offset > before)
        assert result.size_bytes <= len(data)

    @rule(position=st.integers(0, 1 << 20), bit=st.integers(0, 7))
    def fetch_damaged(self, position: int, bit: int) -> None:
        """Nothing that a crc covers gets in damaged, and an answer is taken whole or not at all."""
        data = bytearray(self.answer(1 << 20))
        if not data:
            return
        before = self.follower.log_end_offset
        batch = position % len(data)
        data[batch] ^= 1 << bit
        # The first bytes of a header (offset, length, epoch) are covered by no crc: damage there may cut the
        # answer, or pass. Only the rest is judged here.
        start = 0
        while start < len(data):
            size = int.from_bytes(self.answer(1 << 20)[start + 8 : start + 12], "big") + 12
            if start <= batch < start + size:
                break
            start += size
        if batch - start < 16:
            return
        result = self.follower.append_as_follower(memoryview(data), self.leader_epoch, NOW_MS)
        assert result.error_code == ErrorCode.CORRUPT_MESSAGE
        assert result.size_bytes == 0
        assert result.end_offset == self.follower.log_end_offset == before

    @rule(count=st.integers(0, 6), max_bytes=st.integers(100, 3000))
    def fetch_to_a_failing_disk(self, count: int, max_bytes: int) -> None:
        left = [count]

        def fault(operation: str, path: str) -> None:
            left[0] -= 1
            if left[0] < 0 and operation in ("write", "create"):
                raise OSError(errno.ENOSPC, "no room")

        before = self.follower.log_end_offset
        data = self.answer(max_bytes)
        self.files.fault = fault
        result = self.follower.append_as_follower(memoryview(data), self.leader_epoch, NOW_MS)
        self.files.fault = lambda operation, path: None
        assert result.error_code in (0, ErrorCode.KAFKA_STORAGE_ERROR)
        assert result.end_offset == self.follower.log_end_offset == self.follower.written_end_offset >= before
        assert (result.size_bytes > 0) == (result.end_offset > before)

    @rule(back=st.integers(0, 10))
    def truncate(self, back: int) -> None:
        self.follower.truncate_to(max(0, self.follower.log_end_offset - back))
        self.recovery_point = min(self.recovery_point, self.follower.log_end_offset)

    @rule()
    def sync(self) -> None:
        job = self.follower.flusher.job()
        if job is not None:
            job.run()
            self.follower.flusher.job_done(job)
        self.recovery_point = self.follower.flusher.recovery_point

    @rule(power_cut=st.booleans())
    def crash(self, power_cut: bool) -> None:
        if power_cut:
            self.files.power_cut()
        else:
            self.files.process_kill()
        before = self.follower
        self.follower = self.open(clean=False)
        assert self.follower.log_end_offset <= before.log_end_offset
        assert power_cut or self.follower.log_end_offset == before.log_end_offset
        assert self.follower.log_end_offset >= self.recovery_point

    @rule()
    def restart(self) -> None:
        self.follower.close()
        self.recovery_point = self.follower.flusher.recovery_point
        self.follower = self.open(clean=True)

    # -- both --------------------------------------------------------------------------------------

    @invariant()
    def the_follower_has_the_leaders_beginning(self) -> None:
        if not hasattr(self, "follower"):
            return
        end = self.follower.log_end_offset
        assert content(self.follower, end) == content(self.leader, end)
        assert self.follower.epochs.entries() == [
            (epoch, start) for epoch, start in self.leader.epochs.entries() if start < end
        ]
        if end == self.leader.log_end_offset:
            assert transactions(self.follower, end) == transactions(self.leader, end)
            mine, theirs = self.follower.producers.states, self.leader.producers.states
            for producer_id, state in theirs.items():
                # A restart remembers only the last batch.
                assert mine[producer_id]._replace(batches=()) == state._replace(batches=())
                assert mine[producer_id].batches[-1:] == state.batches[-1:]


def content(log: Log, end: int) -> bytes:
    data, offset = b"", 0
    while offset < end:
        data += bytes(log.reader.read(offset, 1 << 20, end_offset=end))
        offset = log.reader.read_end
    return data


def transactions(log: Log, end: int) -> tuple[object, ...]:
    return (
        dict(log.producers.ongoing),
        sorted(log.transactions.aborted_in(0, end)),
        log.transactions.last_stable_offset(end),
    )


LeaderAndFollower.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestLeaderAndFollower = LeaderAndFollower.TestCase
