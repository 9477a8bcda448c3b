"""AddPartitionsToTxn (key 24, versions 0-5): partitions are about to take part in a transaction.

v2   PRODUCER_FENCED may be answered
v3   flexible
v4   several transactions; verify_only: just check (KIP-890)
v5   TRANSACTION_ABORTABLE may be answered
"""

from __future__ import annotations

from moldau.common.protocol.declare import (
    Bool,
    Int16,
    Int32,
    Int64,
    Message,
    String,
    Struct,
    array,
    field,
    message,
    response_to,
    since,
)


@message(key=24, versions=(0, 5), flexible_from=3)
class AddPartitionsToTxnRequest(Message):
    """Up to version 3 one producer's partitions; from version 4 those of several, sent between brokers
    only."""

    transactions: list[AddPartitionsToTxnTransaction] = since(4)
    v3_and_below_transactional_id: String = field(until=3)
    v3_and_below_producer_id: Int64 = field(until=3)
    v3_and_below_producer_epoch: Int16 = field(until=3)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field(until=3)


class AddPartitionsToTxnTransaction(Struct):
    transactional_id: String = since(4)
    producer_id: Int64 = since(4)
    producer_epoch: Int16 = since(4)
    verify_only: Bool = since(4)
    topics: list[AddPartitionsToTxnTopic] = since(4)


class AddPartitionsToTxnTopic(Struct):
    name: String = ""
    partitions: list[Int32] = array()


@response_to(AddPartitionsToTxnRequest)
class AddPartitionsToTxnResponse(Message):
    """An error code for each partition."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = since(4, ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = since(4)
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field(until=3)


class AddPartitionsToTxnResult(Struct):
    transactional_id: String = since(4)
    topic_results: list[AddPartitionsToTxnTopicResult] = since(4)


class AddPartitionsToTxnTopicResult(Struct):
    name: String = ""
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = array()


class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: Int32 = 0
    partition_error_code: Int16 = 0
