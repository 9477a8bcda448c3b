"""One row a broker: where it is, what it leads and holds, whether it is in service.

Brokers that hold replicas and are not registered have a row too: their replicas are what an administrator
looks for. Sizes come from each broker itself (DescribeLogDirs): a broker that does not answer has none.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from moldau.common.protocol.messages.describe_cluster import DescribeClusterRequest
from moldau.common.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from moldau.tools.commands.transactions.routing import Place, Routing
from moldau.tools.shared.errors import CommandError
from moldau.tools.shared.raw_request import error_words

if TYPE_CHECKING:
    from moldau.tools.shared.connection import Connection

IN_SERVICE, GONE = "in service", "gone"
_LOG_DIRS_VERSION = 4  # since Kafka 3.3: with the sizes of the disks


@dataclass(slots=True)
class LogDirectory:
    """A folder of a broker; sizes in bytes, -1 if unknown."""

    path: str
    used_bytes: int
    total_bytes: int
    usable_bytes: int
    failure: str = ""


@dataclass(slots=True)
class BrokerRow:
    """One broker."""

    id: int
    rack: str | None = None
    address: str | None = None
    state: str = GONE
    controller: bool = False
    leaders: int = 0
    replicas: int = 0
    lagging: list[str] = field(default_factory=list)
    directories: list[LogDirectory] = field(default_factory=list)

    @property
    def used_bytes(self) -> int | None:
        """The bytes of its replicas; None if it did not say."""
        return sum(each.used_bytes for each in self.directories) if self.directories else None

    def as_row(self) -> dict[str, Any]:
        """Return it for a table or JSON."""
        return {
            "id": self.id,
            "rack": self.rack,
            "address": self.address,
            "leaders": self.leaders,
            "replicas": self.replicas,
            "lagging": len(self.lagging),
            "bytes": self.used_bytes,
            "controller": self.controller,
            "state": self.state,
        }


@dataclass(slots=True)
class Overview:
    """All brokers by id, and every partition's replicas."""

    cluster_id: str
    brokers: dict[int, BrokerRow]
    replicas: dict[Place, tuple[int, ...]]

    def broker(self, broker_id: int) -> BrokerRow:
        """Return a broker; CommandError if there is none."""
        found = self.brokers.get(broker_id)
        if found is None:
            known = ", ".join(map(str, sorted(self.brokers)))
            raise CommandError(f"there is no broker {broker_id}: there are {known}")
        return found

    def racks(self) -> dict[int, str | None]:
        """The brokers that may take replicas, with their racks."""
        return {each.id: each.rack for each in self.brokers.values() if each.state == IN_SERVICE}

    def held_by(self, broker_id: int) -> list[Place]:
        """The partitions with a replica on this broker."""
        return sorted(place for place, each in self.replicas.items() if broker_id in each)


def load_overview(connection: Connection, routing: Routing, *, sizes: bool = True) -> Overview:
    """Ask the cluster, and each broker for its folders."""
    described = _describe_cluster(routing)
    rows = {
        each.broker_id: BrokerRow(
            each.broker_id,
            each.rack,
            f"{each.host}:{each.port}",
            GONE if each.is_fenced else IN_SERVICE,
            each.broker_id == described.controller_id,
        )
        for each in sorted(described.brokers, key=lambda one: int(one.broker_id))
    }
    leaders: Counter[int] = Counter()
    replicas: dict[Place, tuple[int, ...]] = {}
    metadata = connection.admin().list_topics(timeout=connection.timeout_seconds)
    for name in sorted(metadata.topics):
        for index, partition in sorted(metadata.topics[name].partitions.items()):
            leaders[partition.leader] += 1
            replicas[name, index] = tuple(partition.replicas)
            for broker in partition.replicas:
                row = rows.setdefault(broker, BrokerRow(broker))
                row.replicas += 1
                if broker not in partition.isrs:
                    row.lagging.append(f"{name}-{index}")
    for row in rows.values():
        row.leaders = leaders[row.id]
        if sizes and row.id in routing.brokers:
            row.directories = log_directories(routing, row.id)
    return Overview(described.cluster_id, dict(sorted(rows.items())), replicas)


def log_directories(routing: Routing, broker_id: int) -> list[LogDirectory]:
    """Return the folders of a broker; none if it does not answer."""
    try:
        answer = routing.ask(broker_id, DescribeLogDirsRequest(topics=None), _LOG_DIRS_VERSION)
    except CommandError:
        return []
    return [
        LogDirectory(
            each.log_dir,
            sum(partition.partition_size for topic in each.topics for partition in topic.partitions),
            each.total_bytes,
            each.usable_bytes,
            error_words(each.error_code),
        )
        for each in answer.results
    ]


def _describe_cluster(routing: Routing) -> Any:
    somebody = next(iter(routing.brokers))
    try:  # version 2 tells which brokers are fenced (Kafka 4.0)
        answer = routing.ask(somebody, DescribeClusterRequest(include_fenced_brokers=True), 2)
    except CommandError:
        answer = routing.ask(somebody, DescribeClusterRequest(), 0)
    if answer.error_code:
        raise CommandError(f"the cluster cannot be described: {error_words(answer.error_code)}")
    return answer
