"""AddPartitionsToTxn, versions 0-5: add partitions to a transaction.

    v2  PRODUCER_FENCED    v3  flexible
    v4  between brokers: several transactions, or only to verify that partitions are in them (KIP-890)
    v5  TRANSACTION_ABORTABLE
A request that names a partition which does not exist adds none: the others are OPERATION_NOT_ATTEMPTED.
So do topics without Write, and internal topics, to which only brokers add. A client must have Write on the
transactional id, too; a broker ClusterAction.
Clients with transactions v2 do not send this: their Produce requests add partitions
(produce_transactional.py).
"""

from collections.abc import Generator, Sequence

from moldau.broker.coordinator.markers import TopicPartition
from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.pieces import has_many_rows
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.handlers.parts.rights import apart, may, may_on_cluster
from moldau.broker.metadata.image import INTERNAL_TOPICS, Image
from moldau.common.core.slow_lane import all_steps
from moldau.common.core.waiting import Answer, settled, then
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)
from moldau.common.protocol.operations import Operation, ResourceType

SEVERAL_SINCE = 4

Codes = dict[TopicPartition, int]


@handles(AddPartitionsToTxnRequest)
def add_partitions_to_txn(
    broker: Broker, context: RequestContext, request: AddPartitionsToTxnRequest
) -> Answer[AddPartitionsToTxnResponse]:
    session = context.session
    if context.api_version >= SEVERAL_SINCE:
        if not may_on_cluster(broker, session, Operation.CLUSTER_ACTION):
            return AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return _several(broker, request)
    topics = request.v3_and_below_topics
    if has_many_rows(topics, "partitions"):
        return _many(broker, context, request)
    if not _may_write(broker, context, request):
        return all_steps(_response(topics, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    places = all_steps(_places(topics))
    forbidden = all_steps(_forbidden(broker, context, topics))
    unknown = all_steps(_unknown(broker.metadata.image, places, forbidden))
    if unknown is not None:
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=all_steps(_rows(topics, unknown)))
    return then(
        _add(broker, context, request, places), lambda error_code: all_steps(_response(topics, error_code))
    )


def _may_write(broker: Broker, context: RequestContext, request: AddPartitionsToTxnRequest) -> bool:
    name = request.v3_and_below_transactional_id
    return may(broker, context.session, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name)


def _forbidden(
    broker: Broker, context: RequestContext, topics: Sequence[AddPartitionsToTxnTopic]
) -> Generator[None, None, frozenset[str]]:
    """The topics that the client may not write to: internal ones nobody may."""
    if broker.authorizer is None:
        return INTERNAL_TOPICS
    _, refused = yield from apart(
        broker,
        context.session,
        Operation.WRITE,
        ResourceType.TOPIC,
        topics,
        lambda topic: topic.name,
    )
    return INTERNAL_TOPICS.union([topic.name for topic in refused])


def _add(
    broker: Broker, context: RequestContext, request: AddPartitionsToTxnRequest, places: list[TopicPartition]
) -> Answer[int]:
    return broker.transactions.add_partitions(
        request.v3_and_below_transactional_id,
        request.v3_and_below_producer_id,
        request.v3_and_below_producer_epoch,
        places,
        context.api_version,
    )


async def _many(
    broker: Broker, context: RequestContext, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse:
    slices = broker.slow_lane.slices()
    topics = request.v3_and_below_topics
    if not _may_write(broker, context, request):
        return await slices.run(_response(topics, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    places = await slices.run(_places(topics))
    forbidden = await slices.run(_forbidden(broker, context, topics))
    unknown = await slices.run(_unknown(broker.metadata.image, places, forbidden))
    if unknown is not None:
        rows = await slices.run(_rows(topics, unknown))
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=rows)
    error_code = await settled(_add(broker, context, request, places))
    return await slices.run(_response(topics, error_code))


def _response(
    topics: Sequence[AddPartitionsToTxnTopic], error_code: int
) -> Generator[None, None, AddPartitionsToTxnResponse]:
    places = yield from _places(topics)
    rows = yield from _rows(topics, dict.fromkeys(places, error_code))
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=rows)


async def _several(broker: Broker, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
    known, results = [], {}
    slices = broker.slow_lane.slices()
    for each in request.transactions:
        places = await slices.run(_places(each.topics))
        unknown = await slices.run(_unknown(broker.metadata.image, places))
        if unknown is None:
            known.append(each)
        else:
            rows = await slices.run(_rows(each.topics, unknown))
            results[id(each)] = AddPartitionsToTxnResult(
                transactional_id=each.transactional_id, topic_results=rows
            )
    # Asked in one go, so that what they write goes into one append.
    question = AddPartitionsToTxnRequest(transactions=known)
    response = await settled(broker.transactions.add_partitions_of_brokers(question))
    results.update(zip(map(id, known), response.results_by_transaction, strict=True))
    return AddPartitionsToTxnResponse(
        results_by_transaction=[results[id(each)] for each in request.transactions]
    )


def _places(topics: Sequence[AddPartitionsToTxnTopic]) -> Generator[None, None, list[TopicPartition]]:
    """The partitions, each once, in the order of the request."""
    places: dict[TopicPartition, None] = {}
    for topic in topics:
        for index in topic.partitions:
            places[topic.name, index] = None
            yield
        yield
    return list(places)


def _unknown(
    image: Image, places: Sequence[TopicPartition], forbidden: frozenset[str] = frozenset()
) -> Generator[None, None, Codes | None]:
    """The answer to a request that names a partition which does not exist, or a forbidden topic; None for any
    other."""
    codes: Codes = {}
    missing = False
    for name, index in places:
        known = name in image.topics and 0 <= index < len(image.topics[name].partitions)
        code = ErrorCode.OPERATION_NOT_ATTEMPTED if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if name in forbidden:
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        missing = missing or code is not ErrorCode.OPERATION_NOT_ATTEMPTED
        codes[name, index] = code
        yield
    return codes if missing else None


def _rows(
    topics: Sequence[AddPartitionsToTxnTopic], codes: Codes
) -> Generator[None, None, list[AddPartitionsToTxnTopicResult]]:
    results = []
    for topic in topics:
        rows = []
        for index in topic.partitions:
            rows.append(
                AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=codes[topic.name, index]
                )
            )
            yield
        results.append(AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=rows))
        yield
    return results
