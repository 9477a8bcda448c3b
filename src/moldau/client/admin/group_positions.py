"""What many groups have committed, many in a request (OffsetFetch from version 8 on).

For lists of groups: a request a group would be thousands. Brokers before version 8 are asked group by group.
Not here: one group with all that belongs to it (groups.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from moldau.client.admin.groups import Listed, Place, committed_offsets
from moldau.client.admin.problem import KafkaProblem
from moldau.client.cluster import Cluster
from moldau.client.errors import ClientError
from moldau.common.core.sink_ledger import is_sink_ledger
from moldau.common.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

GROUPS_AT_ONCE = 100
_MANY = 8
_BY_NAME = 9


def positions_of_groups(cluster: Cluster, listed: Iterable[Listed]) -> dict[str, dict[Place, int]]:
    """The committed offsets of groups by id; a group that moves or may not be seen now is left out, and so
    are a Spark sink's micro-batch numbers, which are no positions."""
    found: dict[str, dict[Place, int]] = {}
    names: dict[int, list[str]] = defaultdict(list)
    for each in listed:
        names[each.coordinator_id].append(each.group_id)
    for broker_id, groups in sorted(names.items()):
        for start in range(0, len(groups), GROUPS_AT_ONCE):
            found |= _of_broker(cluster, broker_id, groups[start : start + GROUPS_AT_ONCE])
    return found


def _of_broker(cluster: Cluster, broker_id: int, groups: Sequence[str]) -> dict[str, dict[Place, int]]:
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=each, topics=None) for each in groups]
    )

    def ask(connection: Any) -> Any:
        if connection.version_of(OffsetFetchRequest, _BY_NAME) < _MANY:
            return None
        return connection.ask(request, at_most=_BY_NAME)

    answer = cluster.persist(
        f"read the offsets of {len(groups)} groups", lambda: ask(cluster.broker(broker_id))
    )
    if answer is None:
        return _one_by_one(cluster, groups)
    return {
        group.group_id: {
            (topic.name, each.partition_index): each.committed_offset
            for topic in group.topics
            for each in topic.partitions
            if not each.error_code and each.committed_offset >= 0 and not is_sink_ledger(each.metadata)
        }
        for group in answer.groups
        if not group.error_code
    }


def _one_by_one(cluster: Cluster, groups: Sequence[str]) -> dict[str, dict[Place, int]]:
    found = {}
    for each in groups:
        try:
            committed = committed_offsets(cluster, each)
        except (KafkaProblem, ClientError):
            continue
        found[each] = {place: row.offset for place, row in committed.items() if not row.is_ledger}
    return found
