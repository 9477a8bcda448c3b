"""What a failover costs, before it is made: what is lost, and what is aborted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from moldau.tools.commands.mirror.status import OVER, shown, worst
from moldau.tools.shared.errors import CommandError

if TYPE_CHECKING:
    from moldau.client.admin.mirrors import Link, MirrorTopic

COLUMNS = {
    "topic": "TOPIC",
    "partition": "PARTITION",
    "end": "LOG-END-OFFSET",
    "source_end": "SOURCE-END-OFFSET",
    "lost_records": "LOST-RECORDS",
    "would_lose": "WOULD-LOSE",
    "aborted": "ABORTED-TRANSACTIONS",
    "unread": "WITHHELD-RECORDS",
}
"""`unread`: records behind the last stable offset, of which those of aborted transactions stay unseen by
read_committed readers."""


def concerned(link: Link, topics: Sequence[str] | None) -> list[MirrorTopic]:
    """The topics that would be failed over. CommandError for one that the link does not have."""
    known = {each.name: each for each in link.topics}
    for name in topics or ():
        if name not in known:
            raise CommandError(f"the link {link.name} has no topic {name}")
    wanted = [known[name] for name in topics] if topics else list(link.topics)
    return [each for each in wanted if each.state not in OVER]


def costs(link: Link, topics: Sequence[str] | None) -> list[dict[str, Any]]:
    """A row for each partition: what a failover now would cost, by the source's last answers."""
    return [
        {
            "topic": topic.name,
            "partition": each.index,
            "end": each.end_offset,
            "source_end": None if each.source_end_offset < 0 else each.source_end_offset,
            "lost_records": each.behind,
            "would_lose": None if each.lost_seconds is None else round(each.lost_seconds, 1),
            "aborted": each.open_transactions,
            "unread": max(0, each.end_offset - each.stable_offset),
        }
        for topic in concerned(link, topics)
        for each in topic.partitions
    ]


def sentence(link: Link, rows: Sequence[dict[str, Any]]) -> str:
    """The whole in one sentence."""
    names = {row["topic"] for row in rows}
    if not names:
        return "Nothing is left to fail over."
    seconds, where = worst([each for each in link.topics if each.name in names])
    aborted = sum(row["aborted"] for row in rows)
    lost = "all that the source has written" if seconds is None else f"at most the last {shown(seconds)}"
    text = f"A failover now loses {lost} of what the source has written (held up by {where})"
    unknown = any(row["lost_records"] is None for row in rows)
    known = sum(row["lost_records"] or 0 for row in rows)
    text += "" if unknown else f", {known} records by its last answers"
    return f"{text}, and aborts {aborted} open transaction{'' if aborted == 1 else 's'}."
