"""Bounds the decompressed bytes and the records that one request may have processed, over all its rows.

A row of a few hundred bytes may decompress to hundreds of megabytes and millions of records, and a request
has many rows. Kafka has no limit here: `max.message.bytes` counts compressed bytes, and a thread of the pool
is held as long as it takes. These limits lie far above what clients send (a batch of 1 MiB that was
compressed to a hundredth is 100 MiB) and far below what would delay other requests:

    a batch      256 MiB decompressed (compression.DECOMPRESSED_BYTES_MAX)
    a request      1 GiB decompressed, and 16 million records

They apply wherever a broker reads records: in what producers send, and in searches by time.
"""

from moldau.common.records.compression import DECOMPRESSED_BYTES_MAX

_LIKELY_BYTES_MIN = 2 << 20  # the middle buffer of compression.py
_LIKELY_RATIO = 16

REQUEST_BYTES_MAX = 1 << 30
REQUEST_RECORDS_MAX = 1 << 24


def likely_bytes(packed_bytes: int) -> int:
    """What nearly all batches of this size unpack to at most; more is left to when there is time for it."""
    return max(_LIKELY_BYTES_MIN, packed_bytes * _LIKELY_RATIO)


class UnpackBudget:
    """The rest of one request's budget."""

    __slots__ = ("bytes_left", "records_left")

    def __init__(self, bytes_max: int = REQUEST_BYTES_MAX, records_max: int = REQUEST_RECORDS_MAX) -> None:
        self.bytes_left = bytes_max
        self.records_left = records_max

    @property
    def batch_bytes_max(self) -> int:
        """The maximum decompressed size of the next batch."""
        return max(0, min(self.bytes_left, DECOMPRESSED_BYTES_MAX))

    @property
    def is_spent(self) -> bool:
        """Whether the budget is used up."""
        return self.bytes_left <= 0 or self.records_left <= 0

    def spend(self, size_bytes: int, records: int) -> None:
        """Subtract these bytes and records."""
        self.bytes_left -= size_bytes
        self.records_left -= records
