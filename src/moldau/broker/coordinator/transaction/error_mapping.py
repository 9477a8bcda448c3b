"""Error codes that a request's version does not have yet, replaced by those that it has.

PRODUCER_FENCED and TRANSACTION_ABORTABLE are newer than the requests that may return them. Older versions get
INVALID_PRODUCER_EPOCH and INVALID_TXN_STATE. Between brokers the precise codes are used; the broker that
answers the producer maps them, as in Kafka.
"""

from collections.abc import Mapping

from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from moldau.common.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from moldau.common.protocol.messages.end_txn import EndTxnRequest
from moldau.common.protocol.messages.init_producer_id import InitProducerIdRequest

PRODUCER_FENCED_FROM: Mapping[type, int] = {
    InitProducerIdRequest: 4,
    AddPartitionsToTxnRequest: 2,
    AddOffsetsToTxnRequest: 2,
    EndTxnRequest: 2,
}
"""The first version of each request that knows PRODUCER_FENCED."""

ErrorMapping = Mapping[int, int]
"""From an error code to the one that is sent in its place; others are sent as they are."""


def client_error(request: type, api_version: int, error_code: int) -> int:
    """The code that a client of this version gets for `error_code`."""
    if error_code == ErrorCode.PRODUCER_FENCED and api_version < PRODUCER_FENCED_FROM[request]:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error_code


def producer_error_mapping(*, supports_abortable: bool) -> ErrorMapping:
    """What the leader of a partition maps the coordinator's codes to before it answers a Produce request."""
    mapping: dict[int, int] = {ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH}
    if not supports_abortable:
        mapping[ErrorCode.TRANSACTION_ABORTABLE] = ErrorCode.INVALID_TXN_STATE
    return mapping
