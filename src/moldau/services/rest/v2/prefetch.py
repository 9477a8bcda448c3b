"""How much each consumer instance prefetches, so that all together stay within a number of bytes.

A client of Kafka keeps what it has fetched in its own buffers, whose sizes are fixed when it is made. A new
instance gets a part of what is free: the first have large buffers, and with every further one the next gets
less. The least that any of them gets is kept back for those that may still come:

    bytes_max = instances so far + least share x instances to come + free
                                                                     `-- 1/8 of it for the next, at most
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LEAST_BYTES = 384 * 1024
MOST_BYTES = 12 * 1024 * 1024
_NEXT_PART = 8
_PARTITION_BYTES_MAX = 1024 * 1024


class PrefetchShares:
    """The shares of the instances of one proxy."""

    def __init__(self, bytes_max: int, instances_max: int) -> None:
        """`instances_max`: how many instances there may be; fewer if there is no least share for so many."""
        self.instances_max = min(instances_max, max(1, bytes_max // LEAST_BYTES))
        self.used_bytes = 0
        self._bytes_max = bytes_max
        self._count = 0

    def take(self) -> int:
        """The share of a new instance, in bytes."""
        self._count += 1
        others_bytes = LEAST_BYTES * max(0, self.instances_max - self._count)
        free_bytes = self._bytes_max - self.used_bytes - others_bytes - LEAST_BYTES
        share_bytes = LEAST_BYTES + max(0, min(free_bytes // _NEXT_PART, MOST_BYTES - LEAST_BYTES))
        self.used_bytes += share_bytes
        return share_bytes

    def give_back(self, share_bytes: int) -> None:
        """An instance has ended."""
        self._count -= 1
        self.used_bytes -= share_bytes


def buffer_settings(share_bytes: int) -> dict[str, Any]:
    """librdkafka's settings for a share: a third is kept for the next reads, and a response of two thirds may
    come on top. A record that is larger is fetched all the same, alone."""
    fetched_bytes = share_bytes * 2 // 3
    return {
        "queued.max.messages.kbytes": share_bytes // 3 // 1024,
        "fetch.max.bytes": fetched_bytes,
        "fetch.message.max.bytes": min(fetched_bytes, _PARTITION_BYTES_MAX),
        "message.max.bytes": min(fetched_bytes, 1_000_000),  # librdkafka never fetches less than this
    }


def with_buffers(share_bytes: int, given: Mapping[str, Any]) -> dict[str, Any]:
    """A consumer's settings with the buffers of a share; what is given wins. librdkafka refuses messages that
    are larger than fetches, so of these two the one that is not given follows the other.
    """
    settings = {**buffer_settings(share_bytes), **given}
    for name, follow, other in (
        ("fetch.max.bytes", max, "message.max.bytes"),
        ("message.max.bytes", min, "fetch.max.bytes"),
    ):
        if name not in given and str(given.get(other, "")).isdecimal():
            settings[name] = follow(settings[name], int(given[other]))
    return settings
