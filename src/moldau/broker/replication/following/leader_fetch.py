"""Fetches from one leader: one request at a time, for all partitions that are followed there.

    changes since the last one ──> Fetch ──> rows ──> append (raw, crc checked) ──> [fsync] ──> next Fetch
                                              ├──> diverging epoch ──> the role truncates
                                              ├──> offset out of range ──> out_of_range.py
                                              └──> another error: this partition pauses, the others go on

The next request leaves when everything that was appended is safe on this disk, because its offsets tell the
leader so; partitions that take longer than the others are left out until they are done.

A result counts only if the partition still wants what was asked for; else it is dropped (the leader or its
epoch changed, or the log was truncated meanwhile). A batch with a wrong crc is never appended: the leader's
copy is damaged, or the network changed it; the log says which leader, and only this partition pauses.

A response is handled in slices, so that however many partitions and batches it has, the loop goes on.

A partition that comes while a request waits at the leader for records (up to `replica.fetch.wait.max.ms`)
would wait with it, and with it all producers, for whom this replica is in sync: a new topic, or one whose
leader died. Such partitions begin on a connection of their own, with short waits, until the request returns.

         main   Fetch ───────── waits ───────── response   Fetch (with the newcomer) ──── ...
        early            newcomer ──> Fetch  Fetch  Fetch

Partitions that this replica is not in sync for have a fetch of their own (replica_fetcher.py): what they
catch up comes in large answers, behind which producers of the others would wait.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from moldau.broker.log.appending.append_result import Refused
from moldau.broker.peers.broker_peers import BrokerPeers
from moldau.broker.peers.call import RawResponse
from moldau.broker.peers.host import PeerHost
from moldau.broker.peers.peers import PeerError
from moldau.broker.replication.following.followed import Followed
from moldau.broker.replication.following.follower_session import FetchLimits, FollowerSession
from moldau.broker.replication.following.out_of_range import find_start
from moldau.broker.replication.replication_quota import ReplicationQuota
from moldau.broker.replication.role_outputs import FetchFrom
from moldau.common.core.clock import Clock
from moldau.common.core.slow_lane import Slices, SlowLane
from moldau.common.protocol.errors import ErrorCode, error_name
from moldau.common.protocol.messages.fetch import FetchResponse, FetchTopic, PartitionData, ReplicaState
from moldau.common.protocol.wire import MalformedMessage

if TYPE_CHECKING:
    from moldau.broker.log.log import Log
    from moldau.broker.replication.partition import Partition

log = logging.getLogger("moldau.replication")

_VERSION_MIN = 15  # with the replica's broker epoch (KIP-903)
_PAUSE_MS_FIRST = 50.0
_JITTER = 0.2
_SAFE_WAIT_MS = 100.0
_THROTTLED_MS = 100.0
_RELEASED_AT_ONCE = 256
_EARLY_WAIT_MS = 20
_SLICED_BYTES = 64 * 1024
_ELEMENTS_MAX = 4_000_000
_ROWS_AT_ONCE = 64
_SESSION_ERRORS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
_EXPECTED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
"""Errors while one broker's metadata is older than another's."""


@dataclass(slots=True, kw_only=True)
class FetchCounts:
    """What was fetched, for metrics."""

    requests: int = 0
    failed_requests: int = 0
    bytes_fetched: int = 0
    partition_errors: int = 0
    corrupt_batches: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchParts:
    """What all fetches of a broker share."""

    node_id: int
    host: PeerHost
    clock: Clock
    lane: SlowLane
    limits: Callable[[], FetchLimits]
    pause_ms_max: Callable[[], int]
    """replica.fetch.backoff.ms: pauses after errors grow up to this."""
    timeout_ms: Callable[[], int]
    """replica.socket.timeout.ms"""
    broker_epoch: Callable[[], int]
    """Under which this broker is registered; -1: it is not."""
    counts: FetchCounts
    quota: ReplicationQuota | None = None
    """Of throttled partitions."""
    save_log_start: "Callable[[Log, Callable[[], None]], None]" = lambda log, done: done()
    """Write down where a log begins, then call."""


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
    ) -> None:
        """`early_peers`: connections for partitions that cannot wait, if there may be such; `is_early`: these
        fetches are theirs. `caught_up`: takes the partitions that are in sync, when nothing comes any more.
        """
        self.leader = leader
        self._parts = parts
        self._peers = peers
        self._early_peers = early_peers
        self._early: LeaderFetch | None = None
        self._is_early = is_early
        self._caught_up = caught_up
        self._session = FollowerSession(incremental=not is_early)
        self._waits = False  # a request is at the leader
        self._by_id: dict[bytes, dict[int, Followed]] = {}
        self._unsafe: dict[Followed, None] = {}  # appended, and not safe on this disk yet
        self._failures = 0
        self.failing: tuple[float, str] | None = None
        """Since when (monotonic, in milliseconds) requests fail as a whole, and why; None: they do not."""
        self._throttled: dict[Followed, int] = {}  # held back by the rate, and its `paused` then
        self._release_is_due = False
        self._searches: dict[asyncio.Task[None], None] = {}
        self._task: asyncio.Task[None] | None = None
        self._news: asyncio.Future[None] | None = None
        self._broker_epoch = -1
        self._closed = False

    # What to follow

    def follow(self, partition: "Partition", fetch: FetchFrom) -> None:
        """Fetch this partition from here on."""
        if self._comes_early(partition):
            self._early_fetch().follow(partition, fetch)
        else:
            self._follow(partition, fetch)

    def _comes_early(self, partition: "Partition") -> bool:
        """Whether the partition is fetched over the second connection for now."""
        if self._holds(partition):
            return False
        if self._early is not None and self._early._holds(partition):
            return True
        return self._waits and self._early_peers is not None

    def _holds(self, partition: "Partition") -> bool:
        held = self._by_id.get(partition.topic_id)
        followed = None if held is None else held.get(partition.index)
        return followed is not None and followed.partition is partition

    def _early_fetch(self) -> "LeaderFetch":
        if self._early is None:
            assert self._early_peers is not None
            self._early = LeaderFetch(self.leader, self._parts, self._early_peers(), is_early=True)
        return self._early

    def _take_over_early(self) -> None:
        """Those that began over the second connection go on with all others."""
        early = self._early
        if early is None:
            return
        for followed in list(early.all()):
            if followed.ready and not followed.paused:
                partition, position = followed.partition, followed.position
                early.stop(partition)
                self._follow(partition, FetchFrom(self.leader, *position))

    def _follow(self, partition: "Partition", fetch: FetchFrom) -> None:
        held = self._by_id.setdefault(partition.topic_id, {})
        followed = held.get(partition.index)
        if followed is None or followed.partition is not partition:
            if followed is not None:
                self._forget(followed)
            held[partition.index] = followed = Followed(partition, fetch)
        else:
            followed.wants(fetch)
            self._unsafe.pop(followed, None)
        if not followed.paused:
            self._ask_for(followed)
        self.begin()

    def _ask_for(self, followed: Followed) -> None:
        """Fetch this partition with the next request, unless it must be slowed down (KIP-73)."""
        if self._must_wait(followed):
            self._hold_back(followed)
        else:
            self._session.ask_for(followed)
            self._tell()

    def _must_wait(self, followed: Followed) -> bool:
        """Whether the partition is throttled and the rate is exceeded."""
        partition, quota = followed.partition, self._parts.quota
        return (
            partition.follower_throttled
            and self._parts.node_id not in partition.isr
            and quota is not None
            and quota.exceeded()
        )

    def _hold_back(self, followed: Followed) -> None:
        self._session.leave_out(followed)
        followed.paused += 1
        self._throttled[followed] = followed.paused
        if not self._release_is_due:
            self._release_is_due = True
            self._parts.host.timers.call_later(_THROTTLED_MS, self._release)

    def _hold_back_all(self) -> None:
        """The rate is exceeded: fetch throttled partitions no more, also those that have got nothing yet."""
        for followed in self._session.asked():
            if self._must_wait(followed):
                self._hold_back(followed)

    def _release(self) -> None:
        """Go on with those that waited longest, if the rate is not exceeded any more; one timer for all, as
        there may be thousands.
        """
        self._release_is_due = False
        for followed, pause in list(islice(self._throttled.items(), _RELEASED_AT_ONCE)):
            del self._throttled[followed]
            if followed.paused != pause or not self._is_followed(followed):
                continue
            if self._must_wait(followed):
                self._throttled[followed] = pause
            else:
                self._resume(followed, pause)
        if self._throttled and not self._release_is_due and not self._closed:
            self._release_is_due = True
            self._parts.host.timers.call_later(_THROTTLED_MS, self._release)

    def begin(self) -> None:
        """Begin to fetch, if there is something to, and this broker is registered: a fetch without a broker
        epoch could not be told from one sent before a restart (KIP-903).
        """
        self._broker_epoch = max(self._broker_epoch, self._parts.broker_epoch())
        if self._task is None and self._by_id and self._broker_epoch >= 0 and not self._closed:
            self._task = self._parts.host.loop.create_task(self._run())

    def stop(self, partition: "Partition") -> None:
        """Follow this partition no more."""
        if self._early is not None:
            self._early.stop(partition)
        held = self._by_id.get(partition.topic_id, {})
        followed = held.get(partition.index)
        if followed is None or followed.partition is not partition:
            return
        del held[partition.index]
        if not held:
            del self._by_id[partition.topic_id]
        self._throttled.pop(followed, None)
        self._forget(followed)

    def _forget(self, followed: Followed) -> None:
        self._unsafe.pop(followed, None)
        self._session.leave_out(followed)
        self._tell()

    def close(self) -> None:
        """Fetch nothing more."""
        self._closed = True
        self._by_id.clear()
        if self._early is not None:
            self._early.close()
        for task in [*self._searches, *([] if self._task is None else [self._task])]:
            task.cancel()

    def all(self) -> Iterator[Followed]:
        """The partitions that are followed here."""
        for held in self._by_id.values():
            yield from held.values()

    def _is_followed(self, followed: Followed) -> bool:
        held = self._by_id.get(followed.partition.topic_id)
        return held is not None and held.get(followed.partition.index) is followed

    # The loop

    async def _run(self) -> None:
        try:
            while not self._closed:
                await self._until_ready()
                self._take_over_early()
                early_is_busy = self._early is not None and bool(self._early._by_id)
                if self._session.is_empty:
                    if not (self._by_id or early_is_busy):
                        break
                    await self._something_new(_EARLY_WAIT_MS if early_is_busy else None)
                    continue
                try:
                    await self._fetch_once()
                except Exception:
                    log.exception("fetching from broker %d failed: this is a bug", self.leader)
                    await self._fail("a bug")
        finally:
            self._task = None

    async def _until_ready(self) -> None:
        """Wait until all that was appended is safe, or for too long: then the others go on."""
        if not self._unsafe:
            return
        late = self._parts.host.timers.call_later(_SAFE_WAIT_MS, self._leave_out_unsafe)
        while self._unsafe:
            await self._something_new()
        late.cancel()

    def _leave_out_unsafe(self) -> None:
        for followed in self._unsafe:
            self._session.leave_out(followed)
        self._unsafe.clear()
        self._tell()

    async def _something_new(self, timeout_ms: float | None = None) -> None:
        """Wait for a partition that is added, becomes ready, or goes; or for so long."""
        self._news = self._parts.host.loop.create_future()
        timer = None if timeout_ms is None else self._parts.host.timers.call_later(timeout_ms, self._tell)
        try:
            await self._news
        finally:
            self._news = None
            if timer is not None:
                timer.cancel()

    def _tell(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    async def _fail(self, reason: str) -> None:
        """A request failed as a whole: begin a new session after a pause."""
        self._parts.counts.failed_requests += 1
        since_ms = self._parts.clock.monotonic_ms() if self.failing is None else self.failing[0]
        self.failing = (since_ms, reason)
        self._begin_anew()
        pause_ms = self._pause_ms(self._failures)
        self._failures += 1
        log.debug("a fetch from broker %d failed: %s; the next in %d ms", self.leader, reason, pause_ms)
        end_ms = self._parts.clock.monotonic_ms() + pause_ms
        while not self._closed and (left_ms := end_ms - self._parts.clock.monotonic_ms()) > 0:
            await self._something_new(left_ms)

    def _begin_anew(self) -> None:
        self._session.begin_anew(
            followed for followed in self.all() if followed.ready and not followed.paused
        )

    def _pause_ms(self, failures: int) -> float:
        pause_ms_max = float(self._parts.pause_ms_max())
        pause_ms: float = min(pause_ms_max, _PAUSE_MS_FIRST * 2 ** min(failures, 20))
        return pause_ms * (1 + _JITTER * (2 * self._parts.host.random.random() - 1))

    # One request

    async def _fetch_once(self) -> None:
        parts = self._parts
        session, limits = self._session, parts.limits()
        if parts.quota is not None and parts.quota.exceeded():
            self._hold_back_all()
            if session.is_empty:
                return  # the next request tells the leader what is left out
        if self._is_early:
            limits = limits._replace(wait_ms_max=min(limits.wait_ms_max, _EARLY_WAIT_MS))
        request = session.request(limits)
        # Epochs rise; without a session there is none, and the last one shows who this was.
        self._broker_epoch = max(self._broker_epoch, parts.broker_epoch())
        request.replica_state = ReplicaState(replica_id=parts.node_id, replica_epoch=self._broker_epoch)
        topics: dict[bytes, FetchTopic] = {}
        changed = session.take_changed()
        slices = parts.lane.slices() if len(changed) > _ROWS_AT_ONCE else None
        for count, followed in enumerate(changed, 1):
            if self._is_followed(followed) and followed.ready and not followed.paused:
                session.row(followed, topics, limits)
            if slices is not None and not count % _ROWS_AT_ONCE and slices.spent():
                await slices.next_slice()
        if not session.told:
            self._begin_anew()  # what it would have left out is not told
            return
        request.topics = list(topics.values())
        parts.counts.requests += 1
        self._waits = True
        try:
            response = await self._peers.send_raw(
                self.leader,
                request,
                timeout_ms=max(parts.timeout_ms(), 2 * limits.wait_ms_max),
                version_min=_VERSION_MIN,
            )
            self._waits = False
            answer = await self._decode(response)
        except PeerError as error:
            await self._fail(str(error))
            return
        except MalformedMessage as error:
            log.error("broker %d sent a Fetch response that cannot be read: %s", self.leader, error)
            await self._fail(str(error))
            return
        finally:
            self._waits = False
        if answer.error_code:
            await self._refused(answer.error_code)
            return
        self._failures = 0
        self.failing = None
        await self._take(answer)
        goes_on, nothing_came = session.answered(answer.session_id), not answer.responses
        del answer
        self._peers.give_back(self.leader, response)
        if not goes_on:
            self._begin_anew()
        if nothing_came and self._caught_up is not None:
            await self._hand_over(self._caught_up)

    async def _hand_over(self, caught_up: "Callable[[Partition, FetchFrom], None]") -> None:
        """Those that are in sync by now go on with all others."""
        slices = self._parts.lane.slices()
        for followed in list(self.all()):
            if slices.spent():
                await slices.next_slice()
            partition, is_idle = followed.partition, followed.ready and not followed.paused
            if is_idle and self._parts.node_id in partition.isr and self._is_followed(followed):
                caught_up(partition, FetchFrom(self.leader, *followed.position))

    async def _decode(self, response: RawResponse) -> FetchResponse:
        frame, offset, version = response
        if len(frame) <= _SLICED_BYTES:
            return FetchResponse.decode(frame, version, offset)
        steps = FetchResponse.decode_in_slices(frame, version, offset, _ELEMENTS_MAX)
        return await self._parts.lane.slices().run(steps)

    async def _refused(self, error_code: int) -> None:
        if error_code in _SESSION_ERRORS and not self._failures:
            self._failures += 1  # once more at once, with a new session
            self._begin_anew()
        else:
            await self._fail(f"error {error_name(error_code)}")

    # Rows

    async def _take(self, answer: FetchResponse) -> None:
        slices, begun = self._parts.lane.slices(), False
        for topic in answer.responses:
            held = self._by_id.get(topic.topic_id)
            for row in topic.partitions:
                if begun and slices.spent():  # after the last row the next request leaves at once
                    await slices.next_slice()
                followed = None if held is None else held.get(row.partition_index)
                if followed is None:
                    continue
                begun = True
                position = self._session.told.get(followed)
                if position is not None and position == followed.position and not followed.paused:
                    try:
                        await self._take_row(followed, row, slices)
                    except Exception:
                        log.exception("what was fetched of %s failed: this is a bug", followed.name)
                        self._pause(followed)
                        followed.position = position._replace(offset=followed.partition.log.log_end_offset)
                        followed.ready = True

    async def _take_row(self, followed: Followed, row: PartitionData, slices: Slices) -> None:
        if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._session.leave_out(followed)
            followed.paused += 1
            task = self._parts.host.loop.create_task(self._find_start(followed, followed.paused))
            self._searches[task] = None
            task.add_done_callback(lambda done: self._searches.pop(done, None))
            return
        if row.error_code:
            self._say_error(followed, row.error_code)
            self._pause(followed)
            return
        diverging = row.diverging_epoch
        if diverging.epoch >= 0 or diverging.end_offset >= 0:
            if followed.partition.log.log_start_offset < diverging.end_offset <= row.log_start_offset:
                # The leader deleted what it had in that epoch. Records kept below its start would be judged
                # by nobody, and a batch that its start cuts through could not be appended behind them.
                self._session.leave_out(followed)
                self._restart(followed, row.log_start_offset)
                return
            self._diverged(followed, diverging.epoch, diverging.end_offset)
            return
        await self._append(followed, row, slices)

    def _diverged(self, followed: Followed, epoch: int, end_offset: int) -> None:
        """The leader's history is another one from there on: the role truncates, and fetches again once that
        is on the disk.
        """
        partition, position = followed.partition, followed.position
        before = (partition.log.log_end_offset, partition.log.latest_leader_epoch)
        followed.ready = False
        self._unsafe[followed] = None
        partition.diverged(position.leader_epoch, epoch, end_offset)
        if before == (partition.log.log_end_offset, partition.log.latest_leader_epoch):
            if not followed.failures:
                log.error(
                    "%s diverges from broker %d at epoch %d, which ended at %d there, and could not be "
                    "truncated; this is tried again",
                    followed.name,
                    self.leader,
                    epoch,
                    end_offset,
                )
            followed.ready = True
            self._pause(followed)

    def _save_log_start(self, followed: Followed, began_at: int) -> None:
        """The leader has deleted records. It hears that they are deleted here, too, once a restart would find
        it so: DeleteRecords is answered then.
        """
        partition, this = followed.partition, object()
        before = partition.log_start_saved
        partition.log_start_saved = (began_at if before is None else before[0], this)

        def saved() -> None:
            if partition.log_start_saved is None or partition.log_start_saved[1] is not this:
                return  # a later one is being written down
            partition.log_start_saved = None
            if self._is_followed(followed) and followed.ready and not followed.paused and not self._closed:
                self._ask_for(followed)

        self._parts.save_log_start(partition.log, saved)

    async def _append(self, followed: Followed, row: PartitionData, slices: Slices) -> None:
        partition = followed.partition
        rest = memoryview(row.records or b"")
        while True:
            position = followed.position
            followed.ready = False
            self._unsafe[followed] = None
            began_at = partition.log.log_start_offset
            result = partition.append_as_follower(
                rest,
                position.leader_epoch,
                row.high_watermark,
                self._parts.clock.now_ms(),
                row.log_start_offset,
            )
            if isinstance(result, Refused):
                self._pause(followed)
                return
            if partition.log.log_start_offset != began_at:
                self._save_log_start(followed, began_at)
            self._parts.counts.bytes_fetched += result.size_bytes
            partition.stats.replication_bytes_in += result.size_bytes
            if partition.follower_throttled and self._parts.quota is not None:
                self._parts.quota.record(result.size_bytes)
            if result.error_code:
                self._append_refused(followed, result.error_code, result.error_message, position.offset)
                return
            followed.failures = 0
            rest = rest[result.size_bytes :]
            if not result.size_bytes or not len(rest) or not self._is_followed(followed):
                return
            if slices.spent():
                await slices.next_slice()
                if not self._is_followed(followed) or followed.position.leader_epoch != position.leader_epoch:
                    return
                if partition.log.log_end_offset != result.end_offset:
                    return  # truncated meanwhile

    def _append_refused(self, followed: Followed, error_code: int, message: str | None, offset: int) -> None:
        if error_code != ErrorCode.KAFKA_STORAGE_ERROR:
            self._parts.counts.corrupt_batches += 1
            if not followed.failures:
                log.error(
                    "what broker %d sent of %s from offset %d is damaged and was not appended: %s. It is "
                    "asked again; if this does not end, the copy on that broker's disk is damaged",
                    self.leader,
                    followed.name,
                    offset,
                    message,
                )
        self._pause(followed)

    def _say_error(self, followed: Followed, error_code: int) -> None:
        self._parts.counts.partition_errors += 1
        if error_code not in _EXPECTED and not followed.failures:
            log.error(
                "broker %d answers the fetch of %s at offset %d with %s",
                self.leader,
                followed.name,
                followed.position.offset,
                error_name(error_code),
            )

    # Pauses

    def _pause(self, followed: Followed) -> None:
        """Leave this partition out for a while."""
        self._unsafe.pop(followed, None)
        self._session.leave_out(followed)
        if not self._is_followed(followed):
            return
        followed.paused += 1
        pause = followed.paused
        self._parts.host.timers.call_later(
            self._pause_ms(followed.failures), lambda: self._resume(followed, pause)
        )
        followed.failures += 1

    def _resume(self, followed: Followed, pause: int) -> None:
        if followed.paused != pause or not self._is_followed(followed):
            return
        followed.paused = 0
        if followed.ready:  # else it comes again when its last records or its truncation are safe
            self._ask_for(followed)

    async def _find_start(self, followed: Followed, pause: int) -> None:
        """The leader has nothing at this offset: begin where it has."""
        position = followed.position
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
        if followed.paused != pause or followed.position != position or not self._is_followed(followed):
            return
        if start is None:
            self._pause(followed)
            return
        followed.paused = 0
        if not start.anew:
            self._diverged(followed, 0, start.offset)
            return
        self._restart(followed, start.offset)

    def _restart(self, followed: Followed, offset: int) -> None:
        """Empty the log, and fetch from this offset on."""
        log.warning(
            "%s has nothing in common with its leader, broker %d: it is emptied and goes on at %d",
            followed.name,
            self.leader,
            offset,
        )
        leader_epoch = followed.position.leader_epoch
        followed.ready = False
        if not followed.partition.restart_at(leader_epoch, offset):
            followed.ready = True
            self._pause(followed)
