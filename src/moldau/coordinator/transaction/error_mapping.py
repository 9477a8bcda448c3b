"""Error codes in the words that a request's version knows.

PRODUCER_FENCED and TRANSACTION_ABORTABLE came later than the requests they answer; before, the same was said
with INVALID_PRODUCER_EPOCH and INVALID_TXN_STATE, which make a client of that time do what it can. Brokers
among themselves say what is: the one that answers the producer chooses the words (as Kafka does).
"""

from collections.abc import Mapping

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from moldau.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from moldau.protocol.messages.end_txn import EndTxnRequest
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest

PRODUCER_FENCED_FROM: Mapping[type, int] = {
    InitProducerIdRequest: 4,
    AddPartitionsToTxnRequest: 2,
    AddOffsetsToTxnRequest: 2,
    EndTxnRequest: 2,
}
"""The first version of each request that knows PRODUCER_FENCED."""

ErrorMapping = Mapping[int, int]
"""What to say instead of a code."""


def client_error(request: type, api_version: int, error_code: int) -> int:
    """The answer's code to a client."""
    if error_code == ErrorCode.PRODUCER_FENCED and api_version < PRODUCER_FENCED_FROM[request]:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error_code


def producer_error_mapping(*, supports_abortable: bool) -> ErrorMapping:
    """What a producer is told by the leader of the partition that it writes to."""
    words: dict[int, int] = {ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH}
    if not supports_abortable:
        words[ErrorCode.TRANSACTION_ABORTABLE] = ErrorCode.INVALID_TXN_STATE
    return words
