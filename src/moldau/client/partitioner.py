"""Which partition a record goes to: Kafka's default partitioner, over a whole column of keys at once.

A key's partition is `(murmur2(key) & 0x7fffffff) % partitions`. All clients that follow the Java one
compute it so; two topics with as many partitions then have equal keys in equal partitions, whoever wrote
them, and can be joined partition by partition. Records without a key go to partitions in runs: a run fills
one batch, as the Java client's sticky partitioner does (KIP-480, KIP-794), because one full batch is
cheaper than many small ones.

The hash is computed for all keys of a column in step: word by word, each step over those keys that have
such a word. That costs 20-30 ns a word instead of a microsecond a key. `murmur2` is the plain form, one key
at a time, and what the column form is tested against. The few keys that are longer than all others are left
to it: steps for them alone would cost more (a key of a megabyte has 250,000 words).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_SHIFT = 24
_MASK = 0xFFFFFFFF

_KEYS_MIN = 16
"""A step over fewer keys takes longer than their words one by one."""

Integers32 = npt.NDArray[np.int32]
Integers64 = npt.NDArray[np.int64]


def murmur2(key: bytes) -> int:
    """The 32-bit MurmurHash2 of `key` with Kafka's seed, unsigned."""
    state = (_SEED ^ len(key)) & _MASK
    whole = len(key) & ~3
    for start in range(0, whole, 4):
        word = int.from_bytes(key[start : start + 4], "little") * _MULTIPLIER & _MASK
        word = (word ^ (word >> _SHIFT)) * _MULTIPLIER & _MASK
        state = (state * _MULTIPLIER & _MASK) ^ word
    if whole < len(key):
        state = (state ^ int.from_bytes(key[whole:], "little")) * _MULTIPLIER & _MASK
    state = (state ^ (state >> 13)) * _MULTIPLIER & _MASK
    return state ^ (state >> 15)


def partition_of_key(key: bytes, partition_count: int) -> int:
    """The partition of a key by Kafka's default partitioner."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


def partitions_of_keys(
    data: npt.NDArray[np.uint8], starts: Integers64, lengths: Integers64, partition_count: int
) -> Integers32:
    """The partitions of the keys `data[starts[i] : starts[i] + lengths[i]]`."""
    hashes = murmur2_of_keys(data, starts, lengths)
    return ((hashes & np.uint32(0x7FFFFFFF)) % np.uint32(partition_count)).astype(np.int32)


def murmur2_of_keys(
    data: npt.NDArray[np.uint8], starts: Integers64, lengths: Integers64
) -> npt.NDArray[np.uint32]:
    """`murmur2` of each of the keys `data[starts[i] : starts[i] + lengths[i]]`."""
    multiplier = np.uint32(_MULTIPLIER)
    state = np.uint32(_SEED) ^ lengths.astype(np.uint32)
    words = lengths >> 2
    steps = _steps(words)
    for index in range(steps):
        having = np.flatnonzero(words > index)
        everyone = len(having) == len(state)
        position = (starts if everyone else starts[having]) + 4 * index
        word = _word(data, position, 4) * multiplier
        word = (word ^ (word >> np.uint32(_SHIFT))) * multiplier
        if everyone:
            state = (state * multiplier) ^ word
        else:
            state[having] = (state[having] * multiplier) ^ word
    for rest in (1, 2, 3):
        having = np.flatnonzero((lengths & 3) == rest)
        if len(having):
            position = starts[having] + (lengths[having] & ~3)
            state[having] = (state[having] ^ _word(data, position, rest)) * multiplier
    state = (state ^ (state >> np.uint32(13))) * multiplier
    result: npt.NDArray[np.uint32] = state ^ (state >> np.uint32(15))
    for each in np.flatnonzero(words > steps):
        result[each] = murmur2(data[starts[each] : starts[each] + lengths[each]].tobytes())
    return result


def _steps(words: Integers64) -> int:
    """The number of words for which enough keys are that long."""
    if len(words) <= _KEYS_MIN:
        return 0
    return int(np.partition(words, -_KEYS_MIN - 1)[-_KEYS_MIN - 1])


def _word(data: npt.NDArray[np.uint8], position: Integers64, size: int) -> npt.NDArray[np.uint32]:
    word = data[position].astype(np.uint32)
    for index in range(1, size):
        word |= data[position + index].astype(np.uint32) << np.uint32(8 * index)
    return word


def runs_without_keys(
    sizes_bytes: Integers64, partition_count: int, run_bytes: int, first: int
) -> Integers32:
    """Partitions for records without keys, in order: about `run_bytes` to one partition, then to the next.

    `first` says with which partition to begin: callers that write little each time count it up.
    """
    before = np.cumsum(sizes_bytes) - sizes_bytes
    return ((before // run_bytes + first) % partition_count).astype(np.int32)
