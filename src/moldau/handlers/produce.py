"""Produce, versions 3-13: batches for partitions, appended as they came.

    v3  magic 2 batches, transactional id      v5  log start offset in the answer      v7  zstd allowed
    v8  record errors and a message            v9  flexible      v10  current leader    v13  topic ids

The frame is read in place: the records of a partition are a view into the receive buffer that the log stages
or writes before this function returns. The answer waits for the turn's one write, and with durability `group`
for its fsync. With acks=0 there is no answer; an error then ends the connection, because nothing else could
tell the client.

Hot for requests to several partitions; a producer's repeated ones take the shortcut (produce_repeat.py).
Not here: transactions.
"""

from moldau.handlers.broker import Broker
from moldau.handlers.exchange import AnswerFrame, Exchange, Slot
from moldau.handlers.produce_repeat import remember
from moldau.handlers.registry import serves_frames
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

    __slots__ = ("answers", "correlation_id", "left", "slot", "version")

    def __init__(
        self,
        version: int,
        correlation_id: int,
        slot: Slot,
        answers: list[tuple[bytes, list[PartitionAnswer]]],
    ) -> None:
        self.version = version
        self.correlation_id = correlation_id
        self.slot = slot
        self.answers = answers  # still growing: a failing disk may settle a row before the next is made
        self.left = 1  # held by the handler until all partitions are appended

    def settle(self, error_code: int, partition: Partition) -> None:
        if error_code:
            self._withdraw(error_code, partition)
        self.release()

    def release(self) -> None:
        self.left -= 1
        if not self.left:
            self.slot.fill(_frame(self.version, self.correlation_id, self.answers))

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
    elif transactional_id is not None:
        refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    lookup = broker.replicas.by_topic_id if version >= _TOPIC_ID_FROM else broker.replicas.by_name_bytes
    unknown = (
        ErrorCode.UNKNOWN_TOPIC_ID if version >= _TOPIC_ID_FROM else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )
    now_ms = broker.clock.now_ms()
    pending: _Pending | None = None
    answers: list[tuple[bytes, list[PartitionAnswer]]] = []
    failed = False
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
            else:
                row, end_offset = _append(broker, partition, records, now_ms, acks)
                if end_offset >= 0 and acks:
                    if pending is None:
                        slot = exchange.park(blocking=False)
                        pending = _Pending(version, correlation_id, slot, answers)
                    pending.left += 1
                    partition.wait_for(end_offset, pending)
            if row[1]:
                failed = True
            rows.append(row)
    if len(answers) == 1 and len(answers[0][1]) == 1 and not failed:
        remember(broker, exchange, view, version, topics[0], lookup, acks)
    if acks == 0:
        if failed:
            exchange.close()
        return None
    if pending is None:
        return _frame(version, correlation_id, answers)
    pending.release()
    return None


def _append(
    broker: Broker, partition: Partition, records: memoryview, now_ms: int, acks: int
) -> tuple[PartitionAnswer, int]:
    """The partition's row of the answer, and the offset whose commit it waits for (-1: none)."""
    index = partition.index
    stats = partition.stats
    stats.produces += 1
    if partition.leader != broker.node_id:
        stats.failed_produces += 1
        return (index, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1, -1, None), -1
    if partition.internal:
        stats.failed_produces += 1
        return (
            index,
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            -1,
            -1,
            -1,
            "clients may not write internal topics",
        ), -1
    result = partition.append(records, now_ms, acks)
    if result.error_code:
        stats.failed_produces += 1
        return (index, result.error_code, -1, -1, result.log_start_offset, result.error_message), -1
    return (
        (index, 0, result.base_offset, result.log_append_time_ms, result.log_start_offset, None),
        result.last_offset + 1,
    )
