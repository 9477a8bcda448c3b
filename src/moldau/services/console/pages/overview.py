"""The first page: the verdict and its cause, then what happened, then figures."""

from __future__ import annotations

from typing import Any

from moldau.services.console.facts.collector import ALL_TOPICS
from moldau.services.console.facts.snapshot import Snapshot
from moldau.services.console.pages.call import Call
from moldau.services.console.pages.table import Data, Page
from moldau.services.http.rights import Kind, Operation

_SHOWN = 8
_EVENTS = 12


async def overview(call: Call) -> Data:
    """See the page's row."""
    snapshot = await call.snapshot()
    facts = call.console.cluster.facts
    verdict = facts.verdict(snapshot)
    return {
        "verdict": verdict.word,
        "source": verdict.source,
        "causes": [each._asdict() for each in verdict.causes],
        "cluster": cluster_json(call, snapshot),
        "in_per_second": snapshot.per_second,
        "in_course": facts.ends.rates(ALL_TOPICS),
        "busiest": busiest(call, snapshot),
        "behind": behind(call, snapshot),
        "events": events(call, _EVENTS),
    }


def cluster_json(call: Call, snapshot: Snapshot) -> dict[str, Any]:
    """The figures of a cluster."""
    return {
        "cluster_id": snapshot.cluster_id,
        "bootstrap_servers": call.console.cluster.bootstrap_servers,
        "controller_id": snapshot.controller_id,
        "brokers": len(snapshot.brokers),
        "topics": len(snapshot.topics),
        "partitions": snapshot.partition_count,
        "under_replicated": len(snapshot.under_replicated),
        "offline": len(snapshot.offline),
        "groups": len(snapshot.groups) if snapshot.groups_known else None,
        "size_bytes": snapshot.size_bytes,
        "taken_at_ms": snapshot.taken_at_ms,
    }


def busiest(call: Call, snapshot: Snapshot) -> list[dict[str, Any]]:
    """The topics with most records a second."""
    may = call.visible(Kind.TOPIC)
    found = [each for each in snapshot.topics.values() if each.per_second and may(each.name)]
    found.sort(key=lambda each: -(each.per_second or 0))
    facts = call.console.cluster.facts
    return [
        {"name": each.name, "per_second": each.per_second, "course": facts.ends.rates(each.name)}
        for each in found[:_SHOWN]
    ]


def behind(call: Call, snapshot: Snapshot) -> list[dict[str, Any]]:
    """The groups with most lag."""
    may = call.visible(Kind.GROUP)
    found = [each for each in snapshot.groups.values() if each.lag and may(each.group_id)]
    found.sort(key=lambda each: -(each.lag or 0))
    facts = call.console.cluster.facts
    return [
        {
            "group": each.group_id,
            "lag": each.lag,
            "members": each.members,
            "course": facts.lags.course(each.group_id),
        }
        for each in found[:_SHOWN]
    ]


def events(call: Call, count: int | None = None) -> list[dict[str, Any]]:
    """What happened: it names everybody's topics and groups, so only for those who may see the cluster."""
    if not call.may(Operation.READ, Kind.CLUSTER, "kafka"):
        return []
    found = call.console.cluster.facts.timeline.newest()
    return [each._asdict() for each in found[:count]]


async def timeline(call: Call) -> Data:
    """See the page's row."""
    return {"events": events(call)}


PAGES = (
    Page(
        "overview",
        "/",
        "overview.html",
        "overview",
        "How the cluster is and why, what happened, the busiest topics, the groups that are furthest behind",
        overview,
    ),
    Page("timeline", "/timeline", "timeline.html", "overview", "What happened, the newest first", timeline),
)
