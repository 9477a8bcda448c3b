"""InitProducerId (key 22, versions 0-5): a producer gets its id and epoch, for idempotence or for
transactions.

    v2   flexible
    v3   producer_id and producer_epoch, to go on after a fencing error (KIP-360)
    v4   PRODUCER_FENCED may be answered
    v5   TRANSACTION_ABORTABLE may be answered (KIP-890)

Version 6 (two-phase commit, KIP-939) is unstable in Kafka 4.3 and not declared here.
"""

from __future__ import annotations

from moldau.common.protocol.declare import (
    Int16,
    Int32,
    Int64,
    Message,
    NullableString,
    message,
    response_to,
    since,
)


@message(key=22, versions=(0, 5), flexible_from=2)
class InitProducerIdRequest(Message):
    """The transactional id, or null for plain idempotence."""

    transactional_id: NullableString = ""
    transaction_timeout_ms: Int32 = 0
    producer_id: Int64 = since(3, default=-1)
    producer_epoch: Int16 = since(3, default=-1)


@response_to(InitProducerIdRequest)
class InitProducerIdResponse(Message):
    """Producer id and epoch."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0
