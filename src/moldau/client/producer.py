"""Two producers of encoded batches: an idempotent one, and a transactional one whose transactions outlive a
process.

`IdempotentProducer` numbers its batches, so that a retry writes nothing twice (KIP-98). If a broker has
forgotten its id, it takes a new one and sends unacknowledged batches again: at least once.

`TransactionalProducer` is a transactional id. Opening it (InitProducerId) fences its last user and ends that
one's open transaction. Then transactions follow each other: `send`, `commit_offset`, `commit`. With
transactions v2 (KIP-890) partitions and groups join a transaction with the first write, and every end raises
the epoch, so a transaction costs three round trips; with an older broker they are added first
(AddPartitionsToTxn).

A transaction that fails raises:

    Fenced                 another producer has opened the id since
    TransactionLost        it cannot go on, or its result is unknown: open the id again, and read the ledger
    others                 ClusterTimeout, RequestRefused, UnknownTopic: final

Not here: encoding (encoder.py), sending (delivery.py), what to commit when (pyspark_moldau's sink).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from moldau.client.cluster import GROUP, TRANSACTION, Cluster, TopicPartition
from moldau.client.delivery import Delivery, Producer
from moldau.client.errors import ClientError, RequestRefused, Retriable, check, error_words
from moldau.client.sealing import EncodedBatch
from moldau.common.protocol.declare import Message
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from moldau.common.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from moldau.common.protocol.messages.api_versions import ApiVersionsRequest
from moldau.common.protocol.messages.end_txn import EndTxnRequest
from moldau.common.protocol.messages.init_producer_id import InitProducerIdRequest
from moldau.common.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

_FENCED = frozenset((ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH))
_LOST = frozenset(
    (
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
    )
)
_FORGOTTEN = frozenset(
    (
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    )
)
_REBIRTHS_MAX = 3
_TRANSACTIONS_FEATURE = "transaction.version"
# Transactions v2 begin with these versions; a client that speaks v1 must stay below them.
_V1_END_VERSION, _V1_OFFSETS_VERSION = 4, 4
_CLIENT_ADD_PARTITIONS_VERSION = 3


class Fenced(ClientError):
    """Another producer has opened the transactional id; this one may write no more."""


class TransactionLost(ClientError):
    """The transaction is or will be aborted, or its result is unknown."""


class IdempotentProducer:
    """Writes each record once as long as this object lives. Not thread-safe."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._producer: Producer | None = None
        self._next_sequences: dict[TopicPartition, int] = {}

    def send(self, batches: Sequence[EncodedBatch]) -> None:
        """Write these batches; return when all in-sync replicas have them."""
        left = list(batches)
        for birth in range(_REBIRTHS_MAX + 1):
            if self._producer is None:
                self._producer = self._new_producer()
                self._next_sequences = {}
            delivery = Delivery(self.cluster, self._producer, left, self._next_sequences)
            try:
                delivery.run()
            except RequestRefused as refusal:
                self._producer = None
                if refusal.error_code not in _FORGOTTEN or birth == _REBIRTHS_MAX:
                    raise
                left = delivery.undelivered()
            except BaseException:
                self._producer = None  # what is still on its way would have the numbers of what comes next
                raise
            else:
                return

    def _new_producer(self) -> Producer:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)

        def attempt() -> Producer:
            answer = self.cluster.any_broker().ask(request)
            check(answer.error_code, "get a producer id")
            return Producer(answer.producer_id, answer.producer_epoch)

        return self.cluster.persist("get a producer id", attempt)


class TransactionalProducer:
    """One transactional id, opened. Not thread-safe.

    It may be kept between transactions or opened again for each: the state is in the broker.
    """

    def __init__(self, cluster: Cluster, transactional_id: str, transaction_timeout_ms: int = 60_000) -> None:
        self.cluster = cluster
        self.transactional_id = transactional_id
        self._timeout_ms = transaction_timeout_ms
        self._is_v2 = False
        self._producer = Producer(-1, -1)
        self._next_sequences: dict[TopicPartition, int] = {}
        self._partitions: set[TopicPartition] = set()
        self._groups: set[str] = set()

    def open(self) -> None:
        """Open the id: fence its other users, and wait until their open transactions are ended."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=self._timeout_ms
        )
        answer = self._ask(self.transactional_id, TRANSACTION, request, "open")
        self._is_v2 = self.cluster.persist(f"open {self.transactional_id!r}", self._speaks_v2)
        self._become(answer.producer_id, answer.producer_epoch)

    def send(self, batches: Sequence[EncodedBatch]) -> None:
        """Write these batches in the transaction, which starts with the first ones."""
        self._declare({(batch.topic, batch.partition) for batch in batches})
        self._partitions.update((batch.topic, batch.partition) for batch in batches)
        delivery = Delivery(self.cluster, self._producer, batches, self._next_sequences)
        self._judged(delivery.run)

    def commit_offset(self, group_id: str, topic: str, partition: int, offset: int, text: str) -> None:
        """Commit an offset, with metadata, for a group as part of the transaction."""
        producer = self._producer
        if not self._is_v2 and group_id not in self._groups:
            declaration = AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                group_id=group_id,
            )
            self._ask(self.transactional_id, TRANSACTION, declaration, "write with")
        self._groups.add(group_id)
        row = TxnOffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=text
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[row])],
        )
        at_most = 5 if self._is_v2 else _V1_OFFSETS_VERSION
        self._ask(group_id, GROUP, request, "commit offsets with", at_most)

    def commit(self) -> None:
        """Commit. TransactionLost if the result is unknown."""
        self._end(committed=True)

    def abort(self) -> None:
        """Abort the open transaction."""
        self._end(committed=False)

    def _end(self, *, committed: bool) -> None:
        if not self._partitions and not self._groups:
            return
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self._producer.producer_id,
            producer_epoch=self._producer.producer_epoch,
            committed=committed,
        )
        at_most = 5 if self._is_v2 else _V1_END_VERSION
        answer = self._ask(self.transactional_id, TRANSACTION, request, "end a transaction of", at_most)
        if self._is_v2 and answer.producer_id >= 0:
            self._become(answer.producer_id, answer.producer_epoch)
        self._partitions.clear()
        self._groups.clear()

    def _become(self, producer_id: int, producer_epoch: int) -> None:
        self._producer = Producer(producer_id, producer_epoch, self.transactional_id, self._is_v2)
        self._next_sequences = {}
        self._partitions.clear()
        self._groups.clear()

    def _speaks_v2(self) -> bool:
        answer = self.cluster.any_broker().ask(
            ApiVersionsRequest(client_software_name="moldau", client_software_version="1")
        )
        return any(
            feature.name == _TRANSACTIONS_FEATURE and feature.max_version_level >= 2
            for feature in answer.finalized_features
        )

    def _declare(self, partitions: set[TopicPartition]) -> None:
        """Transactions v1: AddPartitionsToTxn."""
        new = sorted(partitions - self._partitions)
        if self._is_v2 or not new:
            return
        topics: dict[str, list[int]] = {}
        for topic, partition in new:
            topics.setdefault(topic, []).append(partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self._producer.producer_id,
            v3_and_below_producer_epoch=self._producer.producer_epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=numbers) for name, numbers in topics.items()
            ],
        )
        self._ask(self.transactional_id, TRANSACTION, request, "write with", _CLIENT_ADD_PARTITIONS_VERSION)
        self._partitions.update(new)

    def _ask(self, key: str, kind: int, request: Message, deed: str, at_most: int = 2**15) -> Any:
        """Send a request to a coordinator, and repeat it while the error is retriable."""
        wanted = f"{deed} transactional id {self.transactional_id!r}"

        def attempt() -> Any:
            try:
                answer = self.cluster.coordinator(key, kind).ask(request, at_most=at_most)
                for error_code in _error_codes(answer):
                    check(error_code, wanted)
            except (OSError, Retriable) as problem:
                if str(problem) != error_words(ErrorCode.CONCURRENT_TRANSACTIONS):
                    self.cluster.forget_coordinator(key, kind)
                raise
            return answer

        return self._judged(lambda: self.cluster.persist(wanted, attempt))

    def _judged(self, action: Callable[[], Any]) -> Any:
        """Map error codes to their meaning for the transaction."""
        try:
            return action()
        except RequestRefused as refusal:
            if refusal.error_code in _FENCED:
                raise Fenced(
                    f"another producer has taken over the transactional id {self.transactional_id!r}"
                ) from refusal
            if refusal.error_code in _LOST:
                raise TransactionLost(str(refusal)) from refusal
            raise


def _error_codes(answer: Any) -> list[int]:
    """All error codes of a coordinator's response."""
    codes = [answer.error_code] if hasattr(answer, "error_code") else []
    for topic in getattr(answer, "topics", ()):
        codes += [each.error_code for each in topic.partitions]
    for topic in getattr(answer, "results_by_topic_v3_and_below", ()):
        codes += [each.partition_error_code for each in topic.results_by_partition]
    return codes
