"""The first batch of a transaction in a partition: only after its coordinator has been asked (KIP-890).

A late batch, after its transaction has ended, would open a transaction that is never ended, and block
read_committed consumers for ever. So a batch that would open a transaction in a partition waits until the
coordinator says that the partition is in the transaction (an older producer has added it with
AddPartitionsToTxn), or adds it (from Produce version 12 on).

    batch ──> open here already? ── yes ──> append (produce.py, produce_repeat.py)
                   │ no
                   └──> guard taken in the log ──> coordinator ──> append, if no marker came meanwhile

Batches of the same producer to the same partition that come while the answer is under way queue behind the
first and share it, so that their order stays; so do those that come while the first one's records are
inspected in a worker thread (appending/inspection.py). Their bytes are copied, as the receive buffer is used
again.

Not here: asking (transaction_verifier.py), the coordinator (coordinator/transaction/), the guard
(appending/verification.py).
"""

import asyncio
import logging
import struct
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from moldau.broker.handlers.apis.transactions.transaction_verifier import Codes, Question, ask
from moldau.broker.handlers.parts.exchange import kept
from moldau.broker.log.appending.append_result import AppendResult, Deferred, Refused
from moldau.broker.log.appending.inspection import Inspection
from moldau.broker.replication.partition import Partition
from moldau.common.core.waiting import is_later
from moldau.common.protocol.errors import ErrorCode, error_name
from moldau.common.records.batch import ATTRIBUTES, CRC_START, HEADER_BYTES, TRANSACTIONAL
from moldau.common.records.unpack_budget import UnpackBudget

if TYPE_CHECKING:
    from moldau.broker.handlers.apis.transactions.transaction_verifier import TransactionVerifier
    from moldau.broker.log.state.producers import Verification
    from moldau.broker.replication.manager import ReplicaManager
    from moldau.common.core.clock import Clock
    from moldau.common.core.side_worker import SideWorker
    from moldau.common.core.timers import Timers
    from moldau.common.settings.broker import BrokerSettings

ADDS_PARTITIONS_SINCE = 12
"""From this version of Produce on, a partition takes part in the transaction by being written to."""

ABORTABLE_SINCE = 11
"""From this version on a client knows TRANSACTION_ABORTABLE."""

RETRY_FIRST_MS = 1
RETRY_TOGETHER_MS = 100
"""While the markers of a producer's former transaction are written the coordinator says
CONCURRENT_TRANSACTIONS. That takes milliseconds, so it is asked again here a few times before the client has
to retry."""

_PRODUCER = struct.Struct(">qh")
_PRODUCER_AT = 43  # | ... max timestamp 8 | producer id 8 | producer epoch 2 | base sequence 4 | ...
_SEQUENCE = struct.Struct(">i")
_SEQUENCE_AT = 53

_ASK_LATER = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)

Done = Callable[[AppendResult], None]
log = logging.getLogger("moldau.handlers")


class Producer(NamedTuple):
    """The producer id and epoch in a batch's header."""

    producer_id: int
    producer_epoch: int


def producer_of(records: memoryview) -> Producer | None:
    """The producer of a transactional batch; None for any other bytes."""
    if len(records) < HEADER_BYTES or not ATTRIBUTES.unpack_from(records, CRC_START)[0] & TRANSACTIONAL:
        return None
    return Producer(*_PRODUCER.unpack_from(records, _PRODUCER_AT))


def is_open(partition: Partition, records: memoryview) -> bool:
    """Whether the batch goes on with a transaction that is open in the partition (or is in none at all)."""
    producer = producer_of(records)
    return producer is None or partition.log.transactions.is_open(*producer)


class Verifications:
    """All batches of this broker that wait for a coordinator's answer."""

    def __init__(
        self,
        settings: "Callable[[], BrokerSettings]",
        clock: "Clock",
        timers: "Timers",
        replicas: "ReplicaManager",
        verifier: "TransactionVerifier",
        side_worker: "SideWorker",
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._timers = timers
        self._replicas = replicas
        self.verifier = verifier
        self._side_worker = side_worker
        self._queues: dict[tuple[Partition, Producer], _Queue] = {}
        self._asking: set[asyncio.Future[Codes]] = set()  # the loop itself holds tasks only weakly

    def has_queue(self, partition: Partition, records: memoryview) -> bool:
        """Whether earlier batches of this batch's producer wait for the partition, so that it must wait too.

        They may do so although the transaction is open: the first of them has opened it, and the next is
        being inspected.
        """
        return bool(self._queues) and (partition, producer_of(records)) in self._queues

    def append(
        self,
        transactional_id: str,
        version: int,
        batches: list[tuple[Partition, memoryview, Done]],
        acks: int,
        source: object,
    ) -> None:
        """Append each batch once its transaction is known to take place; `Done` is told how that went.

        `version` is Produce's, `source` the connection. All that can be asked together is asked together.
        """
        budget = UnpackBudget()
        asked: list[_Queue] = []
        for partition, records, done in batches:
            producer = producer_of(records)
            if producer is None or len(records) > partition.log.settings.max_message_bytes:
                # (What is too large is refused, and need not be copied for that.)
                done(partition.append(records, self._clock.now_ms(), acks))
                continue
            waiting = _Waiting(kept(records), acks, done, budget, source)
            queue = self._queues.get((partition, producer))
            if queue is not None:
                queue.waiting.append(waiting)
                continue
            queue = _Queue(partition, producer, waiting)
            self._queues[partition, producer] = queue
            asked.append(queue)
        for producer in {queue.producer: None for queue in asked}:
            queues = [queue for queue in asked if queue.producer == producer]
            self._ask(transactional_id, version, producer, queues, RETRY_FIRST_MS)

    def _ask(
        self, transactional_id: str, version: int, producer: Producer, queues: "list[_Queue]", retry_ms: int
    ) -> None:
        adds = version >= ADDS_PARTITIONS_SINCE
        for queue in queues:
            # Taken before every question: the marker of the former transaction makes an earlier one stale.
            queue.leader_epoch = queue.partition.leader_epoch
            queue.verification = queue.partition.log.transactions.begin_verification(
                *producer, queue.base_sequence, bumps_epoch=adds
            )
        if not adds and not self._settings().transaction_partition_verification_enable:
            self._settle(queues, {queue.place: 0 for queue in queues}, version)
            return

        def answered(codes: Codes) -> None:
            busy = [each for each in queues if each.must_ask_again(codes)] if adds else []
            if busy and retry_ms < RETRY_TOGETHER_MS:
                self._settle([each for each in queues if each not in busy], codes, version)
                again = lambda: self._ask(transactional_id, version, producer, busy, retry_ms * 2)  # noqa: E731
                self._timers.call_later(retry_ms, again)
            else:
                self._settle(queues, codes, version)

        question = Question(
            transactional_id,
            *producer,
            partitions=tuple(queue.place for queue in queues),
            add=adds,
            supports_abortable=version >= ABORTABLE_SINCE,
        )
        answer = ask(self.verifier, question)
        if not is_later(answer):
            answered(answer)  # type: ignore[arg-type]  # it is no awaitable
            return

        def asked(task: "asyncio.Future[Codes]") -> None:
            self._asking.discard(task)
            if not task.cancelled():  # else the broker stops
                answered(task.result())

        asking = asyncio.ensure_future(answer)
        self._asking.add(asking)
        asking.add_done_callback(asked)

    def _settle(self, queues: "list[_Queue]", codes: Codes, version: int) -> None:
        for queue in queues:
            error_code = codes[queue.place]
            if not error_code:
                self._append_all(queue)
                continue
            del self._queues[queue.partition, queue.producer]
            for waiting in queue.waiting:
                waiting.done(_refused(error_code, version))

    def _append_all(self, queue: "_Queue") -> None:
        """Append the queue's batches in order.

        While one of them is inspected, those behind it wait, as do those that join the queue meanwhile.
        """
        while queue.waiting:
            waiting = queue.waiting[0]
            result = self._append(queue, waiting)
            if isinstance(result, Deferred):
                inspection = result.inspection
                likely = partial(inspection.run_likely, waiting.budget)
                to_the_end = partial(inspection.run, waiting.budget)
                inspected = self._side_worker.run(likely, waiting.source, to_the_end)
                inspected.add_done_callback(partial(self._inspected, queue, waiting, inspection))
                return
            del queue.waiting[0]
            waiting.done(result)
        del self._queues[queue.partition, queue.producer]

    def _inspected(
        self, queue: "_Queue", waiting: "_Waiting", inspection: Inspection, future: "asyncio.Future[None]"
    ) -> None:
        if future.cancelled():  # the broker stops: nobody waits any more
            self._queues.pop((queue.partition, queue.producer), None)
            return
        if future.exception() is not None:
            log.error("an inspection failed: this is a bug", exc_info=future.exception())
            result: AppendResult = Refused(ErrorCode.UNKNOWN_SERVER_ERROR, "a bug: see the broker's log")
        else:
            result = self._append(queue, waiting, inspection)
        del queue.waiting[0]
        waiting.done(result)
        self._append_all(queue)

    def _append(
        self, queue: "_Queue", waiting: "_Waiting", inspection: Inspection | None = None
    ) -> AppendResult:
        partition = queue.partition
        if self._replicas.partition(partition.topic, partition.index) is not partition:
            return Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the partition has been deleted")
        if partition.leader_epoch != queue.leader_epoch:
            # Another leader may have appended a marker meanwhile, which has broken no guard here.
            return Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this broker no longer leads the partition")
        now_ms, acks, records = self._clock.now_ms(), waiting.acks, memoryview(waiting.records)
        # What is open needs no guard; else a marker that came meanwhile has broken it.
        guard = None if partition.log.transactions.is_open(*queue.producer) else queue.verification
        if inspection is not None:
            return partition.append_inspected(inspection, now_ms, acks, guard)
        if guard is None:
            return partition.append(records, now_ms, acks)
        return partition.append_verified(records, now_ms, acks, guard)


class _Waiting(NamedTuple):
    """One batch."""

    records: memoryview | bytes
    acks: int
    done: Done
    budget: UnpackBudget  # its request's, for all of its batches
    source: object


class _Queue:
    """One producer's batches for one partition, in their order, that wait for the same answer."""

    __slots__ = ("leader_epoch", "partition", "producer", "verification", "waiting")

    leader_epoch: int  # in which the question was put
    verification: "Verification"

    def __init__(self, partition: Partition, producer: Producer, first: _Waiting) -> None:
        self.partition = partition
        self.producer = producer
        self.waiting = [first]

    def must_ask_again(self, codes: Codes) -> bool:
        """Whether the answer is no answer yet: the former transaction is still being carried out, or was when
        the question was put, and its marker has broken the guard since (the coordinator keeps a question for
        a moment). A transaction of version 2 has its epoch for itself, so the next answer cannot be about
        another one.
        """
        error_code = codes[self.place]
        if error_code:
            return error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        return not self.partition.log.transactions.verification_holds(self.verification)

    @property
    def base_sequence(self) -> int:
        """The first batch's: none behind it may get ahead when it has to come again."""
        sequence: int = _SEQUENCE.unpack_from(self.waiting[0].records, _SEQUENCE_AT)[0]
        return sequence

    @property
    def place(self) -> tuple[str, int]:
        return self.partition.topic, self.partition.index


def _refused(error_code: int, version: int) -> Refused:
    """The coordinator's error as one of Produce. Older clients would not retry after some of them, and get
    one after which they do, as in Kafka.
    """
    retriable = error_code in _ASK_LATER or (
        error_code == ErrorCode.CONCURRENT_TRANSACTIONS and version < ADDS_PARTITIONS_SINCE
    )
    if retriable:
        name = error_name(error_code)
        message = f"the transaction coordinator could not be asked whether the partition takes part: {name}"
        return Refused(ErrorCode.NOT_ENOUGH_REPLICAS, message)
    if error_code == ErrorCode.INVALID_TXN_STATE:
        return Refused(error_code, "the partition was not added to the transaction")
    if error_code == ErrorCode.PRODUCER_FENCED:
        error_code = ErrorCode.INVALID_PRODUCER_EPOCH
    return Refused(error_code, f"the transaction coordinator answered {error_name(error_code)}")
