"""Changes of groups: reset offsets, undo a reset, delete.

A group's offsets can be changed only while it has no members: brokers refuse it else, and so does the plan,
with the members' names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import quote

from moldau.client.admin.groups import (
    Committed,
    Group,
    committed_offsets,
    delete_committed_offsets,
    delete_groups,
    describe_group,
)
from moldau.client.admin.layout import Place
from moldau.client.admin.problem import KafkaProblem
from moldau.client.offsets import EARLIEST, LATEST
from moldau.common.protocol.errors import ErrorCode
from moldau.services.console.changes.change import Change, Done, Field, Plan, Refused, Target, Values
from moldau.services.console.changes.undo import Undo
from moldau.services.http.rights import Kind, Operation

if TYPE_CHECKING:
    from moldau.client.cluster import Cluster
    from moldau.services.console.cluster import ClusterAccess

WAYS = (
    ("earliest", "To the first record"),
    ("latest", "To the end: only new records"),
    ("moment", "To a moment (UTC)"),
    ("ago", "To so many minutes ago"),
    ("offset", "To an offset"),
    ("shift", "Forward or back by so many"),
)
_MEMBERS_NAMED = 5
_ROWS_MAX = 5_000


def group_link(group: str, page: str = "lag") -> str:
    """The path of a group's page."""
    return f"/groups/{quote(group, safe='')}/{page}"


class GroupChanges:
    """The changes, with the cluster that they are made in."""

    def __init__(self, access: ClusterAccess, undo: Undo) -> None:
        self._access = access
        self._undo = undo

    def all(self) -> list[Change]:
        """The table of them."""
        at = "/groups/{group}"
        return [
            Change(
                "reset-offsets",
                f"{at}/reset",
                "Reset offsets",
                "Move what a group reads next; the group must have no members. Can be undone for a day.",
                Operation.WRITE,
                Kind.GROUP,
                "group",
                self._plan_reset,
                self._reset,
                (
                    Field(
                        "topic",
                        "Topic",
                        help="Empty: all topics that the group has offsets of.",
                        must_be_named=True,
                    ),
                    Field("partitions", "Partitions", help="Such as 0,2,5; empty: all."),
                    Field("way", "Where to", "choice", choices=WAYS, default="earliest", must_be_named=True),
                    Field(
                        "value",
                        "Moment, minutes, offset or number",
                        help="2026-02-14T09:00 · 90 · 812 · -100",
                    ),
                ),
                back=f"{at}/lag",
            ),
            Change(
                "undo-reset",
                f"{at}/undo",
                "Undo a reset",
                "Give a group back the offsets that it had before a reset of the last day.",
                Operation.WRITE,
                Kind.GROUP,
                "group",
                self._plan_undo,
                self._take_back,
                (Field("id", "Which", required=True),),
                back=f"{at}/lag",
            ),
            Change(
                "delete-group",
                f"{at}/delete",
                "Delete group",
                "Delete a group without members, with its offsets.",
                Operation.DELETE,
                Kind.GROUP,
                "group",
                self._plan_delete,
                self._delete,
                back=f"{at}/lag",
            ),
        ]

    # -- reset ------------------------------------------------------------------------------------------

    async def _plan_reset(self, target: Target, values: Values) -> Plan:
        group = target["group"]
        way, value = values.get("way", "earliest"), values.get("value", "").strip()
        if way not in dict(WAYS):
            raise Refused(f"{way[:40]} is no way: there are {', '.join(dict(WAYS))}.", "way")
        wanted = _wanted_value(way, value)
        places = await self._places(values)

        def ask(cluster: Cluster) -> list[tuple[Place, int | None, int, int, int]]:
            _require_no_members(_described(cluster, group))
            committed = _positions(committed_offsets(cluster, group))
            chosen = _chosen(places, committed, values)
            return _planned(cluster, chosen, committed, way, wanted)

        rows = await self._access.call(ask)
        if not rows:
            raise Refused(f"{group} has no offsets to reset: name a topic.", "topic")
        changed = [row for row in rows if row[1] != row[2]]
        table = [
            (f"{place[0]}-{place[1]}", before, after, _step(before, after), f"{low:,} – {high:,}")
            for place, before, after, low, high in rows[:_ROWS_MAX]
        ]
        lines = [f"{group} reads on from the offsets below (partitions: {len(rows)})."]
        again = sum(max(0, before - after) for _, before, after, _, _ in rows if before is not None)
        skipped = sum(max(0, after - before) for _, before, after, _, _ in rows if before is not None)
        if again:
            lines.append(f"About {again:,} records are read again.")
        if skipped:
            lines.append(f"About {skipped:,} records are never read by this group.")
        if not changed:
            raise Refused("Nothing would change: these are the group's offsets already.", "value")
        work = {"offsets": [[*place, after] for place, _, after, _, _ in changed]}
        same = [way, wanted, [list(row[0]) for row in rows]] if way in ("earliest", "latest", "ago") else None
        return Plan(
            f"Reset offsets of {group}",
            lines,
            "Reset offsets",
            work,
            (),
            ("Partition", "Now", "Then", "Step", "The log holds"),
            table,
            identity=same,
        )

    async def _places(self, values: Values) -> list[Place]:
        """The partitions that the form names; none: those of the group."""
        topic = values.get("topic", "").strip()
        if not topic:
            if values.get("partitions", "").strip():
                raise Refused("Name the topic, too.", "topic")
            return []
        known = {each.partition_id for each in (await self._access.topic(topic)).partitions}
        text = values.get("partitions", "").strip()
        if not text:
            return [(topic, each) for each in sorted(known)]
        found = []
        for part in text.split(","):
            if not part.strip().isdigit() or int(part.strip()[:9]) not in known:
                raise Refused(f"{topic} has no partition {part.strip()[:20]}.", "partitions")
            found.append((topic, int(part.strip())))
        return found

    async def _reset(self, target: Target, plan: Plan) -> Done:
        group = target["group"]
        moved = {(topic, index): offset for topic, index, offset in plan.work["offsets"]}
        before = _positions(await self._access.call(lambda cluster: committed_offsets(cluster, group)))
        old = {place: before[place] for place in moved if place in before}
        added = tuple(place for place in moved if place not in before)
        kept = self._undo.keep(group, self._access.who(), plan.title, old, added)
        await self._access.call(lambda cluster: cluster.commit_offsets(group, moved))
        await self._access.facts.refreshed()
        undo_at = group_link(group, "undo")
        return Done(f"The offsets of {group} were reset.", group_link(group), kept.id, undo_at)

    # -- undo -------------------------------------------------------------------------------------------

    async def _plan_undo(self, target: Target, values: Values) -> Plan:
        group = target["group"]
        kept = self._undo.find(values.get("id", "").strip())
        if kept is None or kept.group != group:
            raise Refused("There is nothing to undo by that name: offsets are kept for a day.", "id")

        def ask(cluster: Cluster) -> dict[Place, int]:
            _require_no_members(_described(cluster, group))
            return _positions(committed_offsets(cluster, group))

        now = await self._access.call(ask)
        table: list[tuple[str, int | None, int | str]] = [
            (f"{topic}-{index}", now.get((topic, index)), offset)
            for (topic, index), offset in kept.offsets.items()
        ]
        table += [(f"{topic}-{index}", now.get((topic, index)), "none") for topic, index in kept.added]
        lines = [f"{group} gets back the offsets that it had before: {kept.done}."]
        work = {
            "offsets": [[*place, offset] for place, offset in kept.offsets.items()],
            "removed": [list(place) for place in kept.added],
        }
        return Plan(
            f"Undo the reset of {group}", lines, "Undo", work, (), ("Partition", "Now", "Then"), table
        )

    async def _take_back(self, target: Target, plan: Plan) -> Done:
        group = target["group"]
        moved = {(topic, index): offset for topic, index, offset in plan.work["offsets"]}
        removed = [(topic, index) for topic, index in plan.work["removed"]]
        before = _positions(await self._access.call(lambda cluster: committed_offsets(cluster, group)))
        self._undo.keep(group, self._access.who(), plan.title, before)

        def put_back(cluster: Cluster) -> None:
            if moved:
                cluster.commit_offsets(group, moved)
            if removed:
                delete_committed_offsets(cluster, group, removed)

        await self._access.call(put_back)
        await self._access.facts.refreshed()
        return Done(f"{group} has its offsets back.", group_link(group))

    # -- delete -----------------------------------------------------------------------------------------

    async def _plan_delete(self, target: Target, values: Values) -> Plan:
        group = target["group"]

        def ask(cluster: Cluster) -> dict[Place, int]:
            _require_no_members(_described(cluster, group, required=True))
            return _positions(committed_offsets(cluster, group))

        committed = await self._access.call(ask)
        lines = [f"Group {group} is deleted, with its offsets (of partitions: {len(committed)})."]
        warnings = ["Should it come back, it begins where its members' auto.offset.reset says."]
        return Plan(f"Delete {group}", lines, "Delete group", {}, warnings, dangerous=True)

    async def _delete(self, target: Target, plan: Plan) -> Done:
        group = target["group"]
        before = _positions(await self._access.call(lambda cluster: committed_offsets(cluster, group)))
        kept = self._undo.keep(group, self._access.who(), plan.title, before)
        codes = await self._access.call(lambda cluster: delete_groups(cluster, [group]))
        if codes.get(group):
            raise KafkaProblem(codes[group])
        await self._access.facts.refreshed()
        undo = kept.id if before else ""
        return Done(f"Group {group} was deleted.", "/groups", undo, group_link(group, "undo"))


def _described(cluster: Cluster, group: str, *, required: bool = False) -> Group | None:
    try:
        return describe_group(cluster, group)
    except KafkaProblem as problem:
        if problem.error_code == ErrorCode.GROUP_ID_NOT_FOUND and not required:
            return None  # it may be given offsets before it first reads
        raise


def _require_no_members(group: Group | None) -> None:
    if group is None or not group.members:
        return
    named = ", ".join(
        f"{each.client_id} on {each.host.lstrip('/')}" for each in group.members[:_MEMBERS_NAMED]
    )
    more = f" and {len(group.members) - _MEMBERS_NAMED} more" if len(group.members) > _MEMBERS_NAMED else ""
    raise Refused(
        f"{group.group_id} is read by {named}{more}. "
        "Stop them first: offsets can be changed only while a group has none."
    )


def _positions(committed: Mapping[Place, Committed]) -> dict[Place, int]:
    if any(each.is_ledger for each in committed.values()):
        raise Refused(
            "The offsets of this group are the ledger of an exactly-once Spark sink: numbers of "
            "micro-batches, "
            "not positions. Changing them would make it write a batch twice."
        )
    return {place: each.offset for place, each in committed.items()}


def _chosen(places: list[Place], committed: Iterable[Place], values: Values) -> list[Place]:
    return places if values.get("topic", "").strip() else list(committed)


def _wanted_value(way: str, text: str) -> int:
    if way in ("earliest", "latest"):
        return 0
    if way == "moment":
        try:
            moment = datetime.fromisoformat(text)
            return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
        except (ValueError, OverflowError):
            raise Refused(f"{text[:40]!r} is no moment: write it as 2026-02-14T09:00.", "value") from None
    try:
        number = int(text) if len(text) < 20 else None
    except ValueError:
        number = None
    if number is None or (way != "shift" and number < 0):
        raise Refused(f"{text[:40]!r} is no number.", "value")
    return number


def _planned(
    cluster: Cluster, places: list[Place], committed: Mapping[Place, int], way: str, wanted: int
) -> list[tuple[Place, int | None, int, int, int]]:
    """Partition, offset now, offset then, and what the log holds."""
    import time

    if not places:
        return []
    lows = cluster.offsets(dict.fromkeys(places, EARLIEST))
    highs = cluster.offsets(dict.fromkeys(places, LATEST))
    moments: dict[Place, int] = {}
    if way in ("moment", "ago"):
        since = wanted if way == "moment" else time.time_ns() // 1_000_000 - wanted * 60_000
        moments = cluster.offsets(dict.fromkeys(places, max(0, since)))
    rows = []
    for place in places:
        now = committed.get(place)
        aim = {
            "earliest": lows[place],
            "latest": highs[place],
            "offset": wanted,
            "shift": (highs[place] if now is None else now) + wanted,
        }.get(way, highs[place] if moments.get(place, -1) < 0 else moments.get(place, 0))
        rows.append((place, now, min(max(aim, lows[place]), highs[place]), lows[place], highs[place]))
    return rows


def _step(before: int | None, after: int) -> str:
    if before is None:
        return "new"
    return "stays" if before == after else f"{after - before:+,}"
