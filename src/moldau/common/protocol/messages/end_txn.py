"""EndTxn (key 26, versions 0-5): commit or abort a transaction.

v2   PRODUCER_FENCED may be answered
v3   flexible
v4   TRANSACTION_ABORTABLE may be answered (KIP-890)
v5   answer: producer_id and producer_epoch, bumped after every transaction (KIP-890)
"""

from __future__ import annotations

from moldau.common.protocol.declare import (
    Bool,
    Int16,
    Int32,
    Int64,
    Message,
    String,
    message,
    response_to,
    since,
)


@message(key=26, versions=(0, 5), flexible_from=3)
class EndTxnRequest(Message):
    """The transaction and the decision."""

    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    committed: Bool = False


@response_to(EndTxnRequest)
class EndTxnResponse(Message):
    """Whether it was possible."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = since(5, default=-1, ignorable=True)
    producer_epoch: Int16 = since(5, default=-1, ignorable=True)
