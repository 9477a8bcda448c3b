"""EndTxn: the decision (KIP-98, KIP-890).

The decision is the Prepare record; the producer is answered when that is committed, and the markers follow
(delivery.py). The answer to a second request depends on what it may mean:

* Transactions version 1: the epoch stays, so "the same again" and "end the next one" look alike. The state
  tells them apart as well as it can.
* Version 2 (EndTxn version 5): every end gives the producer the next epoch, and the answer carries it. A
  request with the last epoch is a repeat and gets the same answer; one with the present epoch is new. An
  abort is allowed with nothing to abort: a producer that is not sure asks for one.

Both are the tables below; an epoch that is in neither is PRODUCER_FENCED. While the last decision is carried
out (Prepare*), the answer is CONCURRENT_TRANSACTIONS: what a request means shows only when that is complete,
and the client retries it. Version 1 compares id and epoch first, version 2 does not (KAFKA-18464), because
the producer may have the next epoch already and must not be fenced by its own next request.
"""

from moldau.broker.coordinator.transaction.metadata import (
    EPOCH_BUMPING_VERSION,
    NEEDS_PRODUCER_ID,
    NO_PRODUCER_ID,
    PRODUCER_EPOCH_MAX,
    Decision,
    Transaction,
)
from moldau.broker.coordinator.transaction.states import DECIDED, TransactionState
from moldau.common.protocol.errors import ErrorCode

Row = tuple[TransactionState, bool]
"""State, and whether a commit is asked for."""

DECIDE = None
"""Instead of an error code: the transaction is decided now."""

_S = TransactionState
_NONE, _INVALID, _FENCED = ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE, ErrorCode.PRODUCER_FENCED

SAME_EPOCH: dict[Row, int | None] = {
    (_S.EMPTY, True): _INVALID,
    (_S.EMPTY, False): _INVALID,
    (_S.ONGOING, True): DECIDE,
    (_S.ONGOING, False): DECIDE,
    (_S.COMPLETE_COMMIT, True): _NONE,
    (_S.COMPLETE_COMMIT, False): _INVALID,
    (_S.COMPLETE_ABORT, True): _INVALID,
    (_S.COMPLETE_ABORT, False): _NONE,
}
"""Version 1: one table."""

NEXT_EPOCH_REPEATED: dict[Row, int | None] = {
    (_S.COMPLETE_COMMIT, True): _NONE,
    (_S.COMPLETE_COMMIT, False): _INVALID,
    # No producer follows its abort by a commit with the same epoch: the coordinator aborted, after a timeout
    # for instance. INVALID_TXN_STATE, which Kafka 4.3 says, ends a thread of Streams (KAFKA-20785).
    (_S.COMPLETE_ABORT, True): _FENCED,
    (_S.COMPLETE_ABORT, False): _NONE,
}
"""Version 2, with the epoch of the last end."""

NEXT_EPOCH: dict[Row, int | None] = {
    (_S.EMPTY, True): _INVALID,
    (_S.EMPTY, False): DECIDE,
    (_S.ONGOING, True): DECIDE,
    (_S.ONGOING, False): DECIDE,
    (_S.COMPLETE_COMMIT, True): _INVALID,
    (_S.COMPLETE_COMMIT, False): DECIDE,
    (_S.COMPLETE_ABORT, True): _INVALID,
    (_S.COMPLETE_ABORT, False): DECIDE,
}
"""Version 2, with the present epoch."""


def end(
    current: Transaction | None,
    producer_id: int,
    producer_epoch: int,
    committed: bool,
    *,
    client_version: int,
    new_producer_id: int | None,
    now_ms: int,
) -> Decision:
    """Commit or abort the producer's transaction."""
    if client_version < EPOCH_BUMPING_VERSION:
        return _end_with_same_epoch(current, producer_id, producer_epoch, committed, now_ms)
    return _end_with_next_epoch(
        current, producer_id, producer_epoch, committed, client_version, new_producer_id, now_ms
    )


def _end_with_same_epoch(
    current: Transaction | None, producer_id: int, producer_epoch: int, committed: bool, now_ms: int
) -> Decision:
    if current is None or current.producer_id != producer_id:
        return Decision(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if current.producer_epoch != producer_epoch:
        return Decision(ErrorCode.PRODUCER_FENCED)
    if current.state in DECIDED:
        return Decision(ErrorCode.CONCURRENT_TRANSACTIONS)
    error_code = SAME_EPOCH[current.state, committed]
    if error_code is not DECIDE:
        return Decision(error_code)
    return Decision(ErrorCode.NONE, current.decided(committed, 0, now_ms))


def _end_with_next_epoch(
    current: Transaction | None,
    producer_id: int,
    producer_epoch: int,
    committed: bool,
    client_version: int,
    new_producer_id: int | None,
    now_ms: int,
) -> Decision:
    if current is None:
        return Decision(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if current.state in DECIDED:
        return Decision(ErrorCode.CONCURRENT_TRANSACTIONS)
    if _is_repeat(current, producer_id, producer_epoch):
        table = NEXT_EPOCH_REPEATED
    elif current.producer_id != producer_id:
        return Decision(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    elif current.producer_epoch == producer_epoch:
        table = NEXT_EPOCH
    else:
        return Decision(ErrorCode.PRODUCER_FENCED)
    error_code = table.get((current.state, committed), ErrorCode.PRODUCER_FENCED)
    if error_code is not DECIDE:
        identity = () if error_code else (current.producer_id, current.producer_epoch)
        return Decision(error_code, None, *identity)
    if not current.needs_producer_id:
        decided = current.decided(committed, client_version, now_ms)
    elif new_producer_id is None:
        return NEEDS_PRODUCER_ID
    else:
        decided = current.decided(committed, client_version, now_ms, new_producer_id)
    return Decision(ErrorCode.NONE, decided, *decided.identity_when_complete)


def _is_repeat(current: Transaction, producer_id: int, producer_epoch: int) -> bool:
    """Whether this identity is the one with which the last end was asked for."""
    if current.client_version < EPOCH_BUMPING_VERSION:
        return False  # the last end gave no new epoch; a lower one is outdated
    if producer_id == current.producer_id:
        return producer_epoch + 1 == current.producer_epoch
    return (
        producer_id == current.previous_producer_id
        and producer_id != NO_PRODUCER_ID
        and producer_epoch == PRODUCER_EPOCH_MAX - 1
        and current.producer_epoch == 0
    )
