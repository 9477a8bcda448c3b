"""Fetch, versions 4-18: batches of partitions, from an offset on.

    v4  isolation level   v5  log start offset   v7  sessions (KIP-227)   v9  leader epochs   v11 racks
    v12 flexible          v13 topic ids          v15 replica state        v16 node endpoints

Each partition answers with whole batches, beginning with the one that contains the offset (clients skip what
lies before it), and ending below the high watermark, or the last stable offset for read_committed. The first
batch of an answer is always given whole, however small the limits are, or a consumer could never get past it.
The bytes are the log's own and are not copied on their way to the socket.

An answer with fewer than `min_bytes` waits until more has come, for `max_wait_ms` at most; one with an error,
or of a session in which something changed, does not. However much is asked for, an answer holds no more than
`broker.response_room` allows at that moment: 8 MiB, less while clients leave many answers unread. Within a
session, partitions that gave records go to the end of the order, so that a busy one does not starve the rest.

A consumer must have Read on each topic whenever the partition is read, so also when a parked request goes on
or a session does; a follower must have ClusterAction.

A follower's request (replica id of 0 or more) reads up to the log end, and its fetch offsets advance the
leader's view of it; its checks and diverging epochs are in replication/partition.py. A consumer may read from
an in-sync follower (v11 on). Hot; budget in one_fetch.py (bench/hot_path.py). Not here: collecting and
waiting (one_fetch.py), which follower a consumer is sent to (read_replica.py), and whom a refused row names
as leader (current_leader.py).
"""

from collections.abc import Awaitable

from moldau.broker.handlers.apis.fetch.one_fetch import OneFetch
from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.exchange import AnswerFrame, Exchange
from moldau.broker.handlers.parts.registry import serves_frames
from moldau.broker.replication.fetch_session import targets_of, update
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.hot_fetch import decode_fetch, encode_fetch_response
from moldau.common.protocol.hot_wire import frame_answer_parts
from moldau.common.protocol.messages.fetch import FetchRequest

TARGETS_AT_ONCE = 256
"""More partitions than these are read in slices (fetch_many.py)."""
_FLEXIBLE_FROM = 12
_TOPIC_ID_FROM = 13


def _large(broker: Broker, context: RequestContext, request: FetchRequest) -> Awaitable[AnswerFrame]:
    from moldau.broker.handlers.apis.fetch.fetch_many import serve_large  # seldom needed

    return serve_large(broker, context, request)


@serves_frames(FetchRequest, large=_large)
def fetch(
    broker: Broker, exchange: Exchange, view: memoryview, body_offset: int, version: int, correlation_id: int
) -> AnswerFrame | None:
    body = decode_fetch(view, body_offset, version)
    _, max_wait_ms, _, _, _, session_id, session_epoch, topics, forgotten, _, _ = body
    request = OneFetch(broker, exchange.session, version, correlation_id, body)
    if exchange.session.limits is not None:
        request.limit(exchange.session.limits, exchange)
    error_code = _choose_targets(broker, request, session_id, session_epoch, topics, forgotten)
    if error_code:
        parts = encode_fetch_response(version, (), error_code=error_code)
        return frame_answer_parts(correlation_id, version >= _FLEXIBLE_FROM, parts)
    if len(request.targets) > TARGETS_AT_ONCE:
        from moldau.broker.handlers.apis.fetch.fetch_many import serve_session

        serve_session(request, body, exchange)
        return None
    rows, total_bytes, failed = request.collect()
    if total_bytes >= request.min_bytes or failed or max_wait_ms <= 0 or not request.targets:
        return request.frame(rows)
    if len(rows) > 1:
        request.remember(rows)
    request.wait(exchange, max_wait_ms, total_bytes)
    return None


def _choose_targets(
    broker: Broker,
    request: OneFetch,
    session_id: int,
    session_epoch: int,
    topics: list[tuple[bytes, list[tuple[int, int, int, int, int, int]]]],
    forgotten: list[tuple[bytes, list[int]]],
) -> int:
    """Set which partitions the request reads; an error code for a wrong session id or epoch."""
    by_id = request.version >= _TOPIC_ID_FROM
    sessions, owner = broker.fetch_sessions, request.session.principal
    if session_epoch > 0:
        session = sessions.resume(session_id, session_epoch, by_id, broker.clock.monotonic_ms(), owner)
        if isinstance(session, int):
            return session
        resized = update(session.targets, topics, forgotten)
        if resized and not sessions.changed(session_id, broker.clock.monotonic_ms()):
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        request.targets = session.targets
        request.session_id = session_id
        request.incremental = True
        return 0
    if session_id:
        sessions.close(session_id, owner)
    request.targets = targets_of(topics)
    if session_epoch == 0:
        request.session_id = sessions.open(
            by_id, request.targets, broker.clock.monotonic_ms(), owner, of_follower=request.is_follower()
        )
    return 0
