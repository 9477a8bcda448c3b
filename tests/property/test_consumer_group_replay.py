"""Consumer groups under random heartbeats, time, topics, failed appends and restarts.

The clients here are as careless as the protocol allows: they revoke late or never, lose answers, repeat old
epochs, come back under other ids. Whatever they do: no partition is with two members, replaying the log gives
the same state, and when the dust settles everything is assigned.
"""

import sys
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "coordinator"))

from consumer_world import GROUP, World, assignment, check_ownership, state_of

from moldau.broker.coordinator.group.consumer.group import ConsumerGroup
from moldau.common.protocol.errors import ErrorCode

SLOTS = 4
slots = st.integers(0, SLOTS - 1)
names = st.lists(st.sampled_from(["a", "b", "ab"]), max_size=3, unique=True)
instances = st.sampled_from([None, None, "i0", "i1", "i2"])
patterns = st.sampled_from(["a.*", ".*b", "c", ""])


@dataclass
class FakeMember:
    """A client: what it believes, and what it really consumes (`owned`)."""

    member_id: str
    instance_id: str | None = None
    epoch: int = 0
    owned: dict[bytes, set[int]] = field(default_factory=dict)
    assigned: dict[bytes, list[int]] = field(default_factory=dict)

    def settle(self) -> None:
        """Stop what was taken away, start what was given."""
        self.owned = {topic: set(indices) for topic, indices in self.assigned.items()}


class ConsumerGroupMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World({"a": 4, "b": 3}, group_consumer_assignment_interval_ms=1000)
        self.clients: dict[int, FakeMember] = {}
        self.counter = 0
        self.incarnation = 0

    def send(self, client: FakeMember, *, full: bool = False, lose: bool = False, **fields: object) -> int:
        """One heartbeat; `lose` drops the answer on its way back."""
        live = self.world.image.topic_names
        owned = {live[topic]: sorted(indices) for topic, indices in client.owned.items() if topic in live}
        response = self.world.heartbeat(
            client.member_id,
            client.epoch,
            owned=owned if full or fields.get("rebalance_timeout_ms") else None,
            instance_id=client.instance_id,
            **fields,  # type: ignore[arg-type]
        )
        if lose:
            return response.error_code
        if response.error_code == ErrorCode.NONE:
            client.epoch = response.member_epoch
            given = assignment(response)
            if given is not None:
                client.assigned = given
        elif response.error_code in (
            ErrorCode.FENCED_MEMBER_EPOCH,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.FENCED_INSTANCE_ID,
            ErrorCode.GROUP_ID_NOT_FOUND,
        ):
            client.epoch, client.owned, client.assigned = 0, {}, {}
        return response.error_code

    @rule(slot=slots, instance=instances, topics=names, pattern=patterns, lose=st.booleans())
    def join(self, slot: int, instance: str | None, topics: list[str], pattern: str, lose: bool) -> None:
        client = self.clients.get(slot)
        if client is None:
            self.counter += 1
            client = FakeMember(f"m{self.counter}")
        client.instance_id = instance
        client.epoch, client.owned, client.assigned = 0, {}, {}
        code = self.send(client, lose=lose, topics=topics, subscribed_topic_regex=pattern)
        if code in (ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE):
            self.clients[slot] = client

    @rule(slot=slots, full=st.booleans(), settle=st.booleans(), lose=st.booleans())
    def beat(self, slot: int, full: bool, settle: bool, lose: bool) -> None:
        client = self.clients.get(slot)
        if client is not None and client.epoch > 0:
            if settle:
                client.settle()
            self.send(client, full=full, lose=lose)

    @rule(slot=slots, topics=names, pattern=patterns)
    def resubscribe(self, slot: int, topics: list[str], pattern: str) -> None:
        client = self.clients.get(slot)
        if client is not None and client.epoch > 0:
            self.send(client, full=True, topics=topics, subscribed_topic_regex=pattern)

    @rule(slot=slots, static=st.booleans())
    def leave(self, slot: int, static: bool) -> None:
        client = self.clients.get(slot)
        if client is None or client.epoch <= 0:
            return
        away = static and client.instance_id is not None
        client.epoch = -2 if away else -1
        self.world.heartbeat(client.member_id, client.epoch, instance_id=client.instance_id)
        del self.clients[slot]

    @rule(slot=slots, back=st.integers(1, 2))
    def speak_in_an_old_epoch(self, slot: int, back: int) -> None:
        client = self.clients.get(slot)
        if client is not None and client.epoch > back:
            client.epoch -= back
            self.send(client, full=True)

    @rule(duration_ms=st.sampled_from([1, 500, 5000, 29_000, 46_000]))
    def pass_time(self, duration_ms: int) -> None:
        self.world.advance(duration_ms)

    @rule(a=st.integers(1, 6), b=st.integers(0, 4), ab=st.integers(0, 3), recreate=st.booleans())
    def change_topics(self, a: int, b: int, ab: int, recreate: bool) -> None:
        self.incarnation += recreate
        counts = {name: count for name, count in (("a", a), ("b", b), ("ab", ab)) if count}
        self.world.set_topics(counts, self.incarnation)

    @rule(fail=st.booleans())
    def break_the_log(self, fail: bool) -> None:
        self.world.fail_appends = fail

    @rule()
    def restart(self) -> None:
        self.world.restart()

    @precondition(lambda self: GROUP in self.world.shard.groups)
    @rule()
    def settle_down(self) -> None:
        """With a working log and diligent clients the group becomes stable, and every readable partition is
        out."""
        self.world.fail_appends = False
        for _ in range(60):
            self.world.advance(5000)
            for client in self.clients.values():
                if client.epoch == 0:
                    client.owned, client.assigned = {}, {}
                    self.send(client, topics=["a"], subscribed_topic_regex="")
                else:
                    client.settle()
                    self.send(client, full=True)
        group = self.world.group()
        assert group.state_name() in ("Stable", "Empty")
        for member_id, member in group.members.items():
            held = {topic: frozenset(epochs) for topic, epochs in member.assigned.items()}
            assert held == dict(group.target(member_id))
        read = {
            name for member in group.members.values() for name in member.subscription(group.resolved_topics())
        }
        image = self.world.image
        wanted = sum(len(topic.partitions) for name, topic in image.topics.items() if name in read)
        assert group.held_partition_count() == wanted

    @invariant()
    def nothing_is_with_two_members(self) -> None:
        for group in self.world.shard.groups.values():
            assert isinstance(group, ConsumerGroup)
            check_ownership(group)
            assert group.assignment_epoch <= group.group_epoch
            assert all(member.member_epoch <= group.assignment_epoch for member in group.members.values())
            assert group.targets.keys() <= group.members.keys()

    @invariant()
    def nobody_consumes_what_another_was_given(self) -> None:
        """The clients' own view: what one that is in good standing consumes is not in another's
        assignment."""
        group = self.world.shard.groups.get(GROUP)
        for client in self.clients.values():
            member = getattr(group, "members", {}).get(client.member_id)
            if member is None or client.epoch != member.member_epoch:
                continue
            for topic, indices in client.owned.items():
                for index in indices:
                    holder = group.holder(topic, index)  # type: ignore[union-attr]
                    assert holder in (None, client.member_id)

    @invariant()
    def replaying_the_log_gives_the_same_state(self) -> None:
        assert state_of(self.world.loaded_again()) == state_of(self.world.shard)


TestConsumerGroups = ConsumerGroupMachine.TestCase
TestConsumerGroups.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
