"""Decides what follows when brokers register or are lost: registrations, fencing, in-sync sets, leaders.

The input is the whole set of live registrations, compared with the image. So an event may be repeated, merged
with another, or handled by the previous controller already: what the image has leads to no changes.

    registered, new to the image or under a new broker epoch   BrokerRegistered: it may lead from now on
    registered, fenced in the image                            BrokerFenced(false)
    not fenced in the image, not registered                    BrokerFenced(true)
    partitions whose leader or in-sync set is affected         PartitionsChanged (in_sync.py)
    partitions that a restarted broker goes on leading         LeadershipRenewed, before the others

When a broker with thousands of partitions is lost, these come first, in several entries; each moves
partitions off brokers that are gone, and so is sound by itself. What must not be repeated (another leader
epoch for who leads on after a restart, and the registrations that call for it) is in the last one.

A replica whose log is offline (`BrokerState.offline`) counts as lost, on a broker that is gone.

A broker's last stop took nothing from its logs (a clean one, or the death of the process alone, see
files/run_marks.py) if its registration's previous broker epoch is the one in the image. Any other may have
lost the end of its logs (KIP-966).
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from moldau.broker.controller.decision import Decision, Steps
from moldau.broker.controller.entries import Entries
from moldau.broker.controller.in_sync import LogEnds, Rules, after_brokers, with_in_sync
from moldau.broker.controller.log_ends import ToldOfTopic, told_ends, valid_ends
from moldau.broker.controller.reassignment_rules import completed
from moldau.broker.metadata.changes import (
    BrokerFenced,
    BrokerRegistered,
    Change,
    ConfigsChanged,
    ControllerElected,
    LeadershipRenewed,
    PartitionsChanged,
    replay,
)
from moldau.broker.metadata.image import FIRST_LEVELS, NO_LEADER, Image, PartitionState
from moldau.broker.metadata.levels import CLUSTER_LEVEL
from moldau.broker.metadata.store import Registration

_AT_ONCE = 64

_MIN_ISR = "min.insync.replicas"

R = TypeVar("R")
RulesOf = Callable[[str], Rules]
"""The rules of a topic, by its name."""
RulesIn = Callable[[Image, str], Rules]
"""The rules of a topic in an image, by its name."""


def default_rules(topic: str) -> Rules:
    """The rules of a topic without settings of its own."""
    del topic
    return Rules()


class Followed(NamedTuple):
    """What followed from brokers that came and went, for the log."""

    registered: Sequence[int] = ()
    gone: Sequence[int] = ()
    led_by_others: int = 0
    """Partitions that got another leader."""
    leaderless: int = 0
    """Partitions that lost their leader, and have none now."""


class _Brokers(NamedTuple):
    """The live brokers compared with the image: new, fenced, restarted, lost, shutting down; and the replicas
    that are offline, by topic id and partition."""

    live: frozenset[int]
    restarted: frozenset[int]
    lost: frozenset[int]
    leaving: frozenset[int]
    offline: Mapping[bytes, Mapping[int, frozenset[int]]]
    changes: list[Change]
    told: Mapping[bytes, ToldOfTopic]
    """Where doubtful replicas end, of live brokers that have not restarted."""


def take_seat(
    image: Image, node_id: int, controller_epoch: int, live: Mapping[int, Registration], rules: RulesOf
) -> Steps[Followed]:
    """The first decision of a new controller: its election, and what changed while there was none."""
    elected = ControllerElected(node_id, controller_epoch)
    decision = yield from brokers_changed(image, live, rules)
    if decision.earlier:
        return decision._replace(earlier=[[elected, *decision.earlier[0]], *decision.earlier[1:]])
    return decision._replace(changes=[elected, *decision.changes])


def brokers_changed(image: Image, live: Mapping[int, Registration], rules: RulesOf) -> Steps[Followed]:
    """Decide on registrations, fencing and leaders for the brokers that are registered now."""
    brokers = yield from _compare(image, live)
    renewed: set[int] = set()
    once: list[Change] = []  # what must not be decided twice
    moved = Entries()
    led_by_others = leaderless = 0
    for name, topic in image.topics.items():
        yield
        rows: list[tuple[int, PartitionState]] = []
        again: list[tuple[int, PartitionState]] = []
        topic_rules: Rules | None = None
        offline = brokers.offline.get(topic.topic_id, {})
        told = brokers.told.get(topic.topic_id, {})
        for index, state in enumerate(topic.partitions):
            if index % _AT_ONCE == _AT_ONCE - 1:
                yield
            leader = state.leader
            if (
                leader in brokers.restarted
                and state.isr == (leader,)
                and not state.elr
                and index not in offline
            ):
                renewed.add(leader)  # nobody else could lead
                continue
            if not _concerned(state, brokers) and index not in offline:
                continue
            topic_rules = topic_rules or rules(name)
            ends = valid_ends(state, told.get(index))
            after = _after(state, brokers, topic_rules, offline.get(index), ends)
            if after is state:
                continue
            after = completed(after, brokers.live - brokers.leaving, topic_rules)
            led_by_others += after.leader not in (leader, NO_LEADER)
            leaderless += after.leader == NO_LEADER != leader
            if after.leader in brokers.restarted:
                again.append((index, after))
            else:
                rows.append((index, after))
        moved.add(name, rows)
        if again:
            once.append(PartitionsChanged(name, tuple(again)))
    *earlier, last = moved.all()
    renewals = [LeadershipRenewed(node_id) for node_id in sorted(renewed)]
    fenced = [each.node_id for each in brokers.changes if isinstance(each, BrokerFenced) and each.fenced]
    registered = [each.node_id for each in brokers.changes if isinstance(each, BrokerRegistered)]
    followed = Followed(registered, fenced, led_by_others, leaderless)
    return Decision([*brokers.changes, *renewals, *once, *last], followed, earlier)


def _after(
    state: PartitionState, brokers: _Brokers, rules: Rules, offline: frozenset[int] | None, ends: LogEnds
) -> PartitionState:
    live, lost = brokers.live, brokers.lost
    if offline:
        live, lost = live - offline, lost | offline
    return after_brokers(state, live, brokers.restarted, lost, rules, brokers.leaving, ends)


def review_eligible(image: Image, decision: Decision[R], rules: RulesIn) -> Steps[R]:
    """The decision, with what follows for eligible leader replicas in the same append: when
    `min.insync.replicas` gets smaller, the high watermark may advance at once without them, so they must stop
    being eligible at once.
    """
    if not any(isinstance(each, ConfigsChanged) and _MIN_ISR in each.values for each in decision.changes):
        return decision
    after = replay(image, image.version + 1, decision.changes)
    changes = list(decision.changes)
    for name, topic in after.topics.items():
        yield
        eligible = [(index, state) for index, state in enumerate(topic.partitions) if state.elr]
        min_isr = rules(after, name).min_isr if eligible else 0
        reviewed = [(index, state, with_in_sync(state, state.isr, min_isr)) for index, state in eligible]
        rows = tuple((index, new) for index, state, new in reviewed if new is not state)
        if rows:
            changes.append(PartitionsChanged(name, rows))
    return Decision(changes, decision.answer)


def _compare(image: Image, live: Mapping[int, Registration]) -> Generator[None, None, _Brokers]:
    live = {node_id: each for node_id, each in live.items() if _may_register(image, each)}
    restarted, lost = set(), set()
    changes: list[Change] = []
    for node_id in sorted(live):
        registration, known = live[node_id], image.brokers.get(node_id)
        if known is None or known.broker_epoch != registration.broker_epoch:
            restarted.add(node_id)
            if known is None or known.broker_epoch != registration.previous_broker_epoch:
                lost.add(node_id)
            changes.append(_registered(registration, image.level))
        elif known.fenced:
            changes.append(BrokerFenced(node_id, False))
    for known in image.live_brokers():
        if known.node_id not in live:
            changes.append(BrokerFenced(known.node_id, True))
    leaving = {node for node, known in image.brokers.items() if known.shutting_down and node not in restarted}
    return _Brokers(
        frozenset(live),
        frozenset(restarted),
        frozenset(lost),
        frozenset(leaving),
        (yield from _offline(image)),
        changes,
        (yield from told_ends(image, but=restarted)),
    )


def _may_register(image: Image, registration: Registration) -> bool:
    """Whether the broker is registered, or reads the cluster's metadata level. (One that does not had looked
    at the level before it was raised; started again, it says so and stops.)
    """
    known = image.brokers.get(registration.node_id)
    if known is not None and known.broker_epoch == registration.broker_epoch:
        return True
    low, high = registration.levels
    return low <= image.level <= high


def _registered(registration: Registration, level: int) -> BrokerRegistered:
    told = level >= CLUSTER_LEVEL
    return BrokerRegistered(
        registration.node_id,
        registration.broker_epoch,
        registration.endpoints,
        registration.rack,
        registration.levels if told else FIRST_LEVELS,
        registration.directories if told else (),
    )


def _offline(image: Image) -> Generator[None, None, dict[bytes, dict[int, frozenset[int]]]]:
    """The brokers whose replica is offline, by topic id and partition."""
    found: dict[bytes, dict[int, frozenset[int]]] = {}
    for node_id, broker in image.brokers.items():
        for topic_id, indexes in broker.offline.items():
            nodes = found.setdefault(topic_id, {})
            yield
            for count, index in enumerate(indexes, start=1):
                if count % _AT_ONCE == 0:
                    yield
                nodes[index] = nodes.get(index, frozenset()) | {node_id}
    return found


def _concerned(state: PartitionState, brokers: _Brokers) -> bool:
    """Whether the brokers affect the partition: a cheap check, since most are not."""
    if state.leader == NO_LEADER or state.leader in brokers.restarted or state.elr:
        return True
    return any(node not in brokers.live or node in brokers.lost for node in state.isr)
