"""What `moldau mirror status` shows of links: one number a link first, then topics, then partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moldau.client.admin.mirrors import Link, MirrorPartition, MirrorTopic

OVER = ("failed-over", "failing-over")
PULLED = ("preparing", "mirroring")
TOPIC_COLUMNS = {
    "topic": "TOPIC",
    "source": "SOURCE",
    "state": "STATE",
    "partitions": "PARTITIONS",
    "behind": "BEHIND",
    "would_lose": "WOULD-LOSE",
    "reason": "REASON",
}
PARTITION_COLUMNS = {
    "topic": "TOPIC",
    "partition": "PARTITION",
    "doing": "DOING",
    "start": "LOG-START-OFFSET",
    "end": "LOG-END-OFFSET",
    "source_end": "SOURCE-END-OFFSET",
    "behind": "BEHIND",
    "would_lose": "WOULD-LOSE",
    "open_transactions": "OPEN-TRANSACTIONS",
    "lost": "LOST",
    "missed": "MISSED",
    "problem": "PROBLEM",
}


GROUP_COLUMNS = {
    "group": "GROUP",
    "topic": "TOPIC",
    "partition": "PARTITION",
    "source_offset": "SOURCE-OFFSET",
    "offset": "OFFSET-HERE",
    "again": "READS-AGAIN",
}


def group_rows(link: Link) -> Iterator[dict[str, Any]]:
    """A row for each partition of which a group has a committed offset at the source."""
    for each in link.groups:
        yield {
            "group": each.group,
            "topic": each.topic,
            "partition": each.partition,
            "source_offset": each.source_offset,
            "offset": None if each.offset < 0 else each.offset,
            "again": each.again,
        }


def worst(topics: Sequence[MirrorTopic]) -> tuple[float | None, str]:
    """The seconds that would be lost now, and the partition that holds it up. None: some partition never had
    all that its source had, or is not told of."""
    seconds, where = 0.0, ""
    for topic in topics:
        told = {each.index: each for each in topic.partitions}
        for index in range(topic.partition_count):
            each = told.get(index)
            if each is None or each.lost_seconds is None:
                return None, f"{topic.name}-{index}"
            if each.lost_seconds >= seconds:
                seconds, where = each.lost_seconds, f"{topic.name}-{index}"
    return seconds, where


def summary(link: Link) -> str:
    """The one line of a link."""
    mirrored = [each for each in link.topics if each.state not in OVER]
    if not mirrored:
        return f"{link.name}: mirrors no topic"
    seconds, where = worst(mirrored)
    count = f"{len(mirrored)} topic{'s' if len(mirrored) > 1 else ''}"
    if seconds is None:
        return f"{link.name}: {count}; {where} never had all that its source has"
    return f"{link.name}: {count}; a failover now would lose at most {shown(seconds)}, held up by {where}"


def shown(seconds: float | None) -> str:
    """Seconds for people."""
    return "everything" if seconds is None else f"{seconds:.1f} s"


def topic_rows(link: Link) -> Iterator[dict[str, Any]]:
    """A row a topic."""
    for topic in link.topics:
        over = topic.state in OVER
        seconds, _ = worst([topic])
        known = [each.behind for each in topic.partitions if each.behind is not None]
        whole = len(known) == topic.partition_count
        yield {
            "topic": topic.name,
            "source": topic.source,
            "state": topic.state,
            "partitions": topic.partition_count,
            "behind": sum(known) if whole and not over else None,
            "would_lose": None if over else shown(seconds),
            "reason": topic.reason or next((each.problem for each in topic.partitions if each.problem), None),
        }


def partition_rows(link: Link) -> Iterator[dict[str, Any]]:
    """A row a partition."""
    for topic in link.topics:
        for each in topic.partitions:
            yield partition_row(topic, each)


def partition_row(topic: MirrorTopic, each: MirrorPartition) -> dict[str, Any]:
    """One partition."""
    return {
        "topic": topic.name,
        "partition": each.index,
        "doing": each.doing or topic.state,
        "start": each.start_offset,
        "end": each.end_offset,
        "source_end": None if each.source_end_offset < 0 else each.source_end_offset,
        "behind": each.behind,
        "would_lose": None if topic.state in OVER else shown(each.lost_seconds),
        "open_transactions": each.open_transactions,
        "lost": each.lost_records,
        "missed": each.missed_records,
        "problem": each.problem or None,
    }


def as_json(link: Link) -> dict[str, Any]:
    """A link for programs; seconds are numbers, null where everything would be lost."""
    mirrored = [each for each in link.topics if each.state not in OVER]
    seconds, where = worst(mirrored)
    return {
        "link": link.name,
        "would_lose_seconds": seconds,
        "held_up_by": where or None,
        "settings": dict(link.settings),
        "problems": list(link.problems),
        "groups": list(group_rows(link)),
        "topics": [
            {
                "topic": topic.name,
                "source": topic.source,
                "state": topic.state,
                "reason": topic.reason or None,
                "partitions": [
                    {**partition_row(topic, each), "would_lose": each.lost_seconds}
                    for each in topic.partitions
                ],
            }
            for topic in link.topics
        ],
    }
