"""Decides what follows when brokers register or are lost: registrations, fencing, in-sync sets, leaders.

The input is the whole set of live registrations, compared with the image. So an event may be repeated, merged
with another, or handled by the previous controller already: what the image has leads to no changes.

    registered, new to the image or under a new broker epoch   BrokerRegistered: it may lead from now on
    registered, fenced in the image                            BrokerFenced(false)
    not fenced in the image, not registered                    BrokerFenced(true)
    partitions whose leader or in-sync set is affected         PartitionsChanged (in_sync.py)
    partitions that a restarted broker goes on leading         LeadershipRenewed, before the others

A broker stopped cleanly if its registration's previous broker epoch is the one in the image. Any other may
have lost the end of its logs (KIP-966).
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

from moldau.controller.decision import Decision, Steps
from moldau.controller.in_sync import Rules, after_brokers, with_in_sync
from moldau.controller.reassignment_rules import completed
from moldau.metadata.changes import (
    BrokerFenced,
    BrokerRegistered,
    Change,
    ConfigsChanged,
    ControllerElected,
    LeadershipRenewed,
    PartitionsChanged,
    replay,
)
from moldau.metadata.image import NO_LEADER, Image, PartitionState
from moldau.metadata.store import Registration

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


class _Brokers(NamedTuple):
    """The live brokers compared with the image: new, fenced, restarted, lost."""

    live: frozenset[int]
    restarted: frozenset[int]
    lost: frozenset[int]
    changes: list[Change]


def take_seat(
    image: Image, node_id: int, controller_epoch: int, live: Mapping[int, Registration], rules: RulesOf
) -> Steps[None]:
    """The first decision of a new controller: its election, and what changed while there was none."""
    elected = ControllerElected(node_id, controller_epoch)
    decision = yield from brokers_changed(image, live, rules)
    return Decision([elected, *decision.changes], None)


def brokers_changed(image: Image, live: Mapping[int, Registration], rules: RulesOf) -> Steps[None]:
    """Decide on registrations, fencing and leaders for the brokers that are registered now."""
    brokers = _compare(image, live)
    renewed: set[int] = set()
    changed: list[Change] = []
    for name, topic in image.topics.items():
        yield
        rows: list[tuple[int, PartitionState]] = []
        topic_rules: Rules | None = None
        for index, state in enumerate(topic.partitions):
            if index % _AT_ONCE == _AT_ONCE - 1:
                yield
            leader = state.leader
            if leader in brokers.restarted and state.isr == (leader,) and not state.elr:
                renewed.add(leader)  # nobody else could lead
                continue
            if not _concerned(state, brokers):
                continue
            topic_rules = topic_rules or rules(name)
            after = after_brokers(state, brokers.live, brokers.restarted, brokers.lost, topic_rules)
            if after is not state:
                rows.append((index, completed(after, brokers.live, topic_rules)))
        if rows:
            changed.append(PartitionsChanged(name, tuple(rows)))
    renewals = [LeadershipRenewed(node_id) for node_id in sorted(renewed)]
    return Decision([*brokers.changes, *renewals, *changed], None)


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


def _compare(image: Image, live: Mapping[int, Registration]) -> _Brokers:
    restarted, lost = set(), set()
    changes: list[Change] = []
    for node_id in sorted(live):
        registration, known = live[node_id], image.brokers.get(node_id)
        if known is None or known.broker_epoch != registration.broker_epoch:
            restarted.add(node_id)
            if known is None or known.broker_epoch != registration.previous_broker_epoch:
                lost.add(node_id)
            changes.append(
                BrokerRegistered(
                    node_id, registration.broker_epoch, registration.endpoints, registration.rack
                )
            )
        elif known.fenced:
            changes.append(BrokerFenced(node_id, False))
    for known in image.live_brokers():
        if known.node_id not in live:
            changes.append(BrokerFenced(known.node_id, True))
    return _Brokers(frozenset(live), frozenset(restarted), frozenset(lost), changes)


def _concerned(state: PartitionState, brokers: _Brokers) -> bool:
    """Whether the brokers affect the partition: a cheap check, since most are not."""
    if state.leader == NO_LEADER or state.leader in brokers.restarted or state.elr:
        return True
    return any(node not in brokers.live or node in brokers.lost for node in state.isr)
