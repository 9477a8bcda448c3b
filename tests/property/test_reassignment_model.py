"""Random interleavings of reassignments, in-sync changes, elections, brokers that come and go, over a model
of the replicas' logs: no committed record is ever only on removed replicas, and the target is reached."""

from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.broker.controller.decision import decided
from moldau.broker.controller.election import ElectionType, elect_leaders
from moldau.broker.controller.in_sync import Rules
from moldau.broker.controller.membership import brokers_changed
from moldau.broker.controller.partitions import AlterPartition, alter_partitions
from moldau.broker.controller.reassignment import reassign
from moldau.broker.metadata.changes import replay
from moldau.broker.metadata.image import NO_LEADER, BrokerState, Image, PartitionState, TopicState
from moldau.broker.metadata.store import NO_BROKER_EPOCH, Registration
from moldau.common.protocol.errors import ErrorCode

BROKERS = (1, 2, 3, 4)
LISTS = st.lists(st.sampled_from(BROKERS), min_size=1, max_size=3, unique=True).map(tuple)
NODES = st.sampled_from(BROKERS)
STEPS = st.one_of(
    st.tuples(st.just("append"), st.just(0)),
    st.tuples(st.just("fetch"), NODES),
    st.tuples(st.just("join"), NODES),
    st.tuples(st.just("catch up"), NODES),
    st.tuples(st.just("catch up"), NODES),
    st.tuples(st.just("leader dies"), st.just(0)),
    st.tuples(st.just("leave"), NODES),
    st.tuples(st.just("die"), NODES),
    st.tuples(st.just("return"), NODES),
    st.tuples(st.just("return unclean"), NODES),
    st.tuples(st.just("reassign"), LISTS),
    st.tuples(st.just("reassign"), LISTS),
    st.tuples(st.just("cancel"), st.none()),
    st.tuples(st.just("prefer"), st.just(0)),
)


class World:
    """One partition: what the metadata says of it, and each replica's log (a list of record ids)."""

    def __init__(self, replicas: tuple[int, ...], min_isr: int) -> None:
        self.rules = Rules(min_isr)
        topic = TopicState("a", b"a" * 16, (PartitionState.fresh(replicas),))
        brokers = {n: BrokerState(n, n * 100, {}) for n in BROKERS}
        self.image = Image(1, brokers=brokers, topics={"a": topic})
        self.live = {n: Registration(n, {}, None, -1, n * 100) for n in BROKERS}
        self.logs: dict[int, list[int]] = {n: [] for n in replicas}
        self.committed: list[int] = []
        self.wanted = replicas
        self.made = 0

    @property
    def state(self) -> PartitionState:
        return self.image.topics["a"].partitions[0]

    def apply(self, decision) -> None:
        before = self.state
        self.image = replay(self.image, self.image.version + 1, decision.changes)
        after = self.state
        if before.target and not after.target and after.replicas == before.target:
            assert set(before.target) <= set(after.isr), "completed before its target was in sync"
        if before != after:
            assert after.partition_epoch == before.partition_epoch + 1
        if not set(before.replicas) <= set(after.replicas) or before.leader != after.leader:
            assert after.leader_epoch > before.leader_epoch
        for node in before.replicas:
            if node not in after.replicas:
                del self.logs[node]  # its folder
        for node in after.replicas:
            self.logs.setdefault(node, [])
        self.check()

    def check(self) -> None:
        state = self.state
        assert set(state.isr) <= set(state.replicas)
        assert set(state.elr) <= set(state.replicas)
        assert not set(state.isr) & set(state.elr)
        assert state.leader == NO_LEADER or state.leader in state.isr
        assert len(set(state.replicas)) == len(state.replicas)
        if state.target:
            assert set(state.replicas) == set(state.original) | set(state.target)
            assert len(state.replicas) >= min(len(state.original), len(state.target))
            assert not set(state.target) <= set(state.isr), "it is completed at once"
        count = len(self.committed)
        for node in state.isr or state.elr:
            assert self.logs[node][:count] == self.committed, f"broker {node} may lead without these"
        assert state.isr or state.elr

    def commit(self) -> None:
        """The leader's high watermark, when it has heard of everybody."""
        state = self.state
        if state.leader in self.live and len(state.isr) >= min(self.rules.min_isr, state.replication_factor):
            end = min(len(self.logs[node]) for node in state.isr)
            if end > len(self.committed):
                self.committed = self.logs[state.leader][:end]

    def step(self, kind: str, what) -> None:
        state = self.state
        if kind == "catch up":
            self.step("fetch", what)
            self.step("join", what)
        elif kind == "leader dies":
            self.step("die", state.leader)
        elif kind == "append" and state.leader != NO_LEADER:
            self.made += 1
            self.logs[state.leader].append(self.made)
        elif kind == "fetch" and what in state.replicas and what in self.live and state.leader != NO_LEADER:
            self.logs[what] = list(self.logs[state.leader])  # truncated where it diverges
        elif (
            kind == "join" and what in state.replicas and what not in state.isr and state.leader != NO_LEADER
        ):
            log = self.logs[what]
            if len(log) >= len(self.committed) and log == self.logs[state.leader][: len(log)]:
                self.ask((*state.isr, what))
        elif kind == "leave" and what in state.isr and what != state.leader != NO_LEADER:
            self.ask(tuple(node for node in state.isr if node != what))
        elif kind == "die" and what in self.live and len(self.live) > 1:
            del self.live[what]
            self.brokers()
        elif kind.startswith("return") and what not in self.live:
            known = self.image.brokers[what].broker_epoch
            previous = NO_BROKER_EPOCH if "unclean" in kind else known
            self.live[what] = Registration(what, {}, None, previous, known + 1)
            self.brokers()
        elif kind in ("reassign", "cancel"):
            self.reassign(what)
        elif kind == "prefer":
            self.apply(decided(elect_leaders(self.image, ElectionType.PREFERRED, {"a": [0]}, self.rules_of)))
        self.commit()

    def rules_of(self, topic: str) -> Rules:
        return self.rules

    def brokers(self) -> None:
        self.apply(decided(brokers_changed(self.image, self.live, self.rules_of)))

    def ask(self, isr: tuple[int, ...]) -> None:
        state = self.state
        asked = AlterPartition("a", 0, state.leader_epoch, state.partition_epoch, isr)
        epoch = self.image.brokers[state.leader].broker_epoch
        self.apply(decided(alter_partitions(self.image, state.leader, epoch, [asked], self.rules_of)))

    def reassign(self, what) -> None:
        before = self.state
        decision = decided(reassign(self.image, [("a", 0, what)], self.rules_of))
        ((_, outcome),) = decision.answer
        self.apply(decision)
        if outcome.failed:
            assert self.state == before
            assert outcome.error_code in (
                ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            )
            return
        self.wanted = what or before.original
        assert self.wanted in (self.state.replicas, self.state.target)

    def settle(self) -> None:
        """Everybody lives and catches up."""
        for node in BROKERS:
            self.step("return", node)
        for _ in range(2):
            for node in BROKERS:
                self.step("fetch", node)
                self.step("join", node)


@settings(max_examples=400, deadline=None)
@given(LISTS, st.integers(1, 3), st.lists(STEPS, min_size=20, max_size=60))
def test_no_committed_record_is_lost_and_the_target_is_reached(replicas, min_isr, steps):
    world = World(replicas, min_isr)
    for kind, what in steps:
        world.step(kind, what)
        world.check()
    world.settle()
    world.check()
    assert (world.state.target, world.state.replicas) == ((), world.wanted)
    assert set(world.state.isr) == set(world.wanted)
    assert world.logs[world.state.leader][: len(world.committed)] == world.committed
