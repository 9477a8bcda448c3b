"""The local form of `MarkerWriter`: markers for the partitions that this broker leads.

A marker for a partition of `__consumer_offsets` goes through the group coordinator, which orders it with the
offsets that it writes and applies or drops the pending ones. In every other partition it is an append. Each
partition's result is its error code once the marker is committed.

Used by this broker's transaction coordinator, and by WriteTxnMarkers for other brokers' coordinators. Not
here: partitions that other brokers lead (coordinator/cluster_markers.py).
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from moldau.broker.coordinator.markers import Marker, TopicPartition
from moldau.broker.metadata.image import GROUP_OFFSETS_TOPIC
from moldau.broker.replication.manager import ReplicaManager
from moldau.broker.replication.partition import Partition
from moldau.common.core.clock import Clock
from moldau.common.core.slow_lane import SlowLane
from moldau.common.protocol.errors import ErrorCode
from moldau.common.records.control import ControlType, EndTransactionMarker

if TYPE_CHECKING:
    from moldau.broker.coordinator.group.service import GroupCoordinator

_ANY_EPOCH = 2**31 - 1


class _CommitWaiter:
    """A marker that is appended and not yet committed."""

    __slots__ = ("future",)

    def __init__(self) -> None:
        self.future: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def settle(self, error_code: int, partition: Partition) -> None:
        if not self.future.done():
            self.future.set_result(error_code)


class LocalMarkers:
    """Writes markers to the partitions that this broker leads."""

    def __init__(
        self,
        node_id: int,
        replicas: ReplicaManager,
        groups: "Callable[[], GroupCoordinator]",
        clock: Clock,
        lane: SlowLane | None = None,
    ) -> None:
        self._lane = lane or SlowLane()
        self._node_id = node_id
        self._replicas = replicas
        self._groups = groups
        self._clock = clock

    async def write(
        self, marker: Marker, partitions: Sequence[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """Write `marker` to each of `partitions`; an error code for each, NONE once it is committed. For
        `timeout_ms` see `write_all`."""
        (codes,) = await self.write_all([(marker, partitions)], timeout_ms)
        return codes

    async def write_all(
        self,
        rows: Sequence[tuple[Marker, Sequence[TopicPartition]]],
        timeout_ms: int | None = None,
        coordinator_epoch_max: int = _ANY_EPOCH,
    ) -> list[dict[TopicPartition, int]]:
        """Write several markers, each to partitions of its own, as `write` does.

        What is not committed after `timeout_ms` is answered with an error; it may be committed later. Markers
        of a coordinator epoch above `coordinator_epoch_max` are refused with UNKNOWN_LEADER_EPOCH, unless the
        partition knows of such an epoch already.
        """
        # As many as fit into a slice are appended before anything is awaited, so that one write of the turn
        # carries them together.
        slices = self._lane.slices()
        outcomes: list[dict[TopicPartition, Any]] = []
        for marker, partitions in rows:
            appended: dict[TopicPartition, Any] = {}
            for each in dict.fromkeys(partitions):
                refusal = self._refusal(marker, *each, coordinator_epoch_max)
                appended[each] = refusal or self._append(marker, *each, timeout_ms)
                if slices.spent():
                    await slices.next_slice()
            outcomes.append(appended)
        return [
            {each: outcome if isinstance(outcome, int) else await outcome for each, outcome in row.items()}
            for row in outcomes
        ]

    def _refusal(self, marker: Marker, topic: str, index: int, coordinator_epoch_max: int) -> int:
        if marker.producer_id < 0 or marker.producer_epoch < 0:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if marker.coordinator_epoch <= coordinator_epoch_max:
            return 0
        partition = self._replicas.partition(topic, index)
        known = None if partition is None else partition.log.producers.states.get(marker.producer_id)
        if known is not None and marker.coordinator_epoch <= known.coordinator_epoch:
            return 0
        return ErrorCode.UNKNOWN_LEADER_EPOCH

    def _append(self, marker: Marker, topic: str, index: int, timeout_ms: int | None) -> Any:
        """The error code, or a future of it."""
        if topic == GROUP_OFFSETS_TOPIC:
            return self._groups().end_transaction(
                index,
                marker.producer_id,
                marker.producer_epoch,
                marker.coordinator_epoch,
                marker.committed,
                marker.transaction_version,
            )
        partition = self._replicas.partition(topic, index)
        if partition is None:
            return int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if partition.is_mirror and partition.leads:
            return 0  # no transaction of this cluster has written anything there
        kind = ControlType.COMMIT if marker.committed else ControlType.ABORT
        result = partition.append_marker(
            EndTransactionMarker(kind, marker.coordinator_epoch),
            marker.producer_id,
            marker.producer_epoch,
            self._clock.now_ms(),
            marker.transaction_version,
        )
        if result.error_code:
            return int(result.error_code)
        waiter = _CommitWaiter()
        partition.wait_for(result.last_offset + 1, waiter, timeout_ms=timeout_ms)
        return waiter.future
