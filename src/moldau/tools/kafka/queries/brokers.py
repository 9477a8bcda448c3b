"""Brokers, partitions and errors, for tools that ask several brokers."""

from __future__ import annotations

from typing import Any, NamedTuple

from moldau.client.cluster import Cluster
from moldau.common.protocol.errors import ErrorCode
from moldau.tools.kafka.problems import ToolError
from moldau.tools.kafka.queries import asking

_CODES = {int(code): code for code in ErrorCode}
_SPECIAL = {
    "UNKNOWN_SERVER_ERROR": "UnknownServerException",
    "CORRUPT_MESSAGE": "CorruptRecordException",
    "UNKNOWN_TOPIC_OR_PARTITION": "UnknownTopicOrPartitionException",
    "UNKNOWN_TOPIC_ID": "UnknownTopicIdException",
    "REQUEST_TIMED_OUT": "TimeoutException",
    "KAFKA_STORAGE_ERROR": "KafkaStorageException",
    "CLUSTER_AUTHORIZATION_FAILED": "ClusterAuthorizationException",
    "INVALID_REQUEST": "InvalidRequestException",
}


class Partition(NamedTuple):
    """A partition as the metadata has it."""

    leader: int
    replicas: tuple[int, ...]


class Metadata(NamedTuple):
    """Brokers by number (host, port, rack), and partitions by topic and index."""

    brokers: dict[int, tuple[str, int, str | None]]
    topics: dict[str, dict[int, Partition]]
    controller: int
    cluster_id: str | None


def metadata(cluster: Cluster, topics: list[str] | None = None) -> Metadata:
    """Ask for these topics (None: all); those that do not exist are left out."""
    answer = asking.metadata(cluster, topics)
    return Metadata(
        {each.node_id: (each.host, each.port, each.rack) for each in answer.brokers},
        {
            topic.name: {
                each.partition_index: Partition(each.leader_id, tuple(each.replica_nodes))
                for each in sorted(topic.partitions, key=lambda one: one.partition_index)
            }
            for topic in answer.topics
            if not topic.error_code
        },
        answer.controller_id,
        answer.cluster_id,
    )


def ask(cluster: Cluster, broker: int, request: Any, **more: Any) -> Any:
    """Ask one broker; tries again while it cannot be reached."""
    return cluster.persist(f"ask broker {broker}", lambda: cluster.broker(broker).ask(request, **more))


def ask_any(cluster: Cluster, request: Any, **more: Any) -> Any:
    """Ask some broker."""
    return cluster.persist("ask the cluster", lambda: cluster.any_broker().ask(request, **more))


def exception_name(error_code: int) -> str:
    """Java's class for an error: scripts and people know errors by it."""
    name = _CODES[error_code].name if error_code in _CODES else "UNKNOWN_SERVER_ERROR"
    simple = _SPECIAL.get(name) or "".join(part.capitalize() for part in name.split("_")) + "Exception"
    return f"org.apache.kafka.common.errors.{simple}"


def error_text(error_code: int, message: str | None = None) -> str:
    """The text of an error: the broker's own, else Kafka's."""
    if message:
        return message
    return _CODES[error_code].message if error_code in _CODES else f"error {error_code}"


def raise_for(error_code: int, message: str | None = None) -> None:
    """Return for code 0; else ToolError with Java's name and the text."""
    if error_code:
        raise ToolError(f"{exception_name(error_code)}: {error_text(error_code, message)}")
