"""What is wrong with replication in the cluster, and since when, followed from metadata image to image.

A partition lacks a replica when fewer are in sync than its replication factor says. What matters is which
broker is missing, and why: it is gone, it is shutting down, its log is offline, or it lives and does not keep
up. So troubles are kept by broker, and a dead broker is one trouble with a count.

An image shares with the one before it what did not change, so a look compares topics and partitions by
identity. A look is bounded: it takes at most `PARTITIONS_AT_ONCE` partitions, and the next one goes on. The
times are those of this broker's looks, which health takes every few seconds.

Not here: what is told of it (cluster_probes.py, cluster_metrics.py).
"""

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from moldau.broker.metadata.image import (
    EMPTY_IMAGE,
    NO_LEADER,
    NO_NODE,
    BrokerState,
    Image,
    PartitionState,
    TopicState,
)
from moldau.common.core.clock import Clock

PARTITIONS_AT_ONCE = 20_000
"""A look takes some milliseconds at most."""

_LEFT_KEPT = 100
Place = tuple[str, int]
"""Topic and partition."""


class Trouble(NamedTuple):
    """A broker that partitions lack as an in-sync replica, and why."""

    node_id: int
    cause: str
    """GONE, SHUTTING_DOWN, OFFLINE or BEHIND."""
    since_ms: int
    """Wall-clock time: of GONE and SHUTTING_DOWN of the broker, else of the first of the partitions."""
    partition_count: int
    names: list[str]
    """Some of the partitions."""


GONE = "gone"
SHUTTING_DOWN = "shutting down"
OFFLINE = "offline"
BEHIND = "behind"


class ClusterWatch:
    """Follows the images."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._image = EMPTY_IMAGE  # looked at wholly
        self._next: Image | None = None  # being looked at
        self._topics_left: Iterator[str] = iter(())
        self._rest: tuple[str, Iterator[int]] | None = None
        self._missing: dict[int, dict[Place, int]] = {}  # by broker: since when
        self._leaderless: dict[Place, int] = {}
        self._reassigning: dict[Place, None] = {}
        self._away_since_ms: dict[int, int] = {}
        self._uncontrolled_since_ms: int | None = None
        self._left_ms: dict[int, list[int]] = {}
        self.leaders: dict[int, int] = {}
        """How many partitions each broker leads."""
        self.replicas: dict[int, int] = {}
        """How many replicas each broker has."""
        self.not_preferred_count = 0
        """Partitions that another replica than their first leads."""

    # Looking

    def look(self, image: Image) -> None:
        """Follow up to this image, or a part of the way."""
        if self._next is None and image is not self._image:
            self._begin(image)
        left = PARTITIONS_AT_ONCE
        while self._next is not None and left > 0:
            left -= self._step(left)

    def _begin(self, image: Image) -> None:
        self._next = image
        before, now = self._image.topics, image.topics
        changed: dict[str, None] = {}
        if before is not now:
            changed = {name: None for name in before if name not in now}
            changed.update({name: None for name, topic in now.items() if before.get(name) is not topic})
        self._topics_left = iter(changed)
        self._follow_brokers(image)

    def _follow_brokers(self, image: Image) -> None:
        now_ms = self._clock.now_ms()
        away = [node_id for node_id, broker in image.brokers.items() if broker.fenced or broker.shutting_down]
        self._away_since_ms = {node_id: self._away_since_ms.get(node_id, now_ms) for node_id in away}
        controller = image.brokers.get(image.controller_id)
        if controller is not None and not controller.fenced:
            self._uncontrolled_since_ms = None
        elif self._uncontrolled_since_ms is None:
            self._uncontrolled_since_ms = now_ms

    def _step(self, room: int) -> int:
        """Look at some partitions of one topic; how many, at least 1."""
        image = self._next
        assert image is not None
        if self._rest is None:
            name = next(self._topics_left, None)
            if name is None:
                self._image, self._next = image, None
                return 1
            known = (self._image.topics.get(name), image.topics.get(name))
            counts = [len(topic.partitions) for topic in known if topic is not None]
            self._rest = (name, iter(range(max(counts))))
        name, indexes = self._rest
        before, now = self._image.topics.get(name), image.topics.get(name)
        done = 0
        for index in islice(indexes, room):
            done += 1
            old, new = _state(before, index), _state(now, index)
            if old is not new:
                self._change(name, index, old, new)
        if done < room:
            self._rest = None
        return max(1, done)

    def _change(self, topic: str, index: int, old: PartitionState | None, new: PartitionState | None) -> None:
        if old is not None:
            self._count(old, -1)
        if new is not None:
            self._count(new, 1)
        if old is not None and new is not None and old.isr != new.isr:
            self._note_who_left(old, new)
        lacked, lacks = _lacking(old), _lacking(new)
        leaderless = new is not None and new.leader == NO_LEADER
        moving = new is not None and bool(new.target)
        place = (topic, index)
        for node_id in lacked:
            if node_id not in lacks:
                self._missing[node_id].pop(place, None)
        for node_id in lacks:
            if node_id not in lacked:
                self._missing.setdefault(node_id, {})[place] = self._clock.now_ms()
        if not leaderless:
            self._leaderless.pop(place, None)
        else:
            self._leaderless.setdefault(place, self._clock.now_ms())
        if moving:
            self._reassigning[place] = None
        else:
            self._reassigning.pop(place, None)

    def _note_who_left(self, old: PartitionState, new: PartitionState) -> None:
        """Note the brokers that live, and left the in-sync set: once a look, for however many partitions."""
        brokers = (self._next or self._image).brokers
        now_ms = self._clock.now_ms()
        for node_id in old.isr:
            if node_id not in new.isr and node_id in new.replicas:
                broker = brokers.get(node_id)
                times = self._left_ms.setdefault(node_id, [])
                if broker is not None and broker.active and (not times or times[-1] != now_ms):
                    times.append(now_ms)
                    del times[:-_LEFT_KEPT]

    def _count(self, state: PartitionState, by: int) -> None:
        leader = state.leader
        if leader != NO_LEADER:
            self.leaders[leader] = self.leaders.get(leader, 0) + by
        for node_id in state.replicas:
            self.replicas[node_id] = self.replicas.get(node_id, 0) + by
        if state.replicas and leader != state.replicas[0]:
            self.not_preferred_count += by

    # What it has found

    @property
    def uncontrolled_since_ms(self) -> int | None:
        """Since when no live broker is the controller; None: one is."""
        return self._uncontrolled_since_ms

    @property
    def controller_id(self) -> int:
        """The last controller, or -1."""
        return self._image.controller_id if self._image is not EMPTY_IMAGE else NO_NODE

    def left_since(self, since_ms: int) -> dict[int, int]:
        """How often each broker left in-sync sets since then, though it lived."""
        counts = {
            node_id: sum(time_ms >= since_ms for time_ms in times)
            for node_id, times in sorted(self._left_ms.items())
        }
        return {node_id: count for node_id, count in counts.items() if count}

    @property
    def reassigning_count(self) -> int:
        """How many partitions are being reassigned."""
        return len(self._reassigning)

    def leaderless(self) -> tuple[int, list[str], int]:
        """How many partitions have no leader, some of them, and since when the first of these."""
        return len(self._leaderless), _names(self._leaderless), next(iter(self._leaderless.values()), 0)

    def brokers(self) -> list[BrokerState]:
        """All registered brokers, by id."""
        return [broker for _, broker in sorted(self._image.brokers.items())]

    def away_since_ms(self, node_id: int) -> int | None:
        """Since when this broker is fenced or shutting down; None: it serves."""
        return self._away_since_ms.get(node_id)

    def troubles(self) -> list[Trouble]:
        """Which brokers partitions lack, by id."""
        found = []
        for node_id in sorted(self._missing):
            places = self._missing[node_id]
            if places:
                since_ms = next(iter(places.values()))
                cause = self._cause(node_id, next(iter(places)))
                if cause in (GONE, SHUTTING_DOWN):
                    since_ms = self._away_since_ms.get(node_id, since_ms)
                found.append(Trouble(node_id, cause, since_ms, len(places), _names(places)))
        return found

    def _cause(self, node_id: int, place: Place) -> str:
        """Why this broker's replicas are not in sync; `place` is one of them."""
        broker = self._image.brokers.get(node_id)
        if broker is None or broker.fenced:
            return GONE
        if broker.shutting_down:
            return SHUTTING_DOWN
        topic = self._image.topics.get(place[0])
        return OFFLINE if topic is not None and broker.has_offline(topic.topic_id, place[1]) else BEHIND


def _state(topic: TopicState | None, index: int) -> PartitionState | None:
    return None if topic is None or index >= len(topic.partitions) else topic.partitions[index]


def _lacking(state: PartitionState | None) -> tuple[int, ...]:
    """The replicas that are not in sync, where that makes fewer than the replication factor: one that a
    reassignment is adding, or a removed one, is not missed.
    """
    if state is None or len(state.isr) >= state.replication_factor:
        return ()
    return tuple(node for node in state.original or state.replicas if node not in state.isr)


def _names(places: dict[Place, int], count_max: int = 3) -> list[str]:
    return [f"{topic}-{index}" for topic, index in islice(places, count_max)]
