"""Before a source's tasks start, those of the set before cannot commit any more (KIP-618).

Each task has the transactional id `GROUP-CONNECTOR-NUMBER`. Its successor takes it over, and so fences it;
but where there are fewer tasks than before, or partitions went from one task to another, ids of the old set
must be fenced by somebody: the leader, before it writes how many ids the new set uses. Then its tasks may
start.
"""

from __future__ import annotations

from moldau.services.connect.stores.configs import fencing_record
from moldau.services.connect.stores.interface import Cluster, Stores


class Fencing:
    """The leader's side; blocks."""

    def __init__(self, group_id: str, stores: Stores, cluster: Cluster) -> None:
        self._group_id, self._stores, self._cluster = group_id, stores, cluster

    def fence(self, name: str) -> None:
        """Make way for the present tasks of a connector; nothing happens if there is nothing to fence.
        ClientError, NotWritten, LogFailed, TimeoutError."""
        self._stores.read_configs(30.0)
        state = self._stores.configs()
        if name not in state.connectors or name not in state.pending_fencing:
            return
        count = state.task_counts.get(name, 0)
        before = state.fenced_counts.get(name)
        if before is not None and not before == count == 1:
            self._cluster.fence(self._ids(name, before))
        self._stores.write_configs([fencing_record(name, count)], as_leader=True)

    def fence_all(self, name: str) -> None:
        """No task that ever ran can commit any more (before offsets are changed). ClientError."""
        count = self._stores.configs().fenced_counts.get(name, 0)
        if count:
            self._cluster.fence(self._ids(name, count))

    def _ids(self, name: str, count: int) -> list[str]:
        return [f"{self._group_id}-{name}-{index}" for index in range(count)]
