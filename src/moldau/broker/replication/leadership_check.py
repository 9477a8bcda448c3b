"""Before a consumer hears that its offset lies beyond the end, or a producer that its numbers have a gap,
this broker finds out whether it still leads.

A leader that was deposed without knowing it (its process stood still, it is cut off from the metadata store)
lacks what the next leader wrote. A consumer that has read there, and comes back by an outdated look at the
metadata, would be told OFFSET_OUT_OF_RANGE, and then begins anew at offset 0 or skips to the end
(auto.offset.reset). With a leader epoch the request is refused (KIP-320); not every client sends one.

A producer whose last batches went to the next leader would be told OUT_OF_ORDER_SEQUENCE_NUMBER. It takes a
new epoch then, and sends what is unanswered under new numbers, where it lies twice if the next leader has it.

    reader at 28, end here 27: NOT_LEADER_OR_FOLLOWER ──> metadata store asked
    again:                     deposed meanwhile: NOT_LEADER_OR_FOLLOWER; still leads: OFFSET_OUT_OF_RANGE

Invariant: OFFSET_OUT_OF_RANGE for an offset beyond the end, and OUT_OF_ORDER_SEQUENCE_NUMBER, are said only
after a confirmation that began when that offset had been asked for, or that batch had come. Asking the store
writes to it, so it is done at most once a second for all partitions together. Not here: who needs it
(partition.py: partitions with other replicas only).
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable

EVERY_MS = 1_000
"""How often the store is asked at most."""
_VALID_MS = 30_000
_ASKED_MAX = 1_000


class LeadershipCheck:
    """What was asked for beyond the ends of logs, and up to where leadership is confirmed.

    `confirm()` is true once all that was decided before the call is known here.
    """

    def __init__(self, monotonic_ms: Callable[[], float], confirm: Callable[[], Awaitable[bool]]) -> None:
        self._monotonic_ms = monotonic_ms
        self._confirm = confirm
        # The number of the confirmation that it needs, and when it was first asked for.
        self._asked: dict[Hashable, tuple[int, float]] = {}
        self._begun = 0
        self._began_ms = float("-inf")
        self._confirmed = 0
        self._confirming: asyncio.Future[None] | None = None

    def leads_certainly(self, asked: Hashable) -> bool:
        """Whether leadership was confirmed after `asked` (partition, leader epoch, and the offset or the
        producer's numbers) came first. If not, it is being found out: ask again.
        """
        now_ms = self._monotonic_ms()
        needed, came_ms = self._asked.get(asked, (0, 0.0))
        if not needed or now_ms - came_ms > _VALID_MS:
            self._asked.pop(asked, None)  # to the end of the dictionary
            if len(self._asked) >= _ASKED_MAX:
                del self._asked[next(iter(self._asked))]
            needed = self._begun + 1
            self._asked[asked] = needed, now_ms
        if needed <= self._confirmed:
            return True
        if self._confirming is None and now_ms - self._began_ms >= EVERY_MS:
            self._begun += 1
            self._began_ms = now_ms
            self._confirming = asyncio.ensure_future(self._find_out(self._begun))
        return False

    def stop(self) -> None:
        """Find out no more."""
        if self._confirming is not None:
            self._confirming.cancel()

    async def _find_out(self, number: int) -> None:
        try:
            if await self._confirm():
                self._confirmed = number
        finally:
            self._confirming = None
