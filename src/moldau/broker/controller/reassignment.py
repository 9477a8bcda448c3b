"""AlterPartitionReassignments and ListPartitionReassignments: checks what is asked for, and answers it.

Not here: what becomes of a partition (reassignment_rules.py).
"""

from collections.abc import Generator, Mapping, Sequence

from moldau.broker.controller.assignments import check_replicas
from moldau.broker.controller.decision import DONE, Decision, Outcome, Refusal, Steps
from moldau.broker.controller.membership import RulesOf, default_rules
from moldau.broker.controller.reassignment_rules import with_target
from moldau.broker.metadata.changes import PartitionsChanged
from moldau.broker.metadata.image import Image, PartitionState
from moldau.common.protocol.errors import ErrorCode

_AT_ONCE = 64

Move = tuple[str, int, Sequence[int] | None]
"""Topic, partition, and the replicas it is to have; None cancels the reassignment under way."""


def reassign(
    image: Image,
    asked: Sequence[Move],
    rules: RulesOf = default_rules,
    *,
    allow_factor_change: bool = True,
) -> Steps[list[tuple[Move, Outcome]]]:
    """Decide on reassignments. Each is refused with

        UNKNOWN_TOPIC_OR_PARTITION      there is no such partition
        NO_REASSIGNMENT_IN_PROGRESS     there is nothing to cancel
        INVALID_REPLICA_ASSIGNMENT      not a list of registered brokers, or no in-sync replica would remain
        INVALID_REPLICATION_FACTOR      it changes the number of replicas, and `allow_factor_change` is false

    The reassignment that is under way already, and the replicas that the partition has, change nothing.
    """
    live = frozenset(broker.node_id for broker in image.live_brokers())
    rows: dict[str, dict[int, PartitionState]] = {}
    results: list[tuple[Move, Outcome]] = []
    for move in asked:
        yield
        name, index, replicas = move
        try:
            topic = image.topics.get(name)
            if topic is None or not 0 <= index < len(topic.partitions):
                raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {name}-{index}.")
            before = rows.get(name, {}).get(index, topic.partitions[index])
            target = _target(image, name, index, before, replicas, allow_factor_change)
            after = with_target(before, target, live, rules(name))
            if after is None:
                raise Refusal(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    f"{name}-{index} would be left with replicas of which none is in sync and can lead. Wait "
                    "until one is, or set unclean.leader.election.enable for the topic to accept the loss of "
                    "records.",
                )
        except Refusal as refusal:
            results.append((move, refusal.outcome))
            continue
        if after is not before:
            rows.setdefault(name, {})[index] = after
        results.append((move, DONE))
    return Decision(
        [PartitionsChanged(name, tuple(states.items())) for name, states in rows.items()], results
    )


def _target(
    image: Image,
    name: str,
    index: int,
    state: PartitionState,
    replicas: Sequence[int] | None,
    allow_factor_change: bool,
) -> tuple[int, ...]:
    """The replicas that are asked for, checked."""
    if replicas is None:
        if not state.target:
            raise Refusal(
                ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, f"No reassignment of {name}-{index} is under way."
            )
        return state.original
    check_replicas(image, replicas, None)
    present = len(state.target or state.replicas)
    if not allow_factor_change and len(replicas) != present:
        raise Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {present} to {len(replicas)}",
        )
    return tuple(replicas)


def reassigning(
    image: Image, asked: Mapping[str, Sequence[int]] | None
) -> Generator[None, None, dict[str, dict[int, PartitionState]]]:
    """The reassignments under way, of these partitions or of all (None): topic, partition, state."""
    found: dict[str, dict[int, PartitionState]] = {}
    for name in image.topics if asked is None else asked:
        topic = image.topics.get(name)
        if topic is None:
            continue
        count = len(topic.partitions)
        indexes = range(count) if asked is None else [i for i in dict.fromkeys(asked[name]) if 0 <= i < count]
        for index in indexes:
            if index % _AT_ONCE == 0:
                yield
            if topic.partitions[index].target:
                found.setdefault(name, {})[index] = topic.partitions[index]
    return found
