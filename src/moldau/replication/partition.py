"""A partition as its leader sees it: the log, the high watermark, and who waits for it to move.

    append ──> log (staged) ──> written at the end of the turn ──> [fsynced] ──> high watermark ──> answers,
    long polls

The high watermark is the first offset that is not yet safe on every in-sync replica. With one replica it
follows what is written (durability `os`) or what is fsynced (durability `group`); consumers never see what
lies above it, so that no record is shown that a crash could take back. Followers will hold it back further;
nothing else here will change.

Invariant: the high watermark never falls; `waiting` is ordered by offset, because offsets are handed out in
order. Hot: `append` and `advance` run for every Produce request. Budget with the
connection: bench/hot_path.py.
"""

from collections import deque
from typing import TYPE_CHECKING, Protocol

from moldau.log.log import AppendResult, Log, Origin, Refused
from moldau.metadata.image import INTERNAL_TOPICS
from moldau.protocol.errors import ErrorCode
from moldau.records.control import MARKER_BYTES, EndTransactionMarker
from moldau.replication.group_commit import GroupCommit

if TYPE_CHECKING:
    from moldau.log.inspection import Inspection
    from moldau.log.producers import Verification


UNKNOWN_BYTES = -1
"""As many as a marker has set free."""


class Waiter(Protocol):
    """Somebody whose answer depends on an offset of this partition."""

    def settle(self, error_code: int, partition: "Partition") -> None:
        """The offset is committed (0), or it never will be (an error code)."""


class FetchWaiter(Protocol):
    """A long poll."""

    def more(self, bytes_added: int, stable_bytes: int) -> None:
        """`bytes_added` more bytes can be read now; 0: something else changed. Of them, or of what was
        there before, `stable_bytes` by those who read committed records only (perhaps UNKNOWN_BYTES)."""


class Partition:
    """One partition that this broker leads."""

    __slots__ = (
        "_counted_bytes",
        "_counted_offset",
        "dirty",
        "fetch_waiters",
        "flush_before_commit",
        "group_commit",
        "high_watermark",
        "index",
        "internal",
        "isr",
        "leader",
        "leader_epoch",
        "log",
        "online",
        "replicas",
        "stats",
        "topic",
        "topic_id",
        "unseen_bytes",
        "waiting",
        "writable",
    )

    def __init__(
        self,
        topic: str,
        topic_id: bytes,
        index: int,
        log: Log,
        group_commit: GroupCommit,
        stats: "TopicStats",
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.log = log
        self.group_commit = group_commit
        self.stats = stats
        self.leader = -1
        self.leader_epoch = -1
        self.isr: tuple[int, ...] = ()
        self.replicas: tuple[int, ...] = ()
        self.internal = topic in INTERNAL_TOPICS
        self.online = True
        self.writable = False  # by clients: led here, online, not internal
        self.dirty = False  # something was appended in this turn
        self.flush_before_commit = False  # an fsync stands between the write and the answer
        self.high_watermark = log.log_end_offset
        self._counted_offset = log.log_end_offset  # what the statistics have seen
        self._counted_bytes = 0
        self.unseen_bytes = 0  # appended since the high watermark last moved: what long polls count
        self.waiting: deque[tuple[int, Waiter]] = deque()
        self.fetch_waiters: set[FetchWaiter] | None = None

    @property
    def last_stable_offset(self) -> int:
        """The first offset that a read_committed consumer may not see yet."""
        return self.log.last_stable_offset(self.high_watermark)

    def append(
        self, batches: memoryview, now_ms: int, acks: int, origin: Origin = Origin.CLIENT
    ) -> AppendResult:
        """Append as leader; what was appended is committed in a later turn (`wait_for`)."""
        log = self.log
        if not self.online or (acks == -1 and len(self.isr) < log.settings.min_insync_replicas):
            return self._refused()
        result = log.append(batches, self.leader_epoch, now_ms, origin)
        if not (result.error_code or result.duplicate):
            self.unseen_bytes += len(batches)
            if not self.dirty:
                self.dirty = True
                self.group_commit.add(self)
        return result

    def append_verified(
        self, batches: memoryview, now_ms: int, acks: int, verification: "Verification"
    ) -> AppendResult:
        """Append the first batch of a transaction, which its coordinator knows of (KIP-890)."""
        if not self._takes(acks):
            return self._refused()
        result = self.log.append_verified(batches, self.leader_epoch, now_ms, verification)
        self._note(result, len(batches))
        return result

    def append_inspected(
        self, inspection: "Inspection", now_ms: int, acks: int, verification: "Verification | None" = None
    ) -> AppendResult:
        """Append a batch whose records have been looked at meanwhile (`Deferred`)."""
        if not self._takes(acks):
            return self._refused()
        result = self.log.append_inspected(inspection, self.leader_epoch, now_ms, verification)
        self._note(result, inspection.size_bytes)
        return result

    def append_marker(
        self,
        marker: EndTransactionMarker,
        producer_id: int,
        producer_epoch: int,
        now_ms: int,
        transaction_version: int = 0,
    ) -> AppendResult:
        """Append the end of a producer's transaction."""
        if not self._takes(-1):
            return self._refused()
        result = self.log.append_marker(
            marker, producer_id, producer_epoch, self.leader_epoch, now_ms, transaction_version
        )
        self._note(result, MARKER_BYTES)
        self.log.transactions.settle(self.high_watermark)
        return result

    def _takes(self, acks: int) -> bool:
        """Whether the partition takes anything now."""
        return self.online and (acks != -1 or len(self.isr) >= self.log.settings.min_insync_replicas)

    def _refused(self) -> Refused:
        """Why it does not."""
        if not self.online:
            cause = self.log.offline_cause or "its log directory is offline"
            return Refused(ErrorCode.KAFKA_STORAGE_ERROR, f"the partition is offline: {cause}")
        return Refused(ErrorCode.NOT_ENOUGH_REPLICAS, "fewer in-sync replicas than min.insync.replicas")

    def _note(self, result: AppendResult, size_bytes: int) -> None:
        if not (result.error_code or result.duplicate):
            self.unseen_bytes += size_bytes
            if not self.dirty:
                self.dirty = True
                self.group_commit.add(self)

    def wait_for(self, end_offset: int, waiter: Waiter) -> None:
        """Settle `waiter` once all before `end_offset` is committed, or known to be lost.

        A repeated batch may be committed already: then it is settled now.
        """
        if end_offset <= self.high_watermark:
            waiter.settle(0, self)
        else:
            self.waiting.append((end_offset, waiter))

    def after_write(self, error: OSError | None) -> None:
        """The turn's write is done, or has failed and was rolled back."""
        self.dirty = False
        if error is None:
            self.stats.bytes_in += self.unseen_bytes - self._counted_bytes
            self._counted_bytes = self.unseen_bytes
        else:
            self._fail_lost()
            if not self.online:
                return
        # Also when the turn's end failed: its large batches were written before that.
        written = self.log.written_end_offset
        self.stats.messages_in += written - self._counted_offset
        self._counted_offset = written
        if self.flush_before_commit:
            self.group_commit.fsync_soon(self)
            if self.log.flushed_end_offset > self.high_watermark:
                self.advance(self.log.flushed_end_offset)
        else:
            self.advance(written)

    def advance(self, high_watermark: int) -> None:
        """Move the high watermark, answer those who waited for it, wake the long polls."""
        seen_bytes = stable_bytes = 0
        if high_watermark > self.high_watermark:
            before, stable_before = self.high_watermark, self.last_stable_offset if self.fetch_waiters else 0
            self.high_watermark = high_watermark
            # Taken before anybody is answered: an answer lets the next request in, which may append more.
            # What is only staged is not seen yet.
            seen_bytes = max(self._counted_bytes, 1)
            self.unseen_bytes -= self._counted_bytes
            self._counted_bytes = 0
            if self.fetch_waiters:
                stable = self.last_stable_offset
                if stable == high_watermark and stable_before == before:
                    stable_bytes = seen_bytes
                elif stable != stable_before:
                    stable_bytes = UNKNOWN_BYTES
        waiting = self.waiting
        while waiting and waiting[0][0] <= self.high_watermark:
            waiting.popleft()[1].settle(0, self)
        if seen_bytes and self.fetch_waiters:
            for waiter in list(self.fetch_waiters):
                waiter.more(seen_bytes, stable_bytes)

    def _fail_lost(self) -> None:
        """Answer those whose records the failed write took back; what was written before stays good."""
        self.unseen_bytes = self._counted_bytes
        end_offset = self.log.log_end_offset
        waiting = self.waiting
        kept = [each for each in waiting if each[0] <= end_offset]
        lost = [each for each in waiting if each[0] > end_offset]
        self.waiting = deque(kept)
        for _, waiter in lost:
            waiter.settle(ErrorCode.KAFKA_STORAGE_ERROR, self)

    def changed(self) -> None:
        """Something about the partition is new (leader, start offset, deletion): long polls look again."""
        for waiter in list(self.fetch_waiters or ()):
            waiter.more(0, 0)

    def close(self, error_code: int) -> None:
        """This broker does not serve the partition any more: nobody waits for it in vain."""
        self.online = self.writable = False
        waiting, self.waiting = self.waiting, deque()
        for _, waiter in waiting:
            waiter.settle(error_code, self)
        self.changed()


class TopicStats:
    """What went in and out of one topic, as plain counters that the metrics read."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "failed_fetches",
        "failed_produces",
        "fetches",
        "messages_in",
        "produces",
    )

    def __init__(self) -> None:
        self.messages_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.produces = 0
        self.fetches = 0
        self.failed_produces = 0
        self.failed_fetches = 0
