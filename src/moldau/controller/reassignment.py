"""Reassignment of partitions, as far as it needs no copying: a new order of the same replicas.

A move to other brokers needs followers that catch up; it is refused until there is replication. In a cluster
of one the only legal target is the replica that exists.
"""

from collections.abc import Sequence

from moldau.controller.assignments import check_replicas
from moldau.controller.decision import DONE, Decision, Outcome, Refusal
from moldau.metadata.changes import Change, PartitionChanged
from moldau.metadata.image import Image
from moldau.protocol.errors import ErrorCode

Move = tuple[str, int, Sequence[int] | None]
"""Topic, partition, and the replicas it is to have; None calls a move off."""


def reassign(image: Image, asked: Sequence[Move]) -> Decision[list[tuple[Move, Outcome]]]:
    """Decide on moves."""
    changes: list[Change] = []
    results: list[tuple[Move, Outcome]] = []
    for move in asked:
        try:
            change = _reassign(image, *move)
        except Refusal as refusal:
            results.append((move, refusal.outcome))
            continue
        if change is not None:
            changes.append(change)
        results.append((move, DONE))
    return Decision(changes, results)


def _reassign(image: Image, name: str, index: int, replicas: Sequence[int] | None) -> Change | None:
    topic = image.topics.get(name)
    if topic is None or not 0 <= index < len(topic.partitions):
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {name}-{index}.")
    if replicas is None:
        raise Refusal(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No move of this partition is under way.")
    check_replicas(image, replicas, None)
    state = topic.partitions[index]
    if set(replicas) != set(state.replicas):
        raise Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Moving {name}-{index} from {list(state.replicas)} to {list(replicas)} needs replication "
            "between brokers, "
            "which this version of Moldau does not have.",
        )
    if tuple(replicas) == state.replicas:
        return None
    changed = state._replace(replicas=tuple(replicas), partition_epoch=state.partition_epoch + 1)
    return PartitionChanged(name, index, changed)
