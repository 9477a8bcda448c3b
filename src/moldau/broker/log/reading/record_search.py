"""The first record of one batch with at least a given timestamp: the last step of a search by time.

The batch may unpack to hundreds of megabytes, so the search is an object that can be handed to a worker
thread. It has its bytes for itself and touches nothing else.
"""

from moldau.common.core.side_worker import PutOff
from moldau.common.records import walk
from moldau.common.records.batch import HEADER_BYTES, LOG_APPEND_TIME, BatchView, CorruptBatch
from moldau.common.records.compression import SMALL_BYTES_MAX, CompressionFailure, UnpacksToMore, unpacked
from moldau.common.records.unpack_budget import UnpackBudget, likely_bytes


class RecordSearch:
    """A search in one batch."""

    __slots__ = ("_batch", "_first_delta", "_wanted_ms")

    def __init__(self, batch: BatchView, wanted_ms: int, start_offset: int) -> None:
        """For the first record from `start_offset` on that is at least of `wanted_ms`."""
        self._batch = batch
        self._wanted_ms = wanted_ms
        self._first_delta = max(0, start_offset - batch.base_offset)

    @property
    def is_short(self) -> bool:
        """Whether `run_short` may be tried on the event loop."""
        return self._batch.count <= walk.STRETCH_RECORDS and self._batch.size_bytes <= SMALL_BYTES_MAX

    @property
    def is_as_written(self) -> bool:
        """Whether the batch's crc is right: a search does not check it, only why one has failed matters."""
        return self._batch.crc_is_valid()

    def run_short(self, budget: UnpackBudget) -> tuple[int, int] | None:
        """As `run`, in less than a millisecond; UnpacksToMore when the batch is too large for that."""
        return self._run(min(SMALL_BYTES_MAX, budget.batch_bytes_max), budget)

    def run_likely(self, budget: UnpackBudget) -> tuple[int, int] | None:
        """As `run`; PutOff, and nothing has happened, when the batch unpacks to far more than was sent."""
        limit = likely_bytes(self._batch.size_bytes)
        if (
            not self._batch.codec
            or limit >= budget.batch_bytes_max
            or self._batch.count > budget.records_left
        ):
            return self.run(budget)
        try:
            return self._run(limit, budget)
        except UnpacksToMore:
            raise PutOff from None

    def run(self, budget: UnpackBudget) -> tuple[int, int] | None:
        """(timestamp, offset), or None when no record fits.

        Raises CorruptBatch when the records cannot be read, and UnpacksToMore when the request has no room
        left for them.
        """
        limit = budget.batch_bytes_max
        if self._batch.count > budget.records_left:
            raise UnpacksToMore("the request's limit for unpacked bytes is used up")
        try:
            return self._run(limit, budget)
        except UnpacksToMore:
            budget.spend(limit, 0)
            raise

    def _run(self, limit: int, budget: UnpackBudget) -> tuple[int, int] | None:
        batch = self._batch
        try:
            with unpacked(batch.codec, memoryview(batch.data)[HEADER_BYTES:], limit) as payload:
                size = len(payload) if batch.codec else 0
                try:
                    return self._walk(payload)
                finally:
                    budget.spend(size, batch.count)
        except UnpacksToMore:
            raise
        except CompressionFailure as error:
            raise CorruptBatch(f"the records cannot be decompressed: {error}") from error

    def _walk(self, payload: walk.Readable) -> tuple[int, int] | None:
        batch = self._batch
        base_ms, wanted_ms = batch.base_timestamp_ms, self._wanted_ms
        if batch.attributes & LOG_APPEND_TIME:  # they all carry the batch's time
            if batch.max_timestamp_ms < wanted_ms:
                return None
            base_ms, wanted_ms = 0, walk.INT64_MIN
        position = index = 0
        while index < batch.count:
            stop = min(batch.count, index + walk.STRETCH_RECORDS)
            outcome, position, index, timestamp_ms, delta = walk.find(
                payload, position, index, stop, base_ms, wanted_ms, self._first_delta
            )
            if outcome == walk.MALFORMED:
                raise CorruptBatch(f"record {index} of {batch} cannot be read")
            if outcome == walk.NOTICED:
                if batch.attributes & LOG_APPEND_TIME:
                    timestamp_ms = batch.max_timestamp_ms
                return timestamp_ms, batch.base_offset + delta
            walk.between_stretches()
        return None
