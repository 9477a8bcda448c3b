"""Fetch requests that wait for more of one partition: consumers for what is committed, followers for what is
written (the high watermark moves only once they have fetched that).

Hot: `wake` runs for every turn's write while a fetch is parked. Not here: when they are woken (partition.py),
what a fetch does then (handlers/apis/fetch/).
"""

import logging
from collections.abc import Iterable

from moldau.broker.replication.waiters import FetchWaiter

log = logging.getLogger("moldau.replication")

Parked = dict[FetchWaiter, None]


class ParkedFetches:
    """Those of one partition, in the order in which they came."""

    __slots__ = ("consumers", "followers")

    def __init__(self) -> None:
        # Most partitions never need the second, and many not the first.
        self.consumers: Parked | None = None
        self.followers: Parked | None = None

    def add(self, waiter: FetchWaiter, *, is_follower: bool) -> None:
        """Wake it from now on."""
        if is_follower:
            if self.followers is None:
                self.followers = {}
            self.followers[waiter] = None
        else:
            if self.consumers is None:
                self.consumers = {}
            self.consumers[waiter] = None

    def remove(self, waiter: FetchWaiter) -> None:
        """Do not wake it any more."""
        for waiters in (self.consumers, self.followers):
            if waiters is not None:
                waiters.pop(waiter, None)

    def wake_all(self) -> None:
        """What a fetch rests on has changed: they look again."""
        wake([*(self.consumers or ()), *(self.followers or ())], 0, 0)


def wake(waiters: Iterable[FetchWaiter], bytes_added: int, stable_bytes: int) -> None:
    """So many bytes more are readable, `stable_bytes` of them with read_committed (perhaps UNKNOWN_BYTES)."""
    for waiter in list(waiters):
        try:
            waiter.more(bytes_added, stable_bytes)
        except Exception:
            log.exception("a parked fetch failed: this is a bug")
