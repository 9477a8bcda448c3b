"""Fetches the record batches of a range [start, end) of one partition, in order.

    fetch from start ----> response: batches ----> fetch behind the last one ----> yield the batches ----> ...

The next request is in flight while the batches of the last response are processed, so network and decoding
overlap without a thread. A range may hold fewer records than offsets: compaction leaves gaps, transaction
markers have offsets, and with `read_committed` aborted batches are left out. So the range ends at the first
batch at or behind its end, not at its last record.

A range that ends above the high watermark (with `read_committed`: the last stable offset) is waited for, and
so is an empty response below it (a broker may read from remote storage, or throttle). An empty response does
not mean that nothing is left: a compacted log keeps its last batch, if only the header. After
`default.api.timeout.ms` without progress the range ends with ClusterTimeout.

Not here: what to do about deleted records (OffsetOutOfRange has the log's range); the caller decides.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from moldau.client.cluster import Cluster, PartitionPlace
from moldau.client.connection import FRAME_BYTES_MAX, Connection
from moldau.client.errors import (
    ClusterTimeout,
    CorruptRecords,
    OffsetOutOfRange,
    Retriable,
    UnknownTopic,
    error_words,
)
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from moldau.common.records.batch import (
    MAGIC,
    MAGIC_OFFSET,
    BatchView,
    CorruptBatch,
    batch_size_bytes,
    iter_batches,
)
from moldau.common.records.control import ControlType, control_type

FETCH_BYTES_MIN = 64 * 1024
_BY_NAME = 12


class FetchedBatches(NamedTuple):
    """Complete batches, as bytes of the response, and the aborted producers among them (None: read all)."""

    batches: list[BatchView]
    aborted: Sequence[AbortedTransaction] | None


def fetch_range(
    cluster: Cluster,
    topic: str,
    partition: int,
    start: int,
    end: int,
    *,
    read_committed: bool,
    max_bytes: int | None = None,
) -> Iterator[BatchView]:
    """The batches with records in [start, end), with their crc checked; the first and last may reach beyond
    the range. Without markers; with `read_committed`, without aborted batches.

    OffsetOutOfRange, UnknownTopic (also when the topic is deleted meanwhile), ClusterTimeout, CorruptRecords,
    RequestRefused.
    """
    reader = _RangeReader(cluster, topic, partition, start, end, read_committed, max_bytes)
    try:
        for fetched in reader.answers():
            yield from _visible(fetched, start, end, cluster.options.check_crcs, f"{topic}-{partition}")
    finally:
        reader.give_up()


class _RangeReader:
    """Fetches a range, one request ahead of the consumer of its responses."""

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        partition: int,
        start: int,
        end: int,
        read_committed: bool,
        max_bytes: int | None,
    ) -> None:
        self.cluster, self.topic, self.partition = cluster, topic, partition
        self.position, self.end = start, end
        self.read_committed = read_committed
        self.bytes_max = max_bytes or cluster.options.fetch_bytes
        self.name = f"{topic}-{partition}"
        self._connection: Connection | None = None
        self._topic_id: bytes | None = None
        self._bytes_per_offset = 0.0
        self._progress_at = 0.0
        self._reason = "no broker answered"

    def answers(self) -> Iterator[FetchedBatches]:
        """The responses with batches, until the range is read."""
        self._progress_at = time.monotonic()
        while self.position < self.end:
            data = self.cluster.persist(f"read {self.name}", self._attempt, self._seconds_left())
            batches = self._whole_batches(data)
            self._advance(batches, data)
            if not batches:
                self._check_timeout()
                continue
            self._ask_ahead()
            yield FetchedBatches(batches, data.aborted_transactions if self.read_committed else None)
            self._progress_at = time.monotonic()  # what the reader of the batches took does not count

    def give_up(self) -> None:
        """Return the connection; it is closed if a response is still to come."""
        if self._connection is not None:
            self.cluster.give_back(self._connection)
        self._connection = None

    def _attempt(self) -> PartitionData:
        """Read the response of the request in flight, or send one and wait for it."""
        try:
            connection = self._connection = self._connection or self._leader()
            if not connection.unanswered:
                self._send(connection)
            answer: FetchResponse = connection.receive()
        except OSError:
            self._connection = None
            self.cluster.forget_places(self.topic)
            raise
        data: PartitionData | None = None
        if not answer.error_code:
            data = answer.responses[0].partitions[0]
        code = answer.error_code if data is None else data.error_code
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise self._out_of_range()
        if code == ErrorCode.UNKNOWN_SERVER_ERROR:
            raise Retriable(error_words(code))  # its disk, perhaps; Kafka's own consumer asks again, too
        if code:
            self.give_up()  # perhaps another broker leads now
            self.cluster.check_partition(code, self.topic, self.partition, f"read {self.name}")
        assert data is not None
        return data

    def _leader(self) -> Connection:
        place: PartitionPlace = self.cluster.place(self.topic, self.partition)
        if self._topic_id is None:
            self._topic_id = place.topic_id
        elif self._topic_id != place.topic_id:
            raise UnknownTopic(f"topic {self.topic} was deleted and created anew while it was read")
        return self.cluster.borrow_leader(self.topic, self.partition)

    def _send(self, connection: Connection) -> None:
        options = self.cluster.options
        bytes_max = min(self.bytes_max, self._bytes_needed())
        partition = FetchPartition(
            partition=self.partition, fetch_offset=self.position, partition_max_bytes=bytes_max
        )
        by_id = self._topic_id is not None and any(self._topic_id)
        request = FetchRequest(
            max_wait_ms=options.fetch_wait_ms,
            min_bytes=1,
            max_bytes=bytes_max,
            isolation_level=int(self.read_committed),
            topics=[
                FetchTopic(topic=self.topic, topic_id=self._topic_id or bytes(16), partitions=[partition])
            ],
        )
        connection.send(
            request,
            at_most=2**15 if by_id else _BY_NAME,
            timeout_seconds=options.request_timeout_seconds + options.fetch_wait_ms / 1000,
        )

    def _bytes_needed(self) -> int:
        """An upper estimate of the rest of the range in bytes, so that the last fetch is not too large."""
        if not self._bytes_per_offset:
            return self.bytes_max
        return int((self.end - self.position) * self._bytes_per_offset * 1.25) + FETCH_BYTES_MIN

    def _ask_ahead(self) -> None:
        """Send the next request before this response is processed; errors show when it is read."""
        connection = self._connection
        if self.position >= self.end or connection is None or not connection.is_open:
            return
        try:
            self._send(connection)
        except OSError:
            self._connection = None

    def _whole_batches(self, data: PartitionData) -> list[BatchView]:
        """The response's complete batches; the last one may be cut off by the size limit."""
        records = data.records
        if not records:
            return []
        try:
            batches = list(iter_batches(records, allow_partial_tail=True))
            if not batches:
                self.bytes_max = min(max(self.bytes_max * 2, _size_of_first(records)), FRAME_BYTES_MAX)
        except CorruptBatch as error:
            raise CorruptRecords(f"{self.name} at offset {self.position}: {error}") from error
        return batches

    def _advance(self, batches: list[BatchView], data: PartitionData) -> None:
        """Move behind the last batch, or end the range."""
        if batches:
            behind = batches[-1].next_offset
            if behind <= self.position:
                raise CorruptRecords(f"{self.name}: the broker sent batches before offset {self.position}")
            self._bytes_per_offset = sum(each.size_bytes for each in batches) / (behind - self.position)
            self.position = behind
            return
        limit = data.last_stable_offset if self.read_committed else data.high_watermark
        if limit >= self.end:
            self._reason = "the broker answered without records, although it has some up to there"
            if not data.records:
                time.sleep(self.cluster.options.backoff_seconds)  # it does not wait before it answers so
            return
        what = "last stable offset" if self.read_committed else "high watermark"
        self._reason = f"its {what} is {limit}"
        if self.read_committed and data.high_watermark >= self.end:
            self._reason += ", held back by an open transaction"

    def _seconds_left(self) -> float:
        limit = self.cluster.options.api_timeout_seconds
        return max(limit - (time.monotonic() - self._progress_at), 0.0)

    def _check_timeout(self) -> None:
        if self._seconds_left() <= 0:
            raise ClusterTimeout(
                f"cannot read {self.name} up to offset {self.end}: at offset {self.position} nothing came "
                f"for {self.cluster.options.api_timeout_seconds:g} seconds; {self._reason}"
            )

    def _out_of_range(self) -> OffsetOutOfRange:
        partition = (self.topic, self.partition)
        earliest = self.cluster.offsets({partition: -2})[partition]
        latest = self.cluster.offsets({partition: -1}, read_committed=self.read_committed)[partition]
        if earliest <= self.position <= latest:
            raise Retriable("the log's ends moved meanwhile")
        return OffsetOutOfRange(self.topic, self.partition, self.position, earliest, latest)


def _size_of_first(records: bytes | memoryview) -> int:
    """The full size of a batch that is cut off. CorruptBatch if it cannot be the start of one."""
    if len(records) <= MAGIC_OFFSET:
        return 0
    size = batch_size_bytes(records, 0)
    if records[MAGIC_OFFSET] != MAGIC or size > FRAME_BYTES_MAX:
        raise CorruptBatch(f"magic {records[MAGIC_OFFSET]} and {size} bytes cannot be a batch")
    return size


def _visible(
    fetched: FetchedBatches, start: int, end: int, check_crcs: bool, name: str
) -> Iterator[BatchView]:
    """The batches of a response that a consumer sees."""
    for batch, is_aborted in classify(fetched, end, check_crcs, name):
        if not is_aborted and not batch.is_control and batch.last_offset >= start:
            yield batch


def classify(
    fetched: FetchedBatches, end: int, check_crcs: bool, name: str
) -> Iterator[tuple[BatchView, bool]]:
    """The batches of a response before `end`, with markers; each with whether its transaction was aborted."""
    began = sorted(fetched.aborted or (), key=lambda each: each.first_offset, reverse=True)
    aborted: set[int] = set()
    for batch in fetched.batches:
        if batch.base_offset >= end:
            return
        if check_crcs and not batch.crc_is_valid():
            raise CorruptRecords(f"{name}: the checksum of the batch at {batch.base_offset} is wrong")
        while began and began[-1].first_offset <= batch.last_offset:
            aborted.add(began.pop().producer_id)
        if batch.is_control:
            if batch.producer_id in aborted and _is_abort(batch, name):
                aborted.discard(batch.producer_id)
            yield batch, False
        else:
            yield batch, batch.is_transactional and batch.producer_id in aborted


def _is_abort(batch: BatchView, name: str) -> bool:
    try:
        marker = next(batch.records(), None)
        return marker is not None and control_type(marker.key) == ControlType.ABORT
    except ValueError as error:
        raise CorruptRecords(f"{name}: the marker at {batch.base_offset} is damaged: {error}") from error
