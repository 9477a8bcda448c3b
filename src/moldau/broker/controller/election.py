"""Elections that an administrator asks for (ElectLeaders): the preferred replica, or any that lives.

An unclean election (any replica that lives) is a choice of losing records over being unavailable; it happens
only where the topic allows it or an administrator asks for it. Who may lead is decided in in_sync.py.
"""

from collections.abc import Collection, Mapping
from enum import IntEnum

from moldau.broker.controller.decision import DONE, Decision, Outcome, Steps
from moldau.broker.controller.entries import Entries
from moldau.broker.controller.in_sync import best_leader, with_leader
from moldau.broker.controller.log_ends import ToldOfTopic, told_ends, valid_ends
from moldau.broker.controller.membership import RulesOf, default_rules
from moldau.broker.controller.reassignment_rules import completed
from moldau.broker.metadata.image import NO_LEADER, Image, PartitionState
from moldau.common.protocol.errors import ErrorCode


class ElectionType(IntEnum):
    """Which election an administrator asks for."""

    PREFERRED = 0
    UNCLEAN = 1


Results = dict[str, list[tuple[int, Outcome]]]


def elect_leaders(
    image: Image,
    kind: ElectionType,
    asked: dict[str, list[int]] | None,
    rules: RulesOf = default_rules,
) -> Steps[Results]:
    """Elect for the partitions asked for, or for all (None): then those without need are left out of the
    answer."""
    live = {broker.node_id for broker in image.active_brokers()}
    told = yield from told_ends(image)
    moved = Entries()
    results: Results = {}
    wanted = asked
    if wanted is None:
        wanted = {name: list(range(len(topic.partitions))) for name, topic in image.topics.items()}
    for topic, indexes in wanted.items():
        rows: dict[int, PartitionState] = {}
        for index in indexes:
            yield
            outcome, elected = _elect(image, kind, topic, index, live, rules, told)
            if elected is not None:
                rows[index] = elected
            if asked is not None or outcome.error_code is not ErrorCode.ELECTION_NOT_NEEDED:
                results.setdefault(topic, []).append((index, outcome))
        moved.add(topic, list(rows.items()))
    *earlier, last = moved.all()
    return Decision(last, results, earlier)


def _elect(
    image: Image,
    kind: ElectionType,
    topic: str,
    index: int,
    live: Collection[int],
    rules: RulesOf,
    told: Mapping[bytes, ToldOfTopic],
) -> tuple[Outcome, PartitionState | None]:
    known = image.topics.get(topic)
    if known is None:
        return Outcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {topic}"), None
    if not 0 <= index < len(known.partitions):
        return Outcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {topic}-{index}"), None
    state = known.partitions[index]
    live = [node for node in live if not image.brokers[node].has_offline(known.topic_id, index)]
    if kind is ElectionType.PREFERRED:
        preferred = state.replicas[0]
        if state.leader == preferred:
            return Outcome(ErrorCode.ELECTION_NOT_NEEDED, "The preferred replica leads already."), None
        if preferred not in live or preferred not in state.isr:
            return Outcome(
                ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
                f"The preferred replica, broker {preferred}, is not alive and in sync.",
            ), None
        return DONE, with_leader(state, preferred, rules(topic).min_isr)
    if state.leader != NO_LEADER:
        return Outcome(ErrorCode.ELECTION_NOT_NEEDED, "The partition has a leader."), None
    ends = valid_ends(state, told.get(known.topic_id, {}).get(index))
    leader = best_leader(state, live, unclean=True, ends=ends)
    if leader == NO_LEADER:
        return Outcome(
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "No replica of the partition is alive."
        ), None
    elected = with_leader(state, leader, rules(topic).min_isr)
    return DONE, completed(elected, live, rules(topic))
