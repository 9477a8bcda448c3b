"""A table for asyncio: what waits is awaited, and changes are an asynchronous iterator.

async with AsyncTable("prices", bootstrap_servers=...) as prices:
    prices["EURUSD"] = 1.09
    await prices.flush()
    async for change in prices.changes():
        ...
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Any

from moldau.kit.errors import BadCall, TimedOut
from moldau.kit.table.table import Change, Table

_LOOK_SECONDS = 1.0


class AsyncTable:
    """A Table whose waiting does not block the event loop; `table` is the table itself."""

    def __init__(self, topic: str, **arguments: Any) -> None:
        self.table = Table(topic, **arguments)

    async def __aenter__(self) -> AsyncTable:
        await asyncio.to_thread(self.table.start)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.table.close)

    def __getitem__(self, key: Any) -> Any:
        return self.table[key]

    def __contains__(self, key: object) -> bool:
        return key in self.table

    def __len__(self) -> int:
        return len(self.table)

    def get(self, key: Any, default: Any = None) -> Any:
        """The key's value, or the default."""
        return self.table.get(key, default)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.table[key] = value

    def __delitem__(self, key: Any) -> None:
        del self.table[key]

    async def flush(self, timeout_seconds: float | None = None) -> None:
        """Wait until all writes are on the brokers and in this table."""
        await asyncio.to_thread(self.table.flush, timeout_seconds)

    async def wait_for(
        self,
        key: Any,
        timeout_seconds: float | None = None,
        condition: Callable[[Any], bool] = lambda value: True,
    ) -> Any:
        """The key's value, once it is there and the condition holds for it. Raises TimedOut."""

        def holds() -> bool:
            value = self.table.get(key, absent)
            found[:] = [value]
            return value is not absent and condition(value)

        absent = object()
        found: list[Any] = []
        changed = asyncio.Event()
        home = asyncio.get_running_loop()
        end = self.table.watch(lambda change: home.call_soon_threadsafe(changed.set))
        try:
            async with asyncio.timeout(timeout_seconds):
                while not holds():
                    with contextlib.suppress(TimeoutError):  # a table that has failed tells nobody: look
                        async with asyncio.timeout(_LOOK_SECONDS):
                            await changed.wait()
                    changed.clear()
        except TimeoutError:
            raise TimedOut(
                f"{key!r} was not in the table of {self.table.topic} within {timeout_seconds} s"
            ) from None
        finally:
            end()
        return found[0]

    async def changes(self, limit: int = 10_000) -> AsyncIterator[Change]:
        """Every change from now on; raises BadCall if the program is more than `limit` behind."""
        queue: asyncio.Queue[Change] = asyncio.Queue()
        home = asyncio.get_running_loop()
        missed = 0

        def put(change: Change) -> None:
            nonlocal missed
            if missed or queue.qsize() >= limit:
                missed += 1
            else:
                queue.put_nowait(change)

        end = self.table.watch(lambda change: home.call_soon_threadsafe(put, change))
        try:
            while True:
                if missed:
                    raise BadCall(
                        f"changes of {self.table.topic} come faster than they are taken: {limit} wait, "
                        f"and {missed} came after these"
                    )
                try:
                    async with asyncio.timeout(_LOOK_SECONDS):
                        change = await queue.get()
                except TimeoutError:
                    len(self.table)  # raises what has ended the table
                else:
                    yield change
        finally:
            end()
