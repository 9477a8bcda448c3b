"""Transactions under random requests, time, crashes, failing appends and failing markers.

What must hold, whatever comes:

* replaying the log rebuilds the state that the coordinator has (where nothing is in flight);
* a marker is written only while the last committed record of its id is that very decision;
* the log takes only the ways of the table of states, so a transaction is decided once; an identity never goes
  back;
* after a crash at any point, every decided transaction becomes complete;
* an acknowledged commit ends with commit markers on exactly its partitions: on all that were acknowledged,
  on none that was not asked for, and never beside an abort.

Clients keep to the protocol of version 1 or 2 of transactions, except that each id has several of them, which
fence each other and do not always know it.
"""

import random
import sys
from collections import Counter, deque
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "coordinator" / "transaction"))
from transaction_world import Call, World

from moldau.broker.coordinator.markers import Marker, TopicPartition
from moldau.broker.coordinator.transaction.metadata import NO_PRODUCER_EPOCH, Transaction
from moldau.broker.coordinator.transaction.records import decode
from moldau.broker.coordinator.transaction.states import COMPLETE, DECIDED, FOLLOWERS, TransactionState
from moldau.common.protocol.errors import ErrorCode

IDS = ("a", "b")
PRODUCERS = range(4)
PARTITIONS: tuple[TopicPartition, ...] = (("beer", 0), ("beer", 1), ("wine", 0), ("wine", 2))
APPEND_FAILURES = (
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
)
MARKER_FAILURES = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
NOTHING = st.just(0)
PRODUCER = st.sampled_from(PRODUCERS)

STEPS = st.one_of(
    st.tuples(st.just("init"), PRODUCER, st.booleans()),
    st.tuples(st.just("add"), PRODUCER, st.sampled_from(PARTITIONS)),
    st.tuples(st.just("add"), PRODUCER, st.sampled_from(PARTITIONS)),
    st.tuples(st.just("add"), PRODUCER, st.sampled_from(PARTITIONS)),
    st.tuples(st.just("end"), PRODUCER, st.just(True)),
    st.tuples(st.just("end"), PRODUCER, st.booleans()),
    st.tuples(st.just("advance"), NOTHING, st.sampled_from([10, 1000, 61_000])),
    st.tuples(st.just("fail"), NOTHING, st.sampled_from(APPEND_FAILURES)),
    st.tuples(st.just("hold"), NOTHING, NOTHING),
    st.tuples(st.just("finish"), NOTHING, st.sampled_from((0, 0, *APPEND_FAILURES))),
    st.tuples(st.just("land, then fail"), NOTHING, st.sampled_from(APPEND_FAILURES[2:])),
    st.tuples(st.just("refuse"), st.sampled_from(PARTITIONS), st.sampled_from(MARKER_FAILURES)),
    st.tuples(st.just("hold markers"), NOTHING, NOTHING),
    st.tuples(st.just("finish markers"), NOTHING, NOTHING),
    st.tuples(st.just("heal"), NOTHING, NOTHING),
    st.tuples(st.just("restart"), st.booleans(), st.booleans()),
    st.tuples(st.just("reload"), st.booleans(), NOTHING),
)


class Producer:
    """A client: its identity, and the partitions of its transaction, asked for and acknowledged."""

    def __init__(self, number: int) -> None:
        self.name = IDS[number % len(IDS)]
        self.identity: tuple[int, int] | None = None
        self.waiting: tuple[str, Call, Any] | None = None
        self.begin()

    def begin(self) -> None:
        self.asked: set[TopicPartition] = set()
        self.acknowledged: set[TopicPartition] = set()
        self.ending: bool | None = None


class Story:
    """One random course of events, checked as it goes."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.world = World(transaction_version=version)
        self.producers = [Producer(number) for number in PRODUCERS]
        self.commits: list[tuple[tuple[int, int], set[TopicPartition], set[TopicPartition]]] = []
        self._history: list[Transaction] = []
        self._logged: dict[str, Transaction] = {}
        self._write = self.world.markers.write
        self.world.markers.write = self.checked_write  # type: ignore[method-assign]

    # What the log says.

    def history(self) -> list[Transaction]:
        for key, value in self.world.log.records.get(0, [])[len(self._history) :]:
            assert key is not None
            record = decode(key, value)
            assert record is not None
            assert record.transaction is not None
            self._history.append(record.transaction)
            self._logged[record.transactional_id] = record.transaction
        return self._history

    def logged(self) -> dict[str, Transaction]:
        """The last committed word on each id."""
        self.history()
        return self._logged

    def checked_write(self, marker: Marker, partitions: Any) -> Any:
        """A marker is due only while its decision is the last committed word."""
        (decision,) = [each for each in self.logged().values() if each.producer_id == marker.producer_id]
        assert decision.state in DECIDED
        assert marker.committed == (decision.state is TransactionState.PREPARE_COMMIT)
        assert marker.producer_epoch == decision.producer_epoch
        assert marker.coordinator_epoch == self.world.leader_epoch
        assert set(partitions) <= decision.partitions
        return self._write(marker, partitions)

    # Steps.

    def step(self, kind: str, which: Any, value: Any) -> None:
        world = self.world
        for producer in self.producers:
            self.listen(producer)
        match kind:
            case "init" | "add" | "end":
                producer = self.producers[which]
                if producer.waiting is None:
                    self.request(kind, producer, value)
                    self.listen(producer)
            case "advance":
                world.advance(value)
            case "fail":
                world.log.fail = value
            case "hold":
                world.log.hold = True
            case "finish" if world.log.in_flight:
                world.run(lambda: world.log.finish(value))
            case "land, then fail" if world.log.in_flight:
                world.run(lambda: world.log.finish(value, lands=True))
            case "refuse":
                world.markers.refuse.setdefault(which, deque()).append(value)
            case "hold markers":
                world.markers.hold = True
            case "finish markers" if world.markers.in_flight:
                world.run(world.markers.finish)
            case "heal":
                self.heal()
            case "restart":
                self.crash(log_lands=which, markers_land=value)
            case "reload":
                self.reload(log_lands=which)
        world.settle()
        self.check()

    def request(self, kind: str, producer: Producer, value: Any) -> None:
        world, name = self.world, producer.name
        if producer.identity is None or (kind == "init" and producer.ending is None):
            known = value is True and producer.identity is not None
            expected = producer.identity if known and producer.identity else (-1, -1)
            producer.waiting = ("init", world.init(name, expected=expected), None)
        elif kind == "add" and producer.ending is None:
            producer.asked.add(value)
            if self.version == 2:
                coordinator = world.coordinator
                call = world.call(
                    coordinator.verify, name, *producer.identity, [value], add=True, supports_abortable=True
                )
            else:
                call = world.add(producer.identity, [value], transactional_id=name)
            producer.waiting = ("add", call, value)
        elif kind == "end" and (producer.asked or self.version == 2):
            if producer.ending is None:
                producer.ending = value if producer.acknowledged else False
            api_version = 5 if self.version == 2 else 4
            call = world.end(producer.identity, producer.ending, version=api_version, transactional_id=name)
            producer.waiting = ("end", call, None)

    def listen(self, producer: Producer) -> None:
        if producer.waiting is None or producer.waiting[1].response is None:
            return
        kind, call, value = producer.waiting
        producer.waiting = None
        error = ErrorCode(call.response[value]) if isinstance(call.response, dict) else call.error
        assert error is not None
        if kind == "init" and error == ErrorCode.NONE:
            producer.identity = call.identity
            producer.begin()
        elif kind == "add" and error == ErrorCode.NONE:
            producer.acknowledged.add(value)
        elif kind == "end" and error == ErrorCode.NONE:
            self.ended(producer, call)
        elif not error.retriable and error not in (
            ErrorCode.CONCURRENT_TRANSACTIONS,
            ErrorCode.NOT_COORDINATOR,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ):
            producer.identity = None  # fenced, or in doubt: it begins anew
            producer.begin()

    def ended(self, producer: Producer, call: Call) -> None:
        assert producer.identity is not None
        marker_identity = producer.identity
        if self.version == 2:
            marker_identity = (producer.identity[0], producer.identity[1] + 1)
            producer.identity = call.identity
        if producer.ending:
            self.commits.append((marker_identity, set(producer.acknowledged), set(producer.asked)))
        producer.begin()

    def crash(self, *, log_lands: bool, markers_land: bool) -> None:
        """Kill -9: what is in flight lands or does not, and nobody hears of it."""
        world = self.world
        if log_lands and world.log.in_flight:
            world.log.in_flight[0]._land()
        while markers_land and world.markers.in_flight:
            world.markers.in_flight.pop(0)()
        for producer in self.producers:
            producer.waiting = None
        world.log.hold, world.log.fail = False, 0
        world.restart()

    def reload(self, *, log_lands: bool) -> None:
        """The same broker leads in a new epoch. Its log is what it is by then; markers of the old epoch are
        still on their way."""
        world = self.world
        if world.log.in_flight:
            append = world.log.in_flight.pop(0)
            if log_lands:
                append._land()
        world.leader_epoch += 1
        world.elect(0, world.leader_epoch)

    def heal(self) -> None:
        world = self.world
        world.log.hold, world.log.fail, world.markers.hold = False, 0, False
        world.markers.refuse.clear()
        while world.log.in_flight:
            world.run(world.log.finish)
        while world.markers.in_flight:
            world.run(world.markers.finish)

    # What must hold.

    def check(self) -> None:
        if self.world.log.in_flight or self.world.coordinator.runtime.state(0) is None:
            return
        live = {name: _as_written(each) for name, each in self.world.shard.transactions.items()}
        assert live == {name: _as_written(each) for name, each in self.logged().items()}
        for each in self.world.shard.transactions.values():
            if each.state is TransactionState.ONGOING:
                assert self.world.shard.deadlines.get((each.transactional_id,)) is not None
            pending = self.world.shard.delivery.remaining(each.transactional_id)
            assert (pending is not None) == (each.state in DECIDED)

    def finish(self) -> None:
        self.heal()
        self.world.advance(70_000)
        for producer in self.producers:
            self.listen(producer)
            assert producer.waiting is None, "nobody is left without an answer"
        self.check()
        for each in self.world.shard.transactions.values():
            assert each.state in COMPLETE | {TransactionState.EMPTY}
        self.check_history()
        self.check_commits()

    def check_history(self) -> None:
        last: dict[str, Transaction] = {}
        for each in self.history():
            before = last.get(each.transactional_id)
            if before is not None:
                assert each.state in FOLLOWERS[before.state]
                assert (each.producer_id, each.producer_epoch) >= (before.producer_id, before.producer_epoch)
                if before.state in DECIDED:
                    assert (before.state is TransactionState.PREPARE_COMMIT) == (
                        each.state is TransactionState.COMPLETE_COMMIT
                    )
            last[each.transactional_id] = each

    def check_commits(self) -> None:
        written = self.world.markers.written
        for identity, acknowledged, asked in self.commits:
            for partition in PARTITIONS:
                decisions = {
                    each.committed
                    for each in written.get(partition, [])
                    if (each.producer_id, each.producer_epoch) == identity
                }
                if self.version == 2:
                    assert decisions <= {True}
                    assert True in decisions or partition not in acknowledged
                    assert not decisions or partition in asked
                else:
                    assert True in decisions or partition not in acknowledged


def _as_written(transaction: Transaction) -> Transaction:
    return transaction._replace(last_producer_epoch=NO_PRODUCER_EPOCH)


@pytest.mark.parametrize("version", [1, 2])
@settings(max_examples=150, deadline=None)
@given(steps=st.lists(STEPS, max_size=60))
def test_transactions_keep_their_promises(version: int, steps: list[tuple[str, Any, Any]]) -> None:
    story = Story(version)
    try:
        for kind, which, value in steps:
            story.step(kind, which, value)
        story.finish()
    finally:
        story.world.close()


DISTURBANCES: tuple[tuple[str, Any, Any], ...] = (
    ("fail", 0, ErrorCode.KAFKA_STORAGE_ERROR),
    ("fail", 0, ErrorCode.REQUEST_TIMED_OUT),
    ("hold", 0, 0),
    ("finish", 0, ErrorCode.NOT_ENOUGH_REPLICAS),
    ("land, then fail", 0, ErrorCode.REQUEST_TIMED_OUT),
    ("refuse", ("beer", 0), ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ("refuse", ("wine", 0), ErrorCode.KAFKA_STORAGE_ERROR),
    *[("hold markers", 0, 0)] * 5,
    ("restart", False, True),
    ("restart", True, False),
    ("restart", True, True),
    ("reload", True, 0),
    ("reload", False, 0),
    ("advance", 0, 61_000),
)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("version", [1, 2])
def test_a_long_life(version: int, seed: int) -> None:
    """What producers mostly do, with one step in ten disturbed, so that deep states are reached often."""
    story = Story(version)
    source = random.Random(seed)
    seen: Counter[str] = Counter()
    try:
        for _ in range(150):
            which = source.choice(PRODUCERS)
            plan: list[tuple[str, Any, Any]] = [("add", which, source.choice(PARTITIONS)) for _ in range(3)]
            plan += [("end", which, source.random() < 0.8)] * 2
            if source.random() < 0.1:
                plan.insert(0, ("init", which, source.random() < 0.5))
            for step in plan:
                if source.random() < 0.1:
                    kind, *_ = disturbance = source.choice(DISTURBANCES)
                    shard = story.world.shard
                    decided = any(each.state in DECIDED for each in shard.transactions.values())
                    seen[f"{kind} while decided"] += decided
                    story.step(*disturbance)
                story.step(*step)
                if source.random() < 0.07:
                    story.step("heal", 0, 0)
        seen["commits"] = len(story.commits)
        story.finish()
    finally:
        story.world.close()
    assert seen["commits"] > 30, seen
    assert seen["restart while decided"] > 0, seen
    assert seen["reload while decided"] > 0, seen
