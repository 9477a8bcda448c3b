"""Whatever comes in, in whatever order, the role machine keeps its promises.

the high watermark never falls while a role lasts, and never passes what this replica has
acks=all is settled with 0 only at or below the high watermark; acks=1 only at or below the own progress
every append is settled once; after `closed`, nothing is
one in-sync change is under way at a time
"""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from moldau.broker.metadata.image import NO_LEADER, PartitionState
from moldau.broker.replication.role import Role
from moldau.broker.replication.role_outputs import (
    AskInSync,
    FetchFrom,
    HighWatermark,
    Outputs,
    Settle,
    TruncateTo,
)
from moldau.common.protocol.errors import ErrorCode

NODES = (1, 2, 3)
SETS = st.sets(st.sampled_from(NODES), min_size=1).map(lambda chosen: tuple(sorted(chosen)))


class Machine(RuleBasedStateMachine):
    """A replica among three, with a log that is only a handful of ends."""

    def __init__(self) -> None:
        super().__init__()
        self.role = Role(1, high_watermark=0, written_end_offset=0, flushed_end_offset=0, lag_max_ms=1000)
        self.now_ms = 0.0
        self.log_end = self.written = self.flushed = 0
        self.epoch = self.partition_epoch = 0
        self.names = 0
        self.waits: dict[int, tuple[int, int]] = {}  # who waits -> (end offset, acks)
        self.settled: dict[int, int] = {}
        self.asked: list[AskInSync] = []
        self.high_watermark = 0
        self.in_flight: AskInSync | None = None

    def done(self, outputs: Outputs, *, truncates: bool = False) -> None:
        assert not (self.role.is_closed and self.closed_before and outputs)
        for output in outputs:
            if isinstance(output, HighWatermark):
                assert output.before < output.after
                assert output.before == self.high_watermark
                self.high_watermark = output.after
            elif isinstance(output, Settle):
                for waiter in output.waiters:
                    self.settle(waiter, output.error_code)
            elif isinstance(output, AskInSync):
                assert output == self.role.asked
                assert self.in_flight in (None, output), "one change at a time, and the same again"
                assert output.partition_epoch == self.role.partition_epoch
                self.asked.append(output)
            elif isinstance(output, FetchFrom):
                assert not self.role.leads
                assert output.offset == self.log_end == self.role.progress
        assert self.role.high_watermark == self.high_watermark or truncates
        self.high_watermark = self.role.high_watermark
        self.in_flight = self.role.asked

    @property
    def closed_before(self) -> bool:
        return getattr(self, "was_closed", False)

    def settle(self, waiter: int, error_code: int) -> None:
        assert waiter not in self.settled, "settled twice"
        self.settled[waiter] = error_code
        end_offset, acks = self.waits[waiter]
        if not error_code:
            assert end_offset <= (self.role.progress if acks == 1 else self.role.high_watermark)

    # The metadata

    @rule(leader=st.sampled_from((1, 1, 1, 2, 3, NO_LEADER)), in_sync=SETS, replicas=SETS, anew=st.booleans())
    def become(self, leader: int, in_sync: tuple[int, ...], replicas: tuple[int, ...], anew: bool) -> None:
        if leader != self.role.leader or anew:
            self.epoch += 1
        self.partition_epoch += 1
        members = tuple(sorted({1, *replicas, *in_sync, *((leader,) if leader > 0 else ())}))
        if leader > 0:
            in_sync = tuple(sorted({leader, *in_sync}))
        state = PartitionState(leader, self.epoch, self.partition_epoch, members, in_sync)
        self.done(self.role.become(state, self.log_end, self.now_ms))
        if self.role.is_closed:
            return
        if leader != 1:
            left = [each for each in self.waits if each not in self.settled]
            assert not left, "nobody waits for who does not lead"

    @rule(leader_epoch=st.integers(0, 3))
    def older_metadata(self, leader_epoch: int) -> None:
        if leader_epoch < self.epoch:
            before = self.role.leader
            self.done(self.role.become(PartitionState(2, leader_epoch, 99, NODES, NODES), self.log_end, 0.0))
            assert self.role.leader == before

    @rule(min_in_sync=st.integers(1, 3), group=st.booleans())
    def configured(self, min_in_sync: int, group: bool) -> None:
        self.done(self.role.configured(min_in_sync, group))

    # Appends

    @precondition(lambda self: self.role.leads)
    @rule(
        count=st.integers(0, 3),
        acks=st.sampled_from((-1, 1)),
        timeout_ms=st.one_of(st.none(), st.integers(0, 500)),
    )
    def append(self, count: int, acks: int, timeout_ms: int | None) -> None:
        """`count` 0: a repeated batch, at any offset."""
        end_offset = self.log_end + count if count else max(0, self.log_end - 2)
        self.log_end = max(self.log_end, end_offset)
        self.names += 1
        self.waits[self.names] = (end_offset, acks)
        self.done(self.role.appended(end_offset, self.names, acks, timeout_ms))

    @rule(good=st.booleans())
    def write(self, good: bool) -> None:
        if good:
            self.written = self.log_end
        else:
            self.log_end = self.written
            self.done(self.role.write_failed(self.log_end))
        self.done(self.role.written(self.written))

    @rule()
    def flush(self) -> None:
        self.flushed = self.written
        self.done(self.role.flushed(self.flushed))

    # Others

    @rule(
        node=st.sampled_from((2, 3)),
        behind=st.integers(0, 4),
        broker_epoch=st.integers(-1, 3),
        eligible=st.booleans(),
    )
    def fetch(self, node: int, behind: int, broker_epoch: int, eligible: bool) -> None:
        if self.role.followers.refusal(node, broker_epoch, -1):
            return
        offset = max(0, self.written - behind)
        self.done(self.role.follower_fetched(node, offset, broker_epoch, eligible, self.now_ms))

    @precondition(lambda self: self.asked)
    @rule(
        which=st.integers(0, 9),
        error=st.sampled_from(
            (0, ErrorCode.NETWORK_EXCEPTION, ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.INELIGIBLE_REPLICA)
        ),
    )
    def answer(self, which: int, error: int) -> None:
        """Perhaps a late answer, to a change that is long out of date."""
        asked = self.asked[-1 - which % len(self.asked)]
        state = None
        if not error and asked == self.role.asked:
            self.partition_epoch += 1
            state = PartitionState(
                1, asked.leader_epoch, self.partition_epoch, self.role.replicas, asked.in_sync
            )
        self.done(self.role.in_sync_change_answered(asked, error, state, self.now_ms))

    @rule(passed_ms=st.integers(0, 800))
    def tick(self, passed_ms: int) -> None:
        self.now_ms += passed_ms
        self.done(self.role.tick(self.now_ms))

    # As a follower

    @precondition(lambda self: self.role.leader in (2, 3))
    @rule(count=st.integers(0, 3), leader_high_watermark=st.integers(0, 20))
    def replicated(self, count: int, leader_high_watermark: int) -> None:
        self.log_end += count
        self.done(self.role.replicated(self.log_end, leader_high_watermark))

    @precondition(lambda self: self.role.leader in (2, 3) and not self.role.is_closed)
    @rule(
        epoch=st.integers(-1, 3),
        end=st.integers(0, 20),
        own_epoch=st.integers(-1, 3),
        own_end=st.integers(0, 20),
    )
    def diverged(self, epoch: int, end: int, own_epoch: int, own_end: int) -> None:
        outputs = self.role.diverged(self.role.leader_epoch, epoch, end, own_epoch, own_end)
        for output in outputs:
            assert isinstance(output, TruncateTo)
            assert output.offset <= self.log_end
            self.log_end = output.offset
            self.written = min(self.written, self.log_end)
            self.flushed = min(self.flushed, self.log_end)
            self.done(self.role.truncated(self.log_end), truncates=True)

    @precondition(lambda self: self.names > 3)
    @rule()
    def close(self) -> None:
        self.done(self.role.closed(ErrorCode.KAFKA_STORAGE_ERROR))
        self.was_closed = True
        assert not [each for each in self.waits if each not in self.settled]

    @invariant()
    def nothing_is_shown_that_is_not_here(self) -> None:
        assert self.role.high_watermark <= max(self.log_end, self.written)
        assert self.role.waiting_count == len(self.waits) - len(self.settled)

    @invariant()
    def only_a_leader_asks(self) -> None:
        asked: Any = self.role.asked
        assert asked is None or (self.role.leads and 1 in asked.in_sync)


TestRole = Machine.TestCase
TestRole.settings = settings(max_examples=300, stateful_step_count=40, deadline=None)
