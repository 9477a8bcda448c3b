"""Brokers, topics and partitions: described from metadata, created, enlarged and deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from moldau.client.admin.configs import Config, config_of
from moldau.client.admin.problem import KafkaProblem, check
from moldau.client.admin.routing import ask_any, ask_controller, metadata, with_controller
from moldau.client.cluster import Cluster
from moldau.client.connection import Connection
from moldau.common.protocol.declare import Message
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from moldau.common.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from moldau.common.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from moldau.common.protocol.messages.describe_cluster import DescribeClusterRequest
from moldau.common.protocol.messages.unregister_broker import UnregisterBrokerRequest

BROKER_DEFAULT = -1
NO_LEADER = -1
_NOT_KNOWN = -(2**31)
TIMEOUT_SECONDS = 30.0
ANSWER_SECONDS = 2.0
"""How much longer than a broker may work on a change its answer is waited for: it says why it is late."""
_AT_ONCE = 500
_DELETED_BY_STATE = 6
"""The version of DeleteTopics from which on a row may have a name or an id."""


class Broker(NamedTuple):
    """A broker as it names itself to clients."""

    broker_id: int
    host: str
    port: int
    rack: str | None


class ClusterView(NamedTuple):
    """A cluster: its brokers by id; no controller is -1."""

    cluster_id: str
    controller_id: int
    brokers: tuple[Broker, ...]


class RegisteredBroker(NamedTuple):
    """A broker that is registered. Fenced ones take no part; brokers before Kafka 4.0 do not tell them."""

    broker_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool


class Registered(NamedTuple):
    """A cluster with its registered brokers by id."""

    cluster_id: str
    controller_id: int
    brokers: tuple[RegisteredBroker, ...]


class Partition(NamedTuple):
    """A partition with the ids of its replicas; no leader is -1."""

    partition_id: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


class Topic(NamedTuple):
    """A topic; `operations` are the numbers of ACL operations that this client may do, None if not asked."""

    name: str
    is_internal: bool
    partitions: tuple[Partition, ...]
    operations: tuple[int, ...] | None

    @property
    def replication_factor(self) -> int:
        """The replicas of its first partition, as Kafka's tools say it."""
        return len(self.partitions[0].replicas) if self.partitions else 0


def describe_cluster(cluster: Cluster) -> ClusterView:
    """The cluster and its brokers."""
    answer = metadata(cluster, [])
    brokers = sorted(Broker(each.node_id, each.host, each.port, each.rack) for each in answer.brokers)
    return ClusterView(answer.cluster_id or "", answer.controller_id, tuple(brokers))


def describe_registered(cluster: Cluster) -> Registered:
    """The cluster with all registered brokers, those that are fenced too."""
    request = DescribeClusterRequest(include_fenced_brokers=True)
    answer = ask_any(cluster, request, "describe the cluster")
    check(answer.error_code, answer.error_message)
    brokers = (
        RegisteredBroker(each.broker_id, each.host, each.port, each.rack, each.is_fenced)
        for each in answer.brokers
    )
    return Registered(answer.cluster_id, answer.controller_id, tuple(sorted(brokers)))


def unregister_broker(cluster: Cluster, broker_id: int) -> None:
    """Take a broker that has stopped for good out of the metadata."""
    answer = ask_controller(
        cluster,
        UnregisterBrokerRequest(broker_id=broker_id),
        lambda got: [got.error_code],
        f"unregister broker {broker_id}",
    )
    check(answer.error_code, answer.error_message)


def describe_topics(
    cluster: Cluster, names: Iterable[str] | None = None, *, operations: bool = False
) -> list[Topic]:
    """These topics, all for None, by name. KafkaProblem for one that does not exist or may not be seen."""
    answer = metadata(cluster, names, operations=operations)
    found = []
    for each in answer.topics:
        if names is None and each.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            continue  # deleted meanwhile
        check(each.error_code)
        found.append(_topic(each))
    return sorted(found)


def leaders(cluster: Cluster, names: Iterable[str]) -> dict[tuple[str, int], int]:
    """The leader (-1: none) of every partition of these topics, as far as they exist, in order of the
    partitions.
    """
    asked = sorted(set(names))
    if not asked:
        return {}
    return {
        (topic.name, each.partition_index): each.leader_id
        for topic in metadata(cluster, asked).topics
        if not topic.error_code
        for each in sorted(topic.partitions, key=lambda each: int(each.partition_index))
    }


def partition_of(part: Any) -> Partition:
    """A partition as Metadata answers it."""
    return Partition(part.partition_index, part.leader_id, tuple(part.replica_nodes), tuple(part.isr_nodes))


def _topic(each: Any) -> Topic:
    bits = each.topic_authorized_operations
    return Topic(
        each.name,
        each.is_internal,
        tuple(partition_of(part) for part in sorted(each.partitions, key=lambda part: part.partition_index)),
        None if bits == _NOT_KNOWN else tuple(bit for bit in range(32) if bits >> bit & 1),
    )


class NewTopic(NamedTuple):
    """A topic to create: counts or, by partition, the ids of its replicas; -1 is the broker's default."""

    name: str
    partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    assignments: Mapping[int, Sequence[int]] | None = None
    configs: Mapping[str, str | None] | None = None


class CreatedTopic(NamedTuple):
    """A topic that was (or would be) created; counts of -1 and no settings if the broker does not tell."""

    partitions: int
    replication_factor: int
    configs: tuple[Config, ...] = ()


Refused = dict[str, KafkaProblem]
"""Why something was not done, by the topic's name; empty if all was done."""


def create_topics(
    cluster: Cluster,
    topics: Sequence[NewTopic],
    *,
    validate_only: bool = False,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> tuple[dict[str, CreatedTopic], Refused]:
    """Create topics, or only check that they could be. A broker may work on it for `timeout_seconds`."""
    created: dict[str, CreatedTopic] = {}
    rows = [_creatable(each) for each in topics]
    refused = _change(
        cluster,
        CreateTopicsRequest,
        rows,
        lambda part, _: CreateTopicsRequest(
            topics=part, timeout_ms=int(timeout_seconds * 1000), validate_only=validate_only
        ),
        lambda answer: answer.topics,
        "create",
        timeout_seconds,
        lambda result: created.update({result.name: _created(result)}),
    )
    return created, refused


def create_topic(
    cluster: Cluster,
    name: str,
    *,
    partitions: int = BROKER_DEFAULT,
    replication_factor: int = BROKER_DEFAULT,
    assignments: Mapping[int, Sequence[int]] | None = None,
    configs: Mapping[str, str | None] | None = None,
    validate_only: bool = False,
) -> CreatedTopic:
    """Create a topic, or only check that it could be. KafkaProblem."""
    topic = NewTopic(name, partitions, replication_factor, assignments, configs)
    created, refused = create_topics(cluster, [topic], validate_only=validate_only)
    raise_first(refused)
    return created[name]


def enlarge_topics(
    cluster: Cluster,
    counts: Mapping[str, int],
    *,
    assignments: Mapping[str, Sequence[Sequence[int]]] | None = None,
    validate_only: bool = False,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> Refused:
    """Add partitions until each topic has its count. `assignments`: the replicas of those that are added."""
    rows = []
    for name, count in counts.items():
        added = (assignments or {}).get(name)
        replicas = None if added is None else [CreatePartitionsAssignment(broker_ids=list(e)) for e in added]
        rows.append(CreatePartitionsTopic(name=name, count=count, assignments=replicas))
    return _change(
        cluster,
        CreatePartitionsRequest,
        rows,
        lambda part, _: CreatePartitionsRequest(
            topics=part, timeout_ms=int(timeout_seconds * 1000), validate_only=validate_only
        ),
        lambda answer: answer.results,
        "add partitions to",
        timeout_seconds,
    )


def add_partitions(cluster: Cluster, name: str, count: int) -> None:
    """Enlarge a topic to `count` partitions. KafkaProblem."""
    raise_first(enlarge_topics(cluster, {name: count}))


def delete_topics(
    cluster: Cluster, names: Sequence[str], *, timeout_seconds: float = TIMEOUT_SECONDS
) -> Refused:
    """Delete topics with their records."""

    def request(part: Sequence[DeleteTopicState], version: int) -> DeleteTopicsRequest:
        request = DeleteTopicsRequest(timeout_ms=int(timeout_seconds * 1000))
        if version >= _DELETED_BY_STATE:
            request.topics = list(part)
        else:
            request.topic_names = [each.name or "" for each in part]
        return request

    rows = [DeleteTopicState(name=name) for name in names]
    return _change(
        cluster,
        DeleteTopicsRequest,
        rows,
        request,
        lambda answer: answer.responses,
        "delete",
        timeout_seconds,
    )


def delete_topic(cluster: Cluster, name: str) -> None:
    """Delete a topic. KafkaProblem."""
    raise_first(delete_topics(cluster, [name]))


def raise_first(refused: Refused) -> None:
    """Return if nothing was refused, else raise the first."""
    for problem in refused.values():
        raise problem


def _change(
    cluster: Cluster,
    api: type[Message],
    rows: Sequence[Any],
    request_of: Callable[[Any, int], Message],
    results_of: Callable[[Any], Iterable[Any]],
    verb: str,
    timeout_seconds: float,
    done: Callable[[Any], None] = lambda result: None,
) -> Refused:
    """Have the controller change topics, a slice of them in a request; why it refused some. One that cannot
    do it in time says why by itself.
    """
    refused: Refused = {}
    for start in range(0, len(rows), _AT_ONCE):
        part = rows[start : start + _AT_ONCE]
        wanted = f"{verb} topic {part[0].name}{f' and {len(part) - 1} more' if len(part) > 1 else ''}"

        def ask(connection: Connection, part: Sequence[Any] = part) -> Any:
            request = request_of(part, connection.version_of(api))
            return connection.ask(request, timeout_seconds=timeout_seconds + ANSWER_SECONDS)

        answer = with_controller(cluster, ask, lambda got: [e.error_code for e in results_of(got)], wanted)
        left = {each.name for each in part}
        for result in results_of(answer):
            left.discard(result.name)
            if result.error_code:
                refused[result.name] = KafkaProblem(result.error_code, getattr(result, "error_message", None))
            else:
                done(result)
        for name in sorted(left):
            refused[name] = KafkaProblem(
                ErrorCode.UNKNOWN_SERVER_ERROR, f"The broker's answer does not name {name}."
            )
    return refused


def _creatable(topic: NewTopic) -> CreatableTopic:
    given = topic.assignments or {}
    return CreatableTopic(
        name=topic.name,
        num_partitions=BROKER_DEFAULT if given else topic.partitions,
        replication_factor=BROKER_DEFAULT if given else topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
            for index, brokers in given.items()
        ],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in (topic.configs or {}).items()],
    )


def _created(result: Any) -> CreatedTopic:
    return CreatedTopic(
        result.num_partitions,
        result.replication_factor,
        tuple(sorted(config_of(each) for each in result.configs or ())),
    )
