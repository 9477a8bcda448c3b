"""The role of one replica (leader, follower, neither) and all that follows from it, without input or output.

As in etcd/raft, what happens is told by calls, and what is to be done is returned (role_outputs.py); there is
no clock, no event loop and no log in here. partition.py is the shell that does it.

    in    become        the metadata names the leader, its epoch, the replicas and the in-sync set
          appended      somebody waits for an append (acks=all: the high watermark; acks=1: this replica)
          written, flushed, write_failed                        what has become of the appends
          follower_fetched, in_sync_change_answered, tick       as a leader
          replicated, diverged, truncated                       as a follower
          configured, closed
    out   settle, high watermark, wake fetches, ask for an in-sync set, fetch from, truncate to

*What happens to a Produce request that waits when its partition loses leadership?* `become` with another
leader, or with none, settles every append that waits with NOT_LEADER_OR_FOLLOWER, and wakes the parked Fetch
requests, which look again and are told the same. The records stay in the log, until the new leader's history
says otherwise (`diverged`); the client sends them again, to the new leader. When the same broker is elected
anew, appends go on waiting: nothing has been cut off. A partition that is closed (deleted, reassigned, its
disk lost) settles them with the cause.

A replica's own progress is what it has written, or with `flush_before_commit` what it has forced to the disk.
The high watermark is the smallest progress over the in-sync set, those whose entry into it has been asked for
(KIP-497), and those that have caught up and are about to ask. A sole in-sync leader therefore moves at once
to what is safe here; a new leader with others in sync begins where it knows, and moves by their fetches.
While the in-sync set is smaller than min.insync.replicas (or than all replicas, if they are fewer) it stands
still (KIP-966), and appends with a timeout, which are clients', are told NOT_ENOUGH_REPLICAS_AFTER_APPEND.

The in-sync set shrinks when a follower has not caught up for `lag_max_ms`, and grows when one has reached the
high watermark and the first offset of this leader's epoch. One change is under way at a time. Only a refusal
that proves that it was not applied takes it back; after any other the wider set counts, until the metadata
says what is true.

Histories are compared by leader epochs, never by high watermarks (KIP-101, KIP-279, KIP-320): a follower is
told the epoch at which it diverges and where that ended, and cuts off what is not common.

Invariants: the high watermark never falls while a role lasts, unless an unclean election has a follower
truncate below it; acks=all is settled with 0 only at or below it; each append is settled once; nothing is
settled after `closed`.

Hot: `appended` and `written` run for every Produce; a sole replica has no followers to look at.
"""

from typing import Any

from moldau.metadata.image import NO_LEADER, PartitionState
from moldau.protocol.errors import ErrorCode
from moldau.replication.follower_progress import ANY_BROKER_EPOCH, UNKNOWN_OFFSET, FollowerProgress
from moldau.replication.role_outputs import (
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
from moldau.replication.waiting_appends import WaitingAppends

_NOT_APPLIED = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})
"""Answers to an in-sync change that prove that it was not made, now or by an earlier attempt."""

_AWAITS_METADATA = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
"""Answers after which asking again is no use: the metadata has moved on, and will say where to."""

_NO_FOLLOWERS: dict[int, FollowerProgress] = {}  # shared by all that have none, and never changed


class Role:
    """One replica's part in its partition."""

    __slots__ = (
        "_ask_again",
        "_fetching",
        "_followers",
        "_local",
        "_min_in_sync",
        "_waiting",
        "asked",
        "epoch_start_offset",
        "flush_before_commit",
        "flushed_end_offset",
        "high_watermark",
        "in_sync",
        "is_closed",
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
        """What is safe on this replica: written, or flushed."""
        self.high_watermark = min(high_watermark, written_end_offset)
        self.leader_high_watermark = -1
        """As a follower: what the leader told last."""
        self.epoch_start_offset = written_end_offset
        """As leader: where its epoch began."""
        self.asked: AskInSync | None = None
        """The change of the in-sync set that is under way."""
        self.now_ms = 0.0
        self._ask_again = False
        self._fetching: FetchFrom | None = None  # what the shell has been asked for last
        self._min_in_sync = 1
        self._followers = _NO_FOLLOWERS
        self._waiting = WaitingAppends()  # acks=all: for the high watermark
        self._local: WaitingAppends | None = None  # acks=1: for this replica; made by the first that waits

    # What it is

    @property
    def min_in_sync(self) -> int:
        """So many in-sync replicas acks=all takes: min.insync.replicas, but never more than there are."""
        return min(self._min_in_sync, max(1, len(self.replicas)))

    @property
    def is_under_min_in_sync(self) -> bool:
        """Whether fewer are in sync than acks=all takes."""
        return len(self.in_sync) < self.min_in_sync

    @property
    def waiting_count(self) -> int:
        """How many appends wait."""
        return len(self._waiting) + (0 if self._local is None else len(self._local))

    @property
    def has_timeouts(self) -> bool:
        """Whether anything waits whose timeout `tick` must watch."""
        return bool(self._waiting)

    @property
    def has_followers(self) -> bool:
        """Whether there are followers whose lag `tick` must watch."""
        return bool(self._followers)

    def maximal_in_sync(self) -> set[int]:
        """The in-sync set, with those whose entry is under way (KIP-497)."""
        return {*self.in_sync, *(self.asked.in_sync if self.asked is not None else ())}

    def progress_of(self, replica: int) -> FollowerProgress | None:
        """What is known of a follower; None when it is none of this leader's."""
        return self._followers.get(replica)

    # Roles

    def become(self, state: PartitionState, log_end_offset: int, now_ms: float) -> Outputs:
        """Lead, follow, or wait for a leader, as the metadata says; older metadata is passed over."""
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
        self.leader, self.leader_epoch, self.partition_epoch = state[:3]
        self.replicas, self.in_sync = state.replicas, state.isr
        out: list[Output] = []
        if state.leader == self.node_id:
            if followed:
                out.append(StopFetching())
            self._lead(is_news)
            out += self._advance()
            out += self._give_up_under_min()
        else:
            self._follow(is_news, out)
        if is_news:
            out.append(WakeFetches())
        return out

    def _lead(self, is_news: bool) -> None:
        if is_news:
            self.epoch_start_offset = self.log_end_offset
            self._followers = _NO_FOLLOWERS
        self.leads = True
        if self.replicas == (self.node_id,):
            self._followers = _NO_FOLLOWERS
            return
        known = self._followers
        self._followers = {
            node: known.get(node) or FollowerProgress(node in self.in_sync, self.now_ms)
            for node in self.replicas
            if node != self.node_id
        }

    def _follow(self, is_news: bool, out: list[Output]) -> None:
        if self.leads:
            out += self._settle_all(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.leads = False
        self._followers = _NO_FOLLOWERS
        if is_news:
            self.leader_high_watermark = -1
            self._fetching = None
            if self.leader == NO_LEADER:
                out.append(StopFetching())
            else:
                out += self._fetch()

    def closed(self, error_code: int) -> Outputs:
        """The partition is not served here any more: whoever waits is told the cause."""
        if self.is_closed:
            return NOTHING
        out = self._settle_all(error_code)
        self.is_closed = True
        self.leads = False
        self._followers = _NO_FOLLOWERS
        self.asked = None
        return [*out, StopFetching(), WakeFetches()]

    def configured(self, min_in_sync: int, flush_before_commit: bool) -> Outputs:
        """The settings say so: min.insync.replicas, and whether an fsync stands before every commit."""
        if (min_in_sync, flush_before_commit) == (self._min_in_sync, self.flush_before_commit):
            return NOTHING
        self._min_in_sync = min_in_sync
        self.flush_before_commit = flush_before_commit
        out = self._progressed(self.flushed_end_offset if flush_before_commit else self.written_end_offset)
        return [*out, *self._give_up_under_min()]

    # Appends

    def appended(self, end_offset: int, waiter: Any, acks: int, timeout_ms: int | None) -> Outputs:
        """`waiter` is settled once all before `end_offset` is committed (acks=-1) or safe on this replica
        (acks=1), or known not to be; with REQUEST_TIMED_OUT after `timeout_ms` (None: never).
        """
        if not self.leads:
            return (Settle((waiter,), ErrorCode.NOT_LEADER_OR_FOLLOWER),)
        if acks == 1:
            if end_offset > self.progress:
                if self._local is None:
                    self._local = WaitingAppends()
                self._local.add(end_offset, waiter, None)
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
        """What was appended behind `log_end_offset` is taken back."""
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
        if self._local:
            waiters = self._local.reached(end_offset)
            if waiters:
                return [Settle(waiters, 0), *self._advance()]
        return self._advance()

    def _advance(self) -> Outputs:
        """Move the high watermark, if it may."""
        end_offset = self._committed_end_offset() if self._followers else self.progress
        before = self.high_watermark
        if end_offset <= before:
            return NOTHING
        self.high_watermark = end_offset
        waiters = self._waiting.reached(end_offset)
        if waiters:
            return HighWatermark(before, end_offset), Settle(waiters, 0)
        return (HighWatermark(before, end_offset),)

    def _committed_end_offset(self) -> int:
        """The smallest progress over those that are in sync, or may be without this leader's knowing, or are
        about to be: who has caught up is waited for, or it would never reach the high watermark.
        """
        if self.is_under_min_in_sync:
            return self.high_watermark
        maximal = self.maximal_in_sync()
        end_offset = self.progress
        for node, follower in self._followers.items():
            if follower.end_offset < end_offset and (
                node in maximal
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

    def _give_up_under_min(self) -> Outputs:
        if self.leads and self._waiting and self.is_under_min_in_sync:
            waiters = self._waiting.give_up()
            if waiters:
                return (Settle(waiters, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND),)
        return NOTHING

    # Followers

    def refusal_of_follower(self, replica: int, broker_epoch: int, leader_epoch: int) -> int:
        """Why this leader takes no fetch from `replica`; 0: it does. `leader_epoch` is the request's, or -1.

        An unassigned replica that knows the epoch may know newer metadata, and tries again (as in Kafka).
        """
        follower = self._followers.get(replica)
        if follower is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER if leader_epoch < 0 else ErrorCode.UNKNOWN_LEADER_EPOCH
        if ANY_BROKER_EPOCH < broker_epoch < follower.broker_epoch:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER  # sent in an earlier life (KIP-903)
        return 0

    def follower_fetched(
        self, replica: int, offset: int, broker_epoch: int, eligible: bool, now_ms: float
    ) -> Outputs:
        """A follower whose history agrees asks for `offset`: it has everything before it. `eligible`: the
        broker is registered with this broker epoch, neither fenced nor shutting down (KIP-841).
        """
        follower = self._followers.get(replica)
        if not self.leads or follower is None:
            return NOTHING
        self.now_ms = now_ms
        follower.fetched(offset, self.written_end_offset, broker_epoch, eligible, now_ms)
        out: list[Output] = []
        if self.asked is None:
            if (
                replica not in self.in_sync
                and eligible
                and offset >= self.high_watermark
                and offset >= self.epoch_start_offset
            ):
                out += self._ask((*self.in_sync, replica))
        elif self._ask_again:
            out += self._ask(self.asked.in_sync)
        out += self._advance()
        return out

    def tick(self, now_ms: float) -> Outputs:
        """Time passes: appends time out, and followers that have not caught up for too long leave the in-sync
        set. `now_ms` is monotonic, as everywhere here.
        """
        self.now_ms = now_ms
        if not self.leads:
            return NOTHING
        out: list[Output] = []
        waiters = self._waiting.expire(now_ms)
        if waiters:
            out.append(Settle(waiters, ErrorCode.REQUEST_TIMED_OUT))
        if self._followers:
            if self.asked is None:
                kept = tuple(node for node in self.in_sync if not self._lags(node))
                if kept != self.in_sync:
                    out += self._ask(kept)
            elif self._ask_again:
                out += self._ask(self.asked.in_sync)
            out += self._advance()
        return out

    def _lags(self, node: int) -> bool:
        follower = self._followers.get(node)
        if follower is None:
            return node != self.node_id
        return not follower.is_caught_up(self.written_end_offset, self.lag_max_ms, self.now_ms)

    def _ask(self, in_sync: tuple[int, ...]) -> Outputs:
        epochs = []
        for node in in_sync:
            follower = self._followers.get(node)
            epochs.append(ANY_BROKER_EPOCH if follower is None else follower.broker_epoch)
        self.asked = AskInSync(in_sync, tuple(epochs), self.leader_epoch, self.partition_epoch)
        self._ask_again = False
        return (self.asked,)

    def in_sync_change_answered(
        self, asked: AskInSync, error_code: int, state: PartitionState | None, now_ms: float
    ) -> Outputs:
        """The controller has answered `asked`: `state` is the new one when the error code is 0.

        Network errors and such count as answers too: whether the change was made is then unknown.
        """
        if self.is_closed or asked != self.asked:
            return NOTHING  # the metadata was faster
        self.now_ms = now_ms
        if not error_code and state is not None:
            return self.become(state, self.log_end_offset, now_ms)
        if error_code in _NOT_APPLIED:
            self.asked = None
            return self._advance()
        self._ask_again = error_code not in _AWAITS_METADATA
        return NOTHING

    # As a follower

    def replicated(self, end_offset: int, leader_high_watermark: int) -> Outputs:
        """What the leader sent is appended, up to `end_offset`, and its high watermark is that."""
        if self.leads or self.is_closed:
            return NOTHING
        self.log_end_offset = end_offset
        self.leader_high_watermark = leader_high_watermark
        self._fetching = None
        return self._follower_progressed()

    def _follower_progressed(self) -> Outputs:
        """More is fetched once all is safe: the offset that is asked for vouches for what is before."""
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
        if self.progress < self.log_end_offset or fetch == self._fetching:
            return NOTHING  # not safe yet, or asked for already
        self._fetching = fetch
        return (fetch,)

    def diverged(
        self, leader_epoch: int, epoch: int, end_offset: int, own_epoch: int, own_end_offset: int
    ) -> Outputs:
        """The leader of `leader_epoch` says that histories differ: its last epoch up to that of this log's
        end is `epoch`, and ended at `end_offset`. Here the last epoch up to that one is `own_epoch`, and
        ended at `own_end_offset` (-1 and -1: none).

        Where this log does not know the leader's epoch either, the next round goes on from `own_epoch`.
        """
        if self.leads or self.is_closed or leader_epoch != self.leader_epoch:
            return NOTHING
        if end_offset == UNKNOWN_OFFSET:
            offset = self.high_watermark if own_epoch < 0 else own_end_offset
        elif own_epoch == epoch or own_epoch < 0:
            offset = end_offset if own_epoch < 0 else min(own_end_offset, end_offset)
        else:
            offset = own_end_offset
        return (TruncateTo(min(offset, self.log_end_offset)),)

    def truncated(self, log_end_offset: int) -> Outputs:
        """The log was cut and ends here: at the offset that was asked for, or before the batch around it."""
        self.log_end_offset = log_end_offset
        self.written_end_offset = min(self.written_end_offset, log_end_offset)
        self.flushed_end_offset = min(self.flushed_end_offset, log_end_offset)
        self.progress = min(self.progress, log_end_offset)
        self.high_watermark = min(self.high_watermark, log_end_offset)
        self._fetching = None
        if self.leads or self.is_closed or self.leader == NO_LEADER:
            return NOTHING
        return self._fetch()
