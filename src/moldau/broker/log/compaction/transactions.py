"""Transactions as the cleaner sees them: which batches were aborted, and which markers are still needed.

    data of P | ... | data of P | marker of P        an aborted transaction: first offset .. marker's offset

Aborted is what lies between a producer's first offset and its abort marker, as the log's transaction index
says; that needs no state, so a pass may begin anywhere.

A marker is needed as long as a batch of its transaction is in the log, be it an empty one that is kept for
its sequence number: without the marker it would look like an open transaction. So a marker may go when a
pass, which begins at the log's beginning, has met no batch of its producer since that producer's last marker.
An abort marker that stays takes its entry into the new transaction index, and one that goes takes it along: a
consumer that got an abort without a marker would skip the producer's records for ever.
"""

from bisect import bisect_right
from collections.abc import Iterable

from moldau.broker.log.compaction.source import ATTRIBUTES, BASE_OFFSET, PRODUCER_ID, Batch
from moldau.broker.log.state.transaction_index import AbortedTransaction
from moldau.common.records.batch import TRANSACTIONAL, BatchView, CorruptBatch
from moldau.common.records.control import ControlType, parse_end_transaction_marker


class AbortedRanges:
    """The aborted transactions, to be asked in any order."""

    __slots__ = ("_by_marker", "_by_producer")

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._by_producer: dict[int, list[AbortedTransaction]] = {}
        self._by_marker: dict[tuple[int, int], AbortedTransaction] = {}
        for entry in sorted(set(aborted), key=lambda entry: entry.first_offset):
            self._by_producer.setdefault(entry.producer_id, []).append(entry)
            self._by_marker[entry.producer_id, entry.last_offset] = entry

    def contains(self, header: tuple[int, ...]) -> bool:
        """Whether this batch of data was aborted."""
        if not header[ATTRIBUTES] & TRANSACTIONAL:
            return False
        entries = self._by_producer.get(header[PRODUCER_ID])
        if entries is None:
            return False
        place = bisect_right(entries, header[BASE_OFFSET], key=lambda entry: entry.first_offset)
        return place > 0 and header[BASE_OFFSET] <= entries[place - 1].last_offset

    def ended_by(self, producer_id: int, marker_offset: int) -> AbortedTransaction | None:
        """The transaction that this abort marker ended."""
        return self._by_marker.get((producer_id, marker_offset))


class Markers:
    """Which markers are needed; to be called with every batch from the log's beginning on, in order."""

    __slots__ = ("_aborted", "_observed")

    def __init__(self, aborted: AbortedRanges) -> None:
        self._aborted = aborted
        self._observed: set[int] = set()

    def data_seen(self, header: tuple[int, ...]) -> None:
        """A batch of data was in the sources (whether or not it stays)."""
        if header[ATTRIBUTES] & TRANSACTIONAL:
            self._observed.add(header[PRODUCER_ID])

    def marker_seen(self, batch: Batch) -> tuple[bool, AbortedTransaction | None]:
        """Whether this control batch is needed, and the entry of the transaction index it then needs."""
        header, data, start, end = batch
        producer_id = header[PRODUCER_ID]
        for record in BatchView(memoryview(data)[start:end]).records():
            try:
                marker = parse_end_transaction_marker(record)
            except ValueError as error:
                raise CorruptBatch(str(error)) from error
            if marker is None:
                return True, None
            if producer_id not in self._observed:
                return False, None
            self._observed.remove(producer_id)
            if marker.control_type == ControlType.ABORT:
                return True, self._aborted.ended_by(producer_id, record.offset)
            return True, None
        return False, None
