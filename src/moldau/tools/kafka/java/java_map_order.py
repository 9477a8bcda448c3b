"""The order in which a HashMap of Java gives back its keys: kafka-topics prints a topic's settings in it.

A key's place is its hash code, with the upper half mixed in, modulo the number of buckets: a power of two of
which three quarters are filled at most.
"""

from __future__ import annotations

from collections.abc import Iterable

_BUCKETS_MIN = 16


def hash_code(text: str) -> int:
    """String.hashCode of Java, as an unsigned number of 32 bits."""
    found = 0
    data = text.encode("utf-16-be")
    for index in range(0, len(data), 2):
        found = (31 * found + (data[index] << 8 | data[index + 1])) & 0xFFFFFFFF
    return found


def map_order(names: Iterable[str]) -> list[str]:
    """Return the names as a HashMap gives them back that they were put into one after the other."""
    listed = list(dict.fromkeys(names))
    buckets = _BUCKETS_MIN
    while len(listed) > buckets * 3 // 4:
        buckets *= 2

    def bucket(name: str) -> int:
        code = hash_code(name)
        return (code ^ code >> 16) & (buckets - 1)

    return sorted(listed, key=bucket)
