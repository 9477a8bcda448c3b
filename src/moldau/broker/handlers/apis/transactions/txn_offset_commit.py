"""TxnOffsetCommit, versions 0-5: offsets that take effect if a transaction commits.

    v2  leader epoch of the offset          v4  TRANSACTION_ABORTABLE (KIP-890)
    v3  member, generation (KIP-447)        v5  adds the group's partition to the transaction by itself
The transaction's coordinator is asked first whether the group's partition of __consumer_offsets is in the
transaction (v5: told to add it), unless offsets of this transaction are pending there already. A marker that
comes meanwhile may be this transaction's, or a former one's that is delivered again; so the coordinator is
asked again.

The client must have Write on the transactional id, Read on the group and on each topic; rows of other topics
are refused. Not here: pending offsets (coordinator/group/offsets/transactional.py).
"""

import asyncio
from collections.abc import Generator
from typing import Any

from moldau.broker.coordinator.append_errors import CLIENT_ERRORS
from moldau.broker.coordinator.group.offsets.commit_refusal import refuse_transactional_commit
from moldau.broker.handlers.apis.groups.offset_commit import batch_bytes_max, partition_counts, weigh
from moldau.broker.handlers.apis.transactions.transaction_verifier import Question, ask
from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.pieces import by_rows, has_many_rows
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.handlers.parts.rights import may, serve_permitted
from moldau.broker.metadata.image import GROUP_OFFSETS_TOPIC, Image
from moldau.common.core.slow_lane import all_steps
from moldau.common.core.waiting import Answer, settled, then
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from moldau.common.protocol.operations import Operation, ResourceType

LOADING_SINCE = 2
"""Older clients crash when they are told that the coordinator is loading (KAFKA-7296)."""
ABORTABLE_SINCE = 4
ADDS_PARTITION_SINCE = 5
QUESTIONS_MAX = 3
BUSY_PAUSE_MIN_MS, BUSY_PAUSE_MAX_MS = 1, 64

_VERIFICATION_ERRORS = {**CLIENT_ERRORS, ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
"""Errors of a verification that failed, as errors of this API after which clients retry."""


@handles(TxnOffsetCommitRequest)
def txn_offset_commit(
    broker: Broker, context: RequestContext, request: TxnOffsetCommitRequest
) -> Answer[TxnOffsetCommitResponse]:
    if broker.authorizer is None:
        return _commit_all(broker, context, request)
    session = context.session
    if not may(broker, session, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return _refuse_all(broker, request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not may(broker, session, Operation.READ, ResourceType.GROUP, request.group_id):
        return _refuse_all(broker, request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return serve_permitted(
        broker,
        context,
        request,
        Operation.READ,
        ResourceType.TOPIC,
        lambda topic: topic.name,
        lambda topic: _refused(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        lambda: _commit_all(broker, context, request),
        TxnOffsetCommitResponse,
        many=has_many_rows(request.topics, "partitions"),
    )


def _refuse_all(
    broker: Broker, request: TxnOffsetCommitRequest, error_code: int
) -> Answer[TxnOffsetCommitResponse]:
    def steps() -> Generator[None, None, TxnOffsetCommitResponse]:
        response = TxnOffsetCommitResponse()
        for topic in request.topics:
            refused = yield from _refused(topic, error_code)
            response.topics.append(refused)
        return response

    many = has_many_rows(request.topics, "partitions")
    return broker.slow_lane.slices().run(steps()) if many else all_steps(steps())


def _refused(topic: Any, error_code: int) -> Generator[None, None, TxnOffsetCommitResponseTopic]:
    rows = []
    for row in topic.partitions:
        rows.append(
            TxnOffsetCommitResponsePartition(partition_index=row.partition_index, error_code=error_code)
        )
        yield
    return TxnOffsetCommitResponseTopic(name=topic.name, partitions=rows)


def _commit_all(
    broker: Broker, context: RequestContext, request: TxnOffsetCommitRequest
) -> Answer[TxnOffsetCommitResponse]:
    if has_many_rows(request.topics, "partitions"):
        return _in_pieces(broker, context, request)
    return _at_once(broker, context, request)


async def _in_pieces(
    broker: Broker, context: RequestContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse:
    """Many rows: what cannot fit into one batch is refused as a whole, the rest decided on in pieces; the
    first of them verifies the transaction for all."""
    lane = broker.slow_lane
    counts = partition_counts(broker.metadata.image, by_id=False)
    too_large = await lane.slices().run(weigh(request, counts)) > batch_bytes_max(broker, request.group_id)

    def ask(topics: list[Any]) -> Answer[list[TxnOffsetCommitResponseTopic]]:
        piece = TxnOffsetCommitRequest(
            transactional_id=request.transactional_id,
            group_id=request.group_id,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            generation_id=request.generation_id,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            topics=topics,
        )
        if too_large:
            return refuse_transactional_commit(piece, ErrorCode.UNKNOWN_SERVER_ERROR).topics
        return then(_at_once(broker, context, piece), lambda response: response.topics)

    topics = await by_rows(lane, request.topics, "partitions", ask, first_alone=True)
    return TxnOffsetCommitResponse(topics=topics)


def _at_once(
    broker: Broker, context: RequestContext, request: TxnOffsetCommitRequest
) -> Answer[TxnOffsetCommitResponse]:
    missing = _missing(broker.metadata.image, request)
    if missing.issuperset(
        (topic.name, row.partition_index) for topic in request.topics for row in topic.partitions
    ):
        return refuse_transactional_commit(request, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    version = context.api_version
    return then(_commit(broker, context, request), lambda response: _translated(response, missing, version))


def _commit(
    broker: Broker, context: RequestContext, request: TxnOffsetCommitRequest
) -> Answer[TxnOffsetCommitResponse]:
    if not request.group_id:
        return refuse_transactional_commit(request, ErrorCode.INVALID_GROUP_ID)
    asks = context.api_version >= ADDS_PARTITION_SINCE or (
        broker.settings.transaction_partition_verification_enable
    )
    if asks and broker.groups.needs_verification(
        request.group_id, request.producer_id, request.producer_epoch
    ):
        return _verify_and_commit(broker, context, request)
    return broker.groups.txn_offset_commit(request, context)


async def _verify_and_commit(
    broker: Broker, context: RequestContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse:
    groups = broker.groups
    place = (GROUP_OFFSETS_TOPIC, groups.partition_for(request.group_id))
    question = Question(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        (place,),
        add=context.api_version >= ADDS_PARTITION_SINCE,
        supports_abortable=context.api_version >= ABORTABLE_SINCE,
    )
    for _ in range(QUESTIONS_MAX):
        guard = groups.guard_commit(request.group_id, request.producer_id)
        if guard is None:  # the shard is not here: NOT_COORDINATOR
            return await settled(groups.txn_offset_commit(request, context))
        try:
            code = await _ask(broker, question)
            if code:
                return refuse_transactional_commit(request, _VERIFICATION_ERRORS.get(code, code))
            if not guard.broken:
                return await settled(groups.txn_offset_commit(request, context, guard))
        finally:
            groups.release_guard(guard)
    return refuse_transactional_commit(request, ErrorCode.INVALID_TXN_STATE)


async def _ask(broker: Broker, question: Question) -> int:
    """The answer for the question's one partition.

    While the markers of the producer's former transaction are written, a coordinator on another broker says
    CONCURRENT_TRANSACTIONS. That takes milliseconds; the client would come again after 100 of them.
    """
    (place,) = question.partitions
    pause_ms = BUSY_PAUSE_MIN_MS
    while True:
        codes = await settled(ask(broker.transaction_verifier, question))
        busy = question.add and codes[place] == ErrorCode.CONCURRENT_TRANSACTIONS
        if not busy or pause_ms > BUSY_PAUSE_MAX_MS:
            return codes[place]
        over = asyncio.Event()
        broker.timers.call_later(pause_ms, over.set)
        await over.wait()
        pause_ms *= 2


def _missing(image: Image, request: TxnOffsetCommitRequest) -> set[tuple[str, int]]:
    """The partitions that do not exist: UNKNOWN_TOPIC_OR_PARTITION, whatever the others get."""
    missing = set()
    for topic in request.topics:
        state = image.topics.get(topic.name)
        count = 0 if state is None else len(state.partitions)
        missing |= {
            (topic.name, row.partition_index)
            for row in topic.partitions
            if not 0 <= row.partition_index < count
        }
    return missing


def _translated(
    response: TxnOffsetCommitResponse, missing: set[tuple[str, int]], version: int
) -> TxnOffsetCommitResponse:
    for topic in response.topics:
        for row in topic.partitions:
            if (topic.name, row.partition_index) in missing:
                row.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif row.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < LOADING_SINCE:
                row.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return response
