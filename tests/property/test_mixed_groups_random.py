"""Members of both protocols in one group, at random: joining, leaving, falling silent, while the coordinator
restarts and its log fails.

What holds after every step: no partition is with two members, a member's epoch never falls, nobody who keeps
the rules is told anything fatal, and replaying the log gives the same state. In the end, with a working
coordinator, everybody settles, every partition has one owner, and the group has the kind that its members
make it.

A failing seed is in the name of the test and in the message, with the last lines of its schedule.
"""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "coordinator"))

from consumer_world import check_ownership, state_of
from mixed_schedule import PARTITIONS, TOPIC, Actor, ConsumerActor, Schedule
from mixed_script import MemoryPort, Script

from moldau.broker.coordinator.group.classic.group import ClassicGroup
from moldau.broker.coordinator.group.classic.record import value_of
from moldau.broker.coordinator.group.classic.states import ClassicState
from moldau.broker.coordinator.group.consumer.group import ConsumerGroup
from moldau.broker.coordinator.group.consumer.member import STATIC_LEAVE_EPOCH
from moldau.broker.coordinator.group.removals import Removals
from moldau.broker.coordinator.group.shard import GroupShard
from moldau.common.protocol.errors import ErrorCode

SEEDS = int(os.environ.get("MOLDAU_TEST_SEEDS", "60"))
"""MOLDAU_TEST_SEEDS=1000 looks longer."""
STEPS = 120
POLICIES = ("bidirectional", "bidirectional", "upgrade")


class Chaos(Schedule):
    """A schedule in which time passes, clients fall silent, and the coordinator's world breaks now and
    then."""

    def __init__(self, seed: int, port: MemoryPort) -> None:
        super().__init__(seed, Script(port))
        self.port = port
        self.epochs: dict[str, int] = {}
        self.group_epoch = 0

    def chaos(self) -> None:
        choice = self.random.random()
        if choice < 0.06:
            self.run(f"wait {self.random.choice([10, 1000, 3000, 11_000, 21_000])}")
        elif choice < 0.09:
            self.run("restart")
            for actor in self.living():
                if isinstance(actor, Actor) and actor.waits:
                    actor.state = "out"  # its connection broke
        elif choice < 0.11:
            for actor in self.random.sample(self.living(), min(1, len(self.living()))):
                if isinstance(actor, Actor):
                    actor.state = "gone"  # hung up without a word, with all that it had
                else:
                    actor.gone = True
        elif choice < 0.15:
            self.port.world.log.fail = ErrorCode.NOT_ENOUGH_REPLICAS
            self.step()
            self.port.world.log.fail = 0
        else:
            self.step()
        self.check()

    # What holds at all times.

    def check(self) -> None:
        group = self.port.world.shard.groups.get(self.port.group_id)
        if isinstance(group, ConsumerGroup):
            check_ownership(group)
            assert group.targets.keys() <= group.members.keys()
            assert all(member.member_epoch <= group.assignment_epoch for member in group.members.values())
            epochs = {key: member.member_epoch for key, member in group.members.items()}
            for member_id, epoch in epochs.items():
                assert epoch in (0, STATIC_LEAVE_EPOCH) or epoch >= self.epochs.get(member_id, 0), member_id
            self.epochs = epochs
            self._owners_in_a_consumer_group(group)
            self._never_falls(group.group_epoch)
        elif isinstance(group, ClassicGroup):
            self.epochs = {}
            self._owners_in_a_classic_group(group)
            # What is not written yet, a restart takes back, as in every classic group.
            self._never_falls(group.persisted.generation if group.persisted else 0)
        self._replayed()
        self._counted()

    def _never_falls(self, epoch: int) -> None:
        group = self.port.world.shard.groups[self.port.group_id]
        if not group.is_empty() or epoch > self.group_epoch:
            fresh = epoch <= 2  # an empty group changed its kind, and began anew
            assert epoch >= self.group_epoch or fresh, f"from {self.group_epoch} to {epoch}"
            self.group_epoch = epoch

    def _owners_in_a_consumer_group(self, group: ConsumerGroup) -> None:
        """What a client in good standing consumes is not given to another."""
        topic_id = self.port.image.topics[TOPIC].topic_id
        for actor in self.living():
            if isinstance(actor, ConsumerActor):
                member_id, epoch = actor.name, actor.epoch
            else:
                speaker = self.script.speakers.get(actor.name)
                member_id, epoch = (speaker.member_id, speaker.generation) if speaker else ("", -1)
            member = group.members.get(member_id)
            if member is None or member.member_epoch != epoch or (member.classic is None) == actor.classic:
                continue
            for index in actor.owned:
                assert group.holder(topic_id, index) in (None, member_id), f"{actor.name} {index}"

    def _owners_in_a_classic_group(self, group: ClassicGroup) -> None:
        """Members of one generation, as synced, consume different partitions."""
        owners: dict[int, str] = {}
        for actor in self.living():
            speaker = self.script.speakers.get(actor.name)
            if not isinstance(actor, Actor) or speaker is None or actor.state != "stable":
                continue
            if speaker.generation != group.generation or speaker.member_id not in group.members:
                continue
            for index in actor.owned:
                assert index not in owners, f"{index} is with {owners[index]} and {actor.name}"
                owners[index] = actor.name

    def _replayed(self) -> None:
        world, group_id = self.port.world, self.port.group_id
        live = world.shard
        loaded = GroupShard(
            settings=lambda: world.settings,
            image=lambda: world.image,
            random_source=world.random,
            removals=Removals(world.timers),
        )
        loaded.journal.recording = False
        latest: dict[bytes, bytes] = {}
        for key, value in world.log.records.get(0, []):
            latest.pop(key, None)
            if value is not None:
                latest[key] = value
        for key, value in latest.items():
            loaded.load(key, value)
        assert state_of(loaded) == state_of(live)
        group, again = live.groups.get(group_id), loaded.groups.get(group_id)
        assert (group and group.kind) == (again and again.kind)
        if isinstance(group, ClassicGroup) and isinstance(again, ClassicGroup):
            assert group.persisted == again.persisted
            if group.state is ClassicState.STABLE:
                assert value_of(group.membership) == value_of(again.membership)

    def _counted(self) -> None:
        """What is counted is what is there, also after conversions that could not be written."""
        live, counted = self.port.world.shard, set()
        for group_id, group in live.groups.items():
            if isinstance(group, ClassicGroup):
                counted.add(group_id)
                assert live.held.get(group_id) == group.membership.held_bytes
            elif isinstance(group, ConsumerGroup):
                counted |= {(group_id, member_id) for member_id in group.members}
        total_bytes = sum(map(live.held.get, counted))
        assert self.port.world.client_state.used_bytes == total_bytes, "nothing else is counted"

    # The end.

    def settle(self, policy: str) -> None:
        for _ in range(80):
            self.run("wait 1000")
            self.round()
            self.check()
        living = self.living()
        owned = sorted(index for actor in living for index in actor.owned)
        assert owned == (list(range(PARTITIONS)) if living else [])
        assert all(actor.state == "stable" for actor in living)
        if not living:
            return
        group = self.port.world.shard.groups[self.port.group_id]
        assert group.member_count() == len(living)
        assert group.state_name() == "Stable"
        if any(isinstance(actor, ConsumerActor) for actor in living):
            assert isinstance(group, ConsumerGroup)
        elif policy == "bidirectional":
            assert isinstance(group, ClassicGroup)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_happens_the_group_settles_and_nothing_has_two_owners(seed: int) -> None:
    policy = POLICIES[seed % len(POLICIES)]
    port = MemoryPort({"a": PARTITIONS}, group_consumer_migration_policy=policy)
    chaos = Chaos(seed, port)
    try:
        for _ in range(STEPS):
            chaos.chaos()
        chaos.settle(policy)
    except AssertionError as error:
        tail = "\n".join(f"    {line:40s} -> {answer}" for line, answer in chaos.log[-60:])
        raise AssertionError(f"seed {seed}, policy {policy}: {error}\n{tail}") from error
    finally:
        port.close()
