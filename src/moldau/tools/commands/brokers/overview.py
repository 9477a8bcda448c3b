"""One row a broker: where it is, what it leads and holds, whether it is in service.

Brokers that hold replicas and are not registered have a row too: their replicas are what an administrator
looks for. Sizes come from each broker itself (DescribeLogDirs): a broker that does not answer has none.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from moldau.client.admin.layout import Layout, Place
from moldau.client.admin.log_dirs import LogDirectory, log_directories_if_told
from moldau.client.admin.topics import describe_registered
from moldau.tools.shared.errors import CommandError

IN_SERVICE, GONE = "in service", "gone"


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


def load_overview(layout: Layout, *, sizes: bool = True) -> Overview:
    """The brokers of a cluster; `sizes`: with the folders that each tells of."""
    described = describe_registered(layout.cluster)
    rows = {
        each.broker_id: BrokerRow(
            each.broker_id,
            each.rack,
            f"{each.host}:{each.port}",
            GONE if each.is_fenced else IN_SERVICE,
            each.broker_id == described.controller_id,
        )
        for each in described.brokers
    }
    leaders: Counter[int] = Counter()
    for (name, index), partition in layout.partitions.items():
        leaders[partition.leader] += 1
        for broker in partition.replicas:
            row = rows.setdefault(broker, BrokerRow(broker))
            row.replicas += 1
            if broker not in partition.in_sync:
                row.lagging.append(f"{name}-{index}")
    for row in rows.values():
        row.leaders = leaders[row.id]
        if sizes and row.id in layout.brokers:
            row.directories = log_directories_if_told(layout.cluster, row.id)
    return Overview(described.cluster_id, dict(sorted(rows.items())), layout.replicas)
