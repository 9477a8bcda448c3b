"""Timeouts of transactions, and expiry of transactional ids that are not used any more.

An ongoing transaction holds back every reader of its partitions. Past its timeout it is aborted, with an
epoch that fences its producer, at the next multiple of
`transaction.abort.timed.out.transaction.cleanup.interval.ms` (a deadline of the shard, kept by the runtime's
timer). Until then it may still be committed, as in Kafka.

A transactional id is forgotten when it has not moved for `transactional.id.expiration.ms`; its producer has
to initialise again. Only an id without an open transaction expires: an open one times out first, and a
decided one is completed first.
"""

from collections.abc import Iterable, Iterator

from moldau.broker.coordinator.transaction.metadata import Transaction
from moldau.broker.coordinator.transaction.records import StateRecord
from moldau.broker.coordinator.transaction.states import AT_REST, TransactionState

EXPIRED_RECORDS_MAX = 500
"""Ids that expire in one result, so that requests get their turn in between."""


def is_overdue(transaction: Transaction | None, now_ms: int) -> bool:
    """Whether an ongoing transaction has lasted as long as its producer allowed. One that has not begun by
    this clock was begun by another coordinator's; it is asked for when its deadline here has come.
    """
    return (
        transaction is not None
        and transaction.state is TransactionState.ONGOING
        and (transaction.deadline_ms <= now_ms or now_ms < transaction.start_ms)
    )


def expired(transactions: Iterable[Transaction], expiration_ms: int, now_ms: int) -> Iterator[StateRecord]:
    """The tombstones of the ids at rest that have not moved for `expiration_ms`."""
    return (
        StateRecord(transaction.transactional_id, None)
        for transaction in transactions
        if transaction.state in AT_REST and transaction.updated_ms + expiration_ms <= now_ms
    )
