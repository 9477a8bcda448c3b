"""A partition on three brokers, real roles and the controller's real decisions, with logs that are lists:
whatever happens to brokers, disks, sessions and messages, whoever is elected has every acknowledged record.

    brokers    crash and lose the end of their logs, stop in order, come back before or after their session
               ended, lose their session and go on leading, lose their disk while they run or are down
    metadata   each broker learns each change at a moment of its own; in-sync changes are answered late or not
    fetches    compare histories as the protocol does; answers are lost

What is not survivable is left out: a broker crashes, or loses its disk, only while another one, in sync or
eligible, has every acknowledged record, and the metadata knows of earlier losses. With
min.insync.replicas=1 that holds for stops and ended sessions as well: a leader may hand over to a broker that
crashed a moment ago, which nobody knows yet, and nobody else is eligible then. Elections are clean.

A failure prints its seed.
"""

from __future__ import annotations

import random
from typing import NamedTuple

import pytest

from moldau.broker.controller.decision import Decision, Steps, decided
from moldau.broker.controller.in_sync import Rules
from moldau.broker.controller.membership import brokers_changed
from moldau.broker.controller.partitions import AlterPartition, alter_partitions
from moldau.broker.controller.rebalancing import rebalance_leaders
from moldau.broker.controller.replica_losses import replicas_lost
from moldau.broker.controller.shutdown import hand_over
from moldau.broker.metadata.changes import TopicCreated, replay
from moldau.broker.metadata.image import EMPTY_IMAGE, Image, PartitionState
from moldau.broker.metadata.store import Registration
from moldau.broker.replication.divergence import epoch_end
from moldau.broker.replication.role import Role
from moldau.broker.replication.role_outputs import AskInSync, Outputs, Settle, TruncateTo
from moldau.common.protocol.errors import ErrorCode

NODES = (1, 2, 3)
TOPIC_ID = b"a" * 16
LAG_MS = 1_000
STEPS = 400


class Entry(NamedTuple):
    """A record: which leader wrote it, and what it is."""

    leader_epoch: int
    value: int


class Broker:
    """A broker's process (or none), its log, and what it knows."""

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.log: list[Entry] = []
        self.high_watermark = 0
        self.role: Role | None = None
        self.seen = 0
        """The version of the metadata that it knows."""
        self.broker_epoch = -1
        self.complete_since: set[int] = set()
        """The broker epochs since which its log has lost nothing."""
        self.disk_lost = False
        self.asked: list[AskInSync] = []
        self.serves = False
        """Since its start: whether it has seen its own registration. Before, it takes no connections."""

    @property
    def runs(self) -> bool:
        return self.role is not None


class World:
    """The cluster, and what was acknowledged."""

    def __init__(self, seed: int, min_isr: int) -> None:
        self.random = random.Random(seed)
        self.rules = Rules(min_isr)
        self.brokers = {node: Broker(node) for node in NODES}
        self.live: dict[int, Registration] = {}
        self.images = [EMPTY_IMAGE._replace(level=2)]
        self.acknowledged: dict[int, int] = {}
        self.values = self.epochs = 0
        self.now_ms = 0.0
        self.elections = 0
        for broker in self.brokers.values():
            self.begin(broker)
            self.register(broker.node_id)
        self.controller()
        self.append([TopicCreated("a", TOPIC_ID, (PartitionState.fresh(NODES),))])

    # The metadata

    @property
    def image(self) -> Image:
        return self.images[-1]

    @property
    def state(self) -> PartitionState:
        return self.image.topics["a"].partitions[0]

    def append(self, changes: list) -> None:
        before = self.image
        after = replay(before, before.version + 1, changes)
        self.images.append(after)
        if "a" in before.topics:
            self.check_election(before.topics["a"].partitions[0], self.state)

    def check_election(self, before: PartitionState, now: PartitionState) -> None:
        assert now.leader == -1 or now.leader in now.isr
        assert now.isr or now.elr
        assert now.partition_epoch >= before.partition_epoch
        if now.leader_epoch == before.leader_epoch:
            assert now.leader == before.leader
            return
        self.elections += 1
        if now.leader != -1 and self.knows_last_life(now.leader):
            assert self.has_all(self.brokers[now.leader]), f"{now.leader} was elected: {before} -> {now}"

    def has_all(self, broker: Broker) -> bool:
        log = broker.log
        return all(
            offset < len(log) and log[offset].value == value for offset, value in self.acknowledged.items()
        )

    def decide(self, steps: Steps | Decision) -> object:
        decision = steps if isinstance(steps, Decision) else decided(steps)
        for changes in (*decision.earlier, decision.changes):
            if changes:
                self.append(list(changes))
        return decision.answer

    def controller(self) -> None:
        self.decide(brokers_changed(self.image, dict(sorted(self.live.items())), lambda topic: self.rules))

    def rebalance(self) -> None:
        self.decide(rebalance_leaders(self.image, 0, lambda topic: self.rules))

    def register(self, node: int) -> None:
        broker = self.brokers[node]
        self.epochs += 1
        self.live[node] = Registration(node, {}, None, self.previous(broker), self.epochs, (1, 2))
        broker.broker_epoch = self.epochs
        broker.complete_since.add(self.epochs)

    def previous(self, broker: Broker) -> int:
        """As controller/presence.py says it."""
        known = self.image.brokers.get(broker.node_id)
        if known is not None and known.broker_epoch in broker.complete_since:
            return known.broker_epoch
        return -1

    # Brokers come and go

    def begin(self, broker: Broker) -> None:
        """The process starts, reads the metadata, and says what it lost before it registers."""
        node = broker.node_id
        if broker.disk_lost and node in self.image.brokers and "a" in self.image.topics:
            others = [each for each in (*self.state.isr, *self.state.elr) if each != node]
            mine = node in (*self.state.isr, *self.state.elr)
            lost = [("a", 0)] if mine and others else []
            offline = [("a", 0)] if mine and not others else []
            self.decide(
                replicas_lost(self.image, node, lost, offline, lambda topic: self.rules, complete=True)
            )
            assert not offline, "then nobody else would have everything"
        broker.disk_lost = broker.serves = False
        broker.broker_epoch = -1
        broker.role = Role(
            node,
            high_watermark=min(broker.high_watermark, len(broker.log)),
            written_end_offset=len(broker.log),
            flushed_end_offset=len(broker.log),
            lag_max_ms=LAG_MS,
        )
        self.done(broker, broker.role.configured(self.rules.min_isr, False))
        broker.seen = self.image.version
        self.become(broker)

    def start(self, broker: Broker) -> None:
        if not broker.runs:
            self.begin(broker)
            self.register(broker.node_id)  # it may take its own former place

    def crash(self, broker: Broker) -> None:
        """The end of the log was not on the disk."""
        if broker.runs and self.spared(broker):
            del broker.log[max(0, len(broker.log) - self.random.randrange(6)) :]
            self.gone(broker)

    def gone(self, broker: Broker) -> None:
        broker.role = None
        broker.asked.clear()
        broker.complete_since.clear()
        broker.high_watermark = self.random.randint(0, min(broker.high_watermark, len(broker.log)))

    def spared(self, broker: Broker) -> bool:
        """Whether another one has all and counts for it, and nobody has lost anything that is not known."""
        trusted = [node for node in (*self.state.isr, *self.state.elr) if node != broker.node_id]
        others = [self.brokers[node] for node in trusted]
        return any(
            self.has_all(each)
            and not self.image.brokers[each.node_id].has_offline(TOPIC_ID, 0)
            and (self.rules.min_isr > 1 or each.node_id in self.live)
            for each in others
        ) and all(self.knows_last_life(each.node_id) and not each.disk_lost for each in others)

    def knows_last_life(self, node: int) -> bool:
        """Whether the broker has not lost anything that the metadata does not know of."""
        known = self.image.brokers[node].broker_epoch
        held = self.live.get(node)
        if held is not None and held.broker_epoch != known:
            return held.previous_broker_epoch == known
        return self.previous(self.brokers[node]) == known

    def stop(self, broker: Broker) -> None:
        """In order: it hands over if it can reach the store."""
        if broker.runs and (self.rules.min_isr > 1 or self.spared(broker)):
            if broker.node_id in self.live and self.random.random() < 0.8:
                self.decide(hand_over(self.image, broker.node_id, lambda topic: self.rules))
            self.live.pop(broker.node_id, None)
            broker.asked.clear()
            broker.role = None  # its marker has a broker epoch, whether its session lasted or not
            broker.high_watermark = min(broker.high_watermark, len(broker.log))

    def expire(self, broker: Broker) -> None:
        """The session ends, whether the process lives or not."""
        if self.rules.min_isr == 1 and broker.runs and not self.spared(broker):
            return
        self.live.pop(broker.node_id, None)

    def register_again(self, broker: Broker) -> None:
        if broker.runs and broker.node_id not in self.live:
            self.register(broker.node_id)

    def lose_disk(self, broker: Broker) -> None:
        if not self.spared(broker):
            return
        broker.log, broker.high_watermark, broker.disk_lost = [], 0, True
        if broker.runs:
            if self.random.random() < 0.5 and broker.node_id in self.live:
                report = replicas_lost(
                    self.image, broker.node_id, (), [("a", 0)], lambda topic: self.rules, complete=False
                )
                self.decide(report)
            self.gone(broker)  # for this partition it is; its broker is started again later

    # Messages

    def deliver(self, broker: Broker) -> None:
        """The next changes of the metadata arrive."""
        if broker.runs and broker.seen < self.image.version:
            broker.seen = self.random.randint(broker.seen + 1, self.image.version)
            self.become(broker)

    def become(self, broker: Broker) -> None:
        assert broker.role is not None
        image = self.images[broker.seen]
        known = image.brokers.get(broker.node_id)
        if known is not None:
            broker.serves |= known.broker_epoch == broker.broker_epoch and not known.fenced
        if "a" in image.topics:
            state = image.topics["a"].partitions[0]
            if not broker.serves and state.leader == broker.node_id:
                state = state._replace(leader=-1)  # as in replication/manager.py
            self.done(broker, broker.role.become(state, len(broker.log), self.now_ms))

    def produce(self, broker: Broker) -> None:
        role = broker.role
        if role is None or not role.leads or role.is_under_min_in_sync or not broker.serves:
            return
        self.values += 1
        broker.log.append(Entry(role.leader_epoch, self.values))
        end = len(broker.log)
        role.log_end_offset = end
        self.done(broker, role.appended(end, (end - 1, self.values), -1, None))
        self.done(broker, role.written(end))

    def fetch(self, broker: Broker) -> None:
        """From whom it takes for its leader; the answer may be lost."""
        role = broker.role
        if role is None or role.leads or role.leader == -1:
            return
        source = self.brokers[role.leader]
        leader = source.role
        if (
            leader is None
            or not source.serves
            or not leader.leads
            or leader.leader_epoch != role.leader_epoch
        ):
            return
        if leader.followers.refusal(broker.node_id, broker.broker_epoch, role.leader_epoch):
            return
        offset = len(broker.log)
        if broker.log:
            last = broker.log[-1].leader_epoch
            epoch, end = epoch_end(History(source.log), leader.leader_epoch, leader.epoch_start_offset, last)
            if epoch < last or end < offset:
                own = History(broker.log).epoch_end_offset(epoch)
                self.done(broker, role.diverged(role.leader_epoch, epoch, end, *own))
                return
        if offset > len(source.log):
            return
        registered = self.images[source.seen].brokers[broker.node_id]
        eligible = registered.active and registered.broker_epoch == broker.broker_epoch
        self.done(
            source,
            leader.follower_fetched(broker.node_id, offset, broker.broker_epoch, eligible, self.now_ms),
        )
        if self.random.random() < 0.2:
            return
        broker.log += source.log[offset : offset + self.random.randint(1, 3)]
        self.done(broker, role.replicated(len(broker.log), leader.high_watermark))
        self.done(broker, role.written(len(broker.log)))

    def tick(self, broker: Broker) -> None:
        self.now_ms += self.random.choice((10, 100, LAG_MS))
        if broker.role is not None:
            self.done(broker, broker.role.tick(self.now_ms))

    def ask(self, broker: Broker) -> None:
        """An in-sync change is decided; its answer may come, or be lost."""
        if broker.role is None or not broker.asked:
            return
        asked = broker.asked.pop(0)
        if broker.node_id not in self.live:
            self.answer(broker, asked, ErrorCode.NETWORK_EXCEPTION, None)
            return
        known = self.images[broker.seen].brokers[broker.node_id].broker_epoch
        alter = AlterPartition(
            "a", 0, asked.leader_epoch, asked.partition_epoch, asked.in_sync, asked.broker_epochs
        )
        rows = self.decide(
            alter_partitions(self.image, broker.node_id, known, [alter], lambda topic: self.rules)
        )
        ((_, outcome, state),) = rows  # type: ignore[misc]
        if self.random.random() < 0.3:
            self.answer(broker, asked, ErrorCode.NETWORK_EXCEPTION, None)
        else:
            self.answer(broker, asked, outcome.error_code, state)

    def answer(self, broker: Broker, asked: AskInSync, code: int, state: PartitionState | None) -> None:
        assert broker.role is not None
        self.done(broker, broker.role.in_sync_change_answered(asked, code, state, self.now_ms))

    def done(self, broker: Broker, outputs: Outputs) -> None:
        for output in outputs:
            if isinstance(output, Settle) and not output.error_code:
                for offset, value in output.waiters:
                    assert self.acknowledged.setdefault(offset, value) == value, "two values at one offset"
            elif isinstance(output, AskInSync):
                broker.asked = [output]
            elif isinstance(output, TruncateTo):
                del broker.log[output.offset :]
                assert broker.role is not None
                self.done(broker, broker.role.truncated(len(broker.log)))
        if broker.role is not None:
            broker.high_watermark = broker.role.high_watermark

    # A history

    def step(self) -> None:
        often = (
            self.produce,
            self.produce,
            *[self.fetch] * 5,
            self.deliver,
            self.deliver,
            self.ask,
            self.tick,
        )
        harm = (self.crash, self.stop, self.expire, self.lose_disk)
        broker, chance = self.brokers[self.random.choice(NODES)], self.random.random()
        if chance < 0.8:
            self.random.choice(often)(broker)
        elif chance < 0.815:
            self.random.choice(harm)(broker)
        elif chance < 0.93:
            self.random.choice((self.start, self.register_again))(broker)
        elif chance < 0.99:
            self.controller()
        else:
            self.rebalance()

    def heal(self) -> None:
        for broker in self.brokers.values():
            self.start(broker)
            self.register_again(broker)
        for _ in range(60):
            self.controller()
            for broker in self.brokers.values():
                for each in (self.deliver, self.fetch, self.tick, self.ask, self.deliver):
                    each(broker)


class History:
    """A log as far as the comparison of histories needs it (state/epochs.py)."""

    def __init__(self, log: list[Entry]) -> None:
        self.written_end_offset = len(log)
        self._starts: dict[int, int] = {}
        for offset, entry in enumerate(log):
            self._starts.setdefault(entry.leader_epoch, offset)
        self.latest_leader_epoch = max(self._starts, default=-1)

    def epoch_end_offset(self, leader_epoch: int) -> tuple[int, int]:
        if leader_epoch < 0 or leader_epoch > self.latest_leader_epoch:
            return -1, -1
        later = [start for epoch, start in self._starts.items() if epoch > leader_epoch]
        earlier = [epoch for epoch in self._starts if epoch <= leader_epoch]
        return max(earlier, default=leader_epoch), min(later, default=self.written_end_offset)


@pytest.mark.parametrize("min_isr", [1, 2])
@pytest.mark.parametrize("first", range(0, 200, 50))
def test_whoever_is_elected_has_every_acknowledged_record(first: int, min_isr: int) -> None:
    acknowledged = elections = 0
    for seed in range(first, first + 50):
        world = World(seed, min_isr)
        try:
            for _ in range(STEPS):
                world.step()
            world.heal()
            state = world.state
            assert state.leader != -1, state
            assert sorted(state.isr) == list(NODES), state
            leader = world.brokers[state.leader]
            assert all(world.has_all(broker) for broker in world.brokers.values())
            assert all(broker.log == leader.log for broker in world.brokers.values())
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, min.insync.replicas {min_isr}: {error}") from error
        acknowledged += len(world.acknowledged)
        elections += world.elections
    assert acknowledged > 400, "a history in which nothing is acknowledged shows nothing"
    assert elections > 50
