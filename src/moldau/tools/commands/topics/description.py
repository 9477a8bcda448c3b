"""Topics for `moldau topics`: from Metadata, DescribeConfigs and ListOffsets; filtered and formatted.

`kafka_lines` writes exactly the lines of `kafka-topics --describe`, which scripts parse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from moldau.client.admin.configs import TOPIC, describe_configs
from moldau.client.admin.eligible import eligible_replicas
from moldau.client.admin.routing import metadata
from moldau.client.offsets import EARLIEST, LATEST
from moldau.common.core.ids import uuid_to_text
from moldau.tools.shared.admin import SOURCES, select_names, topic_names

if TYPE_CHECKING:
    from moldau.client.cluster import Cluster
    from moldau.tools.shared.connection import Connection

TOPICS_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Filter:
    """Which partitions and topics to show. Several filters keep what matches any of them, as in Kafka's
    tool.
    """

    under_replicated: bool = False
    unavailable: bool = False
    under_min_isr: bool = False
    at_min_isr: bool = False
    with_overrides: bool = False

    @property
    def by_partition(self) -> bool:
        """Whether a partition filter is set."""
        return self.under_replicated or self.unavailable or self.under_min_isr or self.at_min_isr

    def keeps(self, partition: PartitionDescription, min_insync_replicas: int) -> bool:
        """Whether a partition passes."""
        return (
            (self.under_replicated and len(partition.isr) < len(partition.replicas))
            or (self.unavailable and partition.leader is None)
            or (self.under_min_isr and len(partition.isr) < min_insync_replicas)
            or (self.at_min_isr and len(partition.isr) == min_insync_replicas)
        )


@dataclass(slots=True)
class PartitionDescription:
    """One partition: brokers by id, and its log start and end offsets if they were requested. `eligible`: the
    eligible leader replicas (KIP-966); `last_known_eligible`: after a loss of power, those of which the
    longest log is to lead.
    """

    index: int
    leader: int | None
    replicas: list[int]
    isr: list[int]
    eligible: list[int] = field(default_factory=list)
    last_known_eligible: list[int] = field(default_factory=list)
    start_offset: int | None = None
    end_offset: int | None = None

    def as_row(self) -> dict[str, Any]:
        """Return the row of a table, and of --json."""
        return {
            "partition": self.index,
            "leader": self.leader,
            "replicas": self.replicas,
            "isr": self.isr,
            "elr": self.eligible,
            "last_known_elr": self.last_known_eligible,
            "start": self.start_offset,
            "end": self.end_offset,
        }


@dataclass(slots=True)
class TopicDescription:
    """One topic; `settings` maps a name to (value, source, where 5 is the built-in default)."""

    name: str
    topic_id: str
    partitions: list[PartitionDescription]
    settings: dict[str, tuple[str | None, int]] = field(default_factory=dict)

    @property
    def replication_factor(self) -> int:
        """Return the number of replicas of the first partition."""
        return len(self.partitions[0].replicas) if self.partitions else 0

    @property
    def not_default(self) -> dict[str, str | None]:
        """Return the settings that somebody set: for the topic, or for all topics of the brokers."""
        return {name: value for name, (value, source) in self.settings.items() if source != 5}

    @property
    def overrides(self) -> dict[str, str | None]:
        """Return the settings of the topic itself."""
        return {name: value for name, (value, source) in self.settings.items() if source == 1}

    def shown_settings(self, with_defaults: bool) -> list[dict[str, Any]]:
        """Return settings as rows: the topic's own, or all."""
        return [
            {"name": name, "value": value, "source": SOURCES.get(source, str(source))}
            for name, (value, source) in sorted(self.settings.items())
            if with_defaults or source == 1
        ]

    def as_json(self, with_defaults: bool) -> dict[str, Any]:
        """Return the document of --json."""
        return {
            "topic": self.name,
            "topic_id": self.topic_id,
            "partition_count": len(self.partitions),
            "replication_factor": self.replication_factor,
            "partitions": [each.as_row() for each in self.partitions],
            "settings": self.shown_settings(with_defaults),
        }


def load_topics(
    connection: Connection,
    patterns: list[str] | None,
    *,
    internal: bool,
    wanted: Filter,
    offsets: bool = False,
) -> list[TopicDescription]:
    """Return the topics that match, with only the partitions that `wanted` keeps."""
    names = topic_names(connection, internal=internal or bool(patterns))
    if patterns:
        names = select_names(patterns, names, what="topic", connection=connection)
    cluster = connection.cluster()
    found = [topic for topic in describe_topics(cluster, names) if _keep(topic, wanted)]
    if offsets:
        _add_offsets(cluster, found)
    return found


def describe_topics(cluster: Cluster, names: Sequence[str]) -> list[TopicDescription]:
    """Describe topics, in the order of `names`; one that was deleted meanwhile is left out."""
    found: list[TopicDescription] = []
    for start in range(0, len(names), TOPICS_AT_ONCE):
        some = names[start : start + TOPICS_AT_ONCE]
        topics = {each.name: each for each in metadata(cluster, some).topics if not each.error_code}
        settings = describe_configs(cluster, TOPIC, list(topics), synonyms=False)
        for name in some:
            if name in topics:
                values = {each.name: (each.value, each.source) for each in settings.get(name, [])}
                found.append(_describe(topics[name], values))
    _add_eligible(cluster, found)
    return found


def _describe(topic: Any, settings: Mapping[str, tuple[str | None, int]]) -> TopicDescription:
    partitions = [
        PartitionDescription(
            index=each.partition_index,
            leader=each.leader_id if each.leader_id >= 0 else None,
            replicas=list(each.replica_nodes),
            isr=list(each.isr_nodes),
        )
        for each in sorted(topic.partitions, key=lambda each: int(each.partition_index))
    ]
    return TopicDescription(topic.name, uuid_to_text(topic.topic_id), partitions, dict(settings))


def _keep(topic: TopicDescription, wanted: Filter) -> bool:
    if wanted.with_overrides and not topic.overrides:
        return False
    if not wanted.by_partition:
        return True
    min_insync_replicas = int(topic.settings.get("min.insync.replicas", ("1", 5))[0] or 1)
    topic.partitions = [each for each in topic.partitions if wanted.keeps(each, min_insync_replicas)]
    return bool(topic.partitions)


def _add_eligible(cluster: Cluster, topics: Sequence[TopicDescription]) -> None:
    """Ask for eligible leader replicas where a replica is out of sync; elsewhere there are none."""
    lacking = [topic for topic in topics if any(len(at.isr) < len(at.replicas) for at in topic.partitions)]
    if not lacking:
        return
    eligible = eligible_replicas(cluster, [topic.name for topic in lacking])
    for topic in lacking:
        for each in topic.partitions:
            if (lists := eligible.get((topic.name, each.index))) is not None:
                each.eligible, each.last_known_eligible = list(lists.eligible), list(lists.last_known)


def _add_offsets(cluster: Cluster, topics: list[TopicDescription]) -> None:
    led = {
        (topic.name, each.index): each
        for topic in topics
        for each in topic.partitions
        if each.leader is not None
    }
    for when, attribute in ((EARLIEST, "start_offset"), (LATEST, "end_offset")):
        for place, offset in cluster.offsets(dict.fromkeys(led, when)).items():
            setattr(led[place], attribute, offset)


def kafka_lines(
    topic: TopicDescription,
    rows: Mapping[str, str | None],
    order: Callable[[Iterable[str]], list[str]] = sorted,
) -> str:
    """Format a topic as `kafka-topics --describe` does: a line for the topic, one for each partition. `rows`:
    the settings to print; `order` gives their names in the order to print.
    """
    settings = ",".join(f"{name}={rows[name]}" for name in order(topic.settings) if name in rows)
    lines = [
        f"Topic: {topic.name}\tTopicId: {topic.topic_id}\tPartitionCount: {len(topic.partitions)}"
        f"\tReplicationFactor: {topic.replication_factor}\tConfigs: {settings}"
    ]
    for each in topic.partitions:
        replicas, isr = (",".join(map(str, ids)) for ids in (each.replicas, each.isr))
        elr, last_known = (",".join(map(str, ids)) for ids in (each.eligible, each.last_known_eligible))
        leader = "none" if each.leader is None else each.leader
        lines.append(
            f"\tTopic: {topic.name}\tPartition: {each.index}\tLeader: {leader}"
            f"\tReplicas: {replicas}\tIsr: {isr}\tElr: {elr}\tLastKnownElr: {last_known}"
        )
    return "\n".join(lines)
