"""Groups: the list; the lag of one by partition with its course; its members."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from moldau.client.admin.groups import Committed, committed_offsets
from moldau.client.admin.layout import Place
from moldau.client.admin.problem import KafkaProblem
from moldau.services.console.facts.listing import Wanted, listed
from moldau.services.console.facts.snapshot import Ends, GroupFacts, Snapshot
from moldau.services.console.pages.call import Call
from moldau.services.console.pages.table import LIST, Data, Page, Parameter
from moldau.services.console.pages.why_behind import why_behind
from moldau.services.http.rights import Kind

_KEYS: dict[str, Callable[[GroupFacts], Any]] = {
    "name": lambda group: group.group_id,
    "state": lambda group: group.state,
    "members": lambda group: group.members,
    "topics": lambda group: None if group.topics is None else len(group.topics),
    "lag": lambda group: group.lag,
}
_GROUP_CHANGES = ("reset-offsets", "delete-group")
_ROWS_MAX = 5_000


async def groups(call: Call) -> Data:
    """See the page's row."""
    snapshot = await call.snapshot()
    wanted = Wanted.of(call.query, _KEYS)
    may = call.visible(Kind.GROUP)
    state = call.query.get("state", "")[:40]
    seen = [each for each in snapshot.groups.values() if may(each.group_id)]
    rows = [each for each in seen if state in ("", each.state)]
    found = listed(rows, wanted, _KEYS, lambda group: group.group_id)
    return {
        "rows": [_row(call, each) for each in found.rows],
        "known": snapshot.groups_known,
        "found": found.found,
        "total": len(seen),
        "page": found.page,
        "pages": found.pages,
        "size": wanted.size,
        "q": wanted.search,
        "sort": wanted.sort_text,
        "state": state,
        "states": sorted({each.state for each in seen}),
    }


def _row(call: Call, group: GroupFacts) -> dict[str, Any]:
    return {
        "group": group.group_id,
        "state": group.state,
        "type": group.type.lower(),
        "protocol_type": group.protocol_type,
        "members": group.members,
        "topics": None if group.topics is None else len(group.topics),
        "coordinator_id": group.coordinator_id,
        "lag": group.lag,
        "course": call.console.cluster.facts.lags.course(group.group_id),
    }


async def _head(call: Call, group: GroupFacts) -> dict[str, Any]:
    undo = call.console.undo.of_group(group.group_id)
    return {
        "group": _row(call, group),
        "actions": call.actions(_GROUP_CHANGES, group=group.group_id),
        "undo": [
            {"id": each.id, "at_ms": each.at_ms, "who": each.who, "done": each.done} for each in undo[:5]
        ],
    }


async def lag(call: Call) -> Data:
    """See the page's row."""
    group, snapshot = await call.group(), await call.snapshot()
    committed = await call.console.cluster.call(lambda cluster: committed_offsets(cluster, group.group_id))
    rows = lag_rows(group, committed, snapshot.ends)
    return {
        **await _head(call, group),
        "rows": rows[:_ROWS_MAX],
        "more": max(0, len(rows) - _ROWS_MAX),
        "by_topic": _by_topic(rows),
        "is_ledger": any(each.is_ledger for each in committed.values()),
        "lag": sum(row["lag"] or 0 for row in rows),
        "chart": call.console.cluster.facts.lags.course(group.group_id),
        "why": why_behind(group, rows, call.console.cluster.facts.lags.course(group.group_id)),
    }


def lag_rows(
    group: GroupFacts, committed: Mapping[Place, Committed], ends: Mapping[Place, Ends]
) -> list[dict[str, Any]]:
    """A row for each partition that the group has an offset of or a member for, the furthest behind first."""
    members = group.described.members if group.described is not None else ()
    owners = {place: member for member in members for place in member.assignment}
    rows: list[dict[str, Any]] = []
    for place in sorted({*committed, *owners}):
        known, owner, offset = ends.get(place), owners.get(place), committed.get(place)
        behind = None
        if known is not None and offset is not None:
            behind = max(0, known.end - offset.offset)
        elif known is not None:
            behind = known.end - known.start
        rows.append(
            {
                "topic": place[0],
                "partition": place[1],
                "committed": None if offset is None else offset.offset,
                "end": None if known is None else known.end,
                "start": None if known is None else known.start,
                "lag": behind,
                "lost": bool(known and offset and offset.offset < known.start),
                "client_id": "" if owner is None else owner.client_id,
                "host": "" if owner is None else owner.host.lstrip("/"),
                "member_id": "" if owner is None else owner.member_id,
            }
        )
    rows.sort(key=lambda row: (-(row["lag"] or 0), row["topic"], row["partition"]))
    return rows


def _by_topic(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        entry = found.setdefault(
            row["topic"], {"topic": row["topic"], "lag": 0, "partitions": 0, "unassigned": 0}
        )
        entry["lag"] += row["lag"] or 0
        entry["partitions"] += 1
        entry["unassigned"] += not row["member_id"]
    return sorted(found.values(), key=lambda entry: -entry["lag"])


async def members(call: Call) -> Data:
    """See the page's row."""
    group = await call.group()
    described = group.described
    rows = [
        {
            "member_id": each.member_id,
            "instance_id": each.instance_id,
            "client_id": each.client_id,
            "host": each.host.lstrip("/"),
            "epoch": each.epoch,
            "partitions": len(each.assignment),
            "assignment": _assignment(each.assignment),
            "moving": each.target is not None and each.target != each.assignment,
        }
        for each in (described.members if described is not None else ())
    ]
    return {
        **await _head(call, group),
        "assignor": described.assignor if described is not None else "",
        "epoch": described.epoch if described is not None else None,
        "members": rows,
    }


def _assignment(places: tuple[Place, ...]) -> list[dict[str, Any]]:
    topics: dict[str, list[int]] = {}
    for topic, index in places:
        topics.setdefault(topic, []).append(index)
    return [{"topic": topic, "partitions": ranges(indexes)} for topic, indexes in topics.items()]


def ranges(numbers: list[int]) -> str:
    """0-3, 7, 9-10"""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}–{b}" for a, b in parts)


def require(snapshot: Snapshot, group: str) -> GroupFacts:
    """A group of the snapshot. KafkaProblem."""
    found = snapshot.groups.get(group)
    if found is None:
        raise KafkaProblem(69, f"There is no group {group}.")
    return found


PAGES = (
    Page(
        "groups",
        "/groups",
        "groups.html",
        "groups",
        "The list of groups",
        groups,
        (*LIST, Parameter("state", "Only groups in this state.")),
    ),
    Page(
        "group-lag",
        "/groups/{group}/lag",
        "group_lag.html",
        "groups",
        "The lag of a group by partition, its course, and why it is behind",
        lag,
    ),
    Page(
        "group-members",
        "/groups/{group}/members",
        "group_members.html",
        "groups",
        "The members of a group",
        members,
    ),
)
