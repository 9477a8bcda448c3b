"""One share-partition where its partition is led: the state machine with its log, its timer and its writes.

    load ──> read the state (fences earlier leaders) ──> choose the start, if nobody has ──> serve
                                                                                                │
    acquire, acknowledge, release, time-outs ──> take_write ──> share coordinator ──> written ──┘
                                                  one at a time, repeated until its outcome is known

It belongs to one leader epoch. Once the coordinator refuses a write (the group or the topic has begun anew,
another leader has read the state), it is closed: who waits is answered NOT_LEADER_OR_FOLLOWER, and asks
again.

*In between.* A crash after a write and before its answer: the member's acknowledgement is in force, and
coming again it is refused with INVALID_RECORD_STATE, which is as good to it. A crash before the write: the
record is available again. A coordinator that moves: the write is repeated at the new one.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from moldau.broker.coordinator.share import states as calls
from moldau.broker.coordinator.share.shard import Write
from moldau.broker.coordinator.share.state import NOT_CHOSEN, Key
from moldau.broker.coordinator.share.state import StateBatch as StoredBatch
from moldau.broker.coordinator.share.states import ShareStates
from moldau.broker.replication.partition import Partition
from moldau.broker.replication.waiters import FetchWaiter
from moldau.broker.share.log_parts import log_parts
from moldau.broker.share.share_partition import (
    Ack,
    Acknowledged,
    SharePartition,
    StateBatch,
    Wanted,
)
from moldau.broker.share.taken import NOTHING, SKIPPED, Taken
from moldau.broker.share.terms import Terms
from moldau.common.core.clock import Clock
from moldau.common.core.timers import TimerHandle, Timers
from moldau.common.protocol.errors import ErrorCode, error_name
from moldau.common.settings.checks import duration_ms

READ_BYTES_MAX = 1024 * 1024
"""Read of one partition at a time; its first batch is read whole in any case."""
LOAD_ATTEMPTS_MAX = 20

_log = logging.getLogger("moldau.share")


class Parts(Protocol):
    """What all share-partitions of a broker use."""

    clock: Clock
    timers: Timers
    states: ShareStates

    def terms_of(self, group_id: str) -> Terms: ...

    def first_at(self, partition: Partition, timestamp_ms: int) -> Awaitable[int | None]:
        """The first offset with at least this timestamp; None: there is none."""

    def acquired(self, served: "ServedPartition", member_id: str) -> None:
        """The member holds something here."""

    def settled(self, served: "ServedPartition") -> None:
        """A write is done."""

    def closed(self, served: "ServedPartition") -> None:
        """It serves no longer."""


class ServedPartition:
    """See the module."""

    def __init__(self, key: Key, partition: Partition, parts: Parts) -> None:
        self.key = key
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.machine: SharePartition | None = None
        self.is_closed = False
        self.error_code = 0
        """Why it could not be loaded."""
        self._parts = parts
        self._state_epoch = 0
        self._waiting: dict[FetchWaiter, None] = {}
        self._written: dict[asyncio.Future[int], int] = {}
        self._timer: TimerHandle | None = None
        self._timer_at_ms = 0.0
        self._writing: asyncio.Future[None] | None = None
        self._loading = asyncio.ensure_future(self._load())
        self._loading.add_done_callback(self._ended)

    # Life

    @property
    def is_current(self) -> bool:
        """Whether this broker still leads in the epoch that this belongs to."""
        partition = self.partition
        return not self.is_closed and partition.leads and partition.leader_epoch == self.leader_epoch

    async def _load(self) -> None:
        parts = self._parts
        outcome = await parts.states.until_done(calls.read(self.key, self.leader_epoch), LOAD_ATTEMPTS_MAX)
        state = outcome.state
        if outcome.error_code or state is None:
            # No state: the group coordinator has not asked for it yet, or has it deleted.
            self.error_code = outcome.error_code or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            self.close()
            return
        self._state_epoch = state.state_epoch
        start_offset = state.start_offset
        if start_offset == NOT_CHOSEN:
            start_offset = await self._chosen_start()
        end_offset = self.partition.log.log_end_offset
        batches = [StateBatch(*each) for each in state.batches]
        if start_offset > end_offset:
            _log.warning(
                "share group %s begins at offset %d of %s-%d, whose log ends at %d: it begins there",
                self.key.group_id,
                start_offset,
                self.partition.topic,
                self.partition.index,
                end_offset,
            )
            start_offset = end_offset
        kept = [
            each._replace(last=min(each.last, end_offset - 1)) for each in batches if each.first < end_offset
        ]
        machine = SharePartition(start_offset, kept)
        machine.forget([each for each in batches if each.last >= end_offset], end_offset)
        if start_offset != state.start_offset:
            machine.start_chosen()
        self.machine = machine
        self._changed()
        self.wake()

    async def _chosen_start(self) -> int:
        """Where the group begins, by its setting share.auto.offset.reset."""
        partition, reset = self.partition, self._parts.terms_of(self.key.group_id).reset
        if reset == "earliest":
            return partition.log.log_start_offset
        before_ms = duration_ms(reset)
        if before_ms is not None:
            found = await self._parts.first_at(partition, self._parts.clock.now_ms() - before_ms)
            if found is not None:
                return max(found, partition.log.log_start_offset)
        return partition.high_watermark

    def _ended(self, task: "asyncio.Future[None]") -> None:
        if not task.cancelled() and task.exception() is not None:
            _log.error("%r: this is a bug", self, exc_info=task.exception())
            self.close()

    def close(self) -> None:
        """Serve no longer; everybody who waits is answered."""
        if self.is_closed:
            return
        self.is_closed = True
        for task in (self._loading, self._writing):
            if task is not None and task is not asyncio.current_task():
                task.cancel()
        if self._timer is not None:
            self._timer.cancel()
        for future in list(self._written):
            if not future.done():
                future.set_result(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._written.clear()
        self._parts.closed(self)
        self.wake()

    # Waiting

    def park(self, waiter: FetchWaiter) -> None:
        """Wake `waiter` when something can be acquired that could not be before."""
        self._waiting[waiter] = None

    def unpark(self, waiter: FetchWaiter) -> None:
        """Do not wake it any more."""
        self._waiting.pop(waiter, None)

    def wake(self) -> None:
        """Those who wait look again."""
        for waiter in list(self._waiting):
            waiter.more(0, 0)

    # What members do

    def take(self, member_id: str, wanted: Wanted, bytes_max: int, *, first: bool) -> Taken:
        """Acquire what there is for the member; `first`: the first batch is read whole, however large."""
        machine = self.machine
        if machine is None:
            return NOTHING
        terms, partition = self._parts.terms_of(self.key.group_id), self.partition
        self._look_at_log_start(machine)
        offset = machine.next_offset(terms.limits)
        end_offset = partition.last_stable_offset if terms.committed else partition.high_watermark
        if offset is None or offset >= end_offset:
            return NOTHING
        read = partition.read(
            offset, min(bytes_max, READ_BYTES_MAX), terms.committed, first, self.leader_epoch
        )
        if read.error_code:
            return Taken(read.error_code, [], b"")
        if not read.records:
            return NOTHING
        found = log_parts(read.records, offset, read.aborted, min(wanted.records_max, terms.limits.locks_max))
        acquired = machine.acquire(
            member_id, found.parts, wanted, terms.limits, self._parts.clock.monotonic_ms()
        )
        self._changed()
        if not acquired:
            return NOTHING if (machine.next_offset(terms.limits) or 0) <= offset else SKIPPED
        self._parts.acquired(self, member_id)
        return Taken(0, acquired, found.bytes_of(read.records, acquired[0].first, acquired[-1].last))

    def acknowledge(self, member_id: str, acks: list[Ack], *, renews: bool) -> Acknowledged:
        """Do what the member says of its records."""
        machine = self.machine
        if machine is None:
            return Acknowledged(ErrorCode.INVALID_RECORD_STATE, 0)  # it has nothing here
        terms = self._parts.terms_of(self.key.group_id)
        self._look_at_log_start(machine)
        done = machine.acknowledge(
            member_id,
            acks,
            terms.limits,
            self._parts.clock.monotonic_ms(),
            may_renew=renews and terms.may_renew,
        )
        self._changed()
        return done

    def may_hold(self, last: int) -> bool:
        """Whether anybody can have acquired this offset."""
        return self.machine is not None and last < self.machine.end_offset

    def release(self, member_id: str) -> None:
        """The member's session is gone."""
        if self.machine is not None and self.machine.release(
            member_id, self._parts.terms_of(self.key.group_id).limits
        ):
            self._changed()

    async def written(self, version: int) -> int:
        """Wait until this version is written; an error code."""
        if self.is_closed:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.machine is None or self.machine.is_written(version):
            return 0
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._written[future] = version
        try:
            return await future
        finally:
            self._written.pop(future, None)

    def _look_at_log_start(self, machine: SharePartition) -> None:
        start_offset = self.partition.log.log_start_offset
        if start_offset > machine.start_offset:
            machine.log_starts_at(start_offset)

    # Writing, and time

    def _changed(self) -> None:
        """The machine has changed: write what there is, and keep the timer behind its first lock."""
        machine = self.machine
        if machine is None or self.is_closed:
            return
        if self._writing is None:
            taken = machine.take_write()
            if taken is not None:
                change = Write(
                    self._state_epoch,
                    self.leader_epoch,
                    taken.start_offset,
                    taken.ended_count,
                    tuple(StoredBatch(*each) for each in taken.batches),
                )
                self._writing = asyncio.ensure_future(self._write(change))
                self._writing.add_done_callback(self._ended)
        earliest_ms = machine.earliest_ms()
        if earliest_ms is not None and (self._timer is None or earliest_ms < self._timer_at_ms):
            self._arm(earliest_ms)

    def _arm(self, at_ms: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at_ms = at_ms
        delay_ms = max(0.0, at_ms - self._parts.clock.monotonic_ms())
        self._timer = self._parts.timers.call_later(delay_ms, self._due)

    def _due(self) -> None:
        self._timer = None
        machine = self.machine
        if machine is None or self.is_closed:
            return
        if not self.is_current:
            self.close()
            return
        machine.expire(self._parts.terms_of(self.key.group_id).limits, self._parts.clock.monotonic_ms())
        self._changed()

    async def _write(self, change: Write) -> None:
        outcome = await self._parts.states.until_done(calls.write(self.key, change))
        self._writing = None
        machine = self.machine
        if self.is_closed or machine is None:
            return
        if outcome.error_code:
            _log.info("%r is served no longer: %s", self, error_name(outcome.error_code))
            self.close()
            return
        machine.written()
        for future, version in list(self._written.items()):
            if machine.is_written(version) and not future.done():
                future.set_result(0)
        self._changed()
        if self._waiting:
            self.wake()
        self._parts.settled(self)

    def has_work(self) -> bool:
        """Whether something is to be written, or held by a member."""
        return self._writing is not None or (self.machine is not None and bool(self.machine.acquired_count()))

    def __repr__(self) -> str:
        return f"share-partition {self.partition.topic}-{self.partition.index} of group {self.key.group_id}"


Search = Callable[[Partition, int], Awaitable[int | None]]
"""The first offset of a partition with at least a timestamp in milliseconds; None: there is none."""
