"""Offsets committed in a transaction (KIP-98, KIP-447): written by TxnOffsetCommit, applied or dropped by the
marker.

An application that consumes and produces commits its offsets in the same transaction as its output: they
become visible when the transaction commits, and never if it aborts. Until then they are pending
(pending.py).

    TxnOffsetCommit ──> guard taken ──> transaction coordinator asked ──> commit here, if the guard holds
                                                        marker ──> breaks the producer's guards

Only the transaction's coordinator knows whether it is open; asking takes time. A marker that arrives
meanwhile ends the transaction, and offsets written after it would stay pending forever. So a guard is taken
before; a marker breaks it, and so does giving up the shard (KIP-890).

Not here: asking (transactions/txn_offset_commit.py).
"""

from typing import TYPE_CHECKING, Any

from moldau.broker.coordinator.group.classic.requests import ClassicGroups
from moldau.broker.coordinator.group.consumer.group import OTHER_EPOCH, ConsumerGroup
from moldau.broker.coordinator.group.offsets.commit_refusal import refuse_transactional_commit
from moldau.broker.coordinator.group.offsets.committed import Offsets
from moldau.broker.coordinator.group.offsets.pending import Place
from moldau.broker.coordinator.group.parts import ShardParts
from moldau.broker.coordinator.records import GroupRecord, decode
from moldau.broker.coordinator.result import Producer, Result
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.coordinator_records import OffsetCommitKey, OffsetCommitValue
from moldau.common.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    pass


class CommitGuard:
    """`broken` if a producer's transaction may have ended here since the guard was taken."""

    __slots__ = ("broken", "owner", "producer_id")

    def __init__(self, owner: "TransactionalOffsets", producer_id: int) -> None:
        self.owner = owner
        self.producer_id = producer_id
        self.broken = False


class TransactionalOffsets:
    """The transactional commits of one shard, and their guards."""

    def __init__(self, parts: ShardParts, classic: ClassicGroups, offsets: Offsets) -> None:
        self.parts = parts
        self._classic = classic
        self._offsets = offsets
        self._guards: dict[int, set[CommitGuard]] = {}

    # Guards live as long as their request, so there are no more of them than requests.

    def take_guard(self, producer_id: int) -> CommitGuard:
        """A guard of this producer, for `release_guard` later."""
        guard = CommitGuard(self, producer_id)
        self._guards.setdefault(producer_id, set()).add(guard)
        return guard

    def release_guard(self, guard: CommitGuard) -> None:
        """The guard is not needed any longer."""
        guards = self._guards.get(guard.producer_id)
        if guards is not None:
            guards.discard(guard)
            if not guards:
                del self._guards[guard.producer_id]

    def break_guards(self) -> None:
        """The shard is given up: markers that its log gets from now on are not seen here."""
        for guards in self._guards.values():
            for guard in guards:
                guard.broken = True
        self._guards.clear()

    # TxnOffsetCommit.

    def commit(
        self, request: TxnOffsetCommitRequest, guard: CommitGuard | None, now_ms: int
    ) -> Result[TxnOffsetCommitResponse]:
        """Keep offsets until the producer's transaction ends, each with its own outcome; a request that its
        group refuses fails as a whole."""
        if guard is not None and guard.broken:
            error_code: int = ErrorCode.INVALID_TXN_STATE
        else:
            error_code = self._check_commit(request)
        if error_code:
            return Result(refuse_transactional_commit(request, error_code))
        metadata_bytes_max = self.parts.settings().offset_metadata_max_bytes
        image = self.parts.image()
        records: list[Any] = []
        topics = []
        for topic in request.topics:
            state = image.topics.get(topic.name)
            partition_count = 0 if state is None else len(state.partitions)
            rows = []
            for row in topic.partitions:
                metadata = row.committed_metadata or ""
                outcome = ErrorCode.NONE
                if state is None or not 0 <= row.partition_index < partition_count:
                    outcome = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                elif len(metadata) > metadata_bytes_max:
                    outcome = ErrorCode.OFFSET_METADATA_TOO_LARGE
                else:
                    key = OffsetCommitKey(
                        group=request.group_id, topic=state.name, partition=row.partition_index
                    )
                    value = OffsetCommitValue(
                        offset=row.committed_offset,
                        leader_epoch=row.committed_leader_epoch,
                        metadata=metadata,
                        commit_timestamp=now_ms,
                        topic_id=state.topic_id,
                    )
                    records.append(GroupRecord(key, value))
                rows.append(
                    TxnOffsetCommitResponsePartition(partition_index=row.partition_index, error_code=outcome)
                )
            topics.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=rows))
        producer = Producer(request.producer_id, request.producer_epoch)
        return Result(TxnOffsetCommitResponse(topics=topics), records, producer=producer)

    def _check_commit(self, request: TxnOffsetCommitRequest) -> int:
        if request.producer_id < 0 or request.producer_epoch < 0:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        group = self.parts.groups.get(request.group_id)
        if group is None:
            return ErrorCode.NONE if request.generation_id < 0 else ErrorCode.ILLEGAL_GENERATION
        error_code = group.validate_transactional_commit(
            request.member_id, request.group_instance_id, request.generation_id
        )
        if error_code not in OTHER_EPOCH:
            return error_code
        # TxnOffsetCommit is older than member epochs; its generation is one.
        held = isinstance(group, ConsumerGroup) and self._all_held(group, request)
        return ErrorCode.NONE if held else ErrorCode.ILLEGAL_GENERATION

    def _all_held(self, group: ConsumerGroup, request: TxnOffsetCommitRequest) -> bool:
        """Whether a member that is an epoch behind has had all that it commits since then (KIP-1251)."""
        topics = self.parts.image().topics
        return all(
            topic.name in topics
            and group.may_commit_partition(
                request.member_id, request.generation_id, topics[topic.name].topic_id, row.partition_index
            )
            for topic in request.topics
            for row in topic.partitions
        )

    # Replay.

    def replay_pending(self, key: OffsetCommitKey, value: OffsetCommitValue, producer: Producer) -> None:
        """An offset was committed in a transaction that is open. A group that does not exist is created,
        as by any commit."""
        self._classic.ensure(key.group)
        self._offsets.pending.add(producer, Place(key.group, key.topic, key.partition), value)

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        """A marker was replayed: the producer's pending offsets count now, or are dropped."""
        for guard in self._guards.pop(producer_id, ()):
            guard.broken = True
        offsets = self._offsets
        for place, (order, value) in offsets.pending.end(producer_id):
            if committed and value is not None:
                offsets.put(place.group_id, place.topic, place.partition, value)
                offsets.pending.supersede(place, order)

    def load_pending(self, producer: Producer, key: bytes, value: bytes | None) -> None:
        """A record of a transaction that is open at the end of the log; None if it will not count."""
        record = decode(key, value)
        if record is not None and isinstance(record.key, OffsetCommitKey):
            self.replay_pending(record.key, record.value, producer)
