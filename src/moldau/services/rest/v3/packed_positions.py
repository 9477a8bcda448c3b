"""Positions of many partitions as a short text, for the id of an event: it comes back in a header or a URL,
whose limits 1,300 pairs of partition:offset (16 KB) would exceed.

    ~BASE64URL   of a deflated sequence of variable-length numbers, as Protobuf has them:
    | count | partition numbers, each as its distance from the one before | offsets in the same order |
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

MARK = "~"
_RAW_BYTES_MAX = 256 * 1024
"""Those of 25,000 partitions: equal offsets deflate into a few characters, however large they are. Reading so
many takes 50 ms, so it happens in a thread."""
_NUMBER_BYTES_MAX = 10
_PARTITION_MAX = 2**31 - 1
_OFFSET_MAX = 2**63 - 1


def packed(positions: Mapping[int, int]) -> str:
    """Offsets by partition, as text of letters, digits, ~, - and _."""
    pairs = sorted(positions.items())
    raw = bytearray()
    before = 0
    _append(raw, (len(pairs),))
    for partition, _ in pairs:
        _append(raw, (partition - before,))
        before = partition
    _append(raw, (offset for _, offset in pairs))
    deflated = zlib.compress(bytes(raw), 6, -zlib.MAX_WBITS)
    return MARK + base64.urlsafe_b64encode(deflated).decode().rstrip("=")


def unpacked(text: str) -> dict[int, int]:
    """What `packed` made. ValueError for anything else, whatever it would become."""
    encoded = text.removeprefix(MARK)
    inflating = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        deflated = base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
        raw = inflating.decompress(deflated, _RAW_BYTES_MAX)
    except (binascii.Error, zlib.error) as wrong:
        raise ValueError(str(wrong)) from None
    if not inflating.eof or inflating.unused_data:
        raise ValueError("it ends too early, or too late")
    numbers = _numbers(raw)
    count = next(numbers, 0)
    partitions = []
    partition = 0
    for distance in islice(numbers, count):
        partition += distance
        partitions.append(partition)
    offsets = list(numbers)
    if not len(partitions) == len(offsets) == count:
        raise ValueError("it has not as many offsets as partitions")
    if partition > _PARTITION_MAX or max(offsets, default=0) > _OFFSET_MAX:
        raise ValueError("a number is too large")
    return dict(zip(partitions, offsets, strict=True))


def _append(raw: bytearray, numbers: Iterable[int]) -> None:
    for number in numbers:
        while number > 0x7F:
            raw.append(number & 0x7F | 0x80)
            number >>= 7
        raw.append(number)


def _numbers(raw: bytes) -> Iterator[int]:
    number = shift = 0
    for byte in raw:
        number |= (byte & 0x7F) << shift
        shift += 7
        if shift > 7 * _NUMBER_BYTES_MAX:
            raise ValueError("a number is too large")
        if byte < 0x80:
            yield number
            number = shift = 0
    if shift:
        raise ValueError("a number has no end")
