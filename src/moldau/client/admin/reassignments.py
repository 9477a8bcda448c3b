"""Moves of partitions to other replicas that are under way (KIP-455)."""

from __future__ import annotations

from typing import NamedTuple

from moldau.client.admin.problem import check
from moldau.client.admin.routing import ask_controller
from moldau.client.cluster import Cluster
from moldau.common.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)


class Reassignment(NamedTuple):
    """A move, with broker ids."""

    topic: str
    partition: int
    adding: tuple[int, ...]
    removing: tuple[int, ...]


def find_reassignments(
    cluster: Cluster, topic: str | None = None, partitions: tuple[int, ...] = ()
) -> list[Reassignment]:
    """The moves of these partitions; of all for None, in order."""
    topics = (
        None
        if topic is None
        else [ListPartitionReassignmentsTopics(name=topic, partition_indexes=list(partitions))]
    )
    answer = ask_controller(
        cluster,
        ListPartitionReassignmentsRequest(topics=topics),
        lambda got: [got.error_code],
        "read the reassignments",
    )
    check(answer.error_code, answer.error_message)
    return sorted(
        Reassignment(
            each.name, part.partition_index, tuple(part.adding_replicas), tuple(part.removing_replicas)
        )
        for each in answer.topics
        for part in each.partitions
    )
