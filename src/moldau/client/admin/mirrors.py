"""Links to other clusters, and the topics here that mirror theirs (Moldau's own APIs)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from moldau.client.admin.problem import check
from moldau.client.admin.routing import ask_any, ask_controller, ask_once, metadata
from moldau.client.cluster import Cluster
from moldau.common.protocol.own.alter_mirrors import (
    AlterMirrorsRequest,
    AlterMirrorsResponse,
    MirrorSettingData,
)
from moldau.common.protocol.own.describe_mirrors import (
    DescribeMirrorsRequest,
    DescribeMirrorsResponse,
    LinkData,
    MirrorPartitionData,
    MirrorTopicData,
)


@dataclass(frozen=True, slots=True)
class TopicOutcome:
    """What became of one topic; `problem` is empty where it went well."""

    topic: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class MirrorPartition:
    """How far one partition is."""

    index: int
    doing: str = ""
    problem: str = ""
    start_offset: int = -1
    end_offset: int = -1
    stable_offset: int = -1
    source_end_offset: int = -1
    """The source's high watermark, as it was told last; -1: not yet."""
    lost_seconds: float | None = None
    """How long ago all that the source had was here: what would be lost now. None: it never was."""
    open_transactions: int = 0
    lost_records: int = 0
    missed_records: int = 0

    @property
    def behind(self) -> int | None:
        """How many offsets it is behind the source; None: not known."""
        return None if self.source_end_offset < 0 else max(0, self.source_end_offset - self.end_offset)


@dataclass(frozen=True, slots=True)
class MirrorTopic:
    """A topic of a link, and its partitions, of those whose leaders have answered."""

    name: str
    source: str
    state: str
    reason: str
    partition_count: int
    left: tuple[int, ...]
    partitions: tuple[MirrorPartition, ...]


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """What a group has committed at the source, and what that is here."""

    group: str
    topic: str
    partition: int
    source_offset: int
    offset: int
    """What was committed here; -1: nothing, since the group has members here."""

    @property
    def again(self) -> int | None:
        """How many offsets the group would read again; None: its own commits count here."""
        return None if self.offset < 0 else max(0, self.source_offset - self.offset)


@dataclass(frozen=True, slots=True)
class Link:
    """A link to another cluster. Of a secret the value is None."""

    name: str
    settings: Mapping[str, str | None]
    topics: tuple[MirrorTopic, ...]
    problems: tuple[str, ...] = field(default=())
    groups: tuple[GroupOffset, ...] = field(default=())


def alter_mirrors(
    cluster: Cluster,
    action: str,
    link: str,
    topics: Sequence[str] | None = None,
    settings: Mapping[str, str | None] | None = None,
    *,
    adopt: bool = False,
    validate_only: bool = False,
) -> list[TopicOutcome]:
    """Do this with a link, or with topics of it (None: all that it concerns). KafkaProblem."""
    request = AlterMirrorsRequest(
        action=action,
        link=link,
        topics=None if topics is None else list(topics),
        settings=[MirrorSettingData(name=name, value=value) for name, value in (settings or {}).items()],
        adopt=adopt,
        validate_only=validate_only,
    )
    answer: AlterMirrorsResponse = ask_controller(
        cluster, request, lambda got: [got.error_code], f"{action} the link {link}"
    )
    check(answer.error_code, answer.error_message)
    return [
        TopicOutcome(row.name, (row.error_message or f"error {row.error_code}") if row.error_code else "")
        for row in answer.topics
    ]


def describe_links(cluster: Cluster, names: Sequence[str] | None = None) -> list[Link]:
    """The links, with all partitions whose leaders answer. KafkaProblem."""
    request = DescribeMirrorsRequest(links=None if names is None else list(names))
    first: DescribeMirrorsResponse = ask_any(cluster, request, "read the links")
    check(first.error_code, first.error_message)
    answers = [first]
    for broker in metadata(cluster, []).brokers:
        told = ask_once(cluster, broker.node_id, request)
        if told is not None and not told.error_code:
            answers.append(told)
    return [_link(link, [each for answer in answers for each in answer.links]) for link in first.links]


def _link(link: LinkData, told: Sequence[LinkData]) -> Link:
    """One link, from what all brokers tell of it; the first one asked may lack a new topic."""
    same = [each for each in told if each.name == link.name]
    topics = {topic.name: topic for each in [*same[::-1], link] for topic in each.topics}
    problems = dict.fromkeys(each.problem for each in same if each.problem)
    return Link(
        link.name,
        {each.name: each.value for each in link.settings},
        tuple(_topic(topics[name], same) for name in sorted(topics)),
        tuple(problems),
        _groups(same),
    )


def _groups(told: Sequence[LinkData]) -> tuple[GroupOffset, ...]:
    rows = {
        (row.group_id, row.topic, row.partition): GroupOffset(
            row.group_id, row.topic, row.partition, row.source_offset, row.offset
        )
        for link in told
        for row in link.groups
    }
    return tuple(rows[key] for key in sorted(rows))


def _topic(topic: MirrorTopicData, told: Sequence[LinkData]) -> MirrorTopic:
    rows: dict[int, MirrorPartition] = {}
    for link in told:
        for each in link.topics:
            if each.name == topic.name:
                for row in each.partitions:
                    known = rows.get(row.partition)
                    rows[row.partition] = _partition(row) if known is None else _newer(known, _partition(row))
    return MirrorTopic(
        topic.name,
        topic.source,
        topic.state,
        topic.reason,
        topic.partition_count,
        tuple(topic.left),
        tuple(rows[index] for index in sorted(rows)),
    )


def _newer(known: MirrorPartition, other: MirrorPartition) -> MirrorPartition:
    return other if other.end_offset >= known.end_offset else known


def _partition(row: MirrorPartitionData) -> MirrorPartition:
    return MirrorPartition(
        row.partition,
        row.doing,
        row.problem,
        row.start_offset,
        row.end_offset,
        row.stable_offset,
        row.source_high_watermark,
        None if row.lost_seconds < 0 else row.lost_seconds,
        row.open_transactions,
        row.lost_records,
        row.missed_records,
    )
