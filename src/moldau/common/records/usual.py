"""Validates common batches by their header alone; in Python. `_usual.c` is its compiled twin.

Nearly all batches are alike: complete, undamaged, of an allowed codec, with plausible timestamps, and with
room in the log's last segment. Such a batch is accepted by its header and, if it is not compressed, by a walk
over its records; any other gives None and goes through the complete validation (appending/validation.py),
which finds the error. Compressed records are not looked at here (packed_records.py).

    marks = make_marks(counted_max, large_bytes)
    marks.judge(batch, base_offset, position, now_ms) -> Usual | None
    stage(staged, batch, base_offset, leader_epoch)     appends the batch, with its offset, to `staged`

Both kernels have the same behaviour and the same tests. Without a C compiler an append costs some two
microseconds more.

HOT: `judge` and `stage`. Budget: a quarter of a reference loop together when compiled (bench/hot_path.py).
"""

from collections.abc import Callable, Iterable
from typing import Protocol, TypeAlias

from moldau.common.core.crc import crc32c
from moldau.common.core.kernels import kernel
from moldau.common.records import walk
from moldau.common.records.batch import (
    CODEC_MASK,
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    MAGIC,
    POSITION,
    POSITION_BYTES,
    RECORD_BYTES_MIN,
)
from moldau.common.records.record import records_fill_payload

_compiled = kernel("moldau.common.records._usual")

FAR = (1 << 63) - 1
"""A mark that nothing reaches."""
ATTRIBUTES_MAX = 32

Usual: TypeAlias = tuple[int, int, int, int, int, int]
"""Last offset delta, attributes, max timestamp, producer id, producer epoch, base sequence."""

_unpack_header = HEADER.unpack_from
_pack_position = POSITION.pack


class Marks(Protocol):
    """The bounds of a common batch; inclusive, and zero at first."""

    size_bytes_max: int
    attributes: int
    """Bit n: attributes of value n are usual (`attribute_mask`)."""
    after_max_ms: int
    """How far the maximum timestamp may lie in the future."""
    roll_bytes: int
    """Where in the segment the batch must end at the latest."""
    roll_above_ms: int
    """The highest maximum timestamp that the segment takes."""
    roll_after_ms: int
    """The last moment at which the segment takes anything."""
    last_offset_max: int
    """The highest offset that the segment takes."""
    walked_max: int
    """Uncompressed batches of up to so many records are usual if a walk over all records finds nothing
    wrong. 0: only lengths are walked, and those of few records (`counted_max`)."""

    def judge(
        self, batch: bytes | bytearray | memoryview, base_offset: int, position: int, now_ms: int
    ) -> Usual | None:
        """The header's fields of a common batch, which would get this base offset at this position of
        the segment; else None.
        """


class PythonMarks:
    """The twin of the compiled marks."""

    __slots__ = (
        "_counted_max",
        "_crc",
        "_large_bytes",
        "after_max_ms",
        "attributes",
        "last_offset_max",
        "roll_above_ms",
        "roll_after_ms",
        "roll_bytes",
        "size_bytes_max",
        "walked_max",
    )

    def __init__(self, crc: Callable[..., int], counted_max: int, large_bytes: int) -> None:
        self._crc = crc
        self._counted_max = counted_max
        self._large_bytes = large_bytes
        self.size_bytes_max = self.attributes = self.after_max_ms = 0
        self.roll_bytes = self.roll_above_ms = self.roll_after_ms = self.last_offset_max = 0
        self.walked_max = 0

    def judge(
        self, batch: bytes | bytearray | memoryview, base_offset: int, position: int, now_ms: int
    ) -> Usual | None:
        """See `Marks`."""
        size = len(batch)
        if size < HEADER_BYTES:
            return None
        (
            own_offset,
            length,
            _,
            magic,
            crc,
            attributes,
            last_offset_delta,
            base_timestamp_ms,
            max_timestamp_ms,
            producer_id,
            producer_epoch,
            base_sequence,
            count,
        ) = _unpack_header(batch)
        if not (
            own_offset == 0
            and length + LENGTH_OVERHEAD == size <= self.size_bytes_max
            and size < self._large_bytes
            and magic == MAGIC
            and 0 <= attributes < ATTRIBUTES_MAX
            and self.attributes >> attributes & 1
            and 0 <= last_offset_delta == count - 1
            and base_timestamp_ms <= max_timestamp_ms <= now_ms + self.after_max_ms
            and max_timestamp_ms <= self.roll_above_ms
            and now_ms <= self.roll_after_ms
            and position + size <= self.roll_bytes
            and base_offset + last_offset_delta <= self.last_offset_max
            and (
                attributes & CODEC_MASK
                or self._records_may_be_sound(batch, count, base_timestamp_ms, max_timestamp_ms)
            )
            and self._crc(batch[CRC_START:]) == crc
        ):
            return None
        return (
            last_offset_delta,
            attributes,
            max_timestamp_ms,
            producer_id,
            producer_epoch,
            base_sequence,
        )

    def _records_may_be_sound(
        self, batch: bytes | bytearray | memoryview, count: int, base_timestamp_ms: int, max_timestamp_ms: int
    ) -> bool:
        if not self.walked_max:
            if count <= self._counted_max:
                return records_fill_payload(batch, HEADER_BYTES, count)
            return count * RECORD_BYTES_MIN <= len(batch) - HEADER_BYTES
        if count > self.walked_max:
            return False
        found = walk.check_in_python(
            batch,
            HEADER_BYTES,
            0,
            count,
            base_timestamp_ms,
            False,
            walk.INT64_MIN,
            walk.INT64_MAX,
            walk.NO_TIMESTAMP,
        )
        return found == (walk.WALKED, len(batch), count, max_timestamp_ms)


def python_stage(
    staged: bytearray, batch: bytes | bytearray | memoryview, base_offset: int, leader_epoch: int
) -> None:
    """The twin of the compiled `stage`."""
    if len(batch) < POSITION_BYTES:
        raise ValueError("a batch is longer than the fields that place it")
    staged += _pack_position(base_offset, int.from_bytes(batch[8:12], "big", signed=True), leader_epoch)
    staged += batch[POSITION_BYTES:]


stage: Callable[[bytearray, bytes | bytearray | memoryview, int, int], None] = (
    python_stage if _compiled is None else _compiled.stage
)
"""Append a batch to `staged`, with this base offset and leader epoch in its header."""


def make_marks(counted_max: int, large_bytes: int) -> Marks:
    """Marks of the chosen kernel.

    Where records are not checked, uncompressed batches of up to `counted_max` records still have their
    lengths walked. Batches of `large_bytes` or more always go through the complete validation.
    """
    kind: Callable[..., Marks] = PythonMarks if _compiled is None else _compiled.Marks
    return kind(crc32c, counted_max, large_bytes)


def attribute_mask(values: Iterable[int]) -> int:
    """The bit mask of these attribute values; those that no header can have get no bit."""
    return sum(1 << value for value in set(values) if 0 <= value < ATTRIBUTES_MAX)
