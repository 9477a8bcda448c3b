"""Partitions of a transaction: adding them, and verifying that they were added (KIP-98, KIP-890).

With transactions version 1 a producer adds every partition before it writes there. The partition's leader
then verifies that, once for each transaction, so that a write which arrives late cannot open a transaction
that is never ended. With version 2 the producer only writes, and the leader's request adds the partition.

    request   | a partition that is not in the transaction
    ----------+--------------------------------------------------------------
    verify    | TRANSACTION_ABORTABLE: the client may abort and go on
    add       | is added; the answer waits until that is committed

While the last decision is carried out (Prepare*) both get CONCURRENT_TRANSACTIONS; `add` checks that before
it compares id and epoch, as in Kafka.

Not here: the partitions' existence and who may write to them (the handlers check both).
"""

from collections.abc import Iterable

from moldau.broker.coordinator.markers import TopicPartition
from moldau.broker.coordinator.transaction.metadata import Decision, Transaction
from moldau.broker.coordinator.transaction.states import DECIDED, TransactionState
from moldau.common.protocol.errors import ErrorCode


def check_producer(current: Transaction | None, producer_id: int, producer_epoch: int) -> int:
    """Whether the transactional id is this producer's: an error code."""
    if current is None or current.producer_id != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if current.producer_epoch != producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.NONE


def add(
    current: Transaction | None,
    producer_id: int,
    producer_epoch: int,
    partitions: frozenset[TopicPartition],
    *,
    client_version: int,
    now_ms: int,
) -> Decision:
    """Let `partitions` take part in the producer's transaction, which begins with the first."""
    if current is not None and current.state in DECIDED:
        return Decision(ErrorCode.CONCURRENT_TRANSACTIONS)
    error_code = check_producer(current, producer_id, producer_epoch)
    if error_code or current is None:
        return Decision(error_code)
    if current.state is TransactionState.ONGOING and partitions <= current.partitions:
        return Decision()
    return Decision(ErrorCode.NONE, current.extended(partitions, client_version, now_ms))


def verify(
    current: Transaction | None,
    producer_id: int,
    producer_epoch: int,
    partitions: Iterable[TopicPartition],
) -> dict[TopicPartition, int]:
    """Whether each of `partitions` takes part in the producer's transaction: an error code for each."""
    error_code = check_producer(current, producer_id, producer_epoch)
    if current is not None and not error_code and current.state in DECIDED:
        error_code = ErrorCode.CONCURRENT_TRANSACTIONS
    if error_code or current is None:
        return dict.fromkeys(partitions, error_code)
    return {
        partition: ErrorCode.NONE if partition in current.partitions else ErrorCode.TRANSACTION_ABORTABLE
        for partition in partitions
    }
