"""Groups for `moldau groups`: chosen by name, and their offsets as rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from moldau.client.admin import groups
from moldau.client.admin.groups import Group, Listed, committed_offsets, end_offsets
from moldau.client.admin.layout import Place
from moldau.client.admin.share_groups import SHARE, find_share_group, share_offsets
from moldau.client.admin.topics import leaders
from moldau.tools.shared.admin import no_such_topic, select_names
from moldau.tools.shared.errors import CommandError, UsageError

if TYPE_CHECKING:
    from moldau.client.cluster import Cluster
    from moldau.tools.shared.connection import Connection

_DESCRIBED = ("", "classic", groups.CONSUMER)
"""Types of groups with members and offsets, and "" by brokers that tell no type."""


def list_groups(
    cluster: Cluster, states: Sequence[str] | None = None, kinds: Sequence[str] | None = None
) -> list[Listed]:
    """List groups by name: of all states and types unless some are given."""
    wanted_states = {part.strip().lower() for word in states or () for part in word.split(",")}
    wanted_kinds = {part.strip().lower() for word in kinds or () for part in word.split(",")}
    return sorted(
        each
        for each in groups.list_all_groups(cluster)
        if (not wanted_states or each.state.lower() in wanted_states)
        and (not wanted_kinds or each.type.lower() in wanted_kinds)
    )


def describe_groups(connection: Connection, patterns: Sequence[str] | None) -> list[Group]:
    """Describe the groups that match `patterns` (None: all), by name."""
    cluster = connection.cluster()
    listed = {
        each.group_id: each for each in list_groups(cluster) if each.type.lower() in (*_DESCRIBED, SHARE)
    }
    names = list(listed)
    if patterns:
        names = select_names(patterns, names, what="group", connection=connection)
    shares = [name for name in names if listed[name].type.lower() == SHARE]
    others = [listed[name] for name in names if name not in shares]
    found = [find_share_group(cluster, name) for name in shares]
    described = [*groups.describe_groups(cluster, others), *(each for each in found if each is not None)]
    return sorted(described, key=lambda each: each.group_id)


def share_group_ids(cluster: Cluster) -> frozenset[str]:
    """The share groups of the cluster."""
    return frozenset(each.group_id for each in list_groups(cluster) if each.type.lower() == SHARE)


def _share_rows(cluster: Cluster, group: Group) -> list[dict[str, Any]]:
    """A row for each partition in which a share group has begun: everything before its offset is done."""
    offsets = share_offsets(cluster, group.group_id)
    ends = end_offsets(cluster, [(each.topic, each.partition) for each in offsets])
    readers = Counter(place for member in group.members for place in member.assignment)
    rows = []
    for each in offsets:
        place = (each.topic, each.partition)
        count = readers[place]
        rows.append(
            {
                "group": group.group_id,
                "topic": each.topic,
                "partition": each.partition,
                "current_offset": each.start_offset,
                "log_end_offset": ends.get(place),
                "lag": each.lag,
                "consumer_id": None,
                "host": None,
                "client_id": None,
                "note": f"share group: {count} member{'' if count == 1 else 's'}",
            }
        )
    return rows


def offset_rows(cluster: Cluster, group: Group) -> list[dict[str, Any]]:
    """Return a row for each partition that the group committed or is assigned: offset, log end, lag,
    member.
    """
    if group.protocol_type == SHARE:
        return _share_rows(cluster, group)
    committed = committed_offsets(cluster, group.group_id)
    readers = {place: member for member in group.members for place in member.assignment}
    places = sorted(set(committed) | set(readers))
    ledger = {place for place, each in committed.items() if each.is_ledger}
    ends = end_offsets(cluster, [place for place in places if place not in ledger])
    rows = []
    for place in places:
        current = committed[place].offset if place in committed else None
        end, reader = ends.get(place), readers.get(place)
        rows.append(
            {
                "group": group.group_id,
                "topic": place[0],
                "partition": place[1],
                "current_offset": current,
                "log_end_offset": end,
                "lag": max(end - current, 0) if current is not None and end is not None else None,
                "consumer_id": reader.member_id if reader else None,
                "host": reader.host if reader else None,
                "client_id": reader.client_id if reader else None,
                "note": f"ledger of an exactly-once sink: micro-batch {current}" if place in ledger else None,
            }
        )
    return rows


def expand_topics(connection: Connection, words: Sequence[str]) -> list[Place]:
    """Turn TOPIC and TOPIC:0,1 into partitions. CommandError for a topic or partition that does not exist."""
    known = leaders(connection.cluster(), [word.partition(":")[0] for word in words])
    places: list[Place] = []
    for word in words:
        topic, colon, indexes = word.partition(":")
        existing = [index for name, index in known if name == topic]
        if not existing:
            raise no_such_topic(connection, topic)
        try:
            wanted = [int(index) for index in indexes.split(",")] if colon else existing
        except ValueError:
            raise UsageError(f"--topic {word!r} is not understood: write TOPIC or TOPIC:0,1,2") from None
        for index in wanted:
            if index not in existing:
                raise CommandError(f"{topic} has no partition {index}: it has {len(existing)}")
            places.append((topic, index))
    return places
