"""ListTransactions (key 66, versions 0-2): the transactions that this broker coordinates.

v1   duration_filter (KIP-994)
v2   transactional_id_pattern (KIP-1152)
"""

from __future__ import annotations

from moldau.common.protocol.declare import (
    Int16,
    Int32,
    Int64,
    Message,
    NullableString,
    String,
    Struct,
    array,
    message,
    response_to,
    since,
)


@message(key=66, versions=(0, 2), flexible_from=0)
class ListTransactionsRequest(Message):
    """Filters; an empty one lets everything pass."""

    state_filters: list[String] = array()
    producer_id_filters: list[Int64] = array()
    duration_filter: Int64 = since(1, default=-1)
    transactional_id_pattern: NullableString = since(2, default=None)


@response_to(ListTransactionsRequest)
class ListTransactionsResponse(Message):
    """Transactional ids with producer and state."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: list[String] = array()
    transaction_states: list[TransactionState] = array()


class TransactionState(Struct):
    transactional_id: String = ""
    producer_id: Int64 = 0
    transaction_state: String = ""
