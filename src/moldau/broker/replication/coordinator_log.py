"""The partitions of coordinators as these see them: `CoordinatorLog` of coordinator/machine.py.

    append_records, append_marker ──> Partition.append ──> committed: the future is done
    all_committed ──> committed_records: every record, for a coordinator that loads

Each call names the leader epoch in which the coordinator was elected: with another one nothing is appended
and nothing read. Not here: what the records mean (coordinator/).
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence

from moldau.broker.coordinator.machine import EndedTransaction, Loaded, TransactionalRecord
from moldau.broker.coordinator.markers import Marker
from moldau.broker.coordinator.result import Producer
from moldau.broker.log.log import AppendResult, CorruptSegment, Origin
from moldau.broker.replication.partition import Partition
from moldau.common.core.clock import Clock
from moldau.common.protocol.errors import ErrorCode
from moldau.common.records.batch import BatchView, iter_batches
from moldau.common.records.builder import build_batch
from moldau.common.records.control import ControlType, EndTransactionMarker, parse_end_transaction_marker
from moldau.common.records.record import Record

_READ_BYTES = 1024 * 1024


class ReplicaError(Exception):
    """An append that will not be committed; `error_code` says why."""

    def __init__(self, error_code: int) -> None:
        super().__init__(f"error {error_code}")
        self.error_code = error_code


class _AppendWaiter:
    """A coordinator's append, waiting for the high watermark."""

    __slots__ = ("future",)

    def __init__(self, future: "asyncio.Future[None]") -> None:
        self.future = future

    def settle(self, error_code: int, partition: Partition) -> None:
        if self.future.done():
            return
        if error_code:
            self.future.set_exception(ReplicaError(error_code))
        else:
            self.future.set_result(None)


class ReplicatedLog:
    """Appends to the partitions that coordinators own, and reads them."""

    def __init__(self, partition: Callable[[str, int], Partition | None], clock: Clock) -> None:
        """`partition` finds one of this broker's partitions by its topic and index."""
        self._partition = partition
        self._clock = clock

    def append_records(
        self,
        topic: str,
        index: int,
        leader_epoch: int,
        records: Sequence[tuple[bytes | None, bytes | None]],
        producer: Producer | None = None,
    ) -> "asyncio.Future[None]":
        """Append `(key, value)` pairs as one batch, part of the producer's transaction if there is one; the
        future is done when they are committed.

        It fails with ReplicaError when they are refused or lost, or the leader epoch is another one.
        """
        now_ms = self._clock.now_ms()
        rows = [Record(i, now_ms, key, value, ()) for i, (key, value) in enumerate(records)]
        if producer is None:
            batch = build_batch(rows)
        else:
            batch = build_batch(
                rows,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                transactional=True,
            )
        return self._append(
            topic,
            index,
            leader_epoch,
            lambda partition: partition.append(memoryview(batch), now_ms, -1, Origin.COORDINATOR),
        )

    def append_marker(
        self, topic: str, index: int, leader_epoch: int, marker: Marker
    ) -> "asyncio.Future[None]":
        """Append the end of a producer's transaction; as `append_records`."""
        kind = ControlType.COMMIT if marker.committed else ControlType.ABORT
        return self._append(
            topic,
            index,
            leader_epoch,
            lambda partition: partition.append_marker(
                EndTransactionMarker(kind, marker.coordinator_epoch),
                marker.producer_id,
                marker.producer_epoch,
                self._clock.now_ms(),
                marker.transaction_version,
            ),
        )

    def _append(
        self, topic: str, index: int, leader_epoch: int, append: Callable[[Partition], AppendResult]
    ) -> "asyncio.Future[None]":
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        partition = self._led(topic, index, leader_epoch)
        if isinstance(partition, int):
            future.set_exception(ReplicaError(partition))
            return future
        result = append(partition)
        if result.error_code:
            future.set_exception(ReplicaError(result.error_code))
        else:
            partition.wait_for(result.last_offset + 1, _AppendWaiter(future))
        return future

    def _led(self, topic: str, index: int, leader_epoch: int) -> Partition | int:
        """The partition that a coordinator of this epoch writes and reads, or why it may not."""
        partition = self._partition(topic, index)
        if partition is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return partition.refusal(leader_epoch) or partition

    def extent(self, topic: str, index: int, leader_epoch: int) -> tuple[int, int] | None:
        """The log start and end offset; None if this broker does not lead in that epoch."""
        partition = self._led(topic, index, leader_epoch)
        if isinstance(partition, int):
            return None
        return partition.log.log_start_offset, partition.log.log_end_offset

    def delete_before(self, topic: str, index: int, leader_epoch: int, offset: int) -> None:
        """Delete what lies before `offset`, if this broker leads in that epoch."""
        partition = self._led(topic, index, leader_epoch)
        if not isinstance(partition, int):
            partition.delete_records(offset)

    def all_committed(self, topic: str, index: int, leader_epoch: int) -> "asyncio.Future[None]":
        """Done when all that is in the log now is committed; fails as `append_records` does."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        partition = self._led(topic, index, leader_epoch)
        if isinstance(partition, int):
            future.set_exception(ReplicaError(partition))
        else:
            partition.wait_for(partition.log.log_end_offset, _AppendWaiter(future))
        return future

    def committed_records(self, topic: str, index: int, leader_epoch: int) -> Iterator[Loaded]:
        """Every record of the partition from its start to its end: `(key, value)`, or what belongs to a
        transaction, or ends one. OFFSET_NOT_AVAILABLE until all of them are committed."""
        partition = self._led(topic, index, leader_epoch)
        if isinstance(partition, int):
            raise ReplicaError(partition)
        if partition.high_watermark < partition.log.log_end_offset:
            raise ReplicaError(ErrorCode.OFFSET_NOT_AVAILABLE)
        offset = partition.log.log_start_offset
        while offset < partition.high_watermark:
            try:
                data = partition.log.reader.read(
                    offset, _READ_BYTES, end_offset=partition.high_watermark, min_one_batch=True
                )
            except CorruptSegment as error:
                partition.log.note_damage(offset, error)
                raise ReplicaError(ErrorCode.CORRUPT_MESSAGE) from error
            if not data:
                return
            for batch in iter_batches(data):
                if batch.is_transactional:
                    yield from _transactional(batch, offset)
                elif not batch.is_control:
                    for record in batch.records():
                        if record.offset >= offset:
                            yield record.key, record.value
                last_offset = batch.last_offset
            offset = last_offset + 1


def _transactional(batch: BatchView, start_offset: int) -> Iterator[TransactionalRecord | EndedTransaction]:
    """The records of a transaction's batch, or the marker that ends it."""
    producer = Producer(batch.producer_id, batch.producer_epoch)
    for record in batch.records():
        if record.offset < start_offset:
            continue
        if not batch.is_control:
            yield TransactionalRecord(producer, record.key, record.value)
            continue
        marker = parse_end_transaction_marker(record)
        if marker is not None:
            yield EndedTransaction(batch.producer_id, marker.control_type is ControlType.COMMIT)
