"""The latest offset of every key, in memory of a fixed size, however many keys there are.

A key is represented by 128 bits of its digest, so that a key of any length takes 24 bytes and two keys that
are taken for one are out of the question (10 million keys: one chance in 10^24). A Python dict would take 150
to 200 bytes a key. So the map is a hash table with open addressing in three arrays of 64-bit numbers:

    high halves | low halves | offsets          slot = high mod slots, then steps of 1 + low mod (slots - 1)

The number of slots is prime, so the steps reach every one. When the table is as full as its load factor
allows, a new key is refused; the round of cleaning ends there, and the next goes on from there.

Beside it stands one byte for each offset of the dirty range's beginning (its window): whether the record is
the latest of its key. It saves most of the second pass: a batch of which nothing or everything survives is
recognized by counting bytes, without a look inside. Where the window ends, the table is asked.

    | 0 gone or never mapped | 1 the latest of its key | 2 the latest, and a tombstone |

Measured in CPU time on two cores that were shared: 0.6 microseconds to put into a small table, 1.1 into one
of a million slots filled up to 0.9, 2.7 into one of 11 million, which no cache holds. (Buckets searched with
bytearray.find took 1.4 where this takes 1.1; a dict 0.4, but six times the memory.) 10 million keys in one
round take 277 MB, 267 of table and 10 of window, in resident memory as in the sum. The default of 128 MiB has
room for 4.66 million a round, so that 10 million take three rounds.
"""

from array import array
from collections.abc import Callable
from struct import Struct

try:
    # The interpreter's own MD5 takes half of what OpenSSL's wrapper takes for a short key. Nobody's safety
    # hangs on it: a producer who builds two keys with one digest confuses its own two keys only.
    from _md5 import md5 as _digest_of  # type: ignore[import-not-found]
except ImportError:
    from hashlib import blake2b

    def _digest_of(key: bytes) -> "blake2b":
        return blake2b(key, digest_size=16)


ABSENT = -1
FULL = -2
GONE, LATEST, LATEST_TOMBSTONE = 0, 1, 2
SLOT_BYTES = 24
SLOTS_MIN = 7
WINDOW_SHARE = 8
"""At most one part in so many of the memory is for the window when the range is too long for both."""
_HALVES = Struct("<QQ").unpack


class OffsetMap:
    """The keys of one round. Offsets are those of one range, which begins at `first_offset`."""

    __slots__ = (
        "_first_offset",
        "_high",
        "_low",
        "_offsets",
        "_slots",
        "key_count",
        "keys_max",
        "window",
        "window_end",
    )

    def __init__(self, first_offset: int, end_offset: int, memory_bytes: int, load_factor: float) -> None:
        """A map for the records of [first_offset, end_offset) that takes at most `memory_bytes`, and less
        where the range cannot fill that. It always has room for some keys.
        """
        slots, window_bytes = _sizes(max(0, end_offset - first_offset), memory_bytes, load_factor)
        self._slots = slots
        self.keys_max = max(1, min(slots - 1, int(slots * load_factor)))
        self.key_count = 0
        self._first_offset = first_offset
        self._high = array("Q", [0]) * slots
        self._low = array("Q", [0]) * slots
        self._offsets = array("q", [0]) * slots
        self.window = bytearray(window_bytes)
        """One byte an offset, from `first_offset` on."""
        self.window_end = first_offset + window_bytes
        """The first offset that has no byte there."""

    @property
    def memory_bytes(self) -> int:
        """What the map takes."""
        return self._slots * SLOT_BYTES + len(self.window)

    def put(self, key: bytes, offset: int, verdict: int) -> bool:
        """`offset`, later than all before it, holds the latest record of `key`: LATEST or LATEST_TOMBSTONE.
        False, and nothing has changed, when a new key finds no room.
        """
        high, low = _HALVES(_digest_of(key).digest())
        high = high or 1  # 0 says that a slot is free
        highs, slots = self._high, self._slots
        slot = high % slots
        found = highs[slot]
        if found != high or self._low[slot] != low:
            step = low % (slots - 1) + 1
            while found and (found != high or self._low[slot] != low):
                slot += step
                if slot >= slots:
                    slot -= slots
                found = highs[slot]
        if found:
            before = self._offsets[slot]
            if before < self.window_end:
                self.window[before - self._first_offset] = GONE
        else:
            if self.key_count == self.keys_max:
                return False
            self.key_count += 1
            highs[slot] = high
            self._low[slot] = low
        self._offsets[slot] = offset
        if offset < self.window_end:
            self.window[offset - self._first_offset] = verdict
        return True

    def get(self, key: bytes) -> int:
        """The latest offset of `key` in the range, or ABSENT."""
        high, low = _HALVES(_digest_of(key).digest())
        high = high or 1
        highs, lows, slots = self._high, self._low, self._slots
        slot = high % slots
        found = highs[slot]
        if not found:
            return ABSENT
        step = low % (slots - 1) + 1
        while found != high or lows[slot] != low:
            slot += step
            if slot >= slots:
                slot -= slots
            found = highs[slot]
            if not found:
                return ABSENT
        return self._offsets[slot]


def _sizes(range_offsets: int, memory_bytes: int, load_factor: float) -> tuple[int, int]:
    """How many slots, and how long a window."""
    wanted_slots = int(range_offsets / load_factor) + SLOTS_MIN + 1
    if _next_prime(wanted_slots) * SLOT_BYTES + range_offsets <= memory_bytes:
        return _next_prime(wanted_slots), range_offsets
    window_bytes = min(range_offsets, memory_bytes // WINDOW_SHARE)
    room = (memory_bytes - window_bytes) // SLOT_BYTES
    return _prime(min(room, wanted_slots), down=True), window_bytes


def _next_prime(number: int) -> int:
    return _prime(number, down=False)


def _prime(number: int, *, down: bool) -> int:
    """The nearest prime at or below (or above) `number`, SLOTS_MIN at least."""
    step: Callable[[int], int] = (lambda value: value - 1) if down else (lambda value: value + 1)
    while number > SLOTS_MIN and any(number % divisor == 0 for divisor in range(2, int(number**0.5) + 1)):
        number = step(number)
    return max(number, SLOTS_MIN)
