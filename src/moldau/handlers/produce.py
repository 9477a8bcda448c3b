"""Produce, versions 3-13: batches for partitions, appended as they came.

    v3  magic 2 batches, transactional id      v5  log start offset in the answer      v7  zstd allowed
    v8  record errors and a message            v9  flexible      v10  current leader    v13  topic ids

The frame is read in place: the records of a partition are a view into the receive buffer that the log stages
or writes before this function returns. The answer waits for the turn's one write, and with durability `group`
for its fsync. With acks=0 there is no answer; an error then ends the connection, because nothing else could
tell the client.

Hot for requests to several partitions; a producer's repeated ones take the shortcut (produce_repeat.py).
Not here: a batch that opens a transaction in its partition (produce_transactional.py).
"""

from functools import partial

from moldau.handlers.broker import Broker
from moldau.handlers.exchange import AnswerFrame, Exchange, Slot
from moldau.handlers.produce_repeat import remember
from moldau.handlers.produce_transactional import Done, is_open, producer_of
from moldau.handlers.registry import serves_frames
from moldau.log.log import AppendResult
from moldau.protocol.errors import ErrorCode
from moldau.protocol.hot_produce import PartitionAnswer, decode_produce, encode_produce_response
from moldau.protocol.hot_wire import frame_answer
from moldau.protocol.messages.produce import ProduceRequest
from moldau.replication.partition import Partition

_FLEXIBLE_FROM = 9
_TOPIC_ID_FROM = 13
_TAKEN_BACK = "the write failed and was taken back: see the broker's log and its /health page"


class _Pending:
    """A Produce request whose batches are appended but not yet committed."""

    __slots__ = ("acks", "answers", "correlation_id", "left", "slot", "version")

    def __init__(
        self,
        version: int,
        correlation_id: int,
        slot: Slot,
        answers: list[tuple[bytes, list[PartitionAnswer]]],
        acks: int,
    ) -> None:
        self.version = version
        self.correlation_id = correlation_id
        self.slot = slot
        self.acks = acks
        self.answers = answers  # still growing: a failing disk may settle a row before the next is made
        self.left = 1  # held by the handler until all partitions are appended

    def settle(self, error_code: int, partition: Partition) -> None:
        if error_code:
            self._withdraw(error_code, partition)
        self.release()

    def release(self) -> None:
        self.left -= 1
        if self.left:
            return
        if self.acks:
            self.slot.fill(_frame(self.version, self.correlation_id, self.answers))
        elif any(row[1] for _, rows in self.answers for row in rows):
            self.slot.exchange.close()
        else:
            self.slot.fill(None)

    def place(self, rows: list[PartitionAnswer], at: int, partition: Partition, result: AppendResult) -> None:
        """A batch that had to wait for the coordinator is in the log now, or refused."""
        rows[at], end_offset = _row(partition, result)
        if end_offset >= 0 and self.acks:
            partition.wait_for(end_offset, self)
        else:
            self.release()

    def _withdraw(self, error_code: int, partition: Partition) -> None:
        """The partition's batch was taken back after its row of the answer had been made."""
        names = (partition.topic.encode(), partition.topic_id)
        lost = (partition.index, error_code, -1, -1, -1, _TAKEN_BACK)
        for key, rows in self.answers:
            if key in names:
                rows[:] = [lost if row[0] == partition.index and not row[1] else row for row in rows]


def _frame(version: int, correlation_id: int, answers: list[tuple[bytes, list[PartitionAnswer]]]) -> bytes:
    return frame_answer(correlation_id, version >= _FLEXIBLE_FROM, encode_produce_response(version, answers))


@serves_frames(ProduceRequest)
def produce(
    broker: Broker, exchange: Exchange, view: memoryview, body: int, version: int, correlation_id: int
) -> AnswerFrame | None:
    transactional_id, acks, _timeout_ms, topics = decode_produce(view, body, version)
    refused = 0
    if not -1 <= acks <= 1:
        refused = ErrorCode.INVALID_REQUIRED_ACKS
    elif transactional_id is None and any(
        producer_of(records) for _, rows in topics for _, records in rows if records is not None
    ):
        refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    lookup = broker.replicas.by_topic_id if version >= _TOPIC_ID_FROM else broker.replicas.by_name_bytes
    unknown = (
        ErrorCode.UNKNOWN_TOPIC_ID if version >= _TOPIC_ID_FROM else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )
    now_ms = broker.clock.now_ms()
    pending: _Pending | None = None
    answers: list[tuple[bytes, list[PartitionAnswer]]] = []
    failed = False
    unverified: list[tuple[Partition, memoryview, list[PartitionAnswer], int]] = []
    for key, partitions in topics:
        held = lookup.get(key)
        rows: list[PartitionAnswer] = []
        answers.append((key, rows))
        for index, records in partitions:
            partition = None if held is None else held.get(index)
            if refused:
                row: PartitionAnswer = (index, refused, -1, -1, -1, None)
            elif partition is None:
                error_code = unknown if held is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                row = (index, error_code, -1, -1, -1, None)
            elif records is None:
                row = (index, ErrorCode.INVALID_RECORD, -1, -1, -1, "the partition has no records")
            elif (
                transactional_id is not None
                and not _refusal(broker, partition)
                and not is_open(partition, records)
            ):
                row = (index, 0, -1, -1, -1, None)  # until the coordinator has been asked
                unverified.append((partition, records, rows, len(rows)))
            else:
                row, end_offset = _append(broker, partition, records, now_ms, acks)
                if end_offset >= 0 and acks:
                    if pending is None:
                        slot = exchange.park(blocking=False)
                        pending = _Pending(version, correlation_id, slot, answers, acks)
                    pending.left += 1
                    partition.wait_for(end_offset, pending)
            if row[1]:
                failed = True
            rows.append(row)
    if len(answers) == 1 and len(answers[0][1]) == 1 and not failed:
        transactional = transactional_id is not None
        remember(broker, exchange, view, version, topics[0], lookup, acks, transactional=transactional)
    if transactional_id is not None and unverified:
        if pending is None:
            pending = _Pending(version, correlation_id, exchange.park(blocking=False), answers, acks)
        _verify(broker, transactional_id, version, pending, unverified)
        pending.release()
        return None
    if acks == 0:
        if failed:
            exchange.close()
        return None
    if pending is None:
        return _frame(version, correlation_id, answers)
    pending.release()
    return None


def _verify(
    broker: Broker,
    transactional_id: bytes,
    version: int,
    pending: _Pending,
    unverified: list[tuple[Partition, memoryview, list[PartitionAnswer], int]],
) -> None:
    """Have the batches appended that open a transaction, once its coordinator agrees."""
    pending.left += len(unverified)
    batches: list[tuple[Partition, memoryview, Done]] = []
    for partition, records, rows, at in unverified:
        partition.stats.produces += 1
        batches.append((partition, records, partial(pending.place, rows, at, partition)))
    broker.verifications.append(transactional_id.decode(errors="replace"), version, batches, pending.acks)


def _append(
    broker: Broker, partition: Partition, records: memoryview, now_ms: int, acks: int
) -> tuple[PartitionAnswer, int]:
    """The partition's row of the answer, and the offset whose commit it waits for (-1: none)."""
    partition.stats.produces += 1
    refusal = _refusal(broker, partition)
    if refusal:
        partition.stats.failed_produces += 1
        message = "clients may not write internal topics" if partition.internal else None
        return (partition.index, refusal, -1, -1, -1, message), -1
    return _row(partition, partition.append(records, now_ms, acks))


def _refusal(broker: Broker, partition: Partition) -> int:
    """Why no client may write to the partition here; 0: it may."""
    if partition.leader != broker.node_id:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return ErrorCode.INVALID_TOPIC_EXCEPTION if partition.internal else 0


def _row(partition: Partition, result: AppendResult) -> tuple[PartitionAnswer, int]:
    index = partition.index
    if result.error_code:
        partition.stats.failed_produces += 1
        return (index, result.error_code, -1, -1, result.log_start_offset, result.error_message), -1
    return (
        (index, 0, result.base_offset, result.log_append_time_ms, result.log_start_offset, None),
        result.last_offset + 1,
    )
