"""Statuses as Burrow's JSON; what Burrow has not stands in fields of its own, which its clients ignore."""

from __future__ import annotations

from typing import Any

from moldau.services.lag.sentences import partition_sentence, sentence
from moldau.services.lag.store import Detail, GroupStatus, PartitionStatus
from moldau.services.lag.verdicts import Commit, Verdict


def commit_document(commit: Commit | None) -> dict[str, Any] | None:
    """One commit."""
    if commit is None:
        return None
    return {
        "offset": commit.offset,
        "timestamp": commit.timestamp_ms,
        "observedAt": commit.observed_ms,
        "lag": commit.lag,
    }


def partition_document(status: PartitionStatus, now_ms: int) -> dict[str, Any]:
    """One partition of a group."""
    return {
        "topic": status.topic,
        "partition": status.partition,
        "owner": status.owner,
        "client_id": status.client_id,
        "status": status.verdict.name,
        "start": commit_document(status.start),
        "end": commit_document(status.end),
        "current_lag": status.lag,
        "complete": status.complete,
        "lag_seconds": status.lag_seconds,
        "seconds_to_end": status.seconds_to_end,
        "sentence": partition_sentence(status, now_ms),
    }


def group_document(status: GroupStatus, now_ms: int, *, all_partitions: bool) -> dict[str, Any]:
    """A group; of its partitions those from WARN on, or all."""
    worst = status.worst
    return {
        "cluster": status.cluster,
        "group": status.group,
        "status": status.verdict.name,
        "complete": status.complete,
        "partitions": [
            partition_document(each, now_ms)
            for each in status.partitions
            if all_partitions or each.verdict > Verdict.OK
        ],
        "partition_count": len(status.partitions),
        "maxlag": None if worst is None else partition_document(worst, now_ms),
        "totallag": status.total_lag,
        "lag_seconds": status.lag_seconds,
        "sentence": sentence(status, now_ms),
    }


def not_found_document(cluster: str, group: str) -> dict[str, Any]:
    """A group that is not known."""
    return {
        "cluster": cluster,
        "group": group,
        "status": Verdict.NOTFOUND.name,
        "complete": 1.0,
        "partitions": [],
        "partition_count": 0,
        "maxlag": None,
        "totallag": 0,
    }


def detail_document(partitions: dict[int, Detail]) -> list[dict[str, Any]]:
    """The windows of a topic, a row a partition from 0 on; places of the window that are not filled are null
    and come first."""
    rows = []
    for index in range(max(partitions, default=-1) + 1):
        each = partitions.get(index, Detail((), 0, "", "", 0))
        empty: list[dict[str, Any] | None] = [None] * (each.size - len(each.commits))
        rows.append(
            {
                "offsets": empty + [commit_document(commit) for commit in each.commits],
                "owner": each.owner,
                "client_id": each.client_id,
                "current-lag": each.lag,
            }
        )
    return rows
