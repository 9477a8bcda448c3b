"""Fetches from one leader: one request at a time, for all partitions that are followed there.

    changes since the last one ──> Fetch ──> rows ──> append (raw, crc checked) ──> [fsync] ──> next Fetch
                                              ├──> diverging epoch ──> the role truncates
                                              ├──> offset out of range ──> out_of_range.py
                                              └──> another error: this partition pauses, the others go on

What is fetched when, and what follows from an answer, is decided by fetch_machine.py; here requests are sent,
and records appended. The next request leaves when everything that was appended is safe on this disk, because
its offsets tell the leader so. A batch with a wrong crc is never appended: the leader's copy is damaged, or
the network changed it.

A response is handled in slices, so that however many partitions and batches it has, the loop goes on.

A partition that comes while a request waits at the leader for records (up to `replica.fetch.wait.max.ms`)
would wait with it, and with it all producers, for whom this replica is in sync: a new topic, or one whose
leader died. Requests wait for a short time while such partitions come; those that come while one waits for
long begin on a connection of their own, with short waits, until the request returns. So do those without
which it was sent, because they were late: the leader commits what they stored when the next fetch says so.

         main   Fetch ───────── waits ───────── response   Fetch (with the newcomer) ──── ...
        early            newcomer ──> Fetch  Fetch  Fetch

Partitions that this replica is not in sync for have a fetch of their own (replica_fetcher.py): what they
catch up comes in large answers, behind which producers of the others would wait. It rests between them
(catch_up_pace.py).
"""

import asyncio
import logging
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from moldau.broker.log.appending.append_result import Refused
from moldau.broker.peers.broker_peers import BrokerPeers
from moldau.broker.peers.peers import PeerError
from moldau.broker.replication.following.catch_up_pace import FULL_BYTES, Gap
from moldau.broker.replication.following.fetch_machine import SHORT_WAIT_MS_MAX, Failing, FetchMachine
from moldau.broker.replication.following.fetch_outputs import (
    Append,
    FindStart,
    Outputs,
    Report,
    Restart,
    Truncate,
)
from moldau.broker.replication.following.fetch_parts import FetchParts
from moldau.broker.replication.following.followed import FetchState, Followed
from moldau.broker.replication.following.giving_way import give_way
from moldau.broker.replication.following.out_of_range import find_start
from moldau.broker.replication.role_outputs import FetchFrom
from moldau.common.core.slow_lane import Slices, all_steps
from moldau.common.protocol.errors import ErrorCode, error_name
from moldau.common.protocol.replica_fetch import (
    VERSION_MIN,
    Fetched,
    FetchedRow,
    decode_fetched,
)
from moldau.common.protocol.wire import MalformedMessage

if TYPE_CHECKING:
    from moldau.broker.replication.partition import Partition

log = logging.getLogger("moldau.replication")

_EARLY_POLL_MS = 20
_SLICED_BYTES = 64 * 1024
_ROWS_AT_ONCE = 64
_SAVED_AGAIN_MS = 1_000


class LeaderFetch:
    """The partitions that one fetch loop follows at one leader."""

    def __init__(
        self,
        leader: int,
        parts: FetchParts,
        peers: BrokerPeers,
        early_peers: Callable[[], BrokerPeers] | None = None,
        *,
        is_early: bool = False,
        caught_up: "Callable[[Partition, FetchFrom], None] | None" = None,
        ask_again: "Callable[[Partition], None]",
    ) -> None:
        """`early_peers`: connections for partitions that cannot wait, if there may be such; `is_early`: these
        fetches are theirs. `caught_up`: takes the partitions that are in sync, when nothing comes any more.
        `ask_again`: `LeaderFetch.ask_again` of the fetch that has the partition by then.
        """
        self.leader = leader
        self._parts = parts
        self._peers = peers
        self._early_peers = early_peers
        self._early: LeaderFetch | None = None
        self._caught_up, self._ask_again = caught_up, ask_again
        self._gap = Gap()
        self._machine = FetchMachine(
            leader,
            parts.host.random,
            pause_ms_max=parts.pause_ms_max,
            must_wait=self._must_wait,
            incremental=not is_early,
        )
        self._waits = False  # a request is at the leader, for as long as it may
        self._searches: dict[asyncio.Task[None], None] = {}
        self._task: asyncio.Task[None] | None = None
        self._news: asyncio.Future[None] | None = None
        self._broker_epoch = -1
        self._closed = False

    @property
    def failing(self) -> Failing | None:
        """Since when requests fail as a whole, and why; None: they do not."""
        return self._machine.failing

    def _must_wait(self, partition: "Partition") -> bool:
        """Whether the partition is throttled and the rate is exceeded (KIP-73)."""
        quota = self._parts.quota
        return (
            partition.follower_throttled
            and self._parts.node_id not in partition.isr
            and quota is not None
            and quota.exceeded()
        )

    # What to follow

    def follow(self, partition: "Partition", fetch: FetchFrom) -> None:
        """Fetch this partition from here on."""
        may_come_early = self._waits or self._early is not None
        if may_come_early and self._comes_early(partition):
            self._early_fetch().follow(partition, fetch)
        else:
            self._follow(partition, fetch)

    def _comes_early(self, partition: "Partition") -> bool:
        """Whether the partition is fetched over the second connection for now."""
        held = self._machine.find(partition.topic_id, partition.index)
        if held is not None and held.partition is partition:
            if not (self._can_come_early and held.state is FetchState.LATE and not held.failures):
                return False
            # The request at the leader went without it, and has told the leader to leave it out.
            self._machine.stop(partition)
            return True
        if self._early is not None and self._early._machine.holds(partition):
            return True
        return self._can_come_early

    @property
    def _can_come_early(self) -> bool:
        return self._waits and self._early_peers is not None

    def _early_fetch(self) -> "LeaderFetch":
        if self._early is None:
            assert self._early_peers is not None
            self._early = LeaderFetch(
                self.leader, self._parts, self._early_peers(), is_early=True, ask_again=self._ask_again
            )
        return self._early

    async def _take_over_early(self, early: "LeaderFetch") -> None:
        """Those that began over the second connection go on with all others."""
        slices = self._parts.lane.slices()
        for followed in list(early.all()):
            if slices.spent():
                await slices.next_slice()
            if followed.is_fetched:  # still: others were stopped, or have something to store, meanwhile
                early.stop(followed.partition)
                self._follow(followed.partition, FetchFrom(self.leader, *followed.position))

    def _follow(self, partition: "Partition", fetch: FetchFrom) -> None:
        self._machine.follow(partition, fetch)
        self._tell()
        self.begin()

    def begin(self) -> None:
        """Begin to fetch, if there is something to, and this broker is registered: a fetch without a broker
        epoch could not be told from one sent before a restart (KIP-903).
        """
        if self._task is not None or self._closed:
            return
        self._broker_epoch = max(self._broker_epoch, self._parts.broker_epoch())
        if self._broker_epoch >= 0 and not self._machine.is_empty:
            self._task = self._parts.host.loop.create_task(self._run())

    def stop(self, partition: "Partition") -> None:
        """Follow this partition no more."""
        if self._early is not None:
            self._early.stop(partition)
        self._machine.stop(partition)
        self._tell()

    def ask_again(self, partition: "Partition") -> None:
        """Something that requests tell the leader about this partition has changed."""
        if self._early is not None:
            self._early.ask_again(partition)
        followed = self._machine.find(partition.topic_id, partition.index)
        if followed is not None and followed.partition is partition:
            self._machine.ask_again(followed)
            self._tell()

    def close(self) -> None:
        """Fetch nothing more."""
        self._closed = True
        self._machine.close()
        if self._early is not None:
            self._early.close()
        for task in [*self._searches, *([] if self._task is None else [self._task])]:
            task.cancel()

    def all(self) -> Iterator[Followed]:
        """The partitions that are followed here."""
        return self._machine.all()

    # The loop

    async def _run(self) -> None:
        try:
            while not self._closed:
                try:
                    if not await self._turn():
                        break
                except Exception:
                    log.exception("fetching from broker %d failed: this is a bug", self.leader)
                    self._request_failed("a bug")
                    await self._something_new(self._machine.silent_until_ms - self._now_ms())
        finally:
            self._task = None

    async def _turn(self) -> bool:
        """Fetch, or wait until a fetch may be due; whether there may be more to do."""
        machine = self._machine
        if self._early is not None and not machine.is_storing:
            await self._take_over_early(self._early)
        now_ms = self._now_ms()
        machine.tick(now_ms)
        if machine.may_request(now_ms):
            await self._fetch_once()
            return True
        early_is_busy = self._early is not None and not self._early._machine.is_empty
        if machine.is_empty and not early_is_busy:
            return False
        wait_ms = machine.next_ms() - now_ms
        await self._something_new(min(wait_ms, _EARLY_POLL_MS) if early_is_busy else wait_ms)
        return True

    async def _something_new(self, timeout_ms: float) -> None:
        """Wait for a partition that is added, becomes ready, or goes; or for so long."""
        self._news = self._parts.host.loop.create_future()
        timer = None
        if timeout_ms < math.inf:
            timer = self._parts.host.timers.call_later(max(0.0, timeout_ms), self._tell)
        try:
            await self._news
        finally:
            self._news = None
            if timer is not None:
                timer.cancel()

    def _tell(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def _now_ms(self) -> float:
        return self._parts.clock.monotonic_ms()

    # One request

    async def _fetch_once(self) -> None:
        parts, machine, limits = self._parts, self._machine, self._parts.limits()
        if self._caught_up is not None:
            limits = parts.pace.within(limits)
        if parts.quota is not None and parts.quota.exceeded():
            machine.hold_back()
        wait_ms = machine.wait_ms_max(limits.wait_ms_max, self._now_ms())
        waits_long = wait_ms > min(SHORT_WAIT_MS_MAX, limits.wait_ms_max - 1)
        begun = machine.request(limits, wait_ms)
        if begun is None:
            return
        request, changed = begun
        # Epochs rise; without a session there is none, and the last one shows who this was.
        self._broker_epoch = max(self._broker_epoch, parts.broker_epoch())
        request.replica_id, request.replica_epoch = parts.node_id, self._broker_epoch
        slices = parts.lane.slices() if len(changed) > _ROWS_AT_ONCE else None
        for count, followed in enumerate(changed, 1):
            machine.row_asked(followed, request, limits)
            if slices is not None and not count % _ROWS_AT_ONCE and slices.spent():
                await slices.next_slice()
        if not machine.session_told():
            return
        parts.counts.requests += 1
        self._waits = waits_long
        try:
            response = await self._peers.send_raw(
                self.leader,
                request,
                timeout_ms=max(parts.timeout_ms(), 2 * wait_ms),
                version_min=VERSION_MIN,
            )
            self._waits = False
            steps = decode_fetched(response.frame, response.version, response.body_offset)
            if len(response.frame) <= _SLICED_BYTES:
                answer = all_steps(steps)
            else:
                answer = await parts.lane.slices().run(steps)
        except PeerError as error:
            self._request_failed(str(error))
            return
        except MalformedMessage as error:
            log.error("broker %d sent a Fetch response that cannot be read: %s", self.leader, error)
            self._request_failed(str(error))
            return
        finally:
            self._waits = False
        if answer.error_code:
            if not machine.refused(answer.error_code):
                self._request_failed(f"error {error_name(answer.error_code)}")
            return
        machine.answered()
        await self._take(answer)
        machine.session_answered(answer.session_id)
        nothing_came = not answer.topics
        del answer
        size_bytes = len(response.frame)
        self._peers.give_back(self.leader, response)
        if self._caught_up is None:
            return
        if nothing_came:
            await self._hand_over(self._caught_up)
        elif size_bytes >= FULL_BYTES:
            partitions = (each.partition for each in self.all())
            await give_way(self._parts, self._parts.pace, self._gap, partitions, size_bytes)

    def _request_failed(self, reason: str) -> None:
        self._parts.counts.failed_requests += 1
        self._report(self._machine.request_failed(reason, self._now_ms()))

    async def _hand_over(self, caught_up: "Callable[[Partition, FetchFrom], None]") -> None:
        """Those that are in sync by now go on with all others."""
        slices = self._parts.lane.slices()
        for followed in list(self.all()):
            if slices.spent():
                await slices.next_slice()
            if followed.is_fetched and self._parts.node_id in followed.partition.isr:
                caught_up(followed.partition, FetchFrom(self.leader, *followed.position))

    # Rows, and what they lead to

    async def _take(self, answer: Fetched) -> None:
        machine, slices, begun = self._machine, self._parts.lane.slices(), False
        for topic_id, rows in answer.topics:
            for row in rows:
                if begun and slices.spent():  # after the last row the next request leaves at once
                    await slices.next_slice()
                followed = machine.asked(topic_id, row.partition_index)
                if followed is None:
                    continue
                begun = True
                try:
                    append = self._take_row(followed, row)
                    if append is not None:
                        rest = self._append(append, append.records)
                        if rest is not None:
                            await self._append_rest(append, rest, slices)
                except Exception:
                    self._handling_failed(followed)

    def _handling_failed(self, followed: Followed) -> None:
        """What is being handled is an exception."""
        log.exception("what was fetched of %s failed: this is a bug", followed.name)
        log_end_offset = followed.partition.log.log_end_offset
        self._machine.handling_failed(followed, log_end_offset, self._now_ms())

    def _take_row(self, followed: Followed, row: FetchedRow) -> Append | None:
        """Take a row; what is to be appended is returned."""
        log_start_offset = followed.partition.log.log_start_offset
        outputs = self._machine.row(followed, row, log_start_offset, self._now_ms())
        if outputs and type(outputs[0]) is Append:
            return outputs[0]
        if row.error_code and row.error_code != ErrorCode.OFFSET_OUT_OF_RANGE:
            self._parts.counts.partition_errors += 1
        self._carry_out(outputs)
        return None

    def _carry_out(self, outputs: Outputs) -> None:
        for output in outputs:
            match output:
                case Truncate():
                    self._truncate(output)
                case Restart(followed, leader_epoch, offset):
                    if not followed.partition.restart_at(leader_epoch, offset):
                        self._machine.not_restarted(followed, self._now_ms())
                case FindStart():
                    task = self._parts.host.loop.create_task(self._find_start(output))
                    self._searches[task] = None
                    task.add_done_callback(lambda done: self._searches.pop(done, None))
        self._report(outputs)

    def _report(self, outputs: Outputs) -> None:
        for output in outputs:
            if isinstance(output, Report):
                log.log(output.level, "%s", output.text)

    def _append(self, append: Append, records: bytes | memoryview) -> memoryview | None:
        """Append as many of these batches as one call takes: those that are still to be appended; None: there
        are none, or they are not wanted.
        """
        machine, followed = self._machine, append.followed
        partition = followed.partition
        began_at = partition.log.log_start_offset
        result = partition.append_as_follower(
            memoryview(records),
            followed.position.leader_epoch,
            append.high_watermark,
            self._parts.clock.now_ms(),
            append.log_start_offset,
        )
        if isinstance(result, Refused):
            machine.append_failed(followed, None, self._now_ms())
            return None
        if partition.log.log_start_offset != began_at:
            self._save_log_start(partition, began_at)
        size_bytes = result.size_bytes
        if size_bytes:
            self._count(partition, size_bytes)
        if result.error_code:
            message = None
            if result.error_code != ErrorCode.KAFKA_STORAGE_ERROR:
                self._parts.counts.corrupt_batches += 1
                message = result.error_message or error_name(result.error_code)
            self._report(machine.append_failed(followed, message, self._now_ms()))
            return None
        machine.appended(followed)
        if not 0 < size_bytes < len(records) or not followed.is_followed:
            return None
        return memoryview(records)[size_bytes:]

    async def _append_rest(self, append: Append, left: memoryview | None, slices: Slices) -> None:
        """Append what is left, some batches at a time, as long as nothing else is wanted meanwhile."""
        followed = append.followed
        partition, leader_epoch = followed.partition, followed.position.leader_epoch
        while left is not None:
            if slices.spent():
                end_offset = partition.log.log_end_offset
                await slices.next_slice()
                if not followed.is_followed or followed.position.leader_epoch != leader_epoch:
                    return
                if partition.log.log_end_offset != end_offset:
                    return  # truncated meanwhile
            self._machine.store(followed)
            left = self._append(append, left)

    def _count(self, partition: "Partition", size_bytes: int) -> None:
        self._parts.counts.bytes_fetched += size_bytes
        partition.stats.replication_bytes_in += size_bytes
        if partition.follower_throttled and self._parts.quota is not None:
            self._parts.quota.record(size_bytes)

    def _truncate(self, truncate: Truncate) -> None:
        """The role truncates, and fetches again once that is on the disk."""
        partition = truncate.followed.partition
        before = (partition.log.log_end_offset, partition.log.latest_leader_epoch)
        partition.diverged(truncate.leader_epoch, truncate.epoch, truncate.end_offset)
        if before == (partition.log.log_end_offset, partition.log.latest_leader_epoch):
            self._report(self._machine.not_truncated(truncate, self._now_ms()))

    def _save_log_start(self, partition: "Partition", began_at: int) -> None:
        """The leader has deleted records. It hears that they are deleted here, too, once a restart would find
        it so: DeleteRecords is answered then. Another fetch may have the partition by then.
        """
        this = object()
        before = partition.log_start_saved
        partition.log_start_saved = (began_at if before is None else before[0], this)

        def saved(worked: bool) -> None:
            if partition.log_start_saved is None or partition.log_start_saved[1] is not this:
                return  # a later one is being written down
            if not worked and not self._closed:  # the disk is full, say
                self._parts.host.timers.call_later(_SAVED_AGAIN_MS, save)
                return
            partition.log_start_saved = None
            self._ask_again(partition)

        def save() -> None:
            self._parts.save_log_start(partition.log, saved)

        save()

    async def _find_start(self, search: FindStart) -> None:
        """The leader has nothing at this offset: begin where it has."""
        followed = search.followed
        try:
            start = await find_start(
                self._peers, self.leader, self._parts.node_id, followed, self._parts.timeout_ms()
            )
        except PeerError as error:
            log.debug("where broker %d has %s is not known: %s", self.leader, followed.name, error)
            start = None
        except Exception:
            log.exception("looking for the start of %s failed: this is a bug", followed.name)
            start = None
        try:
            self._carry_out(self._machine.start_found(followed, search.position, start, self._now_ms()))
        except Exception:
            self._handling_failed(followed)
        self._tell()
