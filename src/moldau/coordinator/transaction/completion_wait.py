"""Waiting a moment for a transaction that is being carried out, so that its producer need not ask again.

Between the answer to EndTxn and the last marker a producer may begin nothing new: CONCURRENT_TRANSACTIONS.
Its next request comes within a millisecond, the markers are through within another, and a client that is told
to come back does so after twenty to a hundred. So the question is kept until the transaction is complete, for
a tenth of a second at most, and only then put to the state machine, which knows nothing of it.

    EndTxn ──> Prepare ──> answer ──> AddPartitionsToTxn ─┐ kept
                      └──> markers ──> Complete ──────────┴──> decided

Not here: what is waited for (delivery.py), and what the answer will be.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from moldau.coordinator.transaction.shard import TransactionShard
from moldau.core.timers import Timers

COMPLETION_WAIT_MS = 100


class CompletionWait:
    """Delays requests until their transaction is complete, `completion_wait_ms` at most (0: not at all)."""

    def __init__(self, timers: Timers, completion_wait_ms: int = COMPLETION_WAIT_MS) -> None:
        self._timers = timers
        self._patience_ms = completion_wait_ms

    def ask(self, shard: TransactionShard | None, transactional_id: str, question: Callable[[], Any]) -> Any:
        """The answer of `question()`, or a future of it if the id's transaction is being carried out now."""
        if not self._patience_ms or shard is None or not shard.is_decided(transactional_id):
            return question()
        complete: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def go_on() -> None:
            if not complete.done():
                complete.set_result(None)

        timer = self._timers.call_later(self._patience_ms, go_on)
        shard.when_complete(transactional_id, go_on)

        async def wait() -> Any:
            try:
                await complete
            finally:
                timer.cancel()
                shard.wait_no_longer(transactional_id, go_on)
            answer = question()
            return await answer if isinstance(answer, Awaitable) else answer

        return asyncio.ensure_future(wait())
