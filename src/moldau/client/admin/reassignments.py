"""Partition reassignments (KIP-455): submitted, listed, cancelled, and throttled (KIP-73).

broker   leader.replication.throttled.rate, follower.replication.throttled.rate           bytes a second
topic    leader.replication.throttled.replicas     partition:broker of every replica there is
         follower.replication.throttled.replicas   partition:broker of every replica that is added
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from moldau.client.admin.configs import BROKER, TOPIC, alter_configs, describe_configs
from moldau.client.admin.layout import Layout, Place
from moldau.client.admin.problem import KafkaProblem, check
from moldau.client.admin.routing import ask_controller
from moldau.client.cluster import Cluster
from moldau.client.errors import error_words
from moldau.common.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from moldau.common.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)

RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
FOLDER_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
THROTTLED_LEADERS = "leader.replication.throttled.replicas"
THROTTLED_FOLLOWERS = "follower.replication.throttled.replicas"


class Move(NamedTuple):
    """A move that is under way, with broker ids."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


def find_moves(
    cluster: Cluster, topic: str | None = None, partitions: Sequence[int] = ()
) -> dict[Place, Move]:
    """The moves of these partitions that are under way; of all for None, in order."""
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
    found = {
        (each.name, part.partition_index): Move(
            tuple(part.replicas), tuple(part.adding_replicas), tuple(part.removing_replicas)
        )
        for each in answer.topics
        for part in each.partitions
    }
    return dict(sorted(found.items()))


def submit_moves(
    cluster: Cluster, targets: Mapping[Place, Sequence[int] | None], *, allow_factor_change: bool = True
) -> dict[Place, str]:
    """Ask for these replicas, in their order (None cancels a move); return the reason of each refusal.
    Without `allow_factor_change` the broker refuses more or fewer replicas (KIP-860, version 1).
    """
    topics: dict[str, list[ReassignablePartition]] = {}
    for (name, index), replicas in targets.items():
        wanted = None if replicas is None else list(replicas)
        topics.setdefault(name, []).append(ReassignablePartition(partition_index=index, replicas=wanted))
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=int(cluster.options.api_timeout_seconds * 1000),
        allow_replication_factor_change=allow_factor_change,
        topics=[ReassignableTopic(name=name, partitions=each) for name, each in topics.items()],
    )
    answer = ask_controller(cluster, request, lambda got: [got.error_code], "move partitions")
    if answer.error_code:
        words = answer.error_message or error_words(answer.error_code)
        raise KafkaProblem(answer.error_code, f"no partition was moved: {words}")
    return {
        (topic.name, each.partition_index): each.error_message or error_words(each.error_code)
        for topic in answer.responses
        for each in topic.partitions
        if each.error_code
    }


def throttle(
    layout: Layout, rate_bytes_per_second: int, moves: Mapping[Place, tuple[Sequence[int], Sequence[int]]]
) -> None:
    """Bound the copying of these moves: by place, the replicas there are and those that are added."""
    leaders: dict[str, list[str]] = {}
    followers: dict[str, list[str]] = {}
    brokers: list[int] = []
    for (name, index), (present, adding) in moves.items():
        leaders.setdefault(name, []).extend(f"{index}:{broker}" for broker in present)
        followers.setdefault(name, []).extend(f"{index}:{broker}" for broker in adding)
        brokers += [*present, *adding]
    _alter_brokers(layout, brokers, dict.fromkeys(RATES, str(rate_bytes_per_second)))
    for name, sources in leaders.items():
        settings = {
            THROTTLED_LEADERS: ",".join(sources),
            THROTTLED_FOLLOWERS: ",".join(followers[name]),
        }
        _alter(layout.cluster, TOPIC, name, settings)


def unthrottle(layout: Layout, topics: Iterable[str]) -> None:
    """Remove what `throttle` has set, on all brokers and these topics; what is not set stays so."""
    _alter_brokers(layout, layout.brokers, dict.fromkeys(RATES, None))
    for name in topics:
        _alter(layout.cluster, TOPIC, name, {THROTTLED_LEADERS: None, THROTTLED_FOLLOWERS: None})


def throttle_directories(layout: Layout, rate_bytes_per_second: int, brokers: Iterable[int]) -> None:
    """Bound the copying between log directories on these brokers."""
    _alter_brokers(layout, brokers, {FOLDER_RATE: str(rate_bytes_per_second)})


def unthrottle_directories(layout: Layout) -> None:
    """Remove what `throttle_directories` has set, on all brokers."""
    _alter_brokers(layout, layout.brokers, {FOLDER_RATE: None})


def throttled_topics(layout: Layout) -> list[str]:
    """The topics that have throttled replicas."""
    known = describe_configs(layout.cluster, TOPIC, layout.topics, synonyms=False, keys=[THROTTLED_LEADERS])
    return [name for name, configs in known.items() if any(each.value for each in configs)]


def _alter_brokers(layout: Layout, brokers: Iterable[int], settings: Mapping[str, str | None]) -> None:
    for broker in sorted(set(brokers) & set(layout.brokers)):
        _alter(layout.cluster, BROKER, str(broker), settings)


def _alter(cluster: Cluster, kind: int, name: str, settings: Mapping[str, str | None]) -> None:
    """Set or (None) delete settings of one resource."""
    changes = {key: (value is not None, value) for key, value in settings.items()}
    for problem in alter_configs(cluster, kind, {name: changes}).values():
        raise KafkaProblem(problem.error_code, f"the throttle of {name} was not changed: {problem.words}")
