"""A Produce request of more rows than one slice of the loop decodes: decoded, appended, answered in slices.

Dispatch has it decoded by its declaration and its answer encoded, both in slices, as any other large request;
the connection's next frames wait meanwhile. Rows are appended as in produce_later.py, one budget for all.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import TypeVar

from moldau.broker.handlers.apis.produce.produce_request import (
    PendingProduce,
    Rows,
    begin,
    refused_transaction,
)
from moldau.broker.handlers.apis.produce.produce_transactional import producer_of
from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.current_leader import ProduceLeaders
from moldau.broker.handlers.parts.exchange import EndConnection, Exchange, Shortcut, Slot
from moldau.broker.handlers.parts.session import Session
from moldau.common.protocol.messages.produce import ProduceRequest, ProduceResponse, TopicProduceResponse
from moldau.common.records.unpack_budget import UnpackBudget

_TOPIC_ID_FROM = 13
T = TypeVar("T")


class _Unseen(Exchange):
    """Stands for the connection, which has parked the whole request already."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.shortcut: Shortcut | None = None
        self.queue: deque[Slot] = deque()

    def park(self, *, blocking: bool, on_lost: Callable[[], None] | None = None) -> Slot:
        return Slot(self)

    def slot_filled(self) -> None: ...

    def begin_waiting(self, size_bytes: int) -> None: ...  # the next frames are held back anyway

    def end_waiting(self, size_bytes: int, *, replicated: bool) -> None: ...

    def mute(self, duration_ms: float) -> None:
        if self.session.limits is not None:
            self.session.limits.owe(int(duration_ms))

    def close(self) -> None: ...


class _PendingManyRows(PendingProduce):
    """Tells by a future that all rows are settled; the answer is encoded elsewhere."""

    __slots__ = ("settled",)

    settled: "asyncio.Future[None]"

    def release(self) -> None:
        self.left -= 1
        if not self.left and not self.settled.done():
            self.settled.set_result(None)


async def produce_many(
    broker: Broker, context: RequestContext, request: ProduceRequest
) -> ProduceResponse | None:
    """The answer; None with acks=0, and then EndConnection when a row has failed."""
    version = context.api_version
    slices = broker.slow_lane.slices()
    refused = 0
    if request.transactional_id is None or broker.authorizer is not None:
        transactional = False
        async for topic in slices.each(request.topic_data):
            async for partition in slices.each(topic.partition_data):
                if partition.records is not None and producer_of(memoryview(partition.records)):
                    transactional = True
        if transactional:
            refused = refused_transaction(broker, context.session, request.transactional_id)
    transactional_id = None if request.transactional_id is None else request.transactional_id.encode()
    pending = begin(
        _PendingManyRows,
        broker,
        _Unseen(context.session),
        version,
        context.correlation_id,
        transactional_id,
        request.acks,
        request.timeout_ms,
        refused,
    )
    pending.settled = asyncio.get_running_loop().create_future()
    budget = UnpackBudget()
    async for topic in slices.each(request.topic_data):
        key = topic.topic_id if version >= _TOPIC_ID_FROM else topic.name.encode()
        rows: Rows = []
        pending.answers.append((key, rows))
        for partition in _used_up(topic.partition_data):
            if slices.spent():
                await slices.next_slice()
                pending.now_ms = broker.clock.now_ms()
            records = None if partition.records is None else memoryview(partition.records)
            deferred = pending.append_row(key, pending.lookup.get(key), rows, partition.index, records)
            if deferred is not None:
                await pending.inspect(deferred, budget)
    pending.verify()
    pending.release()
    await pending.settled
    if not request.acks:
        if pending.failed:
            raise EndConnection
        return None
    answer = ProduceResponse()
    leaders = ProduceLeaders(broker, context.session.listener, version)
    async for key, rows in slices.each(pending.answers):
        answered = TopicProduceResponse()
        if version >= _TOPIC_ID_FROM:
            answered.topic_id = key
        else:
            answered.name = key.decode()
        async for row in slices.each(_used_up(rows)):
            answered.partition_responses.append(leaders.produced(key, row))
        answer.responses.append(answered)
    answer.node_endpoints = leaders.endpoints()
    return answer


def _used_up(rows: list[T]) -> Iterator[T]:
    """The rows, which are freed one by one: freeing them all at once would take longer than a slice."""
    rows.reverse()
    while rows:
        yield rows.pop()
