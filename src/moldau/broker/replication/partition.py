"""One partition on this broker: checks requests, owns the log, and tells the role what happened to it.

    append ──> log (staged) ──> written at the end of the turn ──> [fsynced] ──> role ──> high watermark,
    answers, parked fetches

All request checks are in this file: leadership, leader epoch, disk, min.insync.replicas. Handlers translate
the results. What follows from a change of leader (above all, what waiting requests are answered) is decided
in role.py and carried out in effects.py, truncations too.

Attributes that hot code reads (`high_watermark`, `leader_epoch`, `leads`) are copies of the role's.

Hot: `append`, `wait_for` and `after_write` run for every Produce request, `read` for every Fetch. Budget with
the connection: 7 and 27 reference loops (bench/hot_path.py). Not here: the log (log/), one write for a whole
turn (group_commit.py).
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from moldau.broker.log.appending.follower_append import FollowerAppended
from moldau.broker.log.log import AppendResult, Log, Origin, Refused
from moldau.broker.metadata.image import INTERNAL_TOPICS, PartitionState
from moldau.broker.replication.divergence import epoch_end
from moldau.broker.replication.effects import begin_anew, carry_out
from moldau.broker.replication.parked_fetches import ParkedFetches, wake
from moldau.broker.replication.reading import NO_RECORDS, Read, read_batches
from moldau.broker.replication.role import Role
from moldau.broker.replication.role_outputs import AskInSync
from moldau.broker.replication.shared_parts import SharedParts
from moldau.broker.replication.topic_stats import TopicStats
from moldau.broker.replication.waiters import FetchWaiter, Waiter
from moldau.common.protocol.errors import ErrorCode
from moldau.common.records.control import MARKER_BYTES, EndTransactionMarker
from moldau.common.records.headers import Readable

if TYPE_CHECKING:
    from moldau.broker.log.appending.inspection import Inspection
    from moldau.broker.log.state.producers import Verification

log = logging.getLogger("moldau.replication")

CONSUMER = -1
"""The replica id of a consumer."""
# A named tuple made this way costs a third of its constructor.
_new_tuple = tuple.__new__


class Partition:
    """One partition of which this broker has a replica."""

    __slots__ = (
        "counted_bytes",
        "counted_offset",
        "deletion_waits",
        "dirty",
        "flush_before_commit",
        "follower_throttled",
        "group_commit",
        "high_watermark",
        "index",
        "internal",
        "is_mirror",
        "is_under_min_in_sync",
        "leader_epoch",
        "leader_throttled",
        "leads",
        "log",
        "log_start_saved",
        "online",
        "parked",
        "role",
        "shared",
        "stats",
        "topic",
        "topic_id",
        "unseen_bytes",
        "writable",
    )

    def __init__(
        self,
        topic: str,
        topic_id: bytes,
        index: int,
        log: Log,
        shared: SharedParts,
        stats: TopicStats,
        high_watermark: int = 0,
    ) -> None:
        """`high_watermark` is that of the checkpoint."""
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.log = log
        self.stats = stats
        self.shared = shared
        self.group_commit = shared.group_commit
        self.role = Role(
            shared.node_id,
            high_watermark=max(high_watermark, log.log_start_offset),
            written_end_offset=log.written_end_offset,
            flushed_end_offset=log.flushed_end_offset,
            lag_max_ms=shared.lag_max_ms,
        )
        self.internal = topic in INTERNAL_TOPICS
        self.online = True
        self.leads = False  # led here, and online
        self.is_mirror = False  # of another cluster's partition: only what is pulled from there is appended
        self.writable = False  # by clients: led here, online, neither internal nor a mirror
        self.leader_epoch = -1
        self.leader_throttled = False
        """Whether followers that are not in sync are held back (replication_quota.py)."""
        self.follower_throttled = False
        """Whether this replica is, while it follows and is not in sync."""
        self.is_under_min_in_sync = False
        self.deletion_waits = False  # DeleteRecords waits for followers
        self.log_start_saved: tuple[int, object] | None = None
        """As a follower, while a deletion is being written down: where the log began before, and which."""
        self.dirty = False  # something was appended in this turn
        self.flush_before_commit = False  # an fsync stands between the write and the answer
        self.high_watermark = self.role.high_watermark
        self.counted_offset = log.log_end_offset  # what the statistics have seen
        self.counted_bytes = 0
        self.unseen_bytes = 0  # appended since the high watermark last moved: what long polls count
        self.parked = ParkedFetches()

    # What it is

    @property
    def leader(self) -> int:
        """The leader's node id, or -1."""
        return self.role.leader

    @property
    def replicas(self) -> tuple[int, ...]:
        """The assigned replicas."""
        return self.role.replicas

    @property
    def isr(self) -> tuple[int, ...]:
        """The in-sync replicas, as the metadata has them."""
        return self.role.in_sync

    @property
    def min_in_sync(self) -> int:
        """How many in-sync replicas acks=all requires (never more than there are replicas)."""
        return self.role.min_in_sync

    @property
    def waiting_count(self) -> int:
        """How many appends wait for their commit."""
        return self.role.waiting_count

    @property
    def leads_followers(self) -> bool:
        """Whether followers may fall behind this leader."""
        return self.role.leads and bool(self.role.followers)

    @property
    def serves_consumers(self) -> bool:
        """Whether consumers may read here: from the leader, or an in-sync follower (KIP-392)."""
        return self.leads or (self.online and self.shared.node_id in self.role.in_sync)

    @property
    def last_stable_offset(self) -> int:
        """The first offset that a read_committed consumer may not see yet."""
        return self.log.transactions.last_stable_offset(self.high_watermark)

    # Roles

    def become(self, state: PartitionState) -> None:
        """Apply the partition's new metadata: another leader, epoch, replicas or in-sync set."""
        shared = self.shared
        before = self.role.in_sync if self.leads else ()
        outputs = self.role.become(state, self.log.log_end_offset, shared.monotonic_ms())
        self._mirror()
        if before and self.leads and self.role.in_sync != before:
            self._count_in_sync(before)
        carry_out(self, outputs)
        if self.leads and self.role.followers and shared.lags is not None:
            shared.lags.watch(self)
        self.fsync_rest()  # what a crash has left unsynced is neither committed yet, nor fetched behind

    def _count_in_sync(self, before: tuple[int, ...]) -> None:
        now, counts = self.role.in_sync, self.shared.in_sync_counts
        counts.shrinks += any(node not in now for node in before)
        counts.expands += any(node not in before for node in now)

    def configure(
        self,
        *,
        flush_before_commit: bool,
        leader_throttled: bool = False,
        follower_throttled: bool = False,
        is_mirror: bool = False,
    ) -> None:
        """Apply the topic's settings: at the start, and when they change."""
        self.flush_before_commit = flush_before_commit
        self.is_mirror = self.log.keeps_all = is_mirror
        self.leader_throttled, self.follower_throttled = leader_throttled, follower_throttled
        role = self.role
        flushed = role.flushed(self.log.flushed_end_offset)  # flush.ms also flushes, unreported
        outputs = [*flushed, *role.configured(self.log.settings.min_insync_replicas, flush_before_commit)]
        self._mirror()
        carry_out(self, outputs)

    def in_sync_change_answered(
        self, asked: AskInSync, error_code: int, state: PartitionState | None
    ) -> None:
        """The controller has answered a change of the in-sync set, or could not be reached."""
        now_ms = self.shared.monotonic_ms()
        before = self.role.in_sync
        outputs = self.role.in_sync_change_answered(asked, error_code, state, now_ms)
        self._mirror()
        if self.role.in_sync != before:
            self._count_in_sync(before)
        carry_out(self, outputs)

    def tick(self, now_ms: float) -> None:
        """Expire appends and check follower lag; `now_ms` is monotonic."""
        carry_out(self, self.role.tick(now_ms))

    def replace_log(self, log: Log) -> None:
        """The log has moved to another directory: `log` has all that it had, on the disk."""
        self.log = log
        log.keeps_all = self.is_mirror
        carry_out(self, self.role.flushed(log.flushed_end_offset))

    def close(self, error_code: int) -> None:
        """Stop serving the partition: everyone who waits is answered with this error code."""
        self.online = False
        outputs = self.role.closed(error_code)
        self._mirror()
        carry_out(self, outputs)

    def _mirror(self) -> None:
        role = self.role
        self.leader_epoch = role.leader_epoch
        self.is_under_min_in_sync = role.is_under_min_in_sync
        self.leads = role.leads and self.online
        self.writable = self.leads and not (self.internal or self.is_mirror)

    # Who may do what

    def refusal(self, leader_epoch: int = -1) -> int:
        """The error code with which this replica refuses to act as leader for a request with `leader_epoch`
        (-1: none); 0 if it does not refuse.
        """
        if not self.online:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if leader_epoch >= 0 and leader_epoch != self.leader_epoch:
            older = leader_epoch < self.leader_epoch
            return ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH
        return 0 if self.leads else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _refused(self) -> Refused:
        """Why nothing is appended."""
        if not self.online:
            cause = self.log.offline_cause or "its log directory is offline"
            return Refused(ErrorCode.KAFKA_STORAGE_ERROR, f"the partition is offline: {cause}")
        if not self.leads:
            return Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this broker does not lead the partition")
        if self.is_mirror:
            return Refused(
                ErrorCode.POLICY_VIOLATION,
                f"{self.topic} mirrors a topic of another cluster and is read-only until it is failed over "
                "(moldau mirror failover)",
            )
        return Refused(ErrorCode.NOT_ENOUGH_REPLICAS, "fewer in-sync replicas than min.insync.replicas")

    def _refused_append(self, batch: Readable | None) -> Refused:
        """A client's batch is refused because of what may be another way in a moment: this broker has not
        heard yet that it leads, or too few replicas are in sync. If the next batch, which is on its way, were
        judged after that moment, it would leave a gap.
        """
        if batch is not None:
            self.log.leader.note_refused(batch)
        return self._refused()

    # Appending as the leader

    def append(
        self, batches: memoryview, now_ms: int, acks: int, origin: Origin = Origin.CLIENT
    ) -> AppendResult:
        """Append as leader; what was appended is committed in a later turn (`wait_for`)."""
        if not self.leads or self.is_mirror or (acks == -1 and self.is_under_min_in_sync):
            return self._refused_append(batches if origin is Origin.CLIENT else None)
        result = self.log.leader.append(batches, self.leader_epoch, now_ms, origin)
        if not (result.error_code or result.duplicate):
            self.unseen_bytes += len(batches)
            if not self.dirty:
                self.dirty = True
                self.group_commit.add(self)
        elif result.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and origin is Origin.CLIENT:
            return self._gap_confirmed(result)
        return result

    def append_verified(
        self, batches: memoryview, now_ms: int, acks: int, verification: "Verification"
    ) -> AppendResult:
        """Append the first batch of a transaction, which its coordinator knows of (KIP-890)."""
        if not self._takes(acks):
            return self._refused_append(batches)
        result = self.log.leader.append_verified(batches, self.leader_epoch, now_ms, verification)
        self._note(result, len(batches))
        return self._gap_confirmed(result)

    def append_inspected(
        self, inspection: "Inspection", now_ms: int, acks: int, verification: "Verification | None" = None
    ) -> AppendResult:
        """Append a batch whose records have been inspected since (`Deferred`)."""
        if not self._takes(acks):
            return self._refused_append(inspection.prepared)
        result = self.log.leader.append_inspected(inspection, self.leader_epoch, now_ms, verification)
        self._note(result, inspection.size_bytes)
        return self._gap_confirmed(result)

    def append_marker(
        self,
        marker: EndTransactionMarker,
        producer_id: int,
        producer_epoch: int,
        now_ms: int,
        transaction_version: int = 0,
    ) -> AppendResult:
        """Append a transaction marker."""
        if not self._takes(-1):
            return self._refused()
        result = self.log.leader.append_marker(
            marker, producer_id, producer_epoch, self.leader_epoch, now_ms, transaction_version
        )
        self._note(result, MARKER_BYTES)
        self.log.transactions.settle(self.high_watermark)
        return result

    def _gap_confirmed(self, result: AppendResult) -> AppendResult:
        """The result; only a confirmed leader reports a gap in a producer's numbers (leadership_check.py)."""
        if result.error_code != ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER or len(self.role.replicas) == 1:
            return result
        verdict = result.error_message  # it names the producer and its numbers
        if self.shared.leads_certainly(self, verdict):
            return result
        return Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, "whether this broker still leads is being found out")

    def _takes(self, acks: int) -> bool:
        """Whether the partition takes anything now."""
        return self.leads and not (self.is_mirror or (acks == -1 and self.is_under_min_in_sync))

    def _note(self, result: AppendResult, size_bytes: int) -> None:
        if not (result.error_code or result.duplicate):
            self.written_soon(size_bytes)

    def written_soon(self, size_bytes: int) -> None:
        """So many bytes were appended, and are committed in a later turn."""
        self.unseen_bytes += size_bytes
        if not self.dirty:
            self.dirty = True
            self.group_commit.add(self)

    def wait_for(
        self, end_offset: int, waiter: Waiter, acks: int = -1, timeout_ms: int | None = None
    ) -> None:
        """Settle `waiter` once all before `end_offset` is committed (acks=1: written or flushed here), the
        write has failed, or leadership is lost; with REQUEST_TIMED_OUT after `timeout_ms` (None: never). A
        duplicate batch may be committed already; then it is settled at once.
        """
        outputs = self.role.appended(end_offset, waiter, acks, timeout_ms)
        if outputs:
            carry_out(self, outputs)
        elif not self.dirty:
            self._watch_timeouts()  # of a repeated batch; else it is done once the turn's write is through

    def _watch_timeouts(self) -> None:
        timeouts = self.shared.timeouts
        if timeouts is not None:
            timeouts.watch(self)

    # Appending as a follower

    def append_as_follower(
        self,
        batches: memoryview,
        leader_epoch: int,
        leader_high_watermark: int,
        now_ms: int,
        leader_log_start_offset: int = -1,
    ) -> FollowerAppended | Refused:
        """Append what the leader of `leader_epoch` sent; the next fetch follows once it is written (or
        flushed). The role is told the log end offset also when the batches were refused or there were none.
        """
        refusal = self._refusal_as_follower(leader_epoch)
        if refusal is not None:
            return refusal
        source, role = self.log, self.role
        result = source.append_as_follower(batches, leader_epoch, now_ms, leader_log_start_offset)
        self.counted_offset = source.written_end_offset  # the leader's statistics count it
        # The high watermark is that of before these batches, which consumers here can read only later.
        carry_out(self, role.replicated(source.log_end_offset, leader_high_watermark))
        if isinstance(result, FollowerAppended):
            self.unseen_bytes += result.size_bytes
            self.counted_bytes = self.unseen_bytes
        carry_out(self, role.written(source.written_end_offset))
        self.fsync_rest()
        return result

    def fsync_rest(self) -> None:
        """Have what is written fsynced, where an fsync stands before the commit."""
        if (
            self.flush_before_commit
            and self.online
            and self.log.flushed_end_offset < self.log.written_end_offset
        ):
            self.group_commit.fsync_soon(self)

    def diverged(self, leader_epoch: int, epoch: int, end_offset: int) -> None:
        """The leader of `leader_epoch` reported a diverging epoch: its largest epoch up to the follower's is
        `epoch`, which ended at `end_offset`.
        """
        own_epoch, own_end_offset = self.log.epoch_end_offset(epoch)
        carry_out(self, self.role.diverged(leader_epoch, epoch, end_offset, own_epoch, own_end_offset))

    def restart_at(self, leader_epoch: int, offset: int) -> bool:
        """The leader of `leader_epoch` has nothing of what this log holds, nor its end: drop it, and go on at
        `offset`. Whether that was done.
        """
        if self._refusal_as_follower(leader_epoch) is not None:
            return False
        return begin_anew(self, offset)

    def _refusal_as_follower(self, leader_epoch: int) -> Refused | None:
        if not self.online:
            return self._refused()
        if leader_epoch != self.leader_epoch:
            older = leader_epoch < self.leader_epoch
            error_code = ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH
            return Refused(
                error_code, f"the leader epoch here is {self.leader_epoch}, and not {leader_epoch}"
            )
        if self.leads:
            return Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this broker leads the partition itself")
        return None

    # Reading

    def read(
        self,
        offset: int,
        bytes_max: int,
        committed: bool,
        first: bool,
        leader_epoch: int = -1,
        last_fetched_epoch: int = -1,
        replica_id: int = CONSUMER,
        broker_epoch: int = -1,
        replica_start_offset: int = -1,
        any_replica: bool = False,
        was_parked: bool = False,
    ) -> Read:
        """Whole batches from the one that contains `offset`, read as leader, or where `any_replica` is so
        (for consumers, KIP-392) as in-sync follower.

        `committed`: only below the last stable offset. `first`: the first batch is returned whole, however
        large. A reader whose `last_fetched_epoch` shows a diverged history is told the diverging epoch and
        where it ends here. A follower (`replica_id` >= 0) reads up to the log end; its `offset` advances its
        progress, unless the request `was_parked`, so that it counted when it came; `replica_start_offset` is
        its log start offset. What an in-sync follower gives ends at
        its own high watermark; it refuses with OFFSET_NOT_AVAILABLE what it does not have yet.
        """
        if not self.leads or (leader_epoch != self.leader_epoch and leader_epoch >= 0):
            error_code = self.refusal(leader_epoch)
            if not any_replica or error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER or not self.serves_consumers:
                return Read(self.index, error_code)
            if offset > self.log.written_end_offset:
                return Read(self.index, ErrorCode.OFFSET_NOT_AVAILABLE)
            last_fetched_epoch = -1  # only the leader knows the whole history
        source, high_watermark = self.log, self.high_watermark
        stable = source.transactions.last_stable_offset(high_watermark)
        end_offset = stable if committed else high_watermark
        if replica_id >= 0:
            error_code = self.role.followers.refusal(replica_id, broker_epoch, leader_epoch)
            if error_code:
                return Read(self.index, error_code)
            end_offset = source.written_end_offset
            if self.leader_throttled and self.withholds_from(replica_id):
                end_offset = min(offset, end_offset)  # its progress counts, and it gets no records
        if last_fetched_epoch >= 0:
            diverging = self._diverging(offset, last_fetched_epoch)
            if diverging is not None:
                start_offset = source.log_start_offset
                if diverging == (-1, -1):  # its epoch is later than any here: no place can be named
                    error_code = ErrorCode.OFFSET_OUT_OF_RANGE
                    return Read(self.index, error_code, log_start_offset=start_offset)
                return Read(self.index, 0, high_watermark, stable, start_offset, None, NO_RECORDS, diverging)
        if offset == end_offset and offset >= (start_offset := source.log_start_offset):
            aborted = () if committed else None
            row = (self.index, 0, high_watermark, stable, start_offset, aborted, NO_RECORDS, None)
            read = _new_tuple(Read, row)
        else:
            read = read_batches(
                source,
                offset,
                bytes_max,
                end_offset,
                high_watermark,
                stable,
                committed,
                first,
                self.disk_failed,
            )
            if read.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and replica_id < 0 and not self._ends(offset):
                return Read(self.index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if replica_id >= 0 and not read.error_code:
            if self.leader_throttled and read.records:
                self.shared.leader_quota.record(len(read.records))
            if not was_parked:
                self._follower_fetched(replica_id, offset, broker_epoch, replica_start_offset)
            if self.high_watermark != high_watermark:
                return read._replace(high_watermark=self.high_watermark)
        return read

    def _ends(self, offset: int) -> bool:
        """Whether it is certain that no record has this offset, or that it was deleted."""
        if offset <= self.log.written_end_offset or len(self.role.replicas) == 1:
            return True
        return self.shared.leads_certainly(self, offset)

    def withholds_from(self, replica_id: int) -> bool:
        """Whether this replica gets no records now, since it is throttled and the rate is exceeded."""
        return (
            self.leader_throttled
            and replica_id >= 0
            and replica_id not in self.role.in_sync
            and self.shared.leader_quota.exceeded()
        )

    def disk_failed(self, error: OSError) -> None:
        """A read failed, or a cut: the log manager decides whether the directory is lost."""
        self.shared.storage_failed(self, error)

    def _diverging(self, offset: int, last_fetched_epoch: int) -> tuple[int, int] | None:
        """The diverging epoch and its end offset, if a reader with `last_fetched_epoch` before `offset` has
        diverged.
        """
        epoch, end_offset = self.epoch_end(last_fetched_epoch)
        return (epoch, end_offset) if epoch < last_fetched_epoch or end_offset < offset else None

    def _follower_fetched(self, replica_id: int, offset: int, broker_epoch: int, start_offset: int) -> None:
        shared = self.shared
        if shared.is_stranger(replica_id, broker_epoch):
            return
        registered = shared.broker_epoch(replica_id)
        eligible = registered is not None and broker_epoch in (-1, registered)
        # One that was away while records were deleted must not lead with them.
        eligible = eligible and not 0 <= start_offset < self.log.log_start_offset
        outputs = self.role.follower_fetched(
            replica_id, offset, broker_epoch, eligible, shared.monotonic_ms(), start_offset
        )
        if outputs:
            carry_out(self, outputs)
        if self.deletion_waits and shared.deletions is not None:
            shared.deletions.look(self)

    def epoch_end(self, leader_epoch: int) -> tuple[int, int]:
        """The largest known leader epoch up to this one, and its end offset; the current one ends at the log
        end. (-1, -1) when unknown (KIP-101, KIP-320). A mirror's epochs are the mirrored partition's.
        """
        if self.is_mirror:
            epoch, end_offset = self.log.epoch_end_offset(leader_epoch)
            return epoch, min(end_offset, self.log.written_end_offset)
        return epoch_end(self.log, self.leader_epoch, self.role.epoch_start_offset, leader_epoch)

    def end_is_known(self) -> bool:
        """Whether the high watermark has reached the start of this leader's epoch; before, it may be lower
        than what clients have seen (KIP-207).
        """
        return self.high_watermark >= self.role.epoch_start_offset

    def delete_records(self, offset: int) -> tuple[int, int]:
        """Advance the log start offset to `offset` (-1: to the high watermark); an error code, and the new
        log start offset or -1 (KIP-107).
        """
        error_code = self.refusal()
        if error_code:
            return error_code, -1
        if self.is_mirror:
            return ErrorCode.POLICY_VIOLATION, -1
        policy = self.log.settings.cleanup_policy
        if "compact" in policy and "delete" not in policy:
            return ErrorCode.POLICY_VIOLATION, -1
        if offset == -1:
            offset = self.high_watermark
        if not 0 <= offset <= self.high_watermark:
            return ErrorCode.OFFSET_OUT_OF_RANGE, -1
        self.log.increment_log_start_offset(offset)
        if self.log.offline:
            # The disk has failed at that. Whoever leads next knows nothing of it.
            return ErrorCode.KAFKA_STORAGE_ERROR, -1
        self.changed()
        return 0, self.log.log_start_offset

    def low_watermark(self, is_live: Callable[[int], bool]) -> int:
        """As leader: the smallest log start offset over the replicas on live brokers; -1 until each of them
        has told it.
        """
        return self.role.followers.low_watermark(self.log.log_start_offset, is_live)

    # What becomes of appends

    def after_write(self, error: OSError | None) -> None:
        """The turn's write is done (None), or has failed and was rolled back."""
        self.dirty = False
        role = self.role
        written_bytes = 1
        if error is None:
            written_bytes = self.unseen_bytes - self.counted_bytes
            self.stats.bytes_in += written_bytes
            self.counted_bytes = self.unseen_bytes
        else:
            self.unseen_bytes = self.counted_bytes
            carry_out(self, role.write_failed(self.log.log_end_offset))
            if not self.online:
                return
        # Also when the turn's end failed: its large batches were written before that.
        written = self.log.written_end_offset
        self.stats.messages_in += written - self.counted_offset
        self.counted_offset = written
        outputs = role.written(written)
        if self.flush_before_commit:
            self.group_commit.fsync_soon(self)
            outputs = role.flushed(self.log.flushed_end_offset)
        if outputs:
            carry_out(self, outputs)
        if role.has_timeouts:
            self._watch_timeouts()
        if self.parked.followers:
            wake(self.parked.followers, written_bytes, written_bytes)

    def after_fsync(self) -> None:
        """The log was fsynced up to its flushed end offset."""
        carry_out(self, self.role.flushed(self.log.flushed_end_offset))

    def changed(self) -> None:
        """The leader or log start offset changed, or the partition is gone: wake the parked fetches."""
        self.parked.wake_all()
        if self.deletion_waits and self.shared.deletions is not None:
            self.shared.deletions.look(self)

    def park(self, waiter: FetchWaiter, replica_id: int = CONSUMER) -> None:
        """Wake `waiter` when there is more to read, or when `changed` is called. A follower (a replica id of
        0 or more) is woken by what is written: the high watermark moves only once it has fetched that.
        """
        if self.withholds_from(replica_id):
            return  # what is written will not be sent to it
        self.parked.add(waiter, is_follower=replica_id >= 0)
