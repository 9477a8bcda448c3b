"""A transaction coordinator in a world without network, disk and time: what the tests of this folder drive.

`World.call` sends a request as a client would and returns a `Call`, which is answered now or later. The log
is a list; `log.hold` keeps appends in flight, `log.fail` makes the next ones fail. Partitions keep the
markers they got; `markers.refuse` gives a partition errors, `markers.hold` keeps writes in flight. `restart`
builds a new coordinator from the log, as after kill -9; markers stay, as they lie in other logs.
"""

import asyncio
import inspect
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from pending_append import PendingAppend

from moldau.broker.coordinator.markers import Marker, TopicPartition
from moldau.broker.coordinator.transaction.metadata import Transaction
from moldau.broker.coordinator.transaction.service import TransactionCoordinator
from moldau.broker.coordinator.transaction.shard import TransactionShard
from moldau.broker.metadata.changes import TopicCreated, TopicDeleted, replay
from moldau.broker.metadata.image import GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, Image, PartitionState
from moldau.common.core.clock import ManualClock
from moldau.common.core.timers import ManualTimers
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from moldau.common.protocol.messages.describe_transactions import DescribeTransactionsRequest
from moldau.common.protocol.messages.end_txn import EndTxnRequest
from moldau.common.protocol.messages.init_producer_id import InitProducerIdRequest
from moldau.common.protocol.messages.list_transactions import ListTransactionsRequest
from moldau.common.settings.broker import BrokerSettings

ID = "till"
BEER = (("beer", 0), ("beer", 1))
TIMEOUT_MS = 60_000


class MemoryLog:
    """The transaction topic as a list of records for each partition."""

    def __init__(self) -> None:
        self.records: dict[int, list[tuple[bytes, bytes | None]]] = {}
        self.in_flight: list[PendingAppend] = []
        self.hold = False
        self.fail = 0

    def append_records(
        self,
        topic: str,
        index: int,
        leader_epoch: int,
        records: Sequence[tuple[bytes, bytes | None]],
        producer: Any = None,
    ) -> PendingAppend:
        assert topic == TRANSACTION_STATE_TOPIC
        assert producer is None
        pending = PendingAppend(lambda: self.records.setdefault(index, []).extend(records))
        if self.hold:
            self.in_flight.append(pending)
        else:
            pending.finish(self.fail)
        return pending

    def committed_records(
        self, topic: str, index: int, leader_epoch: int
    ) -> Iterator[tuple[bytes | None, bytes | None]]:
        return iter(list(self.records.get(index, [])))

    def finish(self, error_code: int = 0, *, lands: bool | None = None) -> None:
        """Complete the oldest append in flight."""
        self.in_flight.pop(0).finish(error_code, lands=lands)


class Partitions:
    """Every partition's markers, and a `MarkerWriter` that brings them there."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.written: dict[TopicPartition, list[Marker]] = {}
        self.refuse: dict[TopicPartition, deque[int]] = {}
        self.hold = False
        self.in_flight: list[Callable[[], None]] = []
        self.attempts: list[tuple[Marker, list[TopicPartition]]] = []

    def write(
        self, marker: Marker, partitions: Sequence[TopicPartition]
    ) -> "asyncio.Future[dict[TopicPartition, int]]":
        self.attempts.append((marker, list(partitions)))
        future: asyncio.Future[dict[TopicPartition, int]] = self._loop.create_future()

        def land() -> None:
            errors = {partition: self._land(marker, partition) for partition in partitions}
            if not future.done():
                future.set_result(errors)

        if self.hold:
            self.in_flight.append(land)
        else:
            land()
        return future

    def _land(self, marker: Marker, partition: TopicPartition) -> int:
        planned = self.refuse.get(partition)
        if planned:
            return planned.popleft()
        self.written.setdefault(partition, []).append(marker)
        return ErrorCode.NONE

    def finish(self) -> None:
        """Let the oldest write land."""
        self.in_flight.pop(0)()

    def of(self, partition: TopicPartition) -> list[tuple[int, int, bool]]:
        """Producer id, epoch and decision of each marker, in order."""
        return [
            (each.producer_id, each.producer_epoch, each.committed)
            for each in self.written.get(partition, [])
        ]


class ProducerIdCounter:
    """Producer ids from 1000 on. `fail` makes the next calls fail; with `gate` they wait for it."""

    def __init__(self) -> None:
        self.given = 0
        self.fail = 0
        self.gate: asyncio.Event | None = None

    async def next(self) -> int:
        if self.gate is not None:
            await self.gate.wait()
        if self.fail:
            self.fail -= 1
            raise OSError("disk full")
        self.given += 1
        return 999 + self.given


class WatchedTimers(ManualTimers):
    """Timers that say when they ring next."""

    def next_due_ms(self) -> int | None:
        return int(self._due[0][0]) if self._due else None


class Call:
    """One request's answer: `response` is None as long as it is not there."""

    def __init__(self, world: "World", outcome: Any) -> None:
        self._world = world
        self._outcome = outcome

    @property
    def response(self) -> Any:
        if not isinstance(self._outcome, asyncio.Future):
            return self._outcome
        self._world.settle()
        return self._outcome.result() if self._outcome.done() else None

    @property
    def error(self) -> ErrorCode | None:
        response = self.response
        if response is None:
            return None
        return ErrorCode(response if isinstance(response, int) else response.error_code)

    @property
    def identity(self) -> tuple[int, int]:
        """Producer id and epoch of the answer."""
        assert self.error == ErrorCode.NONE
        return self.response.producer_id, self.response.producer_epoch


class World:
    """One coordinator, one partition of the transaction topic (or more); "beer" and "wine" have three
    partitions."""

    def __init__(
        self,
        *,
        partitions: int = 1,
        transaction_version: int = 2,
        completion_wait_ms: int = 0,
        replicas: tuple[int, ...] = (0,),
        **settings: Any,
    ) -> None:
        self.loop = asyncio.new_event_loop()
        self.clock = ManualClock()
        self.log = MemoryLog()
        self.markers = Partitions(self.loop)
        self.producer_ids = ProducerIdCounter()
        self.transaction_version = transaction_version
        self.completion_wait_ms = completion_wait_ms
        self.leader_epoch = 0
        exact = {"transaction_abort_timed_out_transaction_cleanup_interval_ms": 1}
        self.settings = BrokerSettings(**{**exact, **settings})
        self.image = Image()
        fresh = PartitionState.fresh((0,))
        state = PartitionState.fresh(replicas)
        self._change(TopicCreated(TRANSACTION_STATE_TOPIC, bytes([8] * 16), (state,) * partitions))
        self._change(TopicCreated(GROUP_OFFSETS_TOPIC, bytes([9] * 16), (fresh,) * 5))
        self._change(TopicCreated("beer", bytes([1] * 16), (fresh,) * 3))
        self._change(TopicCreated("wine", bytes([2] * 16), (fresh,) * 3))
        self.restart()

    def _change(self, change: TopicCreated | TopicDeleted) -> None:
        self.image = replay(self.image, self.image.version + 1, [change])

    def close(self) -> None:
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.settle()
        self.loop.close()

    def restart(self) -> None:
        """Kill -9, and start again from what the log holds, in a new leader epoch."""
        self.log.in_flight.clear()
        self.markers.in_flight.clear()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.timers = WatchedTimers(self.clock)
        self.leader_epoch += 1
        self.coordinator = TransactionCoordinator(
            log=self.log,
            image=lambda: self.image,
            settings=lambda: self.settings,
            clock=self.clock,
            timers=self.timers,
            producer_ids=self.producer_ids,
            markers=self.markers,
            transaction_version=lambda: self.transaction_version,
            completion_wait_ms=self.completion_wait_ms,
        )
        self.coordinator.start()
        for partition in range(len(self.image.topics[TRANSACTION_STATE_TOPIC].partitions)):
            self.elect(partition, self.leader_epoch)

    def elect(self, partition: int, leader_epoch: int) -> None:
        self.run(lambda: self.coordinator.elected(partition, leader_epoch))

    @property
    def shard(self) -> TransactionShard:
        shard = self.coordinator.runtime.state(0)
        assert shard is not None
        return shard

    def transaction(self, transactional_id: str = ID) -> Transaction:
        return self.shard.transactions[transactional_id]

    def state(self, transactional_id: str = ID) -> str:
        """The state's name, as the protocol has it."""
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        (row,) = self.call(self.coordinator.describe, request).response.transaction_states
        return row.transaction_state if not row.error_code else ErrorCode(row.error_code).name

    def delete_topic(self, name: str) -> None:
        old, change = self.image, TopicDeleted(name)
        self._change(change)
        self.run(lambda: self.coordinator.metadata_changed(old, self.image, [change]))

    # Running.

    def run(self, action: Callable[[], Any]) -> Any:
        """`action` on the event loop; then let everything that is due now happen."""

        async def go() -> Any:
            return (action(),)  # a tuple: what it holds may be awaitable

        (outcome,) = self.loop.run_until_complete(go())
        if inspect.iscoroutine(outcome):
            outcome = self.loop.create_task(outcome)
        self.settle()
        return outcome

    def settle(self) -> None:
        self.advance(0)

    def advance(self, duration_ms: int) -> None:
        """Let time pass, and the event loop run whenever something falls due."""

        async def go() -> None:
            end_ms = self.clock.now_ms() + duration_ms
            while True:
                for _ in range(4):
                    await asyncio.sleep(0)
                due_ms = self.timers.next_due_ms()
                if due_ms is None or due_ms > end_ms:
                    break
                self.timers.advance(max(0, due_ms - self.clock.now_ms()))
            self.timers.advance(end_ms - self.clock.now_ms())

        self.loop.run_until_complete(go())

    def call(self, method: Callable[..., Any], *arguments: Any, **named: Any) -> Call:
        return Call(self, self.run(lambda: method(*arguments, **named)))

    # Requests in short.

    def init(
        self,
        transactional_id: str | None = ID,
        *,
        expected: tuple[int, int] = (-1, -1),
        timeout_ms: int = TIMEOUT_MS,
        version: int = 5,
    ) -> Call:
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=expected[0],
            producer_epoch=expected[1],
        )
        return self.call(self.coordinator.init_producer_id, request, version)

    def add(
        self,
        identity: tuple[int, int],
        partitions: Sequence[TopicPartition] = BEER,
        *,
        transactional_id: str = ID,
        version: int = 3,
    ) -> Call:
        return self.call(self.coordinator.add_partitions, transactional_id, *identity, partitions, version)

    def offsets(self, identity: tuple[int, int], group_id: str, *, version: int = 4) -> Call:
        request = AddOffsetsToTxnRequest(
            transactional_id=ID, producer_id=identity[0], producer_epoch=identity[1], group_id=group_id
        )
        return self.call(self.coordinator.add_offsets, request, version)

    def verify(
        self,
        identity: tuple[int, int],
        partitions: Sequence[TopicPartition] = BEER,
        *,
        add: bool = False,
        supports_abortable: bool = True,
        transactional_id: str = ID,
    ) -> Any:
        """The error code that all partitions got, else the codes by partition; None while it waits."""
        answer = self.call(
            self.coordinator.verify,
            transactional_id,
            *identity,
            partitions,
            add=add,
            supports_abortable=supports_abortable,
        ).response
        if answer is None:
            return None
        assert set(answer) == set(partitions)
        codes = {ErrorCode(code) for code in answer.values()}
        return codes.pop() if len(codes) == 1 else answer

    def end(
        self, identity: tuple[int, int], committed: bool, *, version: int = 5, transactional_id: str = ID
    ) -> Call:
        request = EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=identity[0],
            producer_epoch=identity[1],
            committed=committed,
        )
        return self.call(self.coordinator.end_transaction, request, version)

    def list(self, **filters: Any) -> Any:
        return self.call(self.coordinator.list, ListTransactionsRequest(**filters)).response

    def begin(self, *, transactional_id: str = ID) -> tuple[int, int]:
        """A producer with an ongoing transaction on two partitions; its producer id and epoch."""
        identity = self.init(transactional_id).identity
        assert self.verify(identity, add=True, transactional_id=transactional_id) == ErrorCode.NONE
        return identity
