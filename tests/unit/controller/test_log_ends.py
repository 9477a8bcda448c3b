"""After a loss of power everywhere the longest log of the newest leader epoch leads, once all are there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.broker.controller.decision import Steps, decided
from moldau.broker.controller.election import ElectionType, elect_leaders
from moldau.broker.controller.in_sync import Rules, after_brokers, with_leader
from moldau.broker.controller.log_ends import LogEndReports, Told, tell_ends, told_ends, valid_ends
from moldau.broker.controller.membership import brokers_changed
from moldau.broker.controller.reassignment_rules import with_target
from moldau.broker.metadata.changes import Change, LogEndsTold, ReplicasOffline, replay
from moldau.broker.metadata.image import BrokerState, Image, LogEnd, PartitionState, TopicState
from moldau.broker.metadata.levels import CLUSTER_LEVEL, LEVELS, LOG_ENDS_LEVEL
from moldau.broker.metadata.store import Registration
from moldau.common.core.clock import ManualClock
from moldau.common.core.timers import ManualTimers
from moldau.common.protocol.errors import ErrorCode

REPLICAS = (1, 2, 3)
TOPIC_ID = b"a" * 16
TWO = Rules(min_isr=2, by_log_end=True)


@dataclass
class World:
    """A partition of three replicas, where each log ends, and who is registered under which broker epoch."""

    ends: dict[int, tuple[int, int]]
    level: int = LOG_ENDS_LEVEL
    rules: Rules = TWO
    live: dict[int, Registration] = field(default_factory=dict)
    epoch: int = 30

    def __post_init__(self) -> None:
        brokers = {node: BrokerState(node, node * 10, {}, levels=LEVELS) for node in REPLICAS}
        topic = TopicState("a", TOPIC_ID, (PartitionState(1, 5, 7, REPLICAS, REPLICAS),))
        self.image = Image(5, level=self.level, brokers=brokers, topics={"a": topic})

    def append(self, *changes: Change) -> None:
        self.image = replay(self.image, self.image.version + 1, changes)

    def decide(self) -> None:
        decision = decided(brokers_changed(self.image, self.live, lambda topic: self.rules))
        for changes in (*decision.earlier, decision.changes):
            self.append(*changes)

    def come(self, *nodes: int, lost: bool = True) -> None:
        """Machines that lost their power, or did not, come back."""
        for node in nodes:
            self.epoch += 1
            previous = -1 if lost else self.image.brokers[node].broker_epoch
            self.live[node] = Registration(node, {}, None, previous, self.epoch, LEVELS)
        self.decide()

    def go(self, node: int) -> None:
        del self.live[node]
        self.decide()

    def tell(self, *nodes: int) -> None:
        for node in nodes:
            self.append(*self.told(node))
            assert self.told(node) == []
            self.decide()

    def told(self, node: int) -> Sequence[Change]:
        return decided(tell_ends(self.image, node, lambda topic, topic_id, index: self.ends[node])).changes

    @property
    def now(self) -> tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        state = self.image.topics["a"].partitions[0]
        return state.leader, state.isr, state.elr, state.doubtful

    def unclean(self) -> ErrorCode:
        decision = decided(
            elect_leaders(self.image, ElectionType.UNCLEAN, {"a": [0]}, lambda topic: self.rules)
        )
        self.append(*decision.changes)
        return decision.answer["a"][0][1].error_code


@pytest.mark.parametrize(
    ("ends", "leader"),
    [
        ({1: (5, 10), 2: (5, 12), 3: (5, 11)}, 2),
        ({1: (5, 10), 2: (4, 99), 3: (5, 9)}, 1),
        ({1: (5, 10), 2: (5, 10), 3: (5, 10)}, 1),
        ({1: (-1, 0), 2: (-1, 0), 3: (0, 1)}, 3),
    ],
)
@pytest.mark.parametrize("order", [(1, 2, 3), (3, 1, 2), (2, 3, 1)])
def test_the_longest_of_the_newest_epoch_leads(
    ends: dict[int, tuple[int, int]], leader: int, order: tuple[int, ...]
) -> None:
    world = World(ends)
    for node in order:
        assert world.now[0] == -1 or node == order[0]
        world.come(node)
        world.tell(node)
    assert world.now == (leader, (leader,), (), ())
    assert world.image.topics["a"].partitions[0].leader_epoch > 5


def test_one_that_is_away_is_waited_for() -> None:
    world = World({1: (5, 10), 2: (5, 12), 3: (5, 11)})
    world.come(2, 3)
    world.tell(2, 3)
    assert world.now == (-1, (), (1,), (2, 3))
    world.come(1)
    assert world.now == (-1, (), (), REPLICAS), "it has not told yet"
    world.tell(1)
    assert world.now == (2, (2,), (), ())


def test_one_that_has_lost_nothing_leads_at_once() -> None:
    world = World({1: (5, 10), 2: (5, 12), 3: (5, 11)})
    world.come(2, 3)
    world.tell(2, 3)
    world.come(1, lost=False)
    assert world.now == (1, (1,), (), ())


def test_what_an_earlier_process_has_told_does_not_count() -> None:
    world = World({1: (5, 10), 2: (5, 12), 3: (5, 11)})
    world.come(1, 2)
    world.tell(1, 2)
    world.come(2)
    world.come(3)
    world.tell(3)
    assert world.now == (-1, (), (), REPLICAS)
    world.ends[2] = (5, 9)
    world.tell(2)
    assert world.now == (3, (3,), (), ())


def test_one_that_goes_again_before_the_last_is_there_is_waited_for() -> None:
    world = World({1: (5, 10), 2: (5, 12), 3: (5, 11)})
    world.come(1, 2)
    world.tell(1, 2)
    world.go(2)
    world.come(3)
    world.tell(3)
    assert world.now == (-1, (), (), REPLICAS)
    world.come(2, lost=False)
    assert world.now[0] == -1
    world.tell(2)
    assert world.now[0] == 2


def test_an_administrator_says_that_one_is_gone() -> None:
    world = World({1: (5, 10), 2: (5, 12), 3: (5, 13)})
    world.come(1, 2)
    world.tell(1, 2)
    assert world.unclean() is ErrorCode.NONE
    assert world.now == (2, (2,), (), ())
    world.come(3)
    world.tell(3)
    assert world.now == (2, (2,), (), ()), "too late: it follows"


def test_what_was_told_before_an_election_does_not_count_after_it() -> None:
    world = World({1: (5, 10), 2: (5, 12), 3: (5, 11)})
    world.come(1, 2, 3)
    world.tell(1, 2, 3)
    state = world.image.topics["a"].partitions[0]
    told = {node: each.log_ends[TOPIC_ID][0] for node, each in world.image.brokers.items() if each.log_ends}
    assert told
    assert valid_ends(state, told) == {}


def test_what_is_needed_no_more_is_taken_back() -> None:
    world = World({1: (5, 10), 2: (5, 12), 3: (5, 11)})
    world.come(1, 2, 3)
    world.tell(1, 2, 3)
    world.tell(1, 2, 3)
    assert not any(broker.log_ends for broker in world.image.brokers.values())


def test_a_log_that_cannot_be_read_has_no_end() -> None:
    world = World({1: (5, 10), 2: (5, 12), 3: (5, 11)})
    world.come(1, 2, 3)
    decision = decided(tell_ends(world.image, 1, lambda topic, topic_id, index: None))
    assert decision.changes == []


def test_a_single_replica_waits_for_nobody() -> None:
    alone = PartitionState(1, 5, 7, (1,), (1,))
    assert after_brokers(alone, {1}, {1}, {1}, TWO)[:5] == (1, 6, 8, (1,), (1,))
    last = PartitionState(1, 5, 7, REPLICAS, (1,))
    again = after_brokers(last, {1, 2, 3}, {1}, {1}, TWO)
    assert (again.leader, again.isr, again.doubtful) == (1, (1,), ())


def test_brokers_of_an_older_release_are_not_told_of_doubtful_replicas() -> None:
    world = World({}, level=CLUSTER_LEVEL, rules=Rules(2))
    world.come(1)
    assert world.now == (-1, (), (2, 3), ())
    world.come(2)
    assert world.now == (-1, (), (3,), ())
    assert decided(tell_ends(world.image, 1, lambda topic, topic_id, index: (5, 1))).changes == []
    world.come(3)
    assert world.now == (3, (3,), (), ())


@given(
    st.fixed_dictionaries({n: st.tuples(st.integers(0, 3), st.integers(0, 5)) for n in REPLICAS}),
    st.lists(st.tuples(st.sampled_from(("come", "go", "tell")), st.sampled_from(REPLICAS)), max_size=30),
)
def test_whatever_the_order_nobody_leads_before_all_are_there_and_then_the_longest(
    ends: dict[int, tuple[int, int]], steps: list[tuple[str, int]]
) -> None:
    world = World(ends)
    for what, node in steps:
        back = set(world.image.brokers) - {n for n, b in world.image.brokers.items() if b.broker_epoch <= 30}
        before = world.now
        if what == "come":
            world.come(node)
        elif node in world.live:
            world.go(node) if what == "go" else world.tell(node)
        if back and world.now[0] != -1:
            leader = world.now[0]
            if before[0] == -1:
                assert set(world.live) == set(REPLICAS)
                assert ends[leader] == max(ends.values())
            return


def test_a_reassignment_does_not_take_out_one_that_may_have_the_longest_log() -> None:
    """Else the one that stays would lead, as the last that is left: an unclean election nobody asked for."""
    waits = PartitionState(-1, 6, 8, (4, 3, 1), (), (), (3, 1), (4, 3), doubtful=(4, 3))
    assert with_target(waits, (3, 1), {1, 3}, TWO) is None, "4 is taken out again"
    assert with_target(waits, (1, 3), {1, 3}, TWO) is None
    accepted = with_target(waits, (3, 1), {1, 3}, TWO._replace(unclean=True))
    assert accepted is not None
    assert (accepted.leader, accepted.replicas, accepted.doubtful) == (3, (3, 1), ())
    eligible = waits._replace(elr=(1,))
    again = with_target(eligible, (3, 1), {1, 3}, TWO)
    assert again is not None
    assert again.leader == 1, "it has every committed record"


def test_an_election_ends_the_doubt() -> None:
    doubtful = PartitionState(-1, 5, 7, REPLICAS, (), (), doubtful=REPLICAS)
    assert with_leader(doubtful, 2, 2).doubtful == ()
    assert with_leader(doubtful, -1, 2).doubtful == REPLICAS


def test_ends_are_of_partitions_and_leader_epochs() -> None:
    told = LogEndsTold(1, ((TOPIC_ID, (LogEnd(0, 6, 5, 10),)),))
    image = World({}).image
    after = replay(image, 6, [told])
    assert after.brokers[1].log_ends == {TOPIC_ID: (LogEnd(0, 6, 5, 10),)}


def test_a_log_that_is_opened_later_is_told_of_then() -> None:
    """Its disk was full, or descriptors were short. Nothing comes from the metadata when it opens."""

    async def run() -> None:
        world = World({1: (5, 10), 2: (5, 12), 3: (5, 11)})
        world.come(1, 2, 3)
        world.tell(2, 3)
        clock = ManualClock()
        timers, loop = ManualTimers(clock), Loop(world)
        reports = LogEndReports(1, loop, lambda: timers)  # type: ignore[arg-type]
        opened: list[tuple[int, int]] = []
        reports.begin(lambda topic, topic_id, index: opened[0] if opened else None)
        await turns()
        assert not world.image.brokers[1].log_ends
        opened.append((5, 10))
        timers.advance(10_000)
        await turns()
        world.decide()
        assert world.now[0] == 2
        looked = len(loop.decisions)
        timers.advance(60_000)
        await turns()
        assert len(loop.decisions) == looked
        reports.stop()

    asyncio.run(run())


def test_a_log_that_is_offline_is_not_looked_for_again_and_again() -> None:
    world = World({1: (5, 10), 2: (5, 12), 3: (5, 11)})
    world.come(1, 2, 3)
    world.append(ReplicasOffline(1, ((TOPIC_ID, (0,)),)))
    assert decided(tell_ends(world.image, 1, lambda topic, topic_id, index: None)).answer == (0, 0)


class Loop:
    """Decides at once, in the world's image."""

    def __init__(self, world: World) -> None:
        self.decisions: list[Told] = []
        self._world = world

    async def decide(self, decide: Callable[[Image], Steps[Told]]) -> Told:
        decision = decided(decide(self._world.image))
        self.decisions.append(decision.answer)
        if decision.changes:
            self._world.append(*decision.changes)
        return decision.answer


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


PARTITIONS = 5_000


def all_told(offline: bool = False) -> Image:
    """A topic of many partitions, of which every broker has told its ends (or lost its log)."""
    indexes = range(PARTITIONS)
    topic = TopicState("a", TOPIC_ID, tuple(PartitionState(1, 5, 7, REPLICAS, REPLICAS) for _ in indexes))
    ends = {} if offline else {TOPIC_ID: tuple(LogEnd(index, 5, 1, index) for index in indexes)}
    lost = {TOPIC_ID: tuple(indexes)} if offline else {}
    brokers = {
        node: BrokerState(node, node * 10, {}, levels=LEVELS, log_ends=ends, offline=lost)
        for node in REPLICAS
    }
    return Image(5, level=LOG_ENDS_LEVEL, brokers=brokers, topics={"a": topic})


def test_a_table_of_what_many_partitions_told_is_made_in_slices() -> None:
    """15,000 rows in one turn of the event loop would hold up every request for tens of milliseconds."""
    steps = told_ends(all_told(), but=(3,))
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            told = stop.value
            break
        count += 1
    assert count >= 2 * PARTITIONS // 100
    assert [sorted(told[TOPIC_ID][index]) for index in range(PARTITIONS)] == [[1, 2]] * PARTITIONS


@pytest.mark.parametrize("offline", [False, True])
def test_brokers_that_come_are_followed_in_slices_from_the_first_table_on(offline: bool) -> None:
    live = {node: Registration(node, {}, None, node * 10, node * 10, LEVELS) for node in REPLICAS}
    steps = brokers_changed(all_told(offline), live, lambda topic: TWO)
    assert sum(1 for _ in steps) >= 3 * PARTITIONS // 100


def test_an_election_begins_with_slices() -> None:
    steps = elect_leaders(all_told(), ElectionType.UNCLEAN, {"a": []}, lambda topic: TWO)
    assert sum(1 for _ in steps) >= 3 * PARTITIONS // 100
