"""Do partitions take records: have they leaders and enough in-sync replicas, and the brokers room on disk?

The round trip writes to a topic of its own, with one replica a partition: it says nothing about the topics
that a user writes to. These checks read the metadata, `min.insync.replicas` where a replica is missing, and
DescribeLogDirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from moldau.tools.doctor.findings import Report
from moldau.tools.shared.causes import disk_trouble, store_troubles, unreadable_batches

if TYPE_CHECKING:
    from moldau.tools.doctor.addresses import Advertised
    from moldau.tools.shared.connection import Connection

_NAMED = 3
_TOPICS_MAX = 500
"""More topics than this with missing replicas are not asked for their settings."""


def check_partitions(report: Report, connection: Connection, metadata: Any, topic: str | None) -> None:
    """Find partitions without a leader, and those that refuse acks=all."""
    topics = {name: each for name, each in metadata.topics.items() if topic in (None, name)}
    leaderless = sorted(
        f"{name}-{index}"
        for name, each in topics.items()
        for index, partition in each.partitions.items()
        if partition.leader < 0
    )
    if leaderless:
        report.fail(
            "leaders",
            f"{_count(leaderless, 'has', 'have')} no leader: {_some(leaderless)}",
            "start the brokers that hold them; `moldau status` names the cause",
        )
    else:
        report.ok("leaders", "every partition has one")
    _check_in_sync(report, connection, topics)


def _check_in_sync(report: Report, connection: Connection, topics: dict[str, Any]) -> None:
    lacking = {
        name: [
            each
            for each in topic.partitions.values()
            if each.leader >= 0 and len(each.isrs) < len(each.replicas)
        ]
        for name, topic in topics.items()
    }
    lacking = {name: partitions for name, partitions in lacking.items() if partitions}
    if not lacking:
        report.ok("in-sync replicas", "every replica of a partition that has a leader is in sync")
        return
    wanted = _min_in_sync(connection, sorted(lacking)[:_TOPICS_MAX])
    under = sorted(
        f"{name}-{each.id}"
        for name, partitions in lacking.items()
        for each in partitions
        if len(each.isrs) < wanted.get(name, 1)
    )
    away = sorted(
        {
            node_id
            for partitions in lacking.values()
            for each in partitions
            for node_id in each.replicas
            if node_id not in each.isrs
        }
    )
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
    places = sorted(f"{name}-{each.id}" for name, partitions in lacking.items() for each in partitions)
    report.warn("in-sync replicas", f"{_count(places, 'lacks', 'lack')} replicas: {_some(places)}", remedy)


def _min_in_sync(connection: Connection, names: list[str]) -> dict[str, int]:
    """min.insync.replicas by topic; nothing for those whose settings the user may not see."""
    from moldau.client.admin.configs import TOPIC, describe_configs
    from moldau.client.errors import ClientError

    setting = "min.insync.replicas"
    try:
        found = describe_configs(connection.cluster(), TOPIC, names, synonyms=False, keys=[setting])
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


def _count(places: Sequence[str], one: str, many: str) -> str:
    return f"1 partition {one}" if len(places) == 1 else f"{len(places)} partitions {many}"


def _some(places: Sequence[str]) -> str:
    more = " ..." if len(places) > _NAMED else ""
    return f"{', '.join(sorted(places)[:_NAMED])}{more}"
