"""Classic groups and offsets, in transactions and without, under random requests, time, restarts and failing
appends.

After every step in which nothing is in flight, the log alone must rebuild the persisted state; no generation
falls; a group has one leader, who is a member; a stable group's record holds every member's assignment. In
the end, once the log works again and time has passed, nobody may be left without an answer.
"""

import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "coordinator"))
from group_world import GROUP, Call, World

from moldau.broker.coordinator.group.classic.group import ClassicGroup
from moldau.broker.coordinator.group.classic.record import value_of
from moldau.broker.coordinator.group.classic.states import ClassicState
from moldau.broker.coordinator.group.shard import GroupShard
from moldau.broker.coordinator.last_values import LastValues
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.delete_groups import DeleteGroupsRequest

CLIENTS = range(4)
PROTOCOLS = (
    [("range", b"r")],
    [("range", b"changed"), ("sticky", b"s")],
    [("sticky", b"s"), ("range", b"r")],
)
FAILURES = (
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
)

STEPS = st.one_of(
    st.tuples(st.just("join"), st.sampled_from(CLIENTS), st.sampled_from(range(len(PROTOCOLS)))),
    st.tuples(st.just("join"), st.sampled_from(CLIENTS), st.just(0)),
    st.tuples(st.just("sync"), st.sampled_from(CLIENTS), st.just(0)),
    st.tuples(st.just("sync"), st.sampled_from(CLIENTS), st.just(0)),
    st.tuples(st.just("heartbeat"), st.sampled_from(CLIENTS), st.just(0)),
    st.tuples(st.just("leave"), st.sampled_from(CLIENTS), st.just(0)),
    st.tuples(st.just("forget"), st.sampled_from(CLIENTS), st.just(0)),
    st.tuples(st.just("commit"), st.sampled_from(CLIENTS), st.integers(0, 99)),
    st.tuples(st.just("simple"), st.sampled_from(CLIENTS), st.integers(0, 99)),
    st.tuples(st.just("pend"), st.sampled_from(CLIENTS), st.integers(0, 99)),
    st.tuples(st.just("pend simple"), st.sampled_from(CLIENTS), st.integers(0, 99)),
    st.tuples(st.just("end"), st.sampled_from(CLIENTS), st.booleans()),
    st.tuples(st.just("delete"), st.sampled_from(CLIENTS), st.just(0)),
    st.tuples(st.just("advance"), st.just(0), st.sampled_from([5, 200, 5000, 11_000, 600_000])),
    st.tuples(st.just("fail"), st.just(0), st.sampled_from(FAILURES)),
    st.tuples(st.just("heal"), st.just(0), st.just(0)),
    st.tuples(st.just("hold"), st.just(0), st.just(0)),
    st.tuples(st.just("finish"), st.just(0), st.sampled_from((0, 0, *FAILURES))),
    st.tuples(st.just("restart"), st.just(0), st.just(0)),
)


class Member:
    """A client: what it was last told, and its join that may still be parked. Odd ones are static."""

    def __init__(self, number: int) -> None:
        self.instance = f"instance-{number}" if number % 2 else None
        self.member_id = ""
        self.generation = -1
        self.joining: Call | None = None

    def listen(self) -> None:
        response = None if self.joining is None else self.joining.response
        if response is None:
            return
        self.joining = None
        if response.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            self.member_id, self.generation = response.member_id, response.generation_id
        elif response.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self.member_id = ""


class Story:
    """One random course of events, checked as it goes."""

    def __init__(self) -> None:
        self.world = World()
        self.members = [Member(number) for number in CLIENTS]
        self.calls: list[Call] = []
        self.generations: dict[int, tuple[ClassicGroup, int]] = {}

    def step(self, kind: str, number: int, value: Any) -> None:
        world, member = self.world, self.members[number]
        member.listen()
        match kind:
            case "join" if member.joining is None:
                protocols = PROTOCOLS[value]
                call = world.join(member.member_id, instance=member.instance, protocols=protocols)
                member.joining = call
                self.calls.append(call)
            case "sync":
                shares = {other.member_id: bytes([index]) for index, other in enumerate(self.members)}
                group = world.shard.classic.get(GROUP)
                name = (group and group.protocol_name) or "range"
                call = world.sync(
                    member.member_id,
                    member.generation,
                    shares,
                    instance=member.instance,
                    protocol_name=name,
                )
                self.calls.append(call)
            case "heartbeat":
                world.heartbeat(member.member_id, member.generation, member.instance)
            case "leave":
                world.leave((member.member_id, member.instance))
            case "forget":
                member.member_id, member.joining = "", None
            case "commit":
                call = world.commit(value, member_id=member.member_id, generation=member.generation)
                self.calls.append(call)
            case "simple":
                self.calls.append(world.commit(value, group=f"simple-{number}", partition=value % 3))
            case "pend":
                call = world.commit_pending(
                    value, number, member_id=member.member_id, generation=member.generation
                )
                self.calls.append(call)
            case "pend simple":
                call = world.commit_pending(value, number, group=f"simple-{value % 4}", partition=value % 3)
                self.calls.append(call)
            case "end":
                self.calls.append(world.end(number, committed=value))
            case "delete":
                names = [GROUP, f"simple-{number}"]
                self.calls.append(world.call("delete_groups", DeleteGroupsRequest(groups_names=names), 2))
            case "advance":
                world.advance(value)
            case "fail":
                world.log.fail = value
            case "heal":
                self.heal()
            case "hold":
                world.log.hold = True
            case "finish":
                if world.log.in_flight:
                    world.log.finish(value)
                world.settle()
            case "restart":
                self.calls.clear()
                for each in self.members:
                    each.joining = None
                self.heal()
                world.restart()
        self.check()

    def state(self) -> ClassicState | None:
        shard = self.world.coordinator.runtime.state(0)
        group = None if shard is None else shard.classic.get(GROUP)
        return None if group is None else group.state

    def heal(self) -> None:
        log = self.world.log
        log.fail, log.hold = 0, False
        while log.in_flight:
            log.finish()
        self.world.settle()

    def check(self) -> None:
        self.world.settle()
        shard = self.world.coordinator.runtime.state(0)
        if shard is None:
            return
        for group in shard.groups.values():
            assert isinstance(group, ClassicGroup)
            self.check_group(group)
        if not self.world.log.in_flight:
            self.check_rebuilt(shard)

    def check_group(self, group: ClassicGroup) -> None:
        known, generation = self.generations.get(id(group), (group, 0))
        assert group.generation >= generation or known is not group, "a generation fell"
        self.generations[id(group)] = (group, group.generation)
        assert group.membership.parked_join_count == sum(
            m.parked_join is not None for m in group.members.values()
        )
        assert set(group.membership.static_members.values()) <= set(group.members)
        if group.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
            assert group.membership.leader_id in group.members
        if group.state is ClassicState.EMPTY:
            assert not group.members
        if group.state is ClassicState.STABLE:
            assert value_of(group.membership) == group.persisted

    def check_rebuilt(self, shard: GroupShard) -> None:
        runtime = self.world.coordinator.runtime
        rebuilt = runtime._make_state(0, 0)
        rebuilt.journal.recording = False
        gathering = LastValues()
        gathering.add(self.world.log.records.get(0, []))
        for key, value in gathering.latest.items():
            rebuilt.load(key, value)
        for producer, key, pending in gathering.pending():
            rebuilt.load_pending(producer, key, pending)
        assert persisted(rebuilt) == persisted(shard)
        assert rebuilt.offsets.by_group == shard.offsets.by_group
        assert rebuilt.offsets.pending.epochs == shard.offsets.pending.epochs
        assert values(rebuilt) == values(shard)

    def finish(self) -> None:
        self.heal()
        self.check()
        for _ in range(4):
            self.world.advance(3_600_000)
        self.check()
        assert all(call.response is not None for call in self.calls), "somebody was left without an answer"
        self.world.close()


def values(shard: GroupShard) -> dict[int, dict[Any, Any]]:
    """The pending offsets of every producer; how they are numbered does not matter."""
    pending = shard.offsets.pending.by_producer
    return {
        producer: {place: offset.value for place, offset in offsets.items()}
        for producer, offsets in pending.items()
    }


def persisted(shard: GroupShard) -> dict[str, Any]:
    return {
        group_id: group.persisted
        for group_id, group in shard.groups.items()
        if isinstance(group, ClassicGroup)
        and (
            group.persisted
            or group_id in shard.offsets.by_group
            or group_id in shard.offsets.pending.by_group
        )
    }


@settings(max_examples=150, deadline=None)
@given(st.lists(STEPS, max_size=60))
def test_the_log_rebuilds_the_state_and_nobody_waits_forever(steps: list[tuple[str, int, Any]]) -> None:
    story = Story()
    for kind, number, value in steps:
        story.step(kind, number, value)
    story.finish()


@pytest.mark.parametrize("seed", range(4))
def test_a_long_life(seed: int) -> None:
    """Rounds of what clients mostly do, with one step in ten disturbed, so that deep states are reached
    often."""
    story = Story()
    source = story.world.random
    source.seed(seed)
    stable = failed = 0
    for _ in range(200):
        plan = [("join", number) for number in CLIENTS] * 2 + [("advance", 0)]
        plan += [("sync", number) for number in source.sample(CLIENTS, len(CLIENTS))]
        plan += [(source.choice(("commit", "heartbeat", "join", "leave", "forget")), source.choice(CLIENTS))]
        for kind, number in plan:
            before = story.state()
            failing = source.random() < 0.1
            if failing:
                story.step("fail", 0, source.choice(FAILURES))
            elif source.random() < 0.05:
                kind = source.choice(
                    ("leave", "restart", "simple", "hold", "delete", "forget", "pend", "pend simple", "end")
                )
            story.step(kind, number, source.choice((200, 61_000)) if kind == "advance" else 0)
            failed += failing and before is ClassicState.COMPLETING_REBALANCE
            if source.random() < 0.7:
                story.step("heal", 0, 0)
        stable += story.state() is ClassicState.STABLE
    assert stable >= 5
    assert failed >= 4
    story.finish()
