"""Decisions that may need a new producer id, which has to be allocated first.

    decide ──> needs none: done
           └─> needs one: nothing is changed ──> allocate an id ──> decide again, with it

While the id is allocated the state may change: another request may have created the transactional id or ended
the transaction, or the shard may be gone. So the operation runs again on whatever the state is by then; an id
that is no longer needed is lost, which 63 bits can afford.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeVar

from moldau.broker.coordinator.result import Result
from moldau.broker.coordinator.runtime import CoordinatorRuntime
from moldau.broker.coordinator.transaction.metadata import Decision
from moldau.broker.coordinator.transaction.shard import TransactionShard
from moldau.common.core.timers import Timers
from moldau.common.core.waiting import Answer, settled
from moldau.common.protocol.errors import ErrorCode

R = TypeVar("R")

RETRY_MS = 1000

Operation = Callable[[TransactionShard, int, int | None, Callable[[Decision], R]], Result[R]]
"""Decides on the shard; gets the time in milliseconds, a new producer id if one was allocated, and what makes
the response of a decision."""

_log = logging.getLogger("moldau.coordinator.transaction.producer_id_allocation")


class ProducerIdSource(Protocol):
    """Allocates producer ids (replication/producer_ids.py)."""

    async def next(self) -> int:
        """An id that was never allocated before. Raises OSError if none can be allocated now."""


class ProducerIdAllocation:
    """Runs operations on shards, and allocates the producer ids that they turn out to need."""

    def __init__(
        self, runtime: CoordinatorRuntime[TransactionShard], source: ProducerIdSource, timers: Timers
    ) -> None:
        self._runtime = runtime
        self._source = source
        self._timers = timers
        self._tasks: dict[asyncio.Task[None], None] = {}  # in the order in which they began
        self._stopped = False

    def stop(self) -> None:
        """Cancel the aborts that wait for a producer id; no client waits for them. None is retried."""
        self._stopped = True
        for task in list(self._tasks):
            task.cancel()

    def decide(self, partition: int, operation: Operation[R], respond: Callable[[Decision], R]) -> Answer[R]:
        """The response of `operation`, run once or twice."""
        needs_producer_id = False

        def answer(outcome: Decision) -> R:
            nonlocal needs_producer_id
            needs_producer_id = outcome.needs_producer_id
            return respond(outcome)

        def refuse(error_code: int) -> R:
            return respond(Decision(error_code))

        def decide(new_producer_id: int | None) -> Answer[R]:
            return self._runtime.decide(
                partition, lambda shard, now_ms: operation(shard, now_ms, new_producer_id, answer), refuse
            )

        async def decide_with_new_id() -> R:
            try:
                new_producer_id = await self._source.next()
            except OSError as error:
                # The reservation of a block of ids could not be written. Clients retry after this code.
                _log.error("no producer id can be allocated: %s", error)
                return refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            return await settled(decide(new_producer_id))

        outcome = decide(None)
        return decide_with_new_id() if needs_producer_id else outcome

    def abort_overdue(self, partition: int, transactional_id: str) -> None:
        """Abort an overdue transaction whose producer id has no epoch left; the transactional id goes on with
        a new producer id."""
        if self._stopped:
            return

        async def abort() -> None:
            try:
                new_producer_id = await self._source.next()
            except Exception as error:  # of whatever kind: the transaction must not stay open for ever
                _log.error("no producer id can be allocated: %s", error)
                self._timers.call_later(RETRY_MS, partial(self.abort_overdue, partition, transactional_id))
                return
            self._runtime.submit(
                partition,
                lambda shard, now_ms: shard.abort_overdue(transactional_id, new_producer_id, now_ms),
            )

        task = asyncio.get_running_loop().create_task(abort())
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))
