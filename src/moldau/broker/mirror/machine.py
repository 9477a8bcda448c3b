"""One mirrored partition, as a state machine without input or output.

Inputs are method calls, outputs are returned values (outputs.py); there is no clock, connection or log in
here. puller.py makes the calls and carries the outputs out.

    LOOKING ── led_by ──> COMPARING ── ends agree ──> FETCHING ── error ──> PAUSED ── its time ──> LOOKING
       ^                     │  ^                      │  │ ^
       │                     │  └── truncated ── CUTTING  │ └ raised ── RAISING: a higher leader epoch came
       └── not the leader ───┴─────────────────────────┘  └──> FAULTED

*Comparing.* After every change of the source's leader, the source is asked where its log begins and ends, and
where its records of the last mirrored epoch end. What lies behind that is not the source's any more: it was
lost there in an unclean election, and is cut off here, and counted. Where the source's log begins behind our
end, we begin there, and count what was missed.

*Whose history is it?* If nothing of ours would be left, it is no history of ours at all: the source has lost
all it had, and a copy that followed it in that would be no copy. Nor is it if the source has another batch
where our last one is, which is looked at before the first fetch. Both are faults, and nothing is cut.

Invariants: a fetch asks for the log's end, and its answer counts only while that is the end; at most one
Append, Truncate, BeginAt or RaiseEpoch is under way; after FAULTED nothing comes out.
"""

from enum import Enum
from typing import NamedTuple

from moldau.broker.mirror.outputs import (
    Append,
    AskEpochEnd,
    AskLast,
    AskOffsets,
    BeginAt,
    Fault,
    FindLeader,
    Outputs,
    RaiseEpoch,
    Started,
    Truncate,
)
from moldau.common.protocol.errors import ErrorCode, error_name

PAUSE_MS_FIRST, PAUSE_MS_MAX = 100.0, 10_000.0
LEADER_EPOCH_MAX = 2**30
"""A source that claims a higher leader epoch is not followed: ours would be as high, and end soon."""

_LEADER_ERRORS = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)
"""Who leads, or whether the topic is still that topic, has to be found out again."""


class State(Enum):
    """What the partition waits for."""

    LOOKING = "looking for the leader"
    COMPARING = "comparing ends"
    CUTTING = "cutting"
    FETCHING = "fetching"
    RAISING = "raising the leader epoch"
    PAUSED = "paused"
    FAULTED = "faulted"


class Ends(NamedTuple):
    """This log: where it begins and ends, and its records' last leader epoch (-1: none)."""

    start_offset: int
    end_offset: int
    leader_epoch: int

    @property
    def is_empty(self) -> bool:
        """Whether it has no records."""
        return self.start_offset == self.end_offset


class EpochEnd(NamedTuple):
    """A leader epoch and where its records end; (-1, -1): none."""

    leader_epoch: int
    end_offset: int


class Machine:
    """Decides what is fetched next and what follows from answers, for one partition."""

    def __init__(self, *, asks_epochs: bool = True) -> None:
        """`asks_epochs`: whether the source answers a consumer's OffsetForLeaderEpoch (2.3 and later)."""
        self.state = State.LOOKING
        self.leader = -1
        """The source's broker that leads, or did."""
        self.source_epoch = -1
        """The source partition's leader epoch; -1: it does not tell."""
        self.asks_epochs = asks_epochs
        self.resume_ms = 0.0
        """When a pause ends, monotonic."""
        self.problem = ""
        """Why nothing is fetched; empty while that goes well."""
        self.lost = 0
        """Records cut off here because the source lost them."""
        self.missed = 0
        """Offsets that the source deleted before they came here."""
        self.high_watermark = -1
        """The source's, in its last answer."""
        self.caught_up_ms: float | None = None
        """The last time (monotonic) of which it is known that all the source had then is here."""
        self._asked_ms = 0.0
        self._asked_offset = -1
        self._latest = -1  # the source's end, when it was last asked for
        self._failures = 0
        self._wanted_epoch = -1
        self._told_start = False
        self._compared = False  # the log's last batch, with the source's

    @property
    def has_begun(self) -> bool:
        """Whether it has told where it begins (`Started`)."""
        return self._told_start

    # The leader at the source

    def led_by(self, leader: int, source_epoch: int, ends: Ends) -> Outputs:
        """The source's partition is led by this broker now (-1: by none)."""
        if self.state is State.FAULTED:
            return []
        if source_epoch > LEADER_EPOCH_MAX:
            return self._fault_of_epoch(source_epoch)
        if leader < 0:
            self.state, self.problem = State.LOOKING, "the source's partition has no leader"
            return []
        same = (leader, source_epoch) == (self.leader, self.source_epoch)
        if same and self.state not in (State.LOOKING, State.PAUSED):
            return []
        self.leader, self.source_epoch = leader, source_epoch
        if self.state in (State.CUTTING, State.RAISING):
            return []  # and then compared, or refused by the leader that was
        return self._compare(ends)

    def _compare(self, ends: Ends) -> Outputs:
        self.state = State.COMPARING
        return [AskOffsets()]

    def offsets(self, earliest: int, latest: int, ends: Ends) -> Outputs:
        """The source's log begins and ends here."""
        if self.state is not State.COMPARING:
            return []
        self._latest = latest
        if ends.is_empty:
            if earliest <= ends.end_offset <= latest:
                self._compared = True
                return self._go_on()
            return self._begin_at(earliest)
        if latest < ends.start_offset:
            return self._cut(latest, ends)
        if ends.end_offset < earliest:
            self.missed += earliest - ends.end_offset
            return self._begin_at(earliest)
        if self.asks_epochs and ends.leader_epoch >= 0:
            return [AskEpochEnd(ends.leader_epoch)]
        return self._by_ends(ends)

    def epoch_end(self, asked: int, told: EpochEnd, own: EpochEnd, earlier: int, ends: Ends) -> Outputs:
        """`told`: the source's largest epoch up to `asked`, and its end there (-1, -1: it knows none);
        `own`: this log's largest up to that, and its end here. `earlier`: this log's last epoch before
        `asked`, or -1.
        """
        if self.state is not State.COMPARING:
            return []
        leader_epoch, end_offset = told
        own_epoch, own_end_offset = own
        if end_offset < 0:
            # An epoch that the source never had: it was given here, after a failover.
            if earlier >= 0:
                return [AskEpochEnd(earlier)]
            if 0 <= self.source_epoch < asked:
                return self._cut(ends.start_offset, ends)
            return self._by_ends(ends)  # it has none yet: records of before there were epochs
        if own_epoch < 0:
            offset = end_offset
        elif own_epoch == leader_epoch:
            offset = min(own_end_offset, end_offset)
        else:
            offset = own_end_offset
        return self._cut(offset, ends) if offset < ends.end_offset else self._go_on()

    def epochs_refused(self, ends: Ends) -> Outputs:
        """The source does not answer about epochs."""
        self.asks_epochs = False
        return self._by_ends(ends) if self.state is State.COMPARING else []

    def _by_ends(self, ends: Ends) -> Outputs:
        return self._cut(self._latest, ends) if self._latest < ends.end_offset else self._go_on()

    def _cut(self, offset: int, ends: Ends) -> Outputs:
        if offset <= ends.start_offset:
            return self.fault(
                f"the source has nothing of what the copy holds (offsets {ends.start_offset} to "
                f"{ends.end_offset}): it lost its records, or is another topic; a failover keeps the copy, "
                "and to begin anew, delete the mirror and make it again"
            )
        self.lost += ends.end_offset - offset
        self.state = State.CUTTING
        return [Truncate(offset)]

    def _begin_at(self, offset: int) -> Outputs:
        self.state = State.CUTTING
        return [BeginAt(offset)]

    def last_is(self, same: bool | None, offset: int) -> Outputs:
        """Whether the source's batch at this offset is this log's last one; None: that cannot be told, since
        it was compacted or deleted.
        """
        if self.state is not State.COMPARING:
            return []
        if same is False:
            return self.fault(
                f"the source holds another batch at offset {offset} than the copy: it is no copy of that "
                "topic; delete the mirror and make it anew, or fail it over"
            )
        self._compared = True
        return self._go_on()

    def _go_on(self) -> Outputs:
        if not self._compared:
            return [AskLast()]
        self.state, self.problem = State.FETCHING, ""
        if self._told_start:
            return []
        self._told_start = True
        return [Started()]

    def cut_done(self, ends: Ends) -> Outputs:
        """The log was cut, and that is on the disk: compare again."""
        return self._compare(ends) if self.state is State.CUTTING else []

    # Fetching

    def asked(self, offset: int, now_ms: float) -> None:
        """A fetch of `offset` leaves."""
        self._asked_offset, self._asked_ms = offset, now_ms

    def fetched(
        self,
        error_code: int,
        high_watermark: int,
        start_offset: int,
        records: memoryview,
        ends: Ends,
        now_ms: float,
    ) -> Outputs:
        """What came of the fetch."""
        if self.state is not State.FETCHING or self._asked_offset != ends.end_offset:
            return []
        if error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            return self._compare(ends)
        if error_code in _LEADER_ERRORS:
            return self.leader_lost(f"the source answered {error_name(error_code)}", now_ms)
        if error_code:
            return self.failed(f"the source answered {error_name(error_code)}", now_ms)
        self.high_watermark = high_watermark
        if ends.end_offset >= high_watermark:
            self._is_level()
        return [Append(records, start_offset)]

    def _is_level(self) -> None:
        """What was there when the last fetch was asked for is here."""
        self.caught_up_ms = self._asked_ms

    def appended(self, ends: Ends, next_epoch: int, own_epoch: int) -> Outputs:
        """The records are appended. `next_epoch`: of the first batch that is left over (-1: none); one above
        `own_epoch`, the partition's own leader epoch, is not taken.
        """
        if self.state is not State.FETCHING:
            return []
        self._failures = 0
        if ends.end_offset >= self.high_watermark:
            self._is_level()
        if next_epoch > LEADER_EPOCH_MAX:
            return self._fault_of_epoch(next_epoch)
        if next_epoch > own_epoch:
            self.state, self._wanted_epoch = State.RAISING, next_epoch
            return [RaiseEpoch(next_epoch)]
        return []

    def epoch_is(self, own_epoch: int) -> Outputs:
        """This broker leads in this epoch now."""
        if self.state is State.RAISING and own_epoch >= self._wanted_epoch:
            self.state = State.FETCHING
        return []

    # What goes wrong

    def leader_lost(self, problem: str, now_ms: float) -> Outputs:
        """The broker that led does not any more, or cannot be reached: look for another."""
        if self.state in (State.FAULTED, State.CUTTING, State.RAISING):
            return []
        self._pause(problem, now_ms)
        return [FindLeader()]

    def failed(self, problem: str, now_ms: float) -> Outputs:
        """Something failed that may go well in a while."""
        if self.state is not State.FAULTED:
            self._pause(problem, now_ms)
        return []

    def _pause(self, problem: str, now_ms: float) -> None:
        pause_ms = min(PAUSE_MS_MAX, PAUSE_MS_FIRST * 2 ** min(self._failures, 10))
        self._failures += 1
        self.state, self.problem, self.resume_ms = State.PAUSED, problem, now_ms + pause_ms

    def tick(self, now_ms: float) -> Outputs:
        """Time passes: a pause may be over."""
        if self.state is State.PAUSED and now_ms >= self.resume_ms:
            self.state = State.LOOKING
            return [FindLeader()]
        return []

    def _fault_of_epoch(self, leader_epoch: int) -> Outputs:
        return self.fault(f"the source claims leader epoch {leader_epoch}, which no cluster comes to")

    def fault(self, reason: str) -> Outputs:
        """Stop for good."""
        if self.state is State.FAULTED:
            return []
        self.state, self.problem = State.FAULTED, reason
        return [Fault(reason)]

    # What is shown

    def lost_seconds(self, now_ms: float) -> float | None:
        """How long ago everything that the source had was here; None: it never was."""
        return None if self.caught_up_ms is None else max(0.0, now_ms - self.caught_up_ms) / 1000

    def records_behind(self, end_offset: int) -> int:
        """How many offsets the source's high watermark is ahead, by its last answer; -1: not known."""
        return -1 if self.high_watermark < 0 else max(0, self.high_watermark - end_offset)
