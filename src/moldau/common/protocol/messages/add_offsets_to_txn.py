"""AddOffsetsToTxn (key 25, versions 0-4): a group's offsets are about to take part in a transaction.

v2   PRODUCER_FENCED may be answered
v3   flexible
v4   TRANSACTION_ABORTABLE may be answered (KIP-890)
"""

from __future__ import annotations

from moldau.common.protocol.declare import Int16, Int32, Int64, Message, String, message, response_to


@message(key=25, versions=(0, 4), flexible_from=3)
class AddOffsetsToTxnRequest(Message):
    """The transaction and the group."""

    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    group_id: String = ""


@response_to(AddOffsetsToTxnRequest)
class AddOffsetsToTxnResponse(Message):
    """Whether it was possible."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
