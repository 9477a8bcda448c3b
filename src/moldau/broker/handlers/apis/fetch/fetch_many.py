"""A Fetch of very many partitions: read, answered and waited for in slices.

A session may have a hundred thousand partitions, and each answer looks at all of them. The steps are those of
one_fetch.py; between two of them anything may happen to a partition:

    choose targets | read ... read ... | watch ... watch ... | wait | read ... | answer ...
                          ^ more comes to one that was read already

Invariant: nothing that comes is missed. A partition that moves while it is watched wakes the request; one
that moved between its reading and its watching is noticed when it is watched, because its end has passed what
was read.
"""

import asyncio
import logging
from collections.abc import Generator, Iterable

from moldau.broker.handlers.apis.fetch.one_fetch import OneFetch
from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.exchange import AnswerFrame, Exchange, Slot
from moldau.broker.handlers.parts.session import Session
from moldau.broker.replication.fetch_session import FetchTarget, update
from moldau.broker.replication.waiters import UNKNOWN_BYTES
from moldau.common.core.measured import measured
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.hot_fetch import (
    ROW_ERROR_CODE,
    ROW_HIGH_WATERMARK,
    ROW_LAST_STABLE_OFFSET,
    FetchBody,
    FetchedPartition,
    encode_fetch_response,
    encode_fetch_response_in_slices,
)
from moldau.common.protocol.messages.fetch import FetchRequest
from moldau.common.protocol.release import release

log = logging.getLogger("moldau.handlers")

_AT_ONCE = 32
_TOPIC_ID_FROM = 13
_REPLICA_STATE_FROM = 15
Row = tuple[FetchTarget, FetchedPartition]
Topics = Iterable[tuple[bytes, list[tuple[int, int, int, int, int, int]]]]


def serve_session(request: OneFetch, body: FetchBody, exchange: Exchange) -> None:
    """Answer a small request of a large session, whose targets are chosen."""
    many = ManyFetch(request.broker, request.session, request.version, request.correlation_id, body)
    many.targets, many.session_id, many.incremental = request.targets, request.session_id, request.incremental
    _, max_wait_ms, *_ = body
    work = many.serve(max_wait_ms)
    if request.limits is not None:
        many.limit(request.limits, exchange)
        work = measured(work, request.limits)
    task = asyncio.ensure_future(work)

    def lost() -> None:
        task.cancel()

    slot = exchange.park(blocking=True, on_lost=lost)
    task.add_done_callback(lambda done: _answered(done, slot))


def _answered(done: "asyncio.Future[AnswerFrame]", slot: Slot) -> None:
    if done.cancelled():
        return
    error = done.exception()
    if error is None:
        slot.fill(done.result())
    else:
        log.error("a Fetch of many partitions failed: this is a bug", exc_info=error)
        slot.exchange.close()


async def serve_large(broker: Broker, context: RequestContext, request: FetchRequest) -> AnswerFrame:
    """Answer a large request: its whole frame."""
    by_id = context.api_version >= _TOPIC_ID_FROM
    by_state = context.api_version >= _REPLICA_STATE_FROM
    body: FetchBody = (
        request.replica_state.replica_id if by_state else request.replica_id,
        request.max_wait_ms,
        request.min_bytes,
        request.max_bytes,
        request.isolation_level,
        request.session_id,
        request.session_epoch,
        [],
        [],
        request.rack_id.encode(),
        request.replica_state.replica_epoch if by_state else -1,
    )
    many = ManyFetch(broker, context.session, context.api_version, context.correlation_id, body)
    if context.session.limits is not None:
        many.limit(context.session.limits, None)
    slices = broker.slow_lane.slices()
    error_code = await slices.run(many.choose_targets(request, by_id))
    if error_code:
        return many.framed(encode_fetch_response(context.api_version, (), error_code=error_code))
    max_wait_ms = request.max_wait_ms
    await slices.run(release(request))
    del request
    return await many.serve(max_wait_ms)


class ManyFetch(OneFetch):
    """One Fetch request of many partitions."""

    __slots__ = ("final", "woken")

    def __init__(
        self, broker: Broker, session: Session, version: int, correlation_id: int, body: FetchBody
    ) -> None:
        super().__init__(broker, session, version, correlation_id, body)
        self.final = False  # whatever there is by now is the answer
        self.woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    # Targets

    def choose_targets(self, request: FetchRequest, by_id: bool) -> Generator[None, None, int]:
        """Which partitions the request reads, in steps; an error code as in fetch.py."""
        sessions, now_ms = self.broker.fetch_sessions, self.broker.clock.monotonic_ms()
        owner = self.session.principal
        if request.session_epoch > 0:
            session = sessions.resume(request.session_id, request.session_epoch, by_id, now_ms, owner)
            if isinstance(session, int):
                return session
            self.targets, self.session_id, self.incremental = session.targets, request.session_id, True
        elif request.session_id:
            sessions.close(request.session_id, owner)
        for topic in request.topics:
            key = topic.topic_id if by_id else topic.topic.encode()
            for start in range(0, len(topic.partitions), _AT_ONCE):
                rows = [
                    (
                        row.partition,
                        row.current_leader_epoch,
                        row.fetch_offset,
                        row.last_fetched_epoch,
                        row.log_start_offset,
                        row.partition_max_bytes,
                    )
                    for row in topic.partitions[start : start + _AT_ONCE]
                ]
                update(self.targets, [(key, rows)], ())
                yield
            yield
        for forgotten in request.forgotten_topics_data:
            key = forgotten.topic_id if by_id else forgotten.topic.encode()
            for start in range(0, len(forgotten.partitions), _AT_ONCE):
                update(self.targets, (), [(key, forgotten.partitions[start : start + _AT_ONCE])])
                yield
            yield
        if self.incremental and not sessions.changed(self.session_id, now_ms):
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if request.session_epoch == 0:
            self.session_id = sessions.open(
                by_id, self.targets, now_ms, owner, of_follower=self.is_follower()
            )
        return 0

    # Serving

    async def serve(self, max_wait_ms: int) -> AnswerFrame:
        """The answer's whole frame, once there is enough to answer or the time is up."""
        slices = self.broker.slow_lane.slices()
        rows, total_bytes, failed = await slices.run(self._read_all())
        try:
            if total_bytes < self.min_bytes and not failed and max_wait_ms > 0 and self.targets:
                rows = await self._wait_for_more(rows, total_bytes, max_wait_ms)
                await self.broker.slow_lane.slices().run(self._unwatch_all())
        finally:
            self.forget()
        delay_ms, gives = self.delay_ms(rows)
        if not gives:
            return self.empty_frame(delay_ms)
        slices = self.broker.slow_lane.slices()
        topics: list[tuple[bytes, list[FetchedPartition]]] = []
        await slices.run(self._choose_all(rows, topics))
        steps = encode_fetch_response_in_slices(
            self.version,
            topics,
            session_id=self.session_id,
            throttle_time_ms=delay_ms,
            tagged=self.tagged,
            preferred=self.preferred,
            last_fields=self.last_fields(),
        )
        return self.framed(await slices.run(steps))

    async def _wait_for_more(self, rows: list[Row], total_bytes: int, max_wait_ms: int) -> list[Row]:
        self.was_parked = True
        self.timer = self.broker.timers.call_later(max_wait_ms, self.finish)
        while True:
            self.remember(rows)
            self.missing_bytes = max(1, self.min_bytes - total_bytes)
            slices = self.broker.slow_lane.slices()
            moved = await slices.run(self._watch_all(rows))
            rows.clear()  # no records are held while it waits
            if not moved:
                await self.woken
            self.woken = asyncio.get_running_loop().create_future()
            final = self.final
            slices = self.broker.slow_lane.slices()
            rows, total_bytes, failed = await slices.run(self._read_all())
            if final or total_bytes >= self.min_bytes or failed:
                return rows

    def _read_all(self) -> Generator[None, None, tuple[list[Row], int, bool]]:
        rows: list[Row] = []
        room_bytes = min(self.max_bytes, self.broker.response_room.fetch_bytes)
        total_bytes, failed = 0, False
        self.tagged = self.leaders = self.preferred = None
        targets = list(self.targets.values())
        for start in range(0, len(targets), _AT_ONCE):
            chunk = targets[start : start + _AT_ONCE]
            total_bytes, one_failed = self.read(chunk, rows, room_bytes - total_bytes, total_bytes)
            failed = failed or one_failed
            yield
        return rows, total_bytes, failed

    def _watch_all(self, rows: list[Row]) -> Generator[None, None, bool]:
        """Hear of every partition from now on; whether one has moved since it was read."""
        moved = False
        nothing_read = self.missing_bytes >= self.min_bytes
        watched = set(self.watched)
        for target, row in rows:
            held = self.lookup.get(target.key)
            partition = None if held is None else held.get(target.index)
            if partition is None:
                moved = moved or not row[ROW_ERROR_CODE]
            else:
                if partition not in watched:
                    partition.park(self, self.replica_id)
                    self.watched.append(partition)
                stable = self.read_committed and partition.last_stable_offset != row[ROW_LAST_STABLE_OFFSET]
                serves = partition.serves_consumers if self.any_replica else partition.leads
                moved = moved or stable or partition.high_watermark != row[ROW_HIGH_WATERMARK] or not serves
                if self.replica_id >= 0 and nothing_read and not partition.withholds_from(self.replica_id):
                    moved = moved or partition.log.written_end_offset != target.offset
            yield
        return moved

    def _unwatch_all(self) -> Generator[None, None, None]:
        while self.watched:
            self.watched.pop().parked.remove(self)
            yield

    def _choose_all(
        self, rows: list[Row], topics: list[tuple[bytes, list[FetchedPartition]]]
    ) -> Generator[None, None, None]:
        for start in range(0, len(rows), _AT_ONCE):
            self.choose(rows[start : start + _AT_ONCE], topics)
            yield

    # Waking

    def more(self, bytes_added: int, stable_bytes: int) -> None:
        added_bytes = stable_bytes if self.read_committed and bytes_added else bytes_added
        if added_bytes != UNKNOWN_BYTES:
            self.missing_bytes -= added_bytes
            if self.missing_bytes > 0 and bytes_added:
                return
            self.final = self.final or not bytes_added
        self._wake()

    def finish(self) -> None:
        self.final = True
        self._wake()

    def _wake(self) -> None:
        if not self.woken.done():
            self.woken.set_result(None)
