"""The transaction coordinator as the handlers see it: one method an API (KIP-98).

A method finds the shard of the transactional id, lets it decide, and returns the response, or an awaitable of
it where it has to wait.

Not here: what a request means (this folder's other files), how records get written (shard.py, one folder up),
authorisation and whether the partitions exist (handlers), how a marker gets to a partition (markers.py).
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from moldau.broker.coordinator.coordinator import partition_of
from moldau.broker.coordinator.group.consumer.regex import InvalidPattern
from moldau.broker.coordinator.machine import CoordinatorLog
from moldau.broker.coordinator.markers import MarkerWriter, TopicPartition
from moldau.broker.coordinator.result import Result
from moldau.broker.coordinator.runtime import CoordinatorRuntime
from moldau.broker.coordinator.stall_guard import never
from moldau.broker.coordinator.transaction import queries
from moldau.broker.coordinator.transaction.completion_wait import COMPLETION_WAIT_MS, CompletionWait
from moldau.broker.coordinator.transaction.delivery import Delivery
from moldau.broker.coordinator.transaction.error_mapping import client_error
from moldau.broker.coordinator.transaction.init_producer import Identity
from moldau.broker.coordinator.transaction.metadata import (
    EPOCH_BUMPING_VERSION,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    Decision,
    Transaction,
)
from moldau.broker.coordinator.transaction.partition_requests import PartitionRequests
from moldau.broker.coordinator.transaction.producer_id_allocation import (
    ProducerIdAllocation,
    ProducerIdSource,
)
from moldau.broker.coordinator.transaction.shard import TransactionShard
from moldau.broker.metadata.changes import Change
from moldau.broker.metadata.image import TRANSACTION_STATE_TOPIC, Image
from moldau.common.core.clock import Clock
from moldau.common.core.timers import TimerHandle, Timers
from moldau.common.core.waiting import Answer, together
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from moldau.common.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from moldau.common.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from moldau.common.protocol.messages.describe_transactions import TransactionState as DescribedTransaction
from moldau.common.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from moldau.common.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from moldau.common.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from moldau.common.settings.broker import BrokerSettings

R = TypeVar("R")

NEW_EPOCH_FROM = 5
"""The first version of EndTxn with which the end gives a new epoch: transactions version 2."""


class TransactionCoordinator:
    """Coordinates the transactional ids whose shards this broker leads. `transaction_version` is the level of
    the cluster's feature `transaction.version`."""

    topic = TRANSACTION_STATE_TOPIC

    def __init__(
        self,
        *,
        log: CoordinatorLog,
        image: Callable[[], Image],
        settings: Callable[[], BrokerSettings],
        clock: Clock,
        timers: Timers,
        producer_ids: ProducerIdSource,
        markers: MarkerWriter,
        transaction_version: Callable[[], int] = lambda: EPOCH_BUMPING_VERSION,
        completion_wait_ms: int = COMPLETION_WAIT_MS,
        stalled: Callable[[], bool] = never,
    ) -> None:
        self._image = image
        self._settings = settings
        self._clock = clock
        self._timers = timers
        self._completion_wait = CompletionWait(timers, completion_wait_ms)
        self._markers = markers
        self._transaction_version = transaction_version
        self._expiry: TimerHandle | None = None
        self.ended: Counter[str] = Counter()
        """Transactions decided here since the start, by how: committed, aborted, fenced, timed-out."""
        self.runtime: CoordinatorRuntime[TransactionShard] = CoordinatorRuntime(
            TRANSACTION_STATE_TOPIC,
            log=log,
            make_state=self._make_state,
            clock=clock,
            timers=timers,
            stalled=stalled,
        )
        self._ids = ProducerIdAllocation(self.runtime, producer_ids, timers)
        self._partitions = PartitionRequests(self.runtime, self._completion_wait, self.partition_for)

    # Life.

    def start(self) -> None:
        """Begin to look for expired ids periodically. Shards are loaded by `elected`."""
        interval_ms = self._settings().transaction_remove_expired_transaction_cleanup_interval_ms
        self._expiry = self._timers.call_later(interval_ms, self._expire)

    def stop(self) -> None:
        """Give up all shards; everyone who waits is answered COORDINATOR_NOT_AVAILABLE."""
        if self._expiry is not None:
            self._expiry.cancel()
        self._ids.stop()
        self.runtime.stop()

    def elected(self, index: int, leader_epoch: int) -> None:
        """See `Coordinator`. A shard's markers carry its leader epoch."""
        self.runtime.elected(index, leader_epoch)

    def resigned(self, index: int) -> None:
        self.runtime.resigned(index)

    def metadata_changed(self, old_image: Image, new_image: Image, changes: Sequence[Change]) -> None:
        """Markers that wait for a leader, or for a topic that is gone, look again. Subscribe this to the
        metadata."""
        if old_image.topics is not new_image.topics:
            for _, shard in self.runtime.states():
                shard.delivery.wake()

    def partition_for(self, key: str) -> int:
        """The partition of __transaction_state that holds the transactional id `key`."""
        planned_count = self._settings().transaction_state_log_num_partitions
        return partition_of(key, self.topic, self._image(), planned_count)

    # Producers.

    def init_producer_id(
        self, request: InitProducerIdRequest, api_version: int
    ) -> Answer[InitProducerIdResponse]:
        """InitProducerId with a transactional id (KIP-98, KIP-360)."""
        transactional_id = request.transactional_id or ""

        def respond(outcome: Decision) -> InitProducerIdResponse:
            return InitProducerIdResponse(
                error_code=client_error(InitProducerIdRequest, api_version, outcome.error_code),
                producer_id=outcome.producer_id,
                producer_epoch=outcome.producer_epoch,
            )

        half_named = (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH)
        if half_named or not transactional_id:
            return respond(Decision(ErrorCode.INVALID_REQUEST))
        if not 0 < request.transaction_timeout_ms <= self._settings().transaction_max_timeout_ms:
            return respond(Decision(ErrorCode.INVALID_TRANSACTION_TIMEOUT))
        named = request.producer_id != NO_PRODUCER_ID
        expected = Identity(request.producer_id, request.producer_epoch) if named else None

        def operation(
            shard: TransactionShard, now_ms: int, new_producer_id: int | None, answer: Callable[[Decision], R]
        ) -> Result[R]:
            timeout_ms = request.transaction_timeout_ms
            return shard.init_producer_id(
                transactional_id, timeout_ms, expected, new_producer_id, now_ms, answer
            )

        partition = self.partition_for(transactional_id)
        return self._completion_wait.after_completion(
            self.runtime.state(partition),
            transactional_id,
            lambda: self._ids.decide(partition, operation, respond),
        )

    def end_transaction(self, request: EndTxnRequest, api_version: int) -> Answer[EndTxnResponse]:
        """EndTxn; answered once the decision is committed."""

        def respond(outcome: Decision) -> EndTxnResponse:
            return EndTxnResponse(
                error_code=client_error(EndTxnRequest, api_version, outcome.error_code),
                producer_id=outcome.producer_id,
                producer_epoch=outcome.producer_epoch,
            )

        if not request.transactional_id:
            return respond(Decision(ErrorCode.INVALID_REQUEST))
        identity = Identity(request.producer_id, request.producer_epoch)
        client_version = EPOCH_BUMPING_VERSION if api_version >= NEW_EPOCH_FROM else 0

        def operation(
            shard: TransactionShard, now_ms: int, new_producer_id: int | None, answer: Callable[[Decision], R]
        ) -> Result[R]:
            committed, name = request.committed, request.transactional_id
            return shard.end(name, identity, committed, client_version, new_producer_id, now_ms, answer)

        partition = self.partition_for(request.transactional_id)
        # A producer may abort its next transaction before anything was added to it. Only version 2 may wait:
        # its epoch says which transaction is meant.
        shard = self.runtime.state(partition) if client_version >= EPOCH_BUMPING_VERSION else None
        return self._completion_wait.after_completion(
            shard,
            request.transactional_id,
            lambda: self._ids.decide(partition, operation, respond),
        )

    # Partitions.

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        api_version: int,
    ) -> Answer[int]:
        """AddPartitionsToTxn as clients send it (versions 0-3): one error code for all partitions. All are
        added or none."""
        identity = Identity(producer_id, producer_epoch)
        return self._partitions.add_of_client(
            transactional_id, identity, partitions, AddPartitionsToTxnRequest, api_version
        )

    def add_partitions_of_brokers(
        self, request: AddPartitionsToTxnRequest
    ) -> Answer[AddPartitionsToTxnResponse]:
        """AddPartitionsToTxn as brokers send it (versions 4 and up): several transactions, to verify or to
        add (KIP-890)."""
        return self._partitions.of_broker(request)

    def add_offsets(
        self, request: AddOffsetsToTxnRequest, api_version: int
    ) -> Answer[AddOffsetsToTxnResponse]:
        """AddOffsetsToTxn: the partition of __consumer_offsets that holds the group takes part."""
        return self._partitions.add_offsets(request, api_version, self._image(), self._settings())

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        add: bool,
        supports_abortable: bool,
    ) -> Answer[dict[TopicPartition, int]]:
        """A leader asks before it accepts a producer's first write in a transaction (KIP-890): whether its
        partitions take part, or, with `add`, that they shall. An error code for each.

        The codes are meant for the producer: PRODUCER_FENCED becomes INVALID_PRODUCER_EPOCH, and without
        `supports_abortable` TRANSACTION_ABORTABLE becomes INVALID_TXN_STATE."""
        return self._partitions.verify(
            transactional_id,
            Identity(producer_id, producer_epoch),
            partitions,
            add=add,
            supports_abortable=supports_abortable,
        )

    # Questions.

    def describe(self, request: DescribeTransactionsRequest) -> Answer[DescribeTransactionsResponse]:
        """DescribeTransactions."""
        outcomes = [self._describe(transactional_id) for transactional_id in request.transactional_ids]
        return together(outcomes, lambda rows: DescribeTransactionsResponse(transaction_states=rows))

    def _describe(self, transactional_id: str) -> Answer[DescribedTransaction]:
        refuse = partial(queries.refuse_describe, transactional_id)
        if not transactional_id:
            return refuse(ErrorCode.INVALID_REQUEST)
        return self.runtime.decide(
            self.partition_for(transactional_id),
            lambda shard, now_ms: Result(shard.describe(transactional_id)),
            refuse,
        )

    def list(self, request: ListTransactionsRequest) -> Answer[ListTransactionsResponse]:
        """ListTransactions: the ids of all shards here. While one of them loads, the list would be
        incomplete: COORDINATOR_LOAD_IN_PROGRESS makes the client retry."""
        if self.runtime.loading():
            return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        try:
            filter_ = queries.Filter(request)
        except InvalidPattern:
            return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
        outcomes = [
            self.runtime.decide(
                partition,
                lambda shard, now_ms: Result([*filter_.select(shard.transactions.values(), now_ms)]),
                lambda error_code: [],
            )
            for partition, _ in self.runtime.states()
        ]
        return together(
            outcomes,
            lambda lists: ListTransactionsResponse(
                unknown_state_filters=filter_.unknown_states,
                transaction_states=[row for rows in lists for row in rows],
            ),
        )

    # For metrics and the monitor.

    def states(self) -> Iterator[queries.TransactionStatus]:
        """Every transactional id here."""
        now_ms = self._clock.now_ms()
        return (status for _, shard in self.runtime.states() for status in shard.statuses(now_ms))

    def state_counts(self) -> Counter[str]:
        """How many transactional ids are in each state, by the state's name."""
        counts: Counter[str] = Counter()
        for _, shard in self.runtime.states():
            counts.update(shard.state_counts())
        return counts

    def undecided(self) -> Iterator[Transaction]:
        """The transactions that are open, or decided and not carried out everywhere."""
        return (each for _, shard in self.runtime.states() for each in shard.undecided())

    def knows_all(self) -> bool:
        """Whether no other coordinator can have a transaction: all shards serve here."""
        topic = self._image().topics.get(TRANSACTION_STATE_TOPIC)
        return topic is None or all(self.runtime.is_active(index) for index in range(len(topic.partitions)))

    def pending_markers(self) -> queries.PendingMarkers:
        """Decided transactions whose markers are not all written."""
        now_ms = self._clock.now_ms()
        pending = [each for _, shard in self.runtime.states() for each in shard.delivery.pending()]
        return queries.PendingMarkers(
            transactions=len(pending),
            partitions=sum(len(each.remaining) for each in pending),
            oldest_ms=max((now_ms - each.since_ms for each in pending), default=0),
            stopped=sum(each.stopped for each in pending),
        )

    # Inside.

    def _count_end(self, how: str) -> None:
        self.ended[how] += 1

    def _make_state(self, index: int, leader_epoch: int) -> TransactionShard:
        def make_delivery(finished: Callable[[Transaction], None]) -> Delivery:
            return Delivery(
                coordinator_epoch=leader_epoch,
                writer=self._markers,
                image=self._image,
                clock=self._clock,
                timers=self._timers,
                finished=finished,
            )

        return TransactionShard(
            server_version=self._transaction_version,
            make_delivery=make_delivery,
            submit=partial(self.runtime.submit, index),
            replace_producer=partial(self._ids.abort_overdue, index),
            count_end=self._count_end,
            may_be_deposed=lambda: self._has_other_replicas(index),
            abort_interval_ms=lambda: (
                self._settings().transaction_abort_timed_out_transaction_cleanup_interval_ms
            ),
        )

    def _has_other_replicas(self, index: int) -> bool:
        """Whether another broker may coordinate this shard."""
        topic = self._image().topics.get(TRANSACTION_STATE_TOPIC)
        return topic is not None and len(topic.partitions[index].replicas) > 1

    def _expire(self) -> None:
        """Forget what has expired: one shard a turn of the loop."""
        self.start()
        for order, (partition, _) in enumerate(self.runtime.states()):
            self._timers.call_later(order, partial(self._expire_shard, partition))

    def _expire_shard(self, partition: int) -> None:
        expiration_ms = self._settings().transactional_id_expiration_ms

        def more() -> None:
            self._timers.call_later(1, partial(self._expire_shard, partition))

        self.runtime.submit(partition, lambda shard, now_ms: shard.expire(expiration_ms, now_ms, more))
