"""One Produce request: its rows are appended or deferred, and it is answered once all appends are as safe as
`acks` asks for, or have failed.

    append_row ──> appended ──> waits for the commit ──┐
               ──> refused ────────────────────────────┼──> all rows settled ──> the answer; with acks=0 the
               ──> opens a transaction: asks later ────┤    connection ends instead when a row has failed
               ──> deferred: its records are inspected ┘
                   elsewhere, then `append_inspected`

The client must have Write on each topic, and on the transactional id if a batch is transactional. A repeated
request is let through without asking, while the session's version is unchanged (produce_repeat.py).

Not here: the order in which rows are appended (produce.py, produce_later.py).
"""

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple, TypeVar

from moldau.broker.handlers.apis.produce.produce_transactional import Done, is_open
from moldau.broker.handlers.parts import current_leader
from moldau.broker.handlers.parts.broker import Broker
from moldau.broker.handlers.parts.current_leader import tells_leaders
from moldau.broker.handlers.parts.exchange import Exchange, Slot
from moldau.broker.handlers.parts.rights import may
from moldau.broker.handlers.parts.session import Session
from moldau.broker.log.appending.inspection import Inspection
from moldau.broker.log.log import AppendResult, Deferred
from moldau.broker.replication.partition import Partition
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.hot_produce import (
    ANSWER_ERROR_CODE,
    ANSWER_INDEX,
    PartitionAnswer,
    RecordsRefused,
    encode_produce_response,
)
from moldau.common.protocol.hot_wire import frame_answer
from moldau.common.protocol.operations import Operation, ResourceType
from moldau.common.records.unpack_budget import UnpackBudget

_FLEXIBLE_FROM = 9
_TOPIC_ID_FROM = 13
UNCOMMITTED: dict[int, str] = {
    ErrorCode.KAFKA_STORAGE_ERROR: "the write failed and was rolled back: see the broker's log and its "
    "/health page",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "this broker lost leadership before the records were committed",
    ErrorCode.REQUEST_TIMED_OUT: "the records are written, but were not committed within the timeout",
}
"""Messages for records that were appended, by the error code with which their wait ended."""
RECORD_ERRORS_MAX = 1000
"""At most this many record errors in one response; further rows have only a message."""

Rows = list[PartitionAnswer]
Lookup = Mapping[bytes, Mapping[int, Partition]]


class DeferredRow(NamedTuple):
    """A row whose batch must be inspected before it may be appended, and its place in the response."""

    partition: Partition
    inspection: Inspection
    key: bytes
    rows: Rows
    at: int


class PendingProduce:
    """A request's rows and their results."""

    __slots__ = (
        "_errors_left",
        "_unverified",
        "acks",
        "answers",
        "authorizer",
        "broker",
        "correlation_id",
        "exchange",
        "failed",
        "left",
        "limits",
        "lookup",
        "now_ms",
        "refused",
        "size_bytes",
        "slot",
        "throttle_ms",
        "timeout_ms",
        "transactional_id",
        "unknown",
        "version",
        "waiting_bytes",
    )

    def __init__(
        self,
        broker: Broker,
        exchange: Exchange,
        version: int,
        correlation_id: int,
        transactional_id: bytes | None,
        acks: int,
        timeout_ms: int,
        refused: int,
        lookup: Lookup,
        unknown: int,
    ) -> None:
        """`refused` is the error code of all rows, or 0; `unknown` that of a topic that is not here."""
        self.broker = broker
        self.authorizer = broker.authorizer
        self.exchange = exchange
        self.version = version
        self.correlation_id = correlation_id
        self.transactional_id = transactional_id
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.refused = refused
        self.lookup = lookup
        self.unknown = unknown
        self.now_ms = broker.clock.now_ms()
        self.answers: list[tuple[bytes, Rows]] = []  # still growing: a failing disk may settle a row early
        self.failed = False
        self.left = 1  # held by the handler until all rows are appended or refused
        self.slot: Slot | None = None
        self.size_bytes = 0  # of a large request; 0: it is not counted, or counted already
        self.waiting_bytes = 0  # counted, because it waits for followers
        self.limits = exchange.session.limits
        self.throttle_ms = 0
        self._errors_left = RECORD_ERRORS_MAX
        self._unverified: list[tuple[Partition, memoryview, Rows, int]] = []

    # Rows

    def append_row(
        self,
        key: bytes,
        held: Mapping[int, Partition] | None,
        rows: Rows,
        index: int,
        records: memoryview | None,
    ) -> DeferredRow | None:
        """Append one row's batch, or refuse it; its response row is added to `rows`. A deferred batch has a
        row already, which `append_inspected` fills.
        """
        partition = None if held is None else held.get(index)
        if (self.refused or self.authorizer is not None) and (refused := self._refusal(key, partition)):
            self._refuse(rows, index, refused)
        elif partition is None:
            self._refuse(rows, index, self._absence(key, held, index))
        elif records is None:
            self._refuse(rows, index, ErrorCode.INVALID_RECORD, "the partition has no records")
        else:
            stats = partition.stats
            stats.produces += 1
            if partition.internal:
                stats.failed_produces += 1
                message = "clients may not write internal topics"
                self._refuse(rows, index, ErrorCode.INVALID_TOPIC_EXCEPTION, message)
            elif (
                self.transactional_id is not None
                and not partition.is_mirror
                and (
                    not is_open(partition, records) or self.broker.verifications.has_queue(partition, records)
                )
            ):
                rows.append((index, 0, -1, -1, -1, None))  # until the coordinator has been asked
                self._unverified.append((partition, records, rows, len(rows) - 1))
            else:
                result = partition.append(records, self.now_ms, self.acks)
                if result.error_code and isinstance(result, Deferred):
                    rows.append((index, 0, -1, -1, -1, None))
                    return DeferredRow(partition, result.inspection, key, rows, len(rows) - 1)
                rows.append(self._row(partition, result))
                self._await_commit(partition, result)
        return None

    async def inspect(self, deferred: DeferredRow, budget: UnpackBudget) -> None:
        """Inspect the batch's records in a worker thread, then append it."""
        inspection = deferred.inspection
        worker, limits = self.broker.side_worker, self.limits
        likely, to_the_end = partial(inspection.run_likely, budget), partial(inspection.run, budget)
        if limits is None:
            await worker.run(likely, self.exchange, to_the_end)
        else:
            timed = limits.timed
            seconds, _ = await worker.run(timed(likely), self.exchange, timed(to_the_end))
            limits.used(seconds)
        self.now_ms = self.broker.clock.now_ms()
        self.append_inspected(deferred)

    def append_inspected(self, deferred: DeferredRow) -> None:
        """Append the batch, if its inspection and the partition's present state allow it."""
        partition, inspection, key, rows, at = deferred
        index = partition.index
        held = self.lookup.get(key)
        if held is None or held.get(index) is not partition:  # deleted; perhaps there is another of the name
            rows[at] = (index, self._absence(key, held, index), -1, -1, -1, None)
        else:
            result = partition.append_inspected(inspection, self.now_ms, self.acks)
            rows[at] = self._row(partition, result)
            self._await_commit(partition, result)
            return
        partition.stats.failed_produces += 1
        self.failed = True

    def _refusal(self, key: bytes, partition: Partition | None) -> int:
        """Why the row is refused whatever the partition's state is; 0: it is not."""
        if self.refused != ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            name = self._topic_name(key) if partition is None else partition.topic
            session = self.exchange.session
            if name is not None and not may(self.broker, session, Operation.WRITE, ResourceType.TOPIC, name):
                return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return self.refused

    def _topic_name(self, key: bytes) -> str | None:
        """The name of a topic that may not be here; None: nobody has a topic of this id."""
        if self.version >= _TOPIC_ID_FROM:
            return self.broker.metadata.image.topic_names.get(key)
        return key.decode(errors="replace")

    def _absence(self, key: bytes, held: Mapping[int, Partition] | None, index: int) -> int:
        """The error code of a partition that is not here."""
        return (
            self.unknown
            if held is None
            else self.broker.replicas.absence(key, index, by_id=self.version >= _TOPIC_ID_FROM)
        )

    def _refuse(self, rows: Rows, index: int, error_code: int, message: str | None = None) -> None:
        self.failed = True
        rows.append((index, error_code, -1, -1, -1, message))

    def _row(self, partition: Partition, result: AppendResult) -> PartitionAnswer:
        index = partition.index
        if result.error_code:
            self.failed = True
            partition.stats.failed_produces += 1
            message = refusal_message(result, self._errors_left)
            if isinstance(message, RecordsRefused):
                self._errors_left -= len(message.record_errors)
            return index, result.error_code, -1, -1, result.log_start_offset, message
        return index, 0, result.base_offset, result.log_append_time_ms, result.log_start_offset, None

    def _await_commit(self, partition: Partition, result: AppendResult) -> None:
        if self.acks and not result.error_code:
            if self.slot is None:
                self.slot = self.exchange.park(blocking=False)
            self.left += 1
            if self.size_bytes and partition.leads_followers:
                self.waiting_bytes, self.size_bytes = self.size_bytes, 0
                self.exchange.begin_waiting(self.waiting_bytes)
            partition.wait_for(result.last_offset + 1, self, self.acks, self.timeout_ms)

    # Transactions

    def verify(self) -> None:
        """Have the batches appended that open a transaction, once its coordinator agrees; their bytes are
        copied.
        """
        unverified, self._unverified = self._unverified, []
        if not unverified or self.transactional_id is None:
            return
        if self.slot is None:
            self.slot = self.exchange.park(blocking=False)
        self.left += len(unverified)
        batches: list[tuple[Partition, memoryview, Done]] = [
            (partition, records, partial(self._place, rows, at, partition))
            for partition, records, rows, at in unverified
        ]
        transactional_id = self.transactional_id.decode(errors="replace")
        self.broker.verifications.append(
            transactional_id, self.version, batches, self.acks, source=self.exchange
        )

    def _place(self, rows: Rows, at: int, partition: Partition, result: AppendResult) -> None:
        """A batch that had to wait for the coordinator is in the log now, or refused."""
        rows[at] = self._row(partition, result)
        self._await_commit(partition, result)
        self.release()

    # The answer

    def settle(self, error_code: int, partition: Partition) -> None:
        """A row's batch is committed (0), or the wait for that has ended otherwise."""
        if error_code:
            self._withdraw(error_code, partition)
        self.release()

    def release(self) -> None:
        """One row, or the handler, is done; the last one sends the answer."""
        self.left -= 1
        if self.left or self.slot is None:
            return
        if self.waiting_bytes:
            self.exchange.end_waiting(self.waiting_bytes, replicated=not self.failed)
        if self.acks:
            self.slot.fill(self.frame())
        elif any(row[ANSWER_ERROR_CODE] for _, rows in self.answers for row in rows):
            self.exchange.close()
        else:
            self.slot.fill(None)

    def charge(self, size_bytes: int) -> None:
        """Charge the request's bytes to its client. Who is above the quota is told in the answer; what comes
        next waits from now on."""
        limits = self.limits
        if limits is not None:
            self.throttle_ms = limits.produced(size_bytes)
            if self.throttle_ms:
                self.exchange.mute(self.throttle_ms)

    def _charge_time(self) -> None:
        limits = self.limits
        delay_ms = 0 if limits is None else limits.request_delay_ms()
        if delay_ms > self.throttle_ms:
            self.throttle_ms = delay_ms
            self.exchange.mute(delay_ms)

    def frame(self) -> bytes:
        """The answer's frame."""
        if self.limits is not None:
            self._charge_time()
        if self.failed and tells_leaders(self.version, (row for _, rows in self.answers for row in rows)):
            listener = self.exchange.session.listener
            body = current_leader.encode_produce_response(
                self.broker, listener, self.version, self.answers, self.throttle_ms
            )
        else:
            body = encode_produce_response(self.version, self.answers, self.throttle_ms)
        return frame_answer(self.correlation_id, self.version >= _FLEXIBLE_FROM, body)

    def _withdraw(self, error_code: int, partition: Partition) -> None:
        """Replace the response row that was made when the batch was appended by an error."""
        self.failed = True
        names = (partition.topic.encode(), partition.topic_id)
        lost = (partition.index, error_code, -1, -1, -1, uncommitted_message(error_code))
        for key, rows in self.answers:
            if key in names:
                rows[:] = [
                    lost if row[ANSWER_INDEX] == partition.index and not row[ANSWER_ERROR_CODE] else row
                    for row in rows
                ]


Kind = TypeVar("Kind", bound=PendingProduce)


def begin(
    kind: type[Kind],
    broker: Broker,
    exchange: Exchange,
    version: int,
    correlation_id: int,
    transactional_id: bytes | None,
    acks: int,
    timeout_ms: int,
    refused: int,
) -> Kind:
    """A request with no rows yet; `refused` is why none of them will be appended, or 0."""
    if not -1 <= acks <= 1:
        refused = ErrorCode.INVALID_REQUIRED_ACKS
    lookup: Lookup = broker.replicas.by_name_bytes
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if version >= _TOPIC_ID_FROM:
        lookup, unknown = broker.replicas.by_topic_id, ErrorCode.UNKNOWN_TOPIC_ID
    return kind(
        broker,
        exchange,
        version,
        correlation_id,
        transactional_id,
        acks,
        timeout_ms,
        refused,
        lookup,
        unknown,
    )


def refused_transaction(broker: Broker, session: Session, transactional_id: str | None) -> int:
    """Why transactional batches of this client are refused; 0: they are not."""
    if transactional_id is not None and may(
        broker, session, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id
    ):
        return 0
    return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def uncommitted_message(error_code: int) -> str | None:
    """The message for records that were appended, and whose wait ended with this error code."""
    return UNCOMMITTED.get(error_code)


def refusal_message(result: AppendResult, errors_max: int) -> str | RecordsRefused | None:
    """The message and record errors for a refusal, at most so many records (KIP-467)."""
    if not result.record_errors or errors_max <= 0:
        return result.error_message
    return RecordsRefused(result.error_message or "", result.record_errors[:errors_max])
