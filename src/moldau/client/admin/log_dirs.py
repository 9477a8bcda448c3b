"""Log directories of brokers: their replicas and sizes, and which one holds a replica (KIP-113)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from moldau.client.admin.layout import Place
from moldau.client.admin.problem import KafkaProblem
from moldau.client.admin.routing import ask_broker, ask_once
from moldau.client.cluster import Cluster
from moldau.client.errors import error_words
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from moldau.common.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)


class StoredReplica(NamedTuple):
    """A replica in a directory. `is_future`: it is being copied there from another one."""

    place: Place
    size_bytes: int
    offset_lag: int
    is_future: bool


class LogDirectory(NamedTuple):
    """A directory of a broker; sizes in bytes, -1 if unknown. `error_code`: why it is offline."""

    path: str
    error_code: int
    total_bytes: int
    usable_bytes: int
    replicas: tuple[StoredReplica, ...]

    @property
    def used_bytes(self) -> int:
        """The bytes of its replicas."""
        return sum(each.size_bytes for each in self.replicas)


def log_directories(cluster: Cluster, broker_id: int) -> list[LogDirectory]:
    """The directories of a broker."""
    request = DescribeLogDirsRequest(topics=None)
    return _directories(ask_broker(cluster, broker_id, request, f"describe broker {broker_id}'s directories"))


def log_directories_if_told(cluster: Cluster, broker_id: int) -> list[LogDirectory]:
    """The same, and nothing if the broker does not answer at once."""
    answer = ask_once(cluster, broker_id, DescribeLogDirsRequest(topics=None))
    return [] if answer is None else _directories(answer)


def replica_paths(
    cluster: Cluster, brokers: Iterable[int]
) -> Iterator[tuple[tuple[Place, int], str, StoredReplica]]:
    """Each replica of these brokers: partition and broker, its directory, what is stored there."""
    for broker in brokers:
        for directory in log_directories(cluster, broker):
            for each in directory.replicas:
                yield (each.place, broker), directory.path, each


def prefer_directories(cluster: Cluster, directories: Mapping[tuple[Place, int], str]) -> None:
    """Ask brokers to keep replicas in these directories. Before a move a replica may not be there yet: the
    broker remembers the directory then. KafkaProblem for the first that is refused.
    """
    for (place, broker), path in directories.items():
        topic = AlterReplicaLogDirTopic(name=place[0], partitions=[place[1]])
        request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=[topic])])
        for result in ask_broker(cluster, broker, request, "choose log directories").results:
            for row in result.partitions:
                if row.error_code and row.error_code != ErrorCode.REPLICA_NOT_AVAILABLE:
                    words = error_words(row.error_code)
                    raise KafkaProblem(
                        row.error_code,
                        f"{place[0]}-{place[1]} on broker {broker} not moved to {path}: {words}",
                    )


def _directories(answer: DescribeLogDirsResponse) -> list[LogDirectory]:
    return [
        LogDirectory(
            each.log_dir,
            each.error_code,
            each.total_bytes,
            each.usable_bytes,
            tuple(
                StoredReplica(
                    (topic.name, row.partition_index), row.partition_size, row.offset_lag, row.is_future_key
                )
                for topic in each.topics
                for row in topic.partitions
            ),
        )
        for each in answer.results
    ]
