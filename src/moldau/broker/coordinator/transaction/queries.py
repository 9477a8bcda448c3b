"""DescribeTransactions, ListTransactions, and transaction status for metrics and health.

ListTransactions filters by state, producer id, duration (v1) and a pattern for the whole id (v2, RE2). A
state that does not exist is named in the answer and matches nothing; so does one that no record ever has.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from moldau.broker.coordinator.group.consumer.regex import compile_pattern
from moldau.broker.coordinator.markers import TopicPartition
from moldau.broker.coordinator.transaction.metadata import Transaction
from moldau.broker.coordinator.transaction.records import by_topic
from moldau.broker.coordinator.transaction.states import BY_NAME, DECIDED, NAMES, TransactionState
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.describe_transactions import TopicData
from moldau.common.protocol.messages.describe_transactions import TransactionState as DescribedTransaction
from moldau.common.protocol.messages.list_transactions import ListTransactionsRequest
from moldau.common.protocol.messages.list_transactions import TransactionState as ListedTransaction


class TransactionStatus(NamedTuple):
    """One transactional id, for metrics and the monitor.

    age_ms     since the transaction began if one is open or being carried out, else since the last change
    overdue_ms how long ago an ongoing transaction should have ended; 0 if it is not late
    """

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    partition_count: int
    timeout_ms: int
    age_ms: int
    overdue_ms: int


class PendingMarkers(NamedTuple):
    """What is decided and not carried out yet. `stopped` counts transactions whose partitions say that
    another coordinator has taken over."""

    transactions: int
    partitions: int
    oldest_ms: int
    stopped: int


def status(transaction: Transaction, now_ms: int) -> TransactionStatus:
    """What a monitor sees of `transaction`."""
    ongoing = transaction.state is TransactionState.ONGOING
    since_ms = transaction.start_ms if ongoing or transaction.state in DECIDED else transaction.updated_ms
    return TransactionStatus(
        transaction.transactional_id,
        NAMES[transaction.state],
        transaction.producer_id,
        transaction.producer_epoch,
        len(transaction.partitions),
        transaction.timeout_ms,
        max(now_ms - since_ms, 0),
        max(now_ms - transaction.deadline_ms, 0) if ongoing else 0,
    )


def describe(
    transactional_id: str,
    transaction: Transaction | None,
    remaining: frozenset[TopicPartition] | None,
) -> DescribedTransaction:
    """One id's state; of a decided transaction the partitions that still lack their marker."""
    if transaction is None:
        return refuse_describe(transactional_id, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    partitions = transaction.partitions if remaining is None else remaining
    return DescribedTransaction(
        transactional_id=transactional_id,
        transaction_state=NAMES[transaction.state],
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=[TopicData(topic=topic, partitions=indexes) for topic, indexes in by_topic(partitions)],
    )


def refuse_describe(transactional_id: str, error_code: int) -> DescribedTransaction:
    """The error response for one id."""
    return DescribedTransaction(error_code=error_code, transactional_id=transactional_id)


class Filter:
    """The filters of one ListTransactions request. Raises `InvalidPattern`."""

    def __init__(self, request: ListTransactionsRequest) -> None:
        self.unknown_states = [name for name in request.state_filters if name not in BY_NAME]
        self._states = frozenset(BY_NAME[name] for name in request.state_filters if name in BY_NAME)
        self._any_state = not request.state_filters
        self._producer_ids = frozenset(request.producer_id_filters)
        self._duration_ms = request.duration_filter
        self._matches: Callable[[str], bool] | None = None
        if request.transactional_id_pattern:
            self._matches = compile_pattern(request.transactional_id_pattern)

    def select(self, transactions: Iterable[Transaction], now_ms: int) -> Iterator[ListedTransaction]:
        """Those that pass."""
        for transaction in transactions:
            if self._passes(transaction, now_ms):
                yield ListedTransaction(
                    transactional_id=transaction.transactional_id,
                    producer_id=transaction.producer_id,
                    transaction_state=NAMES[transaction.state],
                )

    def _passes(self, transaction: Transaction, now_ms: int) -> bool:
        if not self._any_state and transaction.state not in self._states:
            return False
        if self._producer_ids and transaction.producer_id not in self._producer_ids:
            return False
        if self._duration_ms >= 0 and now_ms - transaction.start_ms <= self._duration_ms:
            return False
        return self._matches is None or self._matches(transaction.transactional_id)
