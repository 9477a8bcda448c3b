"""Delays a producer's next request for the moment in which its last transaction gets its markers.

Between the answer to EndTxn and the last marker a producer may begin nothing new: CONCURRENT_TRANSACTIONS.
Its next request comes within a millisecond, the markers are written within another, and a client that is told
to retry does so after 20 to 100 ms. So the request is kept until the transaction is complete, for
`COMPLETION_WAIT_MS` at most, and only then decided; the state machine knows nothing of it.

    EndTxn ──> Prepare ──> answer ──> AddPartitionsToTxn ─┐ delayed
                      └──> markers ──> Complete ──────────┴──> decided

Not here: writing the markers (delivery.py), the decision itself.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from moldau.broker.coordinator.transaction.shard import TransactionShard
from moldau.common.core.timers import Timers
from moldau.common.core.waiting import Answer, settled

R = TypeVar("R")

COMPLETION_WAIT_MS = 100


class CompletionWait:
    """Delays requests until their transaction is complete, `completion_wait_ms` at most (0: not at all)."""

    def __init__(self, timers: Timers, completion_wait_ms: int = COMPLETION_WAIT_MS) -> None:
        self._timers = timers
        self._wait_ms_max = completion_wait_ms

    def after_completion(
        self, shard: TransactionShard | None, transactional_id: str, decide: Callable[[], Answer[R]]
    ) -> Answer[R]:
        """The answer of `decide()`, called when the id's transaction is complete: at once if none is being
        completed, or if `shard` is None."""
        if not self._wait_ms_max or shard is None or not shard.is_decided(transactional_id):
            return decide()
        complete: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def go_on() -> None:
            if not complete.done():
                complete.set_result(None)

        timer = self._timers.call_later(self._wait_ms_max, go_on)
        shard.when_complete(transactional_id, go_on)

        async def wait() -> R:
            try:
                await complete
            finally:
                timer.cancel()
                shard.wait_no_longer(transactional_id, go_on)
            return await settled(decide())

        return asyncio.ensure_future(wait())
