"""Do partitions take records: have they leaders and enough in-sync replicas, and the brokers room on disk?

The round trip writes to a topic of its own, with one replica a partition: it says nothing about the topics
that a user writes to. These checks read the metadata, `min.insync.replicas` where a replica is missing, and
DescribeLogDirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from moldau.tools.doctor.findings import Report
from moldau.tools.shared.causes import disk_trouble, store_troubles, unreadable_batches

if TYPE_CHECKING:
    from moldau.client.admin.layout import Layout, Place
    from moldau.client.admin.topics import Partition
    from moldau.client.cluster import Cluster
    from moldau.tools.doctor.addresses import Advertised
    from moldau.tools.shared.connection import Connection

_NAMED = 3
_TOPICS_MAX = 500
"""More topics than this with missing replicas are not asked for their settings."""


def check_partitions(report: Report, layout: Layout, topic: str | None) -> None:
    """Find partitions without a leader, and those that refuse acks=all."""
    partitions = {place: each for place, each in layout.partitions.items() if topic in (None, place[0])}
    leaderless = [_name(place) for place, each in partitions.items() if each.leader < 0]
    if leaderless:
        report.fail(
            "leaders",
            f"{_count(leaderless, 'has', 'have')} no leader: {_some(leaderless)}",
            "start the brokers that hold them; `moldau status` names the cause",
        )
    else:
        report.ok("leaders", "every partition has one")
    lacking = {
        place: each
        for place, each in partitions.items()
        if each.leader >= 0 and len(each.in_sync) < len(each.replicas)
    }
    if lacking:
        _check_in_sync(report, layout.cluster, lacking)
    else:
        report.ok("in-sync replicas", "every replica of a partition that has a leader is in sync")


def _check_in_sync(report: Report, cluster: Cluster, lacking: Mapping[Place, Partition]) -> None:
    wanted = _min_in_sync(cluster, sorted({topic for topic, _ in lacking})[:_TOPICS_MAX])
    under = [_name(place) for place, each in lacking.items() if len(each.in_sync) < wanted.get(place[0], 1)]
    away = sorted({node for each in lacking.values() for node in each.replicas if node not in each.in_sync})
    brokers = f"broker{'s' if len(away) > 1 else ''} {', '.join(map(str, away))}"
    remedy = f"start or mend {brokers}: `moldau status` names the cause"
    if under:
        report.fail(
            "in-sync replicas",
            f"{_count(under, 'has', 'have')} fewer in-sync replicas than min.insync.replicas, and refuse"
            f"{'s' if len(under) == 1 else ''} records sent with acks=all: {_some(under)}",
            remedy,
        )
        return
    places = [_name(place) for place in lacking]
    report.warn("in-sync replicas", f"{_count(places, 'lacks', 'lack')} replicas: {_some(places)}", remedy)


def _min_in_sync(cluster: Cluster, names: list[str]) -> dict[str, int]:
    """min.insync.replicas by topic; nothing for those whose settings the user may not see."""
    from moldau.client.admin.configs import TOPIC, describe_configs
    from moldau.client.errors import ClientError

    setting = "min.insync.replicas"
    try:
        found = describe_configs(cluster, TOPIC, names, synonyms=False, keys=[setting])
    except (ClientError, OSError):
        return {}
    return {
        name: int(each.value)
        for name, settings in found.items()
        for each in settings
        if each.name == setting and each.value is not None
    }


def check_store(report: Report, connection: Connection) -> None:
    """Find a store of the metadata (ZooKeeper) that the broker does not reach: nothing can change then."""
    for message, remedy in store_troubles(connection):
        report.fail("metadata store", f"{message}; topics, settings and leaders cannot change", remedy)


def check_batches(report: Report, connection: Connection) -> None:
    """Find batches that no consumer can read, which the broker at the bootstrap address has met."""
    for message, remedy in unreadable_batches(connection):
        report.warn("records", message, remedy)


def check_disks(report: Report, connection: Connection, brokers: Sequence[Advertised]) -> None:
    """Find full and failed disks; nothing is said where the user may not see them."""
    troubles = [
        disk for each in brokers if (disk := disk_trouble(connection, each.node_id, (each.host, each.port)))
    ]
    for each in troubles:
        message, _, remedy = each.partition(": ")
        report.fail("disk", message, remedy)


def _name(place: Place) -> str:
    return f"{place[0]}-{place[1]}"


def _count(places: Sequence[str], one: str, many: str) -> str:
    return f"1 partition {one}" if len(places) == 1 else f"{len(places)} partitions {many}"


def _some(places: Sequence[str]) -> str:
    more = " ..." if len(places) > _NAMED else ""
    return f"{', '.join(sorted(places)[:_NAMED])}{more}"
