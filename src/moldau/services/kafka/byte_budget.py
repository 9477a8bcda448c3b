"""A budget of bytes: who needs more than are free waits in turn.

What is larger than the whole budget may go when nothing else does: it is bounded elsewhere (a request's body,
one record). What stands for as long as a reader is open, its buffers, is counted and takes three quarters at
most: else readers could hold all of it, and none could send what it has read.
"""

import asyncio
from collections import deque


class ByteBudget:
    """For one event loop."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.used_bytes = 0
        self.standing_bytes = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    def try_take(self, count_bytes: int) -> bool:
        """Take bytes if they are free and nobody waits."""
        if self._waiting or not self._fits(count_bytes):
            return False
        self.used_bytes += count_bytes
        return True

    def try_stand(self, count_bytes: int) -> bool:
        """Take bytes that stand for long; the first may do so in the smallest of budgets, and
        beside whatever is used (`used_bytes` has what stands too)."""
        if self.standing_bytes and (
            self.standing_bytes + count_bytes > self.bytes_max * 3 // 4
            or self.used_bytes + count_bytes > self.bytes_max
        ):
            return False
        self.standing_bytes += count_bytes
        self.used_bytes += count_bytes
        return True

    def end_standing(self, count_bytes: int) -> None:
        """Give back bytes that stood."""
        self.standing_bytes -= count_bytes
        self.give_back(count_bytes)

    async def take(self, count_bytes: int, timeout_seconds: float) -> None:
        """Take bytes; TimeoutError if they do not become free in time."""
        if self.try_take(count_bytes):
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((count_bytes, turn))
        try:
            async with asyncio.timeout(timeout_seconds):
                await turn
        except BaseException:
            if turn.done() and not turn.cancelled():
                self.give_back(count_bytes)  # given in the moment in which the waiting ended
            else:
                turn.cancel()
                self._serve()
            raise

    def charge(self, count_bytes: int) -> None:
        """Count bytes that are there already, be they free or not."""
        self.used_bytes += count_bytes

    def give_back(self, count_bytes: int) -> None:
        """End the use of bytes that were taken."""
        self.used_bytes -= count_bytes
        self._serve()

    def _fits(self, count_bytes: int) -> bool:
        return self.used_bytes == self.standing_bytes or self.used_bytes + count_bytes <= self.bytes_max

    def _serve(self) -> None:
        while self._waiting:
            count_bytes, turn = self._waiting[0]
            if turn.done():
                self._waiting.popleft()
                continue
            if not self._fits(count_bytes):
                return
            self._waiting.popleft()
            self.used_bytes += count_bytes
            turn.set_result(None)
