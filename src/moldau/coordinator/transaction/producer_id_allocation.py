"""Decisions that may need a producer id, which takes a while to get.

    decide ──> needs none: that is the answer
           └─> needs one: nothing is decided ──> fetch an id ──> put the same question again

While the id is fetched the state may move: another request may have made the transactional id, ended the
transaction, or the shard may be gone. So the question is put to whatever the state is by then; an id that is
not needed any more is lost, which costs nothing in 63 bits.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeVar

from moldau.coordinator.result import Result
from moldau.coordinator.runtime import CoordinatorRuntime
from moldau.coordinator.transaction.metadata import Decision
from moldau.coordinator.transaction.shard import TransactionShard
from moldau.core.timers import Timers
from moldau.protocol.errors import ErrorCode

R = TypeVar("R")

RETRY_MS = 1000

Question = Callable[[TransactionShard, int, int | None, Callable[[Decision], R]], Result[R]]
"""What to decide, from the shard, the time in milliseconds, a fresh producer id if there is one, and what
makes the response."""

_log = logging.getLogger(__name__)


class ProducerIdSource(Protocol):
    """Whoever gives producer ids (replication/producer_ids.py)."""

    async def next(self) -> int:
        """An id that was never given before. Raises OSError if none can be given now."""


class ProducerIdAllocation:
    """Puts questions to shards, and gets them the producer ids that they turn out to need."""

    def __init__(
        self, runtime: CoordinatorRuntime[TransactionShard], source: ProducerIdSource, timers: Timers
    ) -> None:
        self._runtime = runtime
        self._source = source
        self._timers = timers
        self._tasks: set[asyncio.Task[None]] = set()

    def stop(self) -> None:
        """Give up what nobody waits for."""
        for task in list(self._tasks):
            task.cancel()

    def decide(self, partition: int, question: Question[R], respond: Callable[[Decision], R]) -> Any:
        """The response, or a future or coroutine of it."""
        wanted = False

        def answer(outcome: Decision) -> R:
            nonlocal wanted
            wanted = outcome.needs_producer_id
            return respond(outcome)

        def refuse(error_code: int) -> R:
            return respond(Decision(error_code))

        def decide(new_producer_id: int | None) -> Any:
            return self._runtime.decide(
                partition, lambda shard, now_ms: question(shard, now_ms, new_producer_id, answer), refuse
            )

        async def decide_with_fresh_id() -> R:
            try:
                new_producer_id = await self._source.next()
            except OSError as error:
                # The block could not be written down. This is the code that clients take as "try again".
                _log.error("no producer id can be given: %s", error)
                return refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            decided = decide(new_producer_id)
            response: R = await decided if isinstance(decided, asyncio.Future) else decided
            return response

        outcome = decide(None)
        return decide_with_fresh_id() if wanted else outcome

    def abort_overdue(self, partition: int, transactional_id: str) -> None:
        """A transaction is overdue, and its producer id has no epoch left: abort it, and let another id take
        over."""

        async def abort() -> None:
            try:
                new_producer_id = await self._source.next()
            except Exception as error:  # whatever it is: the transaction must not stay open for ever
                _log.error("no producer id can be given: %s", error)
                self._timers.call_later(RETRY_MS, partial(self.abort_overdue, partition, transactional_id))
                return
            self._runtime.submit(
                partition,
                lambda shard, now_ms: shard.abort_overdue(transactional_id, new_producer_id, now_ms),
            )

        task = asyncio.get_running_loop().create_task(abort())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
