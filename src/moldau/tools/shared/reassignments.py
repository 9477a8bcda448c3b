"""Moves of partitions to other replicas (KIP-455): submit, look, cancel, and throttle them.

AlterPartitionReassignments and ListPartitionReassignments are not offered by confluent-kafka, and neither is
the throttle's precise form:

    broker   leader.replication.throttled.rate, follower.replication.throttled.rate           bytes a second
    topic    leader.replication.throttled.replicas     partition:broker of every replica there is
             follower.replication.throttled.replicas   partition:broker of every replica that is added
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from moldau.common.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from moldau.common.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from moldau.common.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from moldau.common.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from moldau.tools.shared.errors import CommandError
from moldau.tools.shared.raw_request import error_words

if TYPE_CHECKING:
    from moldau.tools.commands.transactions.routing import Place, Routing

RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
FOLDER_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
THROTTLED_LEADERS = "leader.replication.throttled.replicas"
THROTTLED_FOLLOWERS = "follower.replication.throttled.replicas"
_TOPIC, _BROKER = 2, 4
_SET, _DELETE = 0, 1
_DESCRIBED_AT_ONCE = 500


class Move(NamedTuple):
    """A move that is under way."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


def moves_under_way(routing: Routing) -> dict[Place, Move]:
    """Return all moves of the cluster that have not ended."""
    answer = routing.ask(_any_broker(routing), ListPartitionReassignmentsRequest(), 0)
    if answer.error_code:
        raise CommandError(f"the moves under way are not to be had: {error_words(answer.error_code)}")
    return {
        (topic.name, each.partition_index): Move(
            tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
        )
        for topic in answer.topics
        for each in topic.partitions
    }


def submit_moves(
    routing: Routing, targets: Mapping[Place, Sequence[int] | None], *, allow_factor_change: bool = True
) -> dict[Place, str]:
    """Ask for these replicas, in their order (None cancels a move); return the reason of each refusal.
    Without `allow_factor_change` the broker refuses more or fewer replicas (KIP-860, version 1).
    """
    topics: dict[str, list[ReassignablePartition]] = {}
    for (name, index), replicas in targets.items():
        wanted = None if replicas is None else list(replicas)
        topics.setdefault(name, []).append(ReassignablePartition(partition_index=index, replicas=wanted))
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=int(routing.timeout_seconds * 1000),
        allow_replication_factor_change=allow_factor_change,
        topics=[ReassignableTopic(name=name, partitions=each) for name, each in topics.items()],
    )
    answer = routing.ask(_any_broker(routing), request, 0 if allow_factor_change else 1)
    if answer.error_code:
        raise CommandError(
            f"no partition was moved: {answer.error_message or error_words(answer.error_code)}"
        )
    return {
        (topic.name, each.partition_index): each.error_message or error_words(each.error_code)
        for topic in answer.responses
        for each in topic.partitions
        if each.error_code
    }


def throttle(
    routing: Routing, rate_bytes_per_second: int, moves: Mapping[Place, tuple[Sequence[int], Sequence[int]]]
) -> None:
    """Bound the copying of these moves: by place, the replicas there are and those that are added."""
    leaders: dict[str, list[str]] = {}
    followers: dict[str, list[str]] = {}
    brokers: list[int] = []
    for (name, index), (present, adding) in moves.items():
        leaders.setdefault(name, []).extend(f"{index}:{broker}" for broker in present)
        followers.setdefault(name, []).extend(f"{index}:{broker}" for broker in adding)
        brokers += [*present, *adding]
    for broker in sorted(set(brokers) & set(routing.brokers)):
        _alter(routing, broker, _BROKER, str(broker), dict.fromkeys(RATES, str(rate_bytes_per_second)))
    for name, sources in leaders.items():
        settings = {
            THROTTLED_LEADERS: ",".join(sources),
            THROTTLED_FOLLOWERS: ",".join(followers[name]),
        }
        _alter(routing, _any_broker(routing), _TOPIC, name, settings)


def unthrottle(routing: Routing, topics: Iterable[str]) -> None:
    """Remove what `throttle` has set, on all brokers and these topics; what is not set stays so."""
    for broker in sorted(routing.brokers):
        _alter(routing, broker, _BROKER, str(broker), dict.fromkeys(RATES, None))
    for name in topics:
        settings: dict[str, str | None] = {THROTTLED_LEADERS: None, THROTTLED_FOLLOWERS: None}
        _alter(routing, _any_broker(routing), _TOPIC, name, settings)


def throttle_directories(routing: Routing, rate_bytes_per_second: int, brokers: Iterable[int]) -> None:
    """Bound the copying between log directories on these brokers."""
    for broker in sorted(set(brokers) & set(routing.brokers)):
        _alter(routing, broker, _BROKER, str(broker), {FOLDER_RATE: str(rate_bytes_per_second)})


def unthrottle_directories(routing: Routing) -> None:
    """Remove what `throttle_directories` has set, on all brokers."""
    for broker in sorted(routing.brokers):
        _alter(routing, broker, _BROKER, str(broker), {FOLDER_RATE: None})


def throttled_topics(routing: Routing) -> list[str]:
    """Return the topics that have throttled replicas."""
    names = sorted({name for name, _ in routing.partitions})
    resources = [
        DescribeConfigsResource(
            resource_type=_TOPIC, resource_name=name, configuration_keys=[THROTTLED_LEADERS]
        )
        for name in names
    ]
    found = []
    for start in range(0, len(resources), _DESCRIBED_AT_ONCE):
        request = DescribeConfigsRequest(resources=resources[start : start + _DESCRIBED_AT_ONCE])
        for each in routing.ask(_any_broker(routing), request, 1).results:
            found += [each.resource_name for config in each.configs if config.value]
    return found


def prefer_directories(routing: Routing, directories: Mapping[tuple[Place, int], str]) -> None:
    """Ask brokers to keep replicas in these directories. Before a move a replica may not be there yet: the
    broker remembers the directory then.
    """
    for (place, broker), path in directories.items():
        topic = AlterReplicaLogDirTopic(name=place[0], partitions=[place[1]])
        request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=[topic])])
        for result in routing.ask(broker, request, 2).results:
            for row in result.partitions:
                if row.error_code and row.error_code != ErrorCode.REPLICA_NOT_AVAILABLE:
                    words = error_words(row.error_code)
                    raise CommandError(
                        f"{place[0]}-{place[1]} on broker {broker} not moved to {path}: {words}"
                    )


def _alter(routing: Routing, broker: int, kind: int, name: str, settings: Mapping[str, str | None]) -> None:
    """Set or (None) delete settings of one resource. A broker's own settings are changed by itself."""
    configs = [
        AlterableConfig(name=key, config_operation=_DELETE if value is None else _SET, value=value)
        for key, value in settings.items()
    ]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    answer = routing.ask(broker, IncrementalAlterConfigsRequest(resources=[resource]), 0)
    for each in answer.responses:
        if each.error_code:
            reason = each.error_message or error_words(each.error_code)
            raise CommandError(f"the throttle of {name} was not changed: {reason}")


def _any_broker(routing: Routing) -> int:
    return next(iter(routing.brokers))
