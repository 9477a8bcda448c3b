"""Decides for one batch whether it stays as it is, loses records, stays without records, or goes.

| | records that go |
| --- | --- |
| aborted, below the map's end | all |
| data, below the map's end | with a later record of their key; without a key; tombstones past their horizon |
| control, below the map's end | a marker of whose transaction no batch is left, past its horizon |
| anything from the map's end on | none: the next round looks at it, or it is not decided yet |

A batch without records stays where its header is still needed: the last batch of a live producer
holds the sequence number that must be expected next; the round's last batch holds the offset at which the log
goes on. (Behind the map's end all stays also so that gaps lie only where the log is known to be clean.) A
marker that is needed for one of these stays whole, because without its record it says nothing.

A tombstone's delete horizon is set by the round that covers it: from then on a consumer that begins at offset
0 finds no older value, and one that began before has delete.retention.ms to reach the tombstone. (Kafka also
sets it on batches behind the map's end, which a reader may then miss.)
"""

from moldau.broker.log.compaction.job import NO_DATA_OFFSET, CleanJob, LastRecord
from moldau.broker.log.compaction.kernel import Kernel, KeyMap
from moldau.broker.log.compaction.offset_map import GONE, LATEST, LATEST_TOMBSTONE
from moldau.broker.log.compaction.rewrite import Payload, keep_none, keep_some, with_payload
from moldau.broker.log.compaction.source import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    COUNT,
    LAST_OFFSET_DELTA,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    Batch,
)
from moldau.broker.log.compaction.transactions import AbortedRanges, Markers
from moldau.broker.log.state.transaction_index import AbortedTransaction
from moldau.common.core.files import Buffer
from moldau.common.records.batch import CONTROL, DELETE_HORIZON

_WITHOUT_TOMBSTONES = bytes.maketrans(bytes([LATEST_TOMBSTONE]), bytes([GONE]))


class BatchFilter:
    """One job's decisions; to be given every batch of the sources, in order."""

    def __init__(self, job: CleanJob, kernel: Kernel, keys: KeyMap, map_end_offset: int) -> None:
        """`keys`, a map of the kernel, covers [job.first_dirty_offset, map_end_offset)."""
        self._kernel = kernel
        self._keys = keys
        self._map_start = job.first_dirty_offset
        self._map_end = map_end_offset
        self._window_end = min(keys.window_end, map_end_offset)
        self._end = job.first_uncleanable_offset
        self._now_ms = job.now_ms
        self._horizon_ms = job.now_ms + job.delete_retention_ms
        self._aborted = AbortedRanges(job.aborted)
        self._markers = Markers(self._aborted)
        self._last_records: dict[int, LastRecord] = {last.producer_id: last for last in job.last_records}
        self.aborted_entry: AbortedTransaction | None = None
        """What the transaction index needs for the batch that was judged last."""
        self.records_out = 0

    def judge(self, batch: Batch) -> Buffer | None:
        """The bytes that stay of the batch, if any. CorruptBatch when it cannot be understood."""
        header = batch[0]
        self.aborted_entry = None
        last_offset = header[BASE_OFFSET] + header[LAST_OFFSET_DELTA]
        if header[ATTRIBUTES] & CONTROL:
            return self._judge_control(batch, last_offset)
        self._markers.data_seen(header)
        if last_offset >= self._end:
            return self._whole(batch)
        if last_offset < self._map_end and self._aborted.contains(header):
            return self._empty(batch, last_offset)
        return self._judge_data(batch, last_offset)

    def _whole(self, batch: Batch) -> memoryview:
        header, data, start, end = batch
        self.records_out += header[COUNT]
        return memoryview(data)[start:end]

    def _empty(self, batch: Batch, last_offset: int) -> Buffer | None:
        """Nothing in the batch stays: a shell of it, where that is needed."""
        header = batch[0]
        last = self._last_records.get(header[PRODUCER_ID])
        if last_offset + 1 != self._end and (last is None or last.last_data_offset != last_offset):
            return None
        return keep_none(batch) if header[COUNT] else self._whole(batch)

    # -- data --------------------------------------------------------------------------------------

    def _judge_data(self, batch: Batch, last_offset: int) -> Buffer | None:
        header = batch[0]
        base_offset, count = header[BASE_OFFSET], header[COUNT]
        if base_offset >= self._map_end:
            return self._whole(batch)
        covered = last_offset < self._map_end
        has_horizon = bool(header[ATTRIBUTES] & DELETE_HORIZON)
        horizon_is_due = covered and not has_horizon
        tombstones_go = covered and has_horizon and header[BASE_TIMESTAMP] <= self._now_ms
        in_window = self._map_start <= base_offset and last_offset < self._window_end
        if in_window:
            window = self._keys.window
            first, stop = base_offset - self._map_start, last_offset + 1 - self._map_start
            latest = window.count(LATEST, first, stop)
            tombstones = window.count(LATEST_TOMBSTONE, first, stop)
            remaining = latest if tombstones_go else latest + tombstones
            if not remaining:
                return self._empty(batch, last_offset)
            if remaining == count and not (tombstones and horizon_is_due):
                return self._whole(batch)

        def judge(payload: Payload) -> Buffer | None:
            return self._judge_records(batch, payload, in_window, horizon_is_due, tombstones_go)

        return with_payload(batch, self._kernel.as_payload, judge)

    def _judge_records(
        self, batch: Batch, payload: Payload, in_window: bool, horizon_is_due: bool, tombstones_go: bool
    ) -> Buffer | None:
        header, kernel = batch[0], self._kernel
        count = header[COUNT]
        place = (*payload, count, header[BASE_OFFSET], header[LAST_OFFSET_DELTA])
        if in_window:
            verdicts = kernel.verdicts_by_offset(self._keys.window, self._map_start, *place)
        else:
            verdicts = kernel.judge_keys(self._keys, *place, self._map_end)
        if tombstones_go:
            verdicts = verdicts.translate(_WITHOUT_TOMBSTONES)
        remaining = count - verdicts.count(GONE)
        if not remaining:
            return self._empty(batch, header[BASE_OFFSET] + header[LAST_OFFSET_DELTA])
        sets_horizon = horizon_is_due and LATEST_TOMBSTONE in verdicts
        if remaining == count and not sets_horizon:
            return self._whole(batch)
        self.records_out += remaining
        horizon_ms = self._horizon_ms if sets_horizon else None
        return keep_some(batch, payload, verdicts, horizon_ms, kernel.keep_records)

    # -- markers -----------------------------------------------------------------------------------

    def _judge_control(self, batch: Batch, last_offset: int) -> Buffer | None:
        header = batch[0]
        needed, self.aborted_entry = self._markers.marker_seen(batch)
        if needed or last_offset >= self._map_end:
            return self._whole(batch)
        if not header[ATTRIBUTES] & DELETE_HORIZON:
            if not header[COUNT]:
                return self._empty(batch, last_offset)
            return with_payload(batch, self._kernel.as_payload, lambda payload: self._dated(batch, payload))
        if header[BASE_TIMESTAMP] > self._now_ms or self._marker_must_stay(header, last_offset):
            return self._whole(batch)
        return None

    def _dated(self, batch: Batch, payload: Payload) -> Buffer:
        """The marker with its delete horizon."""
        count = batch[0][COUNT]
        self.records_out += count
        return keep_some(batch, payload, bytes([LATEST]) * count, self._horizon_ms, self._kernel.keep_records)

    def _marker_must_stay(self, header: tuple[int, ...], last_offset: int) -> bool:
        """Whether the marker is the last sign of a live producer's epoch, or of where the round ends."""
        if last_offset + 1 == self._end:
            return True
        last = self._last_records.get(header[PRODUCER_ID])
        return (
            last is not None
            and last.last_data_offset == NO_DATA_OFFSET
            and last.producer_epoch == header[PRODUCER_EPOCH]
        )
