"""InitProducerId with a transactional id (KIP-98, KIP-360): allocates a producer id or raises its epoch,
which fences the previous producer.

    state                | answer
    ---------------------+------------------------------------------------------------------------------
    no such id           | a new producer id, epoch 0
    Empty, Complete*     | the next epoch; when there is none, a new producer id with epoch 0
    Ongoing              | abort it with the next epoch; CONCURRENT_TRANSACTIONS makes the client retry
    Prepare*             | CONCURRENT_TRANSACTIONS until every partition has its marker

A producer that already has an identity names it, and gets the next epoch only while no other producer has
succeeded it. A repeated request, whose first answer was lost, gets the same answer. Any other identity is
refused with PRODUCER_FENCED. Unlike Kafka, an outdated producer is refused also while its successor's
transaction is ongoing; in Kafka it aborts that transaction first.

Not here: allocating the producer id. A `Decision` asks for one, and the request is then decided again
(producer_id_allocation.py).
"""

from typing import NamedTuple

from moldau.broker.coordinator.transaction.metadata import (
    EPOCH_BUMPING_VERSION,
    NEEDS_PRODUCER_ID,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_START_MS,
    Decision,
    Transaction,
    epoch_is_exhausted,
)
from moldau.broker.coordinator.transaction.states import DECIDED, TransactionState
from moldau.common.protocol.errors import ErrorCode


class Identity(NamedTuple):
    """The producer id and epoch that a producer says it has."""

    producer_id: int
    producer_epoch: int


def initialise(
    current: Transaction | None,
    transactional_id: str,
    timeout_ms: int,
    expected: Identity | None,
    *,
    new_producer_id: int | None,
    server_version: int,
    now_ms: int,
) -> Decision:
    """Decide. `server_version` is the level of `transaction.version`, which counts where the coordinator
    aborts on its own."""
    if current is None:
        return _create(transactional_id, timeout_ms, new_producer_id, now_ms)
    if current.state in DECIDED:
        return Decision(ErrorCode.CONCURRENT_TRANSACTIONS)
    if expected is not None and not _may_be_its_own(current, expected):
        return Decision(ErrorCode.PRODUCER_FENCED)
    if current.state is TransactionState.ONGOING:
        if expected is not None and expected != (current.producer_id, current.producer_epoch):
            return Decision(ErrorCode.PRODUCER_FENCED)
        return fence(current, new_producer_id, server_version, now_ms, ErrorCode.CONCURRENT_TRANSACTIONS)
    return _renew(current, timeout_ms, expected, new_producer_id, now_ms)


def fence(
    current: Transaction,
    new_producer_id: int | None,
    server_version: int,
    now_ms: int,
    error_code: int = ErrorCode.NONE,
) -> Decision:
    """Abort an ongoing transaction that its producer has not ended."""
    if server_version >= EPOCH_BUMPING_VERSION and current.needs_producer_id:
        if new_producer_id is None:
            return NEEDS_PRODUCER_ID
        return Decision(error_code, current.fenced(server_version, now_ms, new_producer_id))
    return Decision(error_code, current.fenced(server_version, now_ms))


def _create(transactional_id: str, timeout_ms: int, new_producer_id: int | None, now_ms: int) -> Decision:
    if new_producer_id is None:
        return NEEDS_PRODUCER_ID
    created = Transaction(
        transactional_id=transactional_id,
        producer_id=new_producer_id,
        producer_epoch=0,
        timeout_ms=timeout_ms,
        state=TransactionState.EMPTY,
        updated_ms=now_ms,
        previous_producer_id=new_producer_id,
    )
    return _answer(created, created)


def _may_be_its_own(current: Transaction, expected: Identity) -> bool:
    """Whether the identity is the id's present one, or the one whose epochs were used up just before."""
    return expected.producer_id == current.producer_id or (
        expected.producer_id == current.previous_producer_id and epoch_is_exhausted(expected.producer_epoch)
    )


def _renew(
    current: Transaction, timeout_ms: int, expected: Identity | None, new_producer_id: int | None, now_ms: int
) -> Decision:
    """No transaction is open: the next epoch, or the same answer as before to a repeated request."""
    producer_id, producer_epoch = current.producer_id, current.producer_epoch
    last_producer_epoch = NO_PRODUCER_EPOCH
    if expected is None or expected == (producer_id, producer_epoch):
        if expected is not None:
            last_producer_epoch = producer_epoch
        if not epoch_is_exhausted(producer_epoch):
            producer_epoch += 1
        elif new_producer_id is None:
            return NEEDS_PRODUCER_ID
        else:
            producer_id, producer_epoch = new_producer_id, 0
    elif expected.producer_epoch != current.last_producer_epoch:
        return Decision(ErrorCode.PRODUCER_FENCED)
    elif current.state is TransactionState.EMPTY and timeout_ms == current.timeout_ms:
        return _answer(current, None)  # written again, the third repeat would be fenced
    else:
        last_producer_epoch = current.last_producer_epoch
    renewed = current.moved(
        TransactionState.EMPTY,
        now_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        last_producer_epoch=last_producer_epoch,
        next_producer_id=NO_PRODUCER_ID,
        timeout_ms=timeout_ms,
        partitions=frozenset(),
        start_ms=NO_START_MS,
    )
    return _answer(renewed, renewed)


def _answer(transaction: Transaction, changed: Transaction | None) -> Decision:
    return Decision(ErrorCode.NONE, changed, transaction.producer_id, transaction.producer_epoch)
