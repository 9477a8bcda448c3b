"""Reads a segment batch by batch from some position on, checks each (header, crc, order), and adds it to the
indexes and the leader epochs.

A batch's base offset lies before what its crc covers, so a damaged one is found by the order alone:

    expected 12:   | 10..11 | 9437196..9437198 | 15..16 |        12..14 fits between its neighbours

If the batch is whole and its neighbours leave exactly its offsets free, the base offset is corrected; a gap
alone is no damage, since compaction leaves gaps. Anything else that does not fit ends the good part.
"""

from moldau.broker.log.files.segment import LOG_SUFFIX, RELATIVE_OFFSET_MAX, Segment
from moldau.broker.log.recovery.damage import Damage
from moldau.broker.log.state.epochs import LeaderEpochs
from moldau.common.core.crc import crc32c
from moldau.common.records.batch import HEADER, HEADER_BYTES, LENGTH_MIN, LENGTH_OVERHEAD, MAGIC

_CHUNK_BYTES = 4 * 1024 * 1024
UNLIMITED = 1 << 63


class UnreadableLog(Exception):
    """The directory holds a log that this broker cannot read (before magic 2), and that recovery would
    destroy: it stays untouched.
    """


class CheckedScan:
    """Checks one segment from `start` on; it is good up to `position` and `next_offset`."""

    def __init__(
        self,
        segment: Segment,
        start: int,
        *,
        limit_offset: int = UNLIMITED,
        known_end_offset: int = -1,
        gapless: bool = False,
    ) -> None:
        """`limit_offset`: where the next segment begins. `known_end_offset`: where this one ended when it was
        last seen whole (-1: unknown). `gapless`: nothing has ever been compacted in it.
        """
        self.segment = segment
        self.position = start
        self.next_offset = segment.base_offset
        self.damage: Damage | None = None
        self.repaired: list[tuple[int, int, int]] = []
        """Base offsets put right: (position, was, is)."""
        self._expected_offset = segment.base_offset
        self._limit_offset = min(limit_offset, segment.base_offset + RELATIVE_OFFSET_MAX + 1)
        self._ends = {known_end_offset, limit_offset}
        self._gapless = gapless
        self._chunk = memoryview(b"")
        self._chunk_start = start
        self._start = start

    def run(self, epochs: LeaderEpochs, index_interval_bytes: int) -> None:
        """Go on until the end or the first damage."""
        segment = self.segment
        since_index = 0
        while self.position < segment.size_bytes and self.damage is None:
            batch = self._next()
            if batch is None:
                return
            header = HEADER.unpack_from(batch)
            last_offset = header[0] + header[6]
            if header[8] > segment.max_timestamp_ms:
                segment.max_timestamp_ms, segment.max_timestamp_offset = header[8], last_offset
            if since_index > index_interval_bytes and self.position > self._start:
                segment.add_index_entry(
                    last_offset, self.position, segment.max_timestamp_ms, segment.max_timestamp_offset
                )
                since_index = 0
            since_index += len(batch)
            size = len(batch)
            if header[2] > epochs.latest() and not self._epoch_contradicted(header[2], size):
                epochs.assign(header[2], header[0])
            self.position += size
            self.next_offset = self._expected_offset = last_offset + 1

    def _next(self) -> memoryview | None:
        """The batch at the position, checked; None when it is damaged, and `damage` says how."""
        head = self._bytes(HEADER_BYTES)
        if len(head) < HEADER_BYTES:
            return self._bad(f"a batch's header breaks off after {len(head)} bytes")
        header = HEADER.unpack_from(head)
        length, magic = header[1], header[3]
        if magic in (0, 1) and self.position == 0 and length > 0:
            raise UnreadableLog(
                f"{self.segment.path(LOG_SUFFIX)} has batches of magic {magic}, older than magic {MAGIC}"
            )
        if length < LENGTH_MIN or magic != MAGIC:
            return self._bad("there is no batch header" if any(head) else "there are only zeros")
        size = length + LENGTH_OVERHEAD
        if self.position + size > self.segment.size_bytes:
            return self._bad(
                f"a batch of {size} bytes breaks off after {self.segment.size_bytes - self.position}"
            )
        batch = self._bytes(size)
        if len(batch) < size:
            return self._bad(f"a batch of {size} bytes breaks off after {len(batch)}")
        if crc32c(batch[21:]) != header[4]:
            return self._bad("a batch's crc does not match its bytes")
        if header[6] < 0:
            return self._bad(f"a batch claims {header[6] + 1} offsets")
        return batch if header[0] == self._expected_offset else self._placed(batch, header[0], header[6])

    def _placed(self, batch: memoryview, base_offset: int, last_offset_delta: int) -> memoryview | None:
        """A whole batch that does not begin where the one before it ended: a gap, or a damaged base
        offset.
        """
        expected, last_offset = self._expected_offset, base_offset + last_offset_delta
        follower = self._header_behind(len(batch))
        fits_before = expected + last_offset_delta + 1
        first = self.position == self._start > 0  # what comes before it is not known
        if not first:
            free = follower[0] == fits_before if follower is not None else fits_before in self._ends
            if free:
                return self._repair(len(batch), base_offset)
        if base_offset < expected:
            return self._bad(f"a batch claims offset {base_offset} after {expected - 1}")
        if last_offset >= self._limit_offset:
            return self._bad(f"a batch claims offset {last_offset}, beyond what the segment can hold")
        if not first:
            if self._gapless and self.position + len(batch) >= self.segment.size_bytes:
                return self._bad(f"the last batch claims offset {base_offset} after {expected - 1}")
            self._gapless = False
        return batch

    def _repair(self, size: int, was: int) -> memoryview:
        expected = self._expected_offset
        self.segment.write([expected.to_bytes(8, "big")], 8, self.position)
        self.repaired.append((self.position, was, expected))
        self._chunk = memoryview(b"")
        return self._bytes(size)

    def _epoch_contradicted(self, leader_epoch: int, size: int) -> bool:
        """Whether the next batch is of an earlier epoch: this one's is damaged (no crc covers it)."""
        follower = self._header_behind(size)
        return follower is not None and 0 <= follower[2] < leader_epoch

    def _header_behind(self, size: int) -> tuple[int, ...] | None:
        """The header behind the batch at the position, if there is a plausible one."""
        data = self.segment.read(self.position + size, HEADER_BYTES)
        if len(data) < HEADER_BYTES:
            return None
        header = HEADER.unpack(data)
        return header if header[3] == MAGIC and header[1] >= LENGTH_MIN else None

    def _bytes(self, size: int) -> memoryview:
        """`size` bytes from the position on, or what is left; from the chunk in memory where it suffices."""
        at = self.position - self._chunk_start
        if at + size > len(self._chunk):
            self._chunk = memoryview(self.segment.read(self.position, max(size, _CHUNK_BYTES)))
            self._chunk_start, at = self.position, 0
        return self._chunk[at : at + size]

    def _bad(self, reason: str) -> memoryview | None:
        self.damage = Damage(self.position, reason)
        return None
