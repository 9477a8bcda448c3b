"""The requests that add partitions to a transaction, and those that verify them.

    AddPartitionsToTxn v0-3   a client adds partitions, all or none; one error code
    AddOffsetsToTxn           a client adds the partition of __consumer_offsets that holds a group
    AddPartitionsToTxn v4+    a broker verifies or adds, for several transactions (KIP-890)
    verify                    the same from this broker's own partitions

Not here: the decisions (partitions.py), finding out whether the partitions exist (handlers).
"""

from collections.abc import Callable, Sequence

from moldau.broker.coordinator.coordinator import partition_of
from moldau.broker.coordinator.markers import TopicPartition
from moldau.broker.coordinator.result import Result
from moldau.broker.coordinator.runtime import CoordinatorRuntime
from moldau.broker.coordinator.transaction.completion_wait import CompletionWait
from moldau.broker.coordinator.transaction.error_mapping import (
    ErrorMapping,
    client_error,
    producer_error_mapping,
)
from moldau.broker.coordinator.transaction.init_producer import Identity
from moldau.broker.coordinator.transaction.metadata import EPOCH_BUMPING_VERSION
from moldau.broker.coordinator.transaction.shard import TransactionShard
from moldau.broker.metadata.image import GROUP_OFFSETS_TOPIC, Image
from moldau.common.core.waiting import Answer, then, together
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from moldau.common.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from moldau.common.settings.broker import BrokerSettings

ErrorCodes = dict[TopicPartition, int]


class PartitionRequests:
    """The requests of one coordinator. `partition_for` finds the shard of a transactional id."""

    def __init__(
        self,
        runtime: CoordinatorRuntime[TransactionShard],
        completion_wait: CompletionWait,
        partition_for: Callable[[str], int],
    ) -> None:
        self._runtime = runtime
        self._completion_wait = completion_wait
        self._partition_for = partition_for

    def add_of_client(
        self,
        transactional_id: str,
        identity: Identity,
        partitions: Sequence[TopicPartition],
        request_type: type,
        api_version: int,
    ) -> Answer[int]:
        """Add all of `partitions` or none; one error code, as this version of the request knows it."""

        def respond(error_code: int) -> int:
            return client_error(request_type, api_version, error_code)

        if not transactional_id:
            return respond(ErrorCode.INVALID_REQUEST)
        index = self._partition_for(transactional_id)

        def operation(shard: TransactionShard, now_ms: int) -> Result[int]:
            return shard.add(
                transactional_id,
                identity,
                partitions,
                0,
                now_ms,
                lambda outcome: respond(outcome.error_code),
            )

        return self._completion_wait.after_completion(
            self._runtime.state(index),
            transactional_id,
            lambda: self._runtime.decide(index, operation, lambda error_code: error_code),
        )

    def add_offsets(
        self, request: AddOffsetsToTxnRequest, api_version: int, image: Image, settings: BrokerSettings
    ) -> Answer[AddOffsetsToTxnResponse]:
        planned_count = settings.offsets_topic_num_partitions
        index = partition_of(request.group_id, GROUP_OFFSETS_TOPIC, image, planned_count)
        added = self.add_of_client(
            request.transactional_id,
            Identity(request.producer_id, request.producer_epoch),
            [(GROUP_OFFSETS_TOPIC, index)],
            AddOffsetsToTxnRequest,
            api_version,
        )
        return then(added, lambda error_code: AddOffsetsToTxnResponse(error_code=error_code))

    def verify(
        self,
        transactional_id: str,
        identity: Identity,
        partitions: Sequence[TopicPartition],
        *,
        add: bool,
        supports_abortable: bool,
    ) -> Answer[ErrorCodes]:
        """Whether the partitions take part, or, with `add`, make them; in the producer's error codes."""
        mapping = producer_error_mapping(supports_abortable=supports_abortable)
        return self._verify(transactional_id, identity, partitions, add, mapping, waits=add)

    def of_broker(self, request: AddPartitionsToTxnRequest) -> Answer[AddPartitionsToTxnResponse]:
        """Verify or add, as each of the request's transactions says. Nothing waits for a transaction that is
        being completed: the other rows, and the requests behind this one, would wait too. Brokers ask again
        after CONCURRENT_TRANSACTIONS.
        """
        answers = [
            self._verify(
                row.transactional_id,
                Identity(row.producer_id, row.producer_epoch),
                [(topic.name, index) for topic in row.topics for index in topic.partitions],
                not row.verify_only,
                {},
                waits=False,
            )
            for row in request.transactions
        ]

        def respond(codes: list[ErrorCodes]) -> AddPartitionsToTxnResponse:
            rows = [_result(row, each) for row, each in zip(request.transactions, codes, strict=True)]
            return AddPartitionsToTxnResponse(results_by_transaction=rows)

        return together(answers, respond)

    def _verify(
        self,
        transactional_id: str,
        identity: Identity,
        partitions: Sequence[TopicPartition],
        add: bool,
        mapping: ErrorMapping,
        *,
        waits: bool,
    ) -> Answer[ErrorCodes]:
        def for_all(error_code: int) -> ErrorCodes:
            return dict.fromkeys(partitions, mapping.get(error_code, error_code))

        def operation(shard: TransactionShard, now_ms: int) -> Result[ErrorCodes]:
            if add:
                return shard.add(
                    transactional_id,
                    identity,
                    partitions,
                    EPOCH_BUMPING_VERSION,
                    now_ms,
                    lambda outcome: for_all(outcome.error_code),
                )
            return shard.verify(
                transactional_id,
                identity,
                partitions,
                lambda codes: {partition: mapping.get(code, code) for partition, code in codes.items()},
            )

        if not transactional_id:
            return for_all(ErrorCode.INVALID_REQUEST)
        index = self._partition_for(transactional_id)
        return self._completion_wait.after_completion(
            self._runtime.state(index) if waits else None,
            transactional_id,
            lambda: self._runtime.decide(index, operation, for_all),
        )


def _result(row: AddPartitionsToTxnTransaction, codes: ErrorCodes) -> AddPartitionsToTxnResult:
    return AddPartitionsToTxnResult(
        transactional_id=row.transactional_id,
        topic_results=[
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(
                        partition_index=index, partition_error_code=codes[topic.name, index]
                    )
                    for index in topic.partitions
                ],
            )
            for topic in row.topics
        ],
    )
