"""How much one request may have unpacked and looked through, over all its rows.

A row of a few hundred bytes may unpack to hundreds of megabytes and millions of records, and a request has
room for many rows. Kafka sets no limit here: `max.message.bytes` counts compressed bytes, and a thread of the
pool is held for as long as it takes. These limits lie far above what clients send (a batch of 1 MiB that
was packed to a hundredth is 100 MiB) and far below what would keep other requests waiting:

    a batch      256 MiB unpacked (compression.DECOMPRESSED_BYTES_MAX)
    a request      1 GiB unpacked, and 16 million records looked at

They count only where records must be looked at: where a topic's settings ask for it, and in searches by time.
"""

from moldau.records.compression import DECOMPRESSED_BYTES_MAX

REQUEST_BYTES_MAX = 1 << 30
REQUEST_RECORDS_MAX = 1 << 24


class UnpackBudget:
    """What is left for one request."""

    __slots__ = ("bytes_left", "records_left")

    def __init__(self, bytes_max: int = REQUEST_BYTES_MAX, records_max: int = REQUEST_RECORDS_MAX) -> None:
        self.bytes_left = bytes_max
        self.records_left = records_max

    @property
    def batch_bytes_max(self) -> int:
        """What the next batch may unpack to."""
        return max(0, min(self.bytes_left, DECOMPRESSED_BYTES_MAX))

    @property
    def is_spent(self) -> bool:
        """Whether nothing more may be unpacked."""
        return self.bytes_left <= 0 or self.records_left <= 0

    def take(self, size_bytes: int, records: int) -> None:
        """So much has been unpacked, and so many records of it looked at."""
        self.bytes_left -= size_bytes
        self.records_left -= records
