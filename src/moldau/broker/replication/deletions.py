"""DeleteRecords that wait until every live replica has deleted the records too (KIP-107).

    leader: log start offset moves ──> followers' parked fetches are answered with it
    follower: moves its own, and tells it in its next fetch ──> low watermark of the partition
    low watermark >= offset ──> the request is answered with it

The low watermark is the smallest log start offset over the live replicas; one whose broker is down follows
when it is back, by the same fetches. A request that waits too long gets REQUEST_TIMED_OUT; one whose
partition is led by another broker meanwhile, NOT_LEADER_OR_FOLLOWER. Its records are deleted here anyway.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from moldau.common.core.timers import TimerHandle, Timers
from moldau.common.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from moldau.broker.replication.partition import Partition


class Deleted(NamedTuple):
    """The answer for one partition."""

    error_code: int
    low_watermark: int
    """-1: unknown, as nothing was deleted."""


class _Waiter(NamedTuple):
    offset: int
    answer: "asyncio.Future[Deleted]"
    timer: TimerHandle


class Deletions:
    """The requests that wait, by partition."""

    def __init__(self, timers: Timers, is_live: Callable[[int], bool]) -> None:
        """`is_live`: whether this broker is registered and not fenced."""
        self._timers = timers
        self._is_live = is_live
        self._waiting: dict[Partition, list[_Waiter]] = {}

    def delete(
        self, partition: "Partition", offset: int, timeout_ms: int
    ) -> "Deleted | asyncio.Future[Deleted]":
        """Delete the records before `offset` (-1: all committed ones) on all live replicas."""
        error_code, start_offset = partition.delete_records(offset)
        if error_code:
            return Deleted(error_code, -1)
        low_watermark = partition.low_watermark(self._is_live)
        if low_watermark >= start_offset:
            return Deleted(0, low_watermark)
        answer: asyncio.Future[Deleted] = asyncio.get_running_loop().create_future()

        def time_out() -> None:
            if not answer.done():
                waiting = self._waiting[partition]
                waiting.remove(waiter)
                if not waiting:
                    self._forget(partition)
                answer.set_result(
                    Deleted(ErrorCode.REQUEST_TIMED_OUT, partition.low_watermark(self._is_live))
                )

        waiter = _Waiter(start_offset, answer, self._timers.call_later(max(0, timeout_ms), time_out))
        self._waiting.setdefault(partition, []).append(waiter)
        partition.deletion_waits = True
        return answer

    def look(self, partition: "Partition") -> None:
        """A follower of the partition has fetched, or its leader has changed."""
        waiting = self._waiting.get(partition)
        if not waiting:
            return
        error_code = partition.refusal()
        low_watermark = -1 if error_code else partition.low_watermark(self._is_live)
        kept = []
        for waiter in waiting:
            if not error_code and low_watermark < waiter.offset:
                kept.append(waiter)
                continue
            waiter.timer.cancel()
            if not waiter.answer.done():
                waiter.answer.set_result(Deleted(error_code, low_watermark))
        if kept:
            self._waiting[partition] = kept
        else:
            self._forget(partition)

    def brokers_changed(self) -> None:
        """Other brokers live now: nobody waits for one that died."""
        for partition in list(self._waiting):
            self.look(partition)

    def _forget(self, partition: "Partition") -> None:
        del self._waiting[partition]
        partition.deletion_waits = False
