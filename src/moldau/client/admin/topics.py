"""Brokers, topics and partitions: described from metadata, created, enlarged and deleted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from moldau.client.admin.configs import Config, config_of
from moldau.client.admin.problem import KafkaProblem, check
from moldau.client.admin.routing import ask_any, ask_controller, metadata
from moldau.client.cluster import Cluster
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
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
_TIMEOUT_MS = 30_000


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


class CreatedTopic(NamedTuple):
    """A topic that was (or would be) created; counts of -1 and no settings if the broker does not tell."""

    partitions: int
    replication_factor: int
    configs: tuple[Config, ...] = ()


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
    """Create a topic, or only check that it could be."""
    topic = CreatableTopic(
        name=name,
        num_partitions=BROKER_DEFAULT if assignments else partitions,
        replication_factor=BROKER_DEFAULT if assignments else replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
            for index, brokers in (assignments or {}).items()
        ],
        configs=[CreatableTopicConfig(name=each, value=value) for each, value in (configs or {}).items()],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS, validate_only=validate_only)
    answer = ask_controller(cluster, request, lambda got: _codes(got.topics), f"create topic {name}")
    result = _only(answer.topics, name)
    check(result.error_code, result.error_message)
    return CreatedTopic(
        result.num_partitions,
        result.replication_factor,
        tuple(sorted(config_of(each) for each in result.configs or ())),
    )


def add_partitions(cluster: Cluster, name: str, count: int) -> None:
    """Enlarge a topic to `count` partitions."""
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=name, count=count, assignments=None)], timeout_ms=_TIMEOUT_MS
    )
    wanted = f"add partitions to {name}"
    answer = ask_controller(cluster, request, lambda got: _codes(got.results), wanted)
    result = _only(answer.results, name)
    check(result.error_code, result.error_message)


def delete_topic(cluster: Cluster, name: str) -> None:
    """Delete a topic."""
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name)], topic_names=[name], timeout_ms=_TIMEOUT_MS
    )
    answer = ask_controller(cluster, request, lambda got: _codes(got.responses), f"delete topic {name}")
    result = _only(answer.responses, name)
    check(result.error_code, result.error_message)


def _codes(results: Sequence[Any]) -> list[int]:
    return [each.error_code for each in results]


def _only(results: Sequence[Any], name: str) -> Any:
    for each in results:
        if each.name == name:
            return each
    raise KafkaProblem(ErrorCode.UNKNOWN_SERVER_ERROR, f"The broker's answer does not name {name}.")
