"""DescribeTransactions (key 65, version 0): the state of transactions."""

from __future__ import annotations

from moldau.common.protocol.declare import (
    Int16,
    Int32,
    Int64,
    Message,
    String,
    Struct,
    array,
    message,
    response_to,
)


@message(key=65, versions=(0, 0), flexible_from=0)
class DescribeTransactionsRequest(Message):
    """Transactional ids."""

    transactional_ids: list[String] = array()


@response_to(DescribeTransactionsRequest)
class DescribeTransactionsResponse(Message):
    """Each transaction's state and partitions."""

    throttle_time_ms: Int32 = 0
    transaction_states: list[TransactionState] = array()


class TransactionState(Struct):
    error_code: Int16 = 0
    transactional_id: String = ""
    transaction_state: String = ""
    transaction_timeout_ms: Int32 = 0
    transaction_start_time_ms: Int64 = 0
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    topics: list[TopicData] = array()


class TopicData(Struct):
    topic: String = ""
    partitions: list[Int32] = array()
