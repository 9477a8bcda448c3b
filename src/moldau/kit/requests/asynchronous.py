"""A requester for asyncio: `await ask.request(...)`; as many at once as the program likes."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any

from moldau.kit.requests.requester import Requester


class AsyncRequester:
    """As Requester; a cancelled request is forgotten, and its reply dropped."""

    def __init__(self, topic: str, **arguments: Any) -> None:
        self._inner = Requester(topic, **arguments)

    @property
    def dropped_count(self) -> int:
        """Replies that nobody waited for."""
        return self._inner.dropped_count

    async def __aenter__(self) -> AsyncRequester:
        await asyncio.to_thread(self._inner.open)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self._inner.close)

    async def request(self, value: bytes | str | None, **more: Any) -> bytes | None:
        """Ask and wait for the reply's value. Raises TimedOut, RemoteError, KitError."""
        return await asyncio.wrap_future(self._inner.submit(value, **more))
