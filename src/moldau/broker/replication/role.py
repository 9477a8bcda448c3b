"""The role of one replica (leader, follower, or waiting for a leader) as a state machine that does no I/O.

As in etcd/raft, inputs are method calls and outputs are returned values (role_outputs.py); there is no clock,
event loop or log in here. partition.py makes the calls and carries the outputs out.

    in    become                               new metadata: leader, leader epoch, replicas, in-sync set
          appended                             a request waits for its append (acks=1 or all)
          written, flushed, write_failed       the log has written, fsynced or rolled back
          follower_fetched, tick,
          in_sync_change_answered              as leader
          replicated, diverged, truncated,
          restarted                            as follower
          configured, closed
    out   Settle, HighWatermark, WakeFetches, AskInSync, FetchFrom, StopFetching, TruncateTo

*What happens to a waiting Produce request when its partition loses leadership?* `become` with another leader,
or none, settles every waiting append with NOT_LEADER_OR_FOLLOWER and wakes the parked Fetch requests, which
get the same error. The records stay in the log until they prove to diverge from the new leader's history
(`diverged`); the client retries with the new leader. If the same broker is elected again, appends go on
waiting: nothing was truncated. `closed` (deleted, reassigned, disk failed) settles them with the cause.

A replica's own progress is its written end offset, or with `flush_before_commit` its fsynced one. The high
watermark is the smallest progress over the in-sync set, replicas whose entry into it has been requested
(KIP-497), and caught-up replicas about to enter. So a sole in-sync leader advances it at once; a new leader
with in-sync followers starts from its last known value and advances by their fetches. While the in-sync set
is smaller than min.insync.replicas (or than the replica count, if that is lower) it stands still (KIP-966).
What is appended goes on waiting, as in Kafka, until the set is large enough or its timeout is over: it may
still be committed, and a client that is told otherwise sends it again. Further appends are refused with
NOT_ENOUGH_REPLICAS before anything is written (partition.py). NOT_ENOUGH_REPLICAS_AFTER_APPEND is never
answered: an append is settled in the moment in which the high watermark moves past it.

The leader asks to shrink the in-sync set when a follower has not caught up for `lag_max_ms`, and to expand it
when one has reached the high watermark and the start of this leader epoch. The controller decides
(controller/partitions.py) and the metadata brings the result. One change is in flight at a time. Only an
error that proves it was not applied withdraws it; after any other error the larger set counts until the
metadata resolves it.

Histories are compared by leader epochs, never by high watermarks (KIP-101, KIP-279, KIP-320): a follower is
told the diverging epoch and its end offset, and truncates to what both have.

Invariants: the high watermark never falls, unless an unclean election makes a follower truncate below it;
acks=all is settled with 0 only at or below it; each append is settled once; nothing is settled after
`closed`.

Hot: `appended` and `written` run for every Produce; budget with the partition (bench/hot_path.py, and with
followers bench/replication_path.py).
"""

from typing import Any

from moldau.broker.metadata.image import NO_LEADER, PartitionState
from moldau.broker.replication.divergence import common_end
from moldau.broker.replication.follower_progress import ANY_BROKER_EPOCH, UNKNOWN_OFFSET, FollowerProgress
from moldau.broker.replication.followers import Followers
from moldau.broker.replication.in_sync_errors import AWAITS_METADATA, NOT_APPLIED
from moldau.broker.replication.role_outputs import (
    NOTHING,
    AskInSync,
    FetchFrom,
    HighWatermark,
    Output,
    Outputs,
    Settle,
    StopFetching,
    TruncateTo,
    WakeFetches,
)
from moldau.broker.replication.waiting_appends import WaitingAppends
from moldau.common.protocol.errors import ErrorCode

_NO_FOLLOWERS = Followers()  # shared by all that have none, and never changed

# A named tuple made this way costs a third of its constructor.
_new_tuple = tuple.__new__


class Role:
    """The role of one replica in its partition."""

    __slots__ = (
        "_ask_again",
        "_cut_is_safe",
        "_fetching",
        "_local",
        "_min_in_sync",
        "_replication_factor",
        "_waiting",
        "asked",
        "epoch_start_offset",
        "flush_before_commit",
        "flushed_end_offset",
        "followers",
        "high_watermark",
        "in_sync",
        "is_closed",
        "is_reassigning",
        "lag_max_ms",
        "leader",
        "leader_epoch",
        "leader_high_watermark",
        "leads",
        "log_end_offset",
        "node_id",
        "now_ms",
        "partition_epoch",
        "progress",
        "replicas",
        "written_end_offset",
    )

    def __init__(
        self,
        node_id: int,
        *,
        high_watermark: int,
        written_end_offset: int,
        flushed_end_offset: int,
        lag_max_ms: float = 30_000,
    ) -> None:
        """A replica that has just opened its log; `high_watermark` is that of its checkpoint."""
        self.node_id = node_id
        self.lag_max_ms = lag_max_ms
        self.leader = NO_LEADER
        self.leader_epoch = -1
        self.partition_epoch = -1
        self.replicas: tuple[int, ...] = ()
        self.in_sync: tuple[int, ...] = ()
        self.leads = False
        self.is_closed = False
        self.flush_before_commit = False
        self.written_end_offset = self.log_end_offset = written_end_offset
        self.flushed_end_offset = flushed_end_offset
        self.progress = written_end_offset
        """The end offset that is safe on this replica: written, or flushed."""
        self.high_watermark = min(high_watermark, written_end_offset)
        self.leader_high_watermark = -1
        """As a follower: the leader's high watermark in its last response."""
        self.epoch_start_offset = written_end_offset
        """As leader: where its epoch began."""
        self.asked: AskInSync | None = None
        """The in-sync set change in flight."""
        self.now_ms = 0.0
        self._ask_again = False
        self._cut_is_safe = True
        self._fetching: FetchFrom | None = None  # the last FetchFrom that was returned
        self._min_in_sync = 1
        self._replication_factor = 0
        self.is_reassigning = False
        self.followers = _NO_FOLLOWERS
        self._waiting = WaitingAppends()  # acks=all: for the high watermark
        self._local: WaitingAppends | None = None  # acks=1: for this replica; made by the first that waits

    # State

    @property
    def min_in_sync(self) -> int:
        """How many in-sync replicas acks=all requires: min.insync.replicas, but never more than there are
        replicas, without those that a reassignment is adding.
        """
        return min(self._min_in_sync, max(1, self._replication_factor))

    @property
    def is_under_min_in_sync(self) -> bool:
        """Whether fewer are in sync than acks=all requires."""
        return len(self.in_sync) < self.min_in_sync

    @property
    def waiting_count(self) -> int:
        """How many appends wait."""
        return len(self._waiting) + (0 if self._local is None else len(self._local))

    @property
    def has_timeouts(self) -> bool:
        """Whether anything waits whose timeout `tick` must watch."""
        waiting = self._waiting
        return bool(waiting.entries) and len(waiting) > 0  # the first is quick, and usually enough

    # Roles

    def become(self, state: PartitionState, log_end_offset: int, now_ms: float) -> Outputs:
        """Lead, follow, or wait for a leader, as the metadata says; older metadata is ignored."""
        if self.is_closed or (state.leader_epoch, state.partition_epoch) < (
            self.leader_epoch,
            self.partition_epoch,
        ):
            return NOTHING
        self.now_ms = now_ms
        self.log_end_offset = log_end_offset
        is_news = (state.leader, state.leader_epoch) != (self.leader, self.leader_epoch)
        if state.partition_epoch != self.partition_epoch or is_news:
            self.asked, self._ask_again = None, False
        followed = self.leader not in (NO_LEADER, self.node_id)
        for node in self.in_sync:
            # One that left may be dead: it is not waited for until its next fetch.
            if node not in state.isr and node in self.followers:
                self.followers[node].eligible = False
        self.leader, self.replicas, self.in_sync = state.leader, state.replicas, state.isr
        self.leader_epoch, self.partition_epoch = state.leader_epoch, state.partition_epoch
        self._replication_factor = state.replication_factor
        self.is_reassigning = bool(state.target)
        out: list[Output] = []
        if state.leader == self.node_id:
            if followed:
                out.append(StopFetching())
            self._lead(is_news)
            out += self._advance()
        else:
            self._follow(is_news, out)
        if is_news:
            out.append(WakeFetches())
        return out

    def _lead(self, is_news: bool) -> None:
        if is_news:
            self.epoch_start_offset = self.log_end_offset
            self.followers = _NO_FOLLOWERS
        self.leads = True
        if self.replicas == (self.node_id,):
            self.followers = _NO_FOLLOWERS
            return
        known = self.followers
        self.followers = Followers(
            (node, known.get(node) or FollowerProgress(node in self.in_sync, self.now_ms))
            for node in self.replicas
            if node != self.node_id
        )

    def _follow(self, is_news: bool, out: list[Output]) -> None:
        if self.leads:
            out += self._settle_all(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.leads = False
        self.followers = _NO_FOLLOWERS
        if is_news:
            self.leader_high_watermark = -1
            self._fetching = None
            if self.leader == NO_LEADER:
                out.append(StopFetching())
            else:
                out += self._fetch()

    def closed(self, error_code: int) -> Outputs:
        """The partition is not served here any more: everyone who waits gets `error_code`."""
        if self.is_closed:
            return NOTHING
        out = self._settle_all(error_code)
        self.is_closed = True
        self.leads = False
        self.followers = _NO_FOLLOWERS
        self.asked = None
        return [*out, StopFetching(), WakeFetches()]

    def configured(self, min_in_sync: int, flush_before_commit: bool) -> Outputs:
        """Apply settings: min.insync.replicas, and whether records count only once fsynced."""
        if (min_in_sync, flush_before_commit) == (self._min_in_sync, self.flush_before_commit):
            return NOTHING
        self._min_in_sync = min_in_sync
        self.flush_before_commit = flush_before_commit
        return self._progressed(self.flushed_end_offset if flush_before_commit else self.written_end_offset)

    # Appends

    def appended(self, end_offset: int, waiter: Any, acks: int, timeout_ms: int | None) -> Outputs:
        """Settle `waiter` once all before `end_offset` is committed (acks=-1) or safe on this replica
        (acks=1), or has failed; with REQUEST_TIMED_OUT after `timeout_ms` (None: never).
        """
        if not self.leads:
            return (Settle((waiter,), ErrorCode.NOT_LEADER_OR_FOLLOWER),)
        if acks == 1:
            if end_offset > self.progress:
                local = self._local
                if local is None:
                    self._local = local = WaitingAppends()
                if end_offset < local.last_end_offset:
                    local.add(end_offset, waiter, None)
                else:
                    local.last_end_offset = end_offset
                    local.entries.append((end_offset, waiter, None))
                return NOTHING
        elif end_offset > self.high_watermark:
            waiting = self._waiting
            if end_offset < waiting.last_end_offset:
                waiting.add(end_offset, waiter, timeout_ms)
            else:
                waiting.last_end_offset = end_offset
                waiting.entries.append((end_offset, waiter, timeout_ms))
            return NOTHING
        return (Settle((waiter,), 0),)

    def written(self, end_offset: int) -> Outputs:
        """All before `end_offset` is in the file."""
        self.written_end_offset = end_offset
        return NOTHING if self.flush_before_commit else self._progressed(end_offset)

    def flushed(self, end_offset: int) -> Outputs:
        """All before `end_offset` is on the disk."""
        self.flushed_end_offset = end_offset
        return self._progressed(end_offset) if self.flush_before_commit else NOTHING

    def write_failed(self, log_end_offset: int) -> Outputs:
        """Appends from `log_end_offset` on were rolled back."""
        self.log_end_offset = log_end_offset
        self.epoch_start_offset = min(self.epoch_start_offset, log_end_offset)
        waiters = self._waiting.lost(log_end_offset)
        if self._local is not None:
            waiters = self._local.lost(log_end_offset) + waiters
        return (Settle(waiters, ErrorCode.KAFKA_STORAGE_ERROR),) if waiters else NOTHING

    def _progressed(self, end_offset: int) -> Outputs:
        if self.is_closed:
            return NOTHING
        self.progress = end_offset
        if not self.leads:
            return self._follower_progressed()
        local = self._local
        if local is not None and local.entries:
            waiters = local.reached(end_offset)
            if waiters:
                return (_new_tuple(Settle, (waiters, 0)), *self._advance())
        return self._advance()

    def _advance(self) -> Outputs:
        """Advance the high watermark as far as it may go."""
        before, end_offset = self.high_watermark, self.progress
        if end_offset > before and self.followers:
            end_offset = self._committed_end_offset()  # no more than this replica's own
        if end_offset <= before:
            return NOTHING
        self.high_watermark = end_offset
        moved = _new_tuple(HighWatermark, (before, end_offset))
        if self._waiting.entries:
            waiters = self._waiting.reached(end_offset)
            if waiters:
                return moved, _new_tuple(Settle, (waiters, 0))
        return (moved,)

    def _committed_end_offset(self) -> int:
        """The smallest progress over the in-sync set, the requested one, and caught-up followers: without
        waiting for these, they would never reach the high watermark.
        """
        if self.is_under_min_in_sync:
            return self.high_watermark
        in_sync, asked = self.in_sync, self.asked
        end_offset = self.progress
        for node, follower in self.followers.items():
            if follower.end_offset < end_offset and (
                node in in_sync
                or (asked is not None and node in asked.in_sync)
                or (
                    follower.eligible
                    and follower.is_caught_up(self.written_end_offset, self.lag_max_ms, self.now_ms)
                )
            ):
                end_offset = follower.end_offset
        return end_offset

    def _settle_all(self, error_code: int) -> list[Output]:
        waiters = self._waiting.clear()
        if self._local is not None:
            waiters = self._local.clear() + waiters
        return [Settle(waiters, error_code)] if waiters else []

    # Followers

    def follower_fetched(
        self,
        replica: int,
        offset: int,
        broker_epoch: int,
        eligible: bool,
        now_ms: float,
        log_start_offset: int = UNKNOWN_OFFSET,
    ) -> Outputs:
        """A follower without divergence fetches from `offset`: it has everything before it. `eligible`: the
        broker is registered with this broker epoch, neither fenced nor shutting down (KIP-841).
        `log_start_offset`: its own, if it told it.
        """
        follower = self.followers.get(replica)
        if not self.leads or follower is None or broker_epoch < follower.broker_epoch:
            return NOTHING  # (an epoch less than known, or none where it has told one, is not the replica's)
        self.now_ms = now_ms
        follower.fetched(offset, self.written_end_offset, broker_epoch, eligible, now_ms)
        follower.log_start_offset = log_start_offset
        asked: Outputs = NOTHING
        if self.asked is None:
            if (
                replica not in self.in_sync
                and eligible
                and offset >= self.high_watermark
                and offset >= self.epoch_start_offset
            ):
                asked = self._ask((*self.in_sync, replica))
        elif self._ask_again:
            asked = self._asked_again()
        advanced = self._advance()
        return (*asked, *advanced) if asked else advanced

    def tick(self, now_ms: float) -> Outputs:
        """Time out appends, and ask to remove followers that have lagged too long from the in-sync set.
        `now_ms` is monotonic, as everywhere here.
        """
        self.now_ms = now_ms
        if not self.leads:
            return NOTHING
        out: list[Output] = []
        waiters = self._waiting.expire(now_ms)
        if waiters:
            out.append(Settle(waiters, ErrorCode.REQUEST_TIMED_OUT))
        if self.followers:
            if self.asked is None:
                kept = tuple(node for node in self.in_sync if not self._lags(node))
                if kept != self.in_sync:
                    out += self._ask(kept)
            elif self._ask_again:
                out += self._asked_again()
            out += self._advance()
        return out

    def _lags(self, node: int) -> bool:
        follower = self.followers.get(node)
        if follower is None:
            return node != self.node_id
        return not follower.is_caught_up(self.written_end_offset, self.lag_max_ms, self.now_ms)

    def _asked_again(self) -> Outputs:
        """The same change, after an unknown outcome: with the broker epochs under which its members were seen
        caught up. A member that was registered anew since has another log, and must not get in by this.
        """
        assert self.asked is not None
        self._ask_again = False
        return (self.asked,)

    def _ask(self, in_sync: tuple[int, ...]) -> Outputs:
        epochs = []
        for node in in_sync:
            follower = self.followers.get(node)
            epochs.append(ANY_BROKER_EPOCH if follower is None else follower.broker_epoch)
        self.asked = AskInSync(in_sync, tuple(epochs), self.leader_epoch, self.partition_epoch)
        self._ask_again = False
        return (self.asked,)

    def in_sync_change_answered(
        self, asked: AskInSync, error_code: int, state: PartitionState | None, now_ms: float
    ) -> Outputs:
        """The controller answered `asked`; with error code 0, `state` is the partition's new state.

        A network error is given as an error code too: whether the change was made is then unknown.
        """
        if self.is_closed or asked != self.asked:
            return NOTHING  # the metadata was faster
        self.now_ms = now_ms
        if not error_code and state is not None:
            return self.become(state, max(self.log_end_offset, self.written_end_offset), now_ms)
        if error_code in NOT_APPLIED:
            self.asked = None
            return self._advance()
        self._ask_again = error_code not in AWAITS_METADATA
        return NOTHING

    # As a follower

    def replicated(self, end_offset: int, leader_high_watermark: int) -> Outputs:
        """The leader's records are appended up to `end_offset`; its response had this high watermark."""
        if self.leads or self.is_closed:
            return NOTHING
        self.log_end_offset = end_offset
        self.leader_high_watermark = leader_high_watermark
        self._fetching = None
        return self._follower_progressed()

    def _follower_progressed(self) -> Outputs:
        """Fetch more only once all is safe here: the fetch offset tells the leader that all before it is."""
        out: list[Output] = []
        end_offset = min(self.leader_high_watermark, self.progress)
        if end_offset > self.high_watermark:
            out.append(HighWatermark(self.high_watermark, end_offset))
            self.high_watermark = end_offset
        if self.leader != NO_LEADER:
            out += self._fetch()
        return out

    def _fetch(self) -> Outputs:
        fetch = FetchFrom(self.leader, self.leader_epoch, self.log_end_offset)
        if self.progress < self.log_end_offset or fetch == self._fetching or not self._cut_is_safe:
            return NOTHING  # not safe yet, or asked for already
        self._fetching = fetch
        return (fetch,)

    def diverged(
        self, leader_epoch: int, epoch: int, end_offset: int, own_epoch: int, own_end_offset: int
    ) -> Outputs:
        """The leader of `leader_epoch` reported a diverging epoch: its largest epoch up to this log's last is
        `epoch`, which ended at `end_offset`. This log's largest epoch up to that is `own_epoch`, which ended
        at `own_end_offset` (-1 and -1: none).
        """
        if self.leads or self.is_closed or leader_epoch != self.leader_epoch:
            return NOTHING
        offset = common_end(epoch, end_offset, own_epoch, own_end_offset, self.high_watermark)
        return (TruncateTo(min(offset, self.log_end_offset)),)

    def truncated(self, log_end_offset: int, *, safe: bool = True) -> Outputs:
        """The log was truncated to `log_end_offset`: the offset asked for, or the start of the batch around
        it. Not `safe`: a crash of the machine could undo that, and nothing is fetched before `cut_is_safe`.
        A leader truncates only what mirrors another cluster's partition, and where that one was truncated.
        """
        self._cut_is_safe = safe
        if self.leads and self.followers:  # a mirror: what was known of followers is of what went
            self.followers = Followers(
                (node, FollowerProgress(node in self.in_sync, self.now_ms)) for node in self.followers
            )
        self.epoch_start_offset = min(self.epoch_start_offset, log_end_offset)
        self.log_end_offset = log_end_offset
        self.written_end_offset = min(self.written_end_offset, log_end_offset)
        self.flushed_end_offset = min(self.flushed_end_offset, log_end_offset)
        self.progress = min(self.progress, log_end_offset)
        self.high_watermark = min(self.high_watermark, log_end_offset)
        self._fetching = None
        if self.leads or self.is_closed or self.leader == NO_LEADER:
            return NOTHING
        return self._fetch()

    def cut_is_safe(self) -> Outputs:
        """The last truncation is on the disk."""
        self._cut_is_safe = True
        if self.leads or self.is_closed or self.leader == NO_LEADER:
            return NOTHING
        return self._fetch()

    def restarted(self, offset: int, *, safe: bool = True) -> Outputs:
        """The log was emptied and goes on at `offset`, where the leader's begins: what lies below is
        committed, or lost to an unclean election. `safe` as for `truncated`.
        """
        before, self.high_watermark = self.high_watermark, offset
        self.written_end_offset = self.flushed_end_offset = self.progress = offset
        out = self.truncated(offset, safe=safe)
        return [HighWatermark(before, offset), *out] if offset > before else out
