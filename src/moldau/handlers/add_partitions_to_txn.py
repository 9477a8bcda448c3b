"""AddPartitionsToTxn, versions 0-5: partitions are about to take part in a transaction.

    v2  PRODUCER_FENCED    v3  flexible
    v4  between brokers: several transactions, or only the question whether the partitions take part (KIP-890)
    v5  TRANSACTION_ABORTABLE
A request that names a partition which does not exist adds none: the others are OPERATION_NOT_ATTEMPTED.
Clients with transactions v2 do not ask: their Produce requests do it (produce_transactional.py).
"""

from collections.abc import Awaitable, Sequence

from moldau.coordinator.markers import TopicPartition
from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.registry import handles
from moldau.metadata.image import Image
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)

SEVERAL_SINCE = 4

Codes = dict[TopicPartition, int]


@handles(AddPartitionsToTxnRequest)
def add_partitions_to_txn(
    broker: Broker, context: RequestContext, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse | Awaitable[AddPartitionsToTxnResponse]:
    if context.api_version >= SEVERAL_SINCE:
        return _several(broker, request)
    topics = request.v3_and_below_topics
    places = _places(topics)
    unknown = _unknown(broker.metadata.image, places)
    if unknown is not None:
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_rows(topics, unknown))
    outcome = broker.transactions.add_partitions(
        request.v3_and_below_transactional_id,
        request.v3_and_below_producer_id,
        request.v3_and_below_producer_epoch,
        places,
        context.api_version,
    )

    return _answer(topics, outcome) if isinstance(outcome, int) else _wait(topics, outcome)


def _answer(topics: Sequence[AddPartitionsToTxnTopic], error_code: int) -> AddPartitionsToTxnResponse:
    rows = _rows(topics, dict.fromkeys(_places(topics), error_code))
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=rows)


async def _wait(
    topics: Sequence[AddPartitionsToTxnTopic], outcome: Awaitable[int]
) -> AddPartitionsToTxnResponse:
    return _answer(topics, await outcome)


async def _several(broker: Broker, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
    known, results = [], {}
    for each in request.transactions:
        unknown = _unknown(broker.metadata.image, _places(each.topics))
        if unknown is None:
            known.append(each)
        else:
            rows = _rows(each.topics, unknown)
            results[id(each)] = AddPartitionsToTxnResult(
                transactional_id=each.transactional_id, topic_results=rows
            )
    # Asked in one go, so that what they write goes into one append.
    outcome = broker.transactions.add_partitions_of_brokers(AddPartitionsToTxnRequest(transactions=known))
    response = outcome if isinstance(outcome, AddPartitionsToTxnResponse) else await outcome
    results.update(zip(map(id, known), response.results_by_transaction, strict=True))
    return AddPartitionsToTxnResponse(
        results_by_transaction=[results[id(each)] for each in request.transactions]
    )


def _places(topics: Sequence[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    return [(topic.name, index) for topic in topics for index in topic.partitions]


def _unknown(image: Image, places: Sequence[TopicPartition]) -> Codes | None:
    """The answer to a request that names a partition which does not exist; None if all exist."""
    missing = {
        (name, index)
        for name, index in places
        if name not in image.topics or not 0 <= index < len(image.topics[name].partitions)
    }
    if not missing:
        return None
    return {
        place: int(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if place in missing else ErrorCode.OPERATION_NOT_ATTEMPTED
        )
        for place in places
    }


def _rows(topics: Sequence[AddPartitionsToTxnTopic], codes: Codes) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=codes[topic.name, index]
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]
