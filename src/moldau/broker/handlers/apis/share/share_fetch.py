"""ShareFetch, versions 1-2: a member of a share group acquires records (KIP-932), and acknowledges earlier
ones.

    v1  max_records, batch_size       v2  acquire mode (KIP-1206), renewals (KIP-1222)

Partitions come from the member's share session, in turns, so that a busy one does not starve the rest. Each
answers with whole batches around what was acquired, and says exactly which records that is; members skip the
others. An answer waits until something can be acquired, for `max_wait_ms` at most, and for the
acknowledgements to be written. A request with renewals fetches nothing.

The client must have Read on the group, and on each topic whenever it is read. Not here: which records may be
had (share/share_partition.py), sessions (share/sessions.py), acknowledgements (share_acks.py).
"""

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from moldau.broker.handlers.apis.share.share_access import MOVED, Places, refusal
from moldau.broker.handlers.apis.share.share_acks import Acknowledging, Place
from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.share.sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    MemberKey,
    ShareSession,
)
from moldau.broker.share.share_partition import Wanted
from moldau.broker.share.taken import NOTHING, SKIPPED, Taken
from moldau.common.core.slow_lane import Slices
from moldau.common.protocol.errors import ErrorCode, error_message
from moldau.common.protocol.messages.share_fetch import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)

if TYPE_CHECKING:
    from moldau.broker.share.served import ServedPartition

STRICT = 1
ROWS_AT_ONCE = 1000


@handles(ShareFetchRequest)
def share_fetch(
    broker: Broker, context: RequestContext, request: ShareFetchRequest
) -> ShareFetchResponse | Awaitable[ShareFetchResponse]:
    refused = refusal(broker, context, request.group_id, request.member_id)
    if refused is None and request.is_renew_ack and _asks_for_records(request):
        message = "A request with renewals must not ask for records: its limits must be 0."
        return ShareFetchResponse(error_code=ErrorCode.INVALID_REQUEST, error_message=message)
    if refused is not None:
        return ShareFetchResponse(error_code=refused.error_code, error_message=refused.message)
    return _Fetch(broker, context, request).answer()


def _asks_for_records(request: ShareFetchRequest) -> bool:
    return bool(request.max_wait_ms or request.min_bytes or request.max_bytes or request.max_records)


class _Fetch:
    """One request."""

    def __init__(self, broker: Broker, context: RequestContext, request: ShareFetchRequest) -> None:
        self.broker = broker
        self.request = request
        self.client = context.session
        self.member = MemberKey(request.group_id or "", request.member_id or "")
        self.places = Places(broker, context, self.member)
        self.acks = Acknowledging(broker, self.places, self.member, renews=request.is_renew_ack)
        self.wanted = Wanted(
            max(0, request.max_records), max(1, request.batch_size), request.share_acquire_mode == STRICT
        )
        self._woken: asyncio.Future[None] | None = None
        self._skipped = False

    async def answer(self) -> ShareFetchResponse:
        slices = self.broker.slow_lane.slices()
        session = self._session()
        if isinstance(session, ErrorCode):
            return ShareFetchResponse(error_code=session, error_message=session.message)
        final = self.request.share_session_epoch == FINAL_EPOCH
        reads = not final and not self.request.is_renew_ack
        if reads and not await self._choose(session, slices):
            self.broker.share.sessions.close(session)
            code = ErrorCode.SHARE_SESSION_LIMIT_REACHED
            return ShareFetchResponse(error_code=code, error_message=code.message)
        await self.acks.take(self.request.topics, slices)
        taken: dict[Place, Taken] = {}
        if reads:
            taken = await self._collect(session)
        await self.acks.written()
        if final:
            self.broker.share.sessions.close(session)
        return self._response(session, taken)

    # The session

    def _session(self) -> ShareSession | ErrorCode:
        sessions, epoch = self.broker.share.sessions, self.request.share_session_epoch
        if epoch != INITIAL_EPOCH:
            return sessions.resume(self.member, epoch, self.client)
        if any(row.acknowledgement_batches for topic in self.request.topics for row in topic.partitions):
            return ErrorCode.INVALID_REQUEST
        return sessions.open(self.member, self.client)

    async def _choose(self, session: ShareSession, slices: Slices) -> bool:
        """The partitions that the request names are the session's too, but for those that it forgets. False:
        there is no memory for them."""
        sessions = self.broker.share.sessions
        for topic in self.request.topics:
            for start in range(0, len(topic.partitions), ROWS_AT_ONCE):
                rows = topic.partitions[start : start + ROWS_AT_ONCE]
                if not sessions.add(session, [(topic.topic_id, row.partition_index) for row in rows]):
                    return False
                if slices.spent():
                    await slices.next_slice()
        for forgotten in self.request.forgotten_topics_data:
            for start in range(0, len(forgotten.partitions), ROWS_AT_ONCE):
                indexes = forgotten.partitions[start : start + ROWS_AT_ONCE]
                sessions.drop(session, [(forgotten.topic_id, index) for index in indexes])
                if slices.spent():
                    await slices.next_slice()
        return True

    # Records

    async def _collect(self, session: ShareSession) -> dict[Place, Taken]:
        """What the member gets, waited for if there is nothing yet."""
        clock = self.broker.clock
        end_ms = clock.monotonic_ms() + max(0, self.request.max_wait_ms)
        watched: dict[Place, ServedPartition] = {}
        while session.is_open:  # else its connection ended meanwhile, and nobody would release what it gets
            self._woken = None
            taken, watched = await self._look(session, watched)
            left_ms = end_ms - clock.monotonic_ms()
            if taken or left_ms <= 0 or not session.is_open or not session.partitions:
                return taken
            if any(code for code in self.acks.codes.values()):
                return taken
            if self._skipped:
                await self.broker.slow_lane.slices().next_slice()
                continue
            await self._wait(list(watched.values()), left_ms)
        return {}

    async def _look(
        self, session: ShareSession, before: "dict[Place, ServedPartition]"
    ) -> "tuple[dict[Place, Taken], dict[Place, ServedPartition]]":
        """Go through the session's partitions once; what was acquired or failed, and whom to wait for.
        `before`: whom this request waited for; one that could not be loaded is not begun again for it."""
        slices = self.broker.slow_lane.slices()
        taken: dict[Place, Taken] = {}
        watched: dict[Place, ServedPartition] = {}
        left_bytes = min(self.request.max_bytes, self.broker.response_room.fetch_bytes)
        limits = self.client.limits
        quota_bytes = None if limits is None else limits.fetch_bytes_max()
        if quota_bytes is not None:
            left_bytes = min(left_bytes, quota_bytes)
        left_records = self.wanted.records_max
        got_any = self._skipped = False
        for place in list(session.partitions):
            if left_records <= 0 or (left_bytes <= 0 and taken):
                break
            known = before.get(place)
            failed = known is not None and known.is_closed and known.error_code
            served = failed or self.places.served(*place)
            if isinstance(served, int):
                taken[place] = Taken(served, [], b"")
                continue
            watched[place] = served
            wanted = self.wanted._replace(records_max=left_records)
            one = served.take(self.member.member_id, wanted, left_bytes, first=not got_any)
            if served.is_closed and not one.error_code:
                one = Taken(served.error_code or ErrorCode.NOT_LEADER_OR_FOLLOWER, [], b"")
            if one is SKIPPED:
                self._skipped = True
            elif one is not NOTHING:
                taken[place] = one
                got_any = got_any or bool(one.acquired)
                left_bytes -= len(one.records)
                left_records -= sum(last - first + 1 for first, last, _ in one.acquired)
            if slices.spent():
                await slices.next_slice()
                if not session.is_open:
                    break
        return taken, watched

    async def _wait(self, watched: "list[ServedPartition]", left_ms: float) -> None:
        woken = self._woken = asyncio.get_running_loop().create_future()
        self.client.when_closed(self._wake)
        for served in watched:
            served.park(self)
            served.partition.park(self)
        timer = self.broker.timers.call_later(left_ms, self._wake)
        try:
            await woken
        finally:
            timer.cancel()
            self.client.forget_closed(self._wake)
            for served in watched:
                served.unpark(self)
                served.partition.parked.remove(self)

    def more(self, bytes_added: int, stable_bytes: int) -> None:
        """A partition has more, or something changed."""
        self._wake()

    def _wake(self) -> None:
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    # The answer

    def _response(self, session: ShareSession, taken: dict[Place, Taken]) -> ShareFetchResponse:
        places = {**dict.fromkeys(self.acks.codes), **dict.fromkeys(taken)}
        if self.request.share_session_epoch == INITIAL_EPOCH:
            places = {**dict.fromkeys(session.partitions), **places}
        response = ShareFetchResponse(
            acquisition_lock_timeout_ms=self.broker.share.terms_of(self.member.group_id).limits.lock_ms
        )
        topics: dict[bytes, ShareFetchableTopicResponse] = {}
        size_bytes = 0
        for place in places:
            topic_id, _ = place
            topic = topics.get(topic_id)
            if topic is None:
                topic = topics[topic_id] = ShareFetchableTopicResponse(topic_id=topic_id)
                response.responses.append(topic)
            row = self._row(place, taken.get(place, NOTHING))
            size_bytes += len(row.records or b"")
            topic.partitions.append(row)
        response.node_endpoints = [
            NodeEndpoint(node_id=node_id, host=host, port=port, rack=rack)
            for node_id, host, port, rack in self.places.endpoints(self.client.listener)
        ]
        if self.client.limits is not None:
            self.client.limits.fetched(size_bytes)
        session.rotate(sum(bool(each.acquired) for each in taken.values()))
        return response

    def _row(self, place: Place, taken: Taken) -> PartitionData:
        code, ack_code = taken.error_code, self.acks.codes.get(place, 0)
        row = PartitionData(
            partition_index=place[1],
            error_code=code,
            acknowledge_error_code=ack_code,
            records=memoryview(taken.records) if taken.records else b"",
            acquired_records=[
                AcquiredRecords(first_offset=first, last_offset=last, delivery_count=count)
                for first, last, count in taken.acquired
            ],
        )
        if code:
            row.error_message = error_message(code)
        if ack_code:
            row.acknowledge_error_message = error_message(ack_code)
        if code in MOVED or ack_code in MOVED:
            leader_id, leader_epoch = self.places.leader(*place)
            row.current_leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
        if taken.acquired:
            held = self.broker.replicas.by_topic_id.get(place[0], {}).get(place[1])
            if held is not None:
                held.stats.bytes_out += len(taken.records)
        return row
