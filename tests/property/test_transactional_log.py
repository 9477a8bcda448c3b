"""A log with transactions against a list of what was written: whatever happens to both, a read_committed
consumer that filters by the log's list of aborted transactions sees exactly the committed records.

The consumer here does what real ones do: of each answer it takes the aborted transactions by their first
offset, drops the batches of a producer from there on, and stops dropping at the abort marker.
"""

import errno
from collections.abc import Callable
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from moldau.broker.log.log import Log, Origin
from moldau.broker.log.recovery.recovery import open_log
from moldau.broker.log.state.producers import Producers
from moldau.broker.log.state.transaction_index import AbortedTransaction
from moldau.common.protocol.errors import ErrorCode
from moldau.common.records.batch import BatchView, iter_batches
from moldau.common.records.builder import build_batch
from moldau.common.records.control import ControlType, EndTransactionMarker, parse_end_transaction_marker
from moldau.common.records.record import Record
from moldau.common.settings.topic import TopicSettings
from moldau.testing.simulated_files import SimulatedFiles

NOW_MS = 1_700_000_000_000
SETTINGS = TopicSettings(internal_segment_bytes=900, index_interval_bytes=150, retention_bytes=2500)
PRODUCERS = (1, 2, 3, 4)
COORDINATED = 9
"""A producer whose offsets a coordinator writes: without sequence numbers, without guards."""
producers = st.sampled_from(PRODUCERS)


class Written(NamedTuple):
    """One batch of the list."""

    base_offset: int
    last_offset: int
    producer_id: int
    producer_epoch: int
    next_sequence: int
    transactional: bool
    ends: ControlType | None


class Known(NamedTuple):
    """What the list says of one producer."""

    producer_epoch: int = 0
    next_sequence: int = 0
    first_offset: int = -1


class LogAndList(RuleBasedStateMachine):
    """`written` is in the file, `staged` is not yet; both also hold what retention has deleted."""

    @initialize(versions=st.lists(st.sampled_from([1, 2]), min_size=10, max_size=10))
    def begin(self, versions: list[int]) -> None:
        self.versions = versions
        self.files = SimulatedFiles()
        self.written: list[Written] = []
        self.staged: list[Written] = []
        self.start = 0
        self.high_watermark = 0
        self.recovery_point = 0
        self.log = self.open(clean=False)

    def open(self, *, clean: bool) -> Log:
        return open_log(
            self.files,
            "/d/t-0",
            "t",
            0,
            SETTINGS,
            clean=clean,
            recovery_point=self.recovery_point,
            log_start_offset=self.start,
            now_ms=NOW_MS,
        ).log

    # -- what the list says ------------------------------------------------------------------------

    def known(self, producer_id: int) -> Known:
        known = Known()
        for each in (*self.written, *self.staged):
            if each.producer_id != producer_id:
                continue
            first = known.first_offset
            if each.ends is not None:
                first = -1
            elif each.transactional and first < 0:
                first = each.base_offset
            same = each.ends is not None and each.producer_epoch == known.producer_epoch
            sequence = known.next_sequence if same else each.next_sequence
            known = Known(each.producer_epoch, sequence, first)
        return known

    def open_firsts(self) -> dict[int, int]:
        everybody = (*PRODUCERS, COORDINATED)
        firsts = {each: self.known(each).first_offset for each in everybody}
        return {each: first for each, first in firsts.items() if first >= 0}

    def ended(self, written: list[Written]) -> list[tuple[AbortedTransaction, ControlType]]:
        """Every transaction that a marker has ended."""
        begun: dict[int, int] = {}
        ended = []
        for each in written:
            if each.ends is not None and each.producer_id in begun:
                first = begun.pop(each.producer_id)
                stable = min(begun.values(), default=each.base_offset + 1)
                entry = AbortedTransaction(each.producer_id, first, each.base_offset, stable)
                ended.append((entry, each.ends))
            elif each.ends is None and each.transactional:
                begun.setdefault(each.producer_id, each.base_offset)
        return ended

    # -- changes -----------------------------------------------------------------------------------

    def note(self, each: Written) -> None:
        self.staged.append(each)
        # A roll in the middle of a turn writes what is staged.
        while self.staged and self.staged[0].last_offset < self.log.written_end_offset:
            self.written.append(self.staged.pop(0))

    def batch(self, producer_id: int, count: int, codec: str, known: Known, transactional: bool) -> bytearray:
        records = [Record(i, NOW_MS, None, bytes([producer_id]) * 40) for i in range(count)]
        return build_batch(
            records,
            compression=codec,
            producer_id=producer_id,
            producer_epoch=known.producer_epoch,
            base_sequence=-1 if producer_id == COORDINATED else known.next_sequence,
            transactional=transactional,
        )

    @rule(producer_id=producers, count=st.integers(1, 3), codec=st.sampled_from(["none", "lz4"]))
    def write(self, producer_id: int, count: int, codec: str) -> None:
        """A batch of a transaction, which it begins or goes on with; then the same once more."""
        known = self.known(producer_id)
        data = memoryview(self.batch(producer_id, count, codec, known, transactional=True))
        base = self.log.log_end_offset
        result = self.log.leader.append(data, leader_epoch=0, now_ms=NOW_MS)
        assert self.log.transactions.is_open(producer_id, known.producer_epoch) == (known.first_offset >= 0)
        if known.first_offset < 0:
            assert result.error_code == ErrorCode.INVALID_TXN_STATE
            guard = self.log.transactions.begin_verification(
                producer_id, known.producer_epoch, known.next_sequence
            )
            result = self.log.leader.append_verified(data, 0, NOW_MS, guard)
        assert (result.error_code, result.base_offset) == (0, base), result
        sequence = known.next_sequence + count
        self.note(Written(base, base + count - 1, producer_id, known.producer_epoch, sequence, True, None))
        again = self.log.leader.append(data, leader_epoch=0, now_ms=NOW_MS)
        assert (again.duplicate, again.base_offset) == (True, base)

    @rule(producer_id=producers)
    def write_outside(self, producer_id: int) -> None:
        """A batch outside of any transaction is refused while the producer has one open."""
        known = self.known(producer_id)
        data = memoryview(self.batch(producer_id, 1, "none", known, transactional=False))
        base = self.log.log_end_offset
        result = self.log.leader.append(data, leader_epoch=0, now_ms=NOW_MS)
        if known.first_offset >= 0:
            assert result.error_code == ErrorCode.INVALID_TXN_STATE
            return
        assert result.error_code == 0, result
        sequence = known.next_sequence + 1
        self.note(Written(base, base, producer_id, known.producer_epoch, sequence, False, None))

    @rule(count=st.integers(1, 3))
    def write_offsets(self, count: int) -> None:
        known = self.known(COORDINATED)
        data = self.batch(COORDINATED, count, "none", known, transactional=True)
        base = self.log.log_end_offset
        result = self.log.leader.append(memoryview(data), 0, NOW_MS, Origin.COORDINATOR)
        assert result.error_code == 0, result
        self.note(Written(base, base + count - 1, COORDINATED, known.producer_epoch, 0, True, None))

    @rule(
        producer_id=st.sampled_from([*PRODUCERS, COORDINATED]),
        ends=st.sampled_from([ControlType.ABORT, ControlType.COMMIT]),
    )
    def end(self, producer_id: int, ends: ControlType) -> None:
        """A marker, also where nothing is open; a guard taken before is broken by it."""
        known = self.known(producer_id)
        version = self.versions[producer_id]
        guard = self.log.transactions.begin_verification(producer_id, known.producer_epoch)
        base = self.log.log_end_offset
        marker = EndTransactionMarker(ends, coordinator_epoch=5)
        if version == 2 and known.first_offset >= 0:
            refused = self.log.leader.append_marker(
                marker, producer_id, known.producer_epoch, 0, NOW_MS, version
            )
            assert refused.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
        epoch = known.producer_epoch + version - 1
        result = self.log.leader.append_marker(marker, producer_id, epoch, 0, NOW_MS, version)
        assert (result.error_code, result.base_offset) == (0, base), result
        self.note(Written(base, base, producer_id, epoch, 0, True, ends))
        late = memoryview(self.batch(producer_id, 2, "none", known, transactional=True))
        refused = self.log.leader.append_verified(late, 0, NOW_MS, guard)
        assert refused.error_code in (
            ErrorCode.INVALID_TXN_STATE,
            ErrorCode.INVALID_PRODUCER_EPOCH,
            ErrorCode.INVALID_RECORD,
        )
        zombie = self.log.leader.append_marker(
            marker._replace(coordinator_epoch=4), producer_id, epoch, 0, NOW_MS
        )
        assert zombie.error_code == ErrorCode.TRANSACTION_COORDINATOR_FENCED

    @rule()
    def flush(self) -> None:
        self.log.writer.flush_staged()
        self.written += self.staged
        self.staged = []

    @rule(ahead=st.integers(0, 9))
    def advance(self, ahead: int) -> None:
        self.high_watermark = min(self.high_watermark + ahead, self.log.written_end_offset)

    @precondition(lambda self: self.staged)
    @rule()
    def fail(self) -> None:
        """The disk does not take the turn's write."""
        with self.refusing(lambda operation, path: operation == "write" and path.endswith(".log")):
            try:
                self.log.writer.flush_staged()
            except OSError:
                self.staged = []
                return
        raise AssertionError("a failed write was not noticed")

    def refusing(self, which: Callable[[str, str], bool]) -> "_Faults":
        return _Faults(self.files, which)

    @rule()
    def roll(self) -> None:
        self.flush()
        self.log.writer.roll(NOW_MS)

    @rule()
    def sync(self) -> None:
        job = self.log.flusher.job()
        if job is not None:
            job.run()
            self.log.flusher.job_done(job)
        self.recovery_point = self.log.flusher.recovery_point

    @rule(back=st.integers(0, 30))
    def truncate(self, back: int) -> None:
        self.flush()
        if self.written:
            self.log.truncate_to(max(self.start, self.log.log_end_offset - back))
            end_offset = self.log.log_end_offset
            self.written = [each for each in self.written if each.last_offset < end_offset]
            # What is left of a log after a cut or a restart is taken for replicated.
            self.high_watermark = end_offset
            self.recovery_point = min(self.recovery_point, end_offset)
            self.start = min(self.start, end_offset)

    @rule(count=st.integers(0, 8))
    def delete_records(self, count: int) -> None:
        self.high_watermark = self.log.written_end_offset
        offset = min(self.high_watermark, self.start + count)
        self.log.increment_log_start_offset(offset)
        self.start = max(self.start, offset)

    @rule()
    def retain(self) -> None:
        self.flush()
        self.high_watermark = self.log.written_end_offset
        for path in self.log.apply_retention(NOW_MS, self.high_watermark):
            self.files.remove(path)
        self.start = self.log.log_start_offset

    @rule()
    def expire(self) -> None:
        """Producers without an open transaction are forgotten, and the list must not ask for their numbers:
        so only that open ones stay is looked at, on a copy.
        """
        copy = Producers()
        copy.load(dict(self.log.producers.states))
        copy.expire(NOW_MS + 10**9, 1)
        assert set(copy.states) == set(self.open_firsts())

    @rule(clean=st.booleans())
    def reopen(self, clean: bool) -> None:
        self.flush()
        before = self.log.producers
        self.log.close(clean=clean)
        if clean:
            self.recovery_point = self.log.flusher.recovery_point
        self.log = self.open(clean=clean)
        self.high_watermark = self.log.written_end_offset
        # A snapshot remembers the last batch only, and that with the time of the state.
        strip = [{p: s[:6] for p, s in each.states.items()} for each in (before, self.log.producers)]
        assert strip[0] == strip[1]
        assert list(before.ongoing.items()) == list(self.log.producers.ongoing.items())

    # -- what must be true -------------------------------------------------------------------------

    @invariant()
    def stable(self) -> None:
        if not hasattr(self, "log"):
            return
        undecided = list(self.open_firsts().values())
        undecided += [
            each.first_offset
            for each, _ in self.ended([*self.written, *self.staged])
            if each.last_offset >= self.high_watermark
        ]
        wanted = min(self.high_watermark, max(self.start, min(undecided, default=1 << 60)))
        assert self.log.transactions.last_stable_offset(self.high_watermark) == wanted

    @rule(max_bytes=st.sampled_from([1, 150, 400, 5000]))
    def consume(self, max_bytes: int) -> None:
        stable = self.log.transactions.last_stable_offset(self.high_watermark)
        end_of = {(each.producer_id, each.first_offset): ends for each, ends in self.ended(self.written)}
        aborted_offsets: set[int] = set()
        begun: dict[int, list[int]] = {}
        for each in self.written:
            if each.ends is not None:
                offsets = begun.pop(each.producer_id, [])
                if offsets and each.ends == ControlType.ABORT:
                    assert end_of[each.producer_id, offsets[0]] == ControlType.ABORT
                    aborted_offsets.update(offsets)
            elif each.transactional:
                begun.setdefault(each.producer_id, []).extend(range(each.base_offset, each.last_offset + 1))
        wanted = [
            offset
            for each in self.written
            if each.ends is None
            for offset in range(each.base_offset, each.last_offset + 1)
            if self.start <= offset < stable and offset not in aborted_offsets
        ]
        assert self.seen(stable, max_bytes) == wanted

    def seen(self, stable: int, max_bytes: int) -> list[int]:
        """The offsets that a read_committed consumer shows its application."""
        shown: list[int] = []
        position = self.start
        while position < stable:
            data = self.log.reader.read(position, max_bytes, end_offset=stable)
            listed = self.log.transactions.aborted_for_fetch(position, self.log.reader.read_end)
            whole = self.log.transactions.aborted_for_fetch(position, stable)
            assert set(listed) <= set(whole)
            pending = sorted(listed, key=lambda each: each[1])
            dropped: set[int] = set()
            for view in iter_batches(data):
                while pending and pending[0][1] <= view.last_offset:
                    dropped.add(pending.pop(0)[0])
                if view.is_control:
                    if _is_abort(view):
                        dropped.discard(view.producer_id)
                elif not (view.is_transactional and view.producer_id in dropped):
                    shown += [record.offset for record in view.records() if record.offset >= position]
                end_offset = view.next_offset
            assert end_offset == self.log.reader.read_end
            position = end_offset
        return shown

    @rule(data=st.data())
    def search(self, data: st.DataObject) -> None:
        """Any range, against the list; what retention has deleted may be missing."""
        end = self.log.written_end_offset
        first = data.draw(st.integers(self.start, end))
        last = data.draw(st.integers(first, end + 1))
        base = self.log.segments[0].base_offset
        wanted = [
            entry
            for entry, ends in self.ended(self.written)
            if ends == ControlType.ABORT and entry.last_offset >= first and entry.first_offset < last
        ]
        found = self.log.transactions.aborted_in(first, last)
        # An entry at the end of the range whose transaction only touches it from before is listed, too.
        assert [each for each in wanted if each.last_offset >= base] == found


class _Faults:
    """While it lasts, the disk refuses some operations."""

    def __init__(self, files: SimulatedFiles, which: Callable[[str, str], bool]) -> None:
        self.files = files
        self.which = which

    def __enter__(self) -> None:
        def fault(operation: str, path: str) -> None:
            if self.which(operation, path):
                raise OSError(errno.EIO, "simulated")

        self.files.fault = fault

    def __exit__(self, *error: object) -> None:
        self.files.fault = lambda operation, path: None


def _is_abort(view: BatchView) -> bool:
    marker = parse_end_transaction_marker(next(iter(view.records())))
    return marker is not None and marker.control_type == ControlType.ABORT


TestTransactionalLog = LogAndList.TestCase
TestTransactionalLog.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
