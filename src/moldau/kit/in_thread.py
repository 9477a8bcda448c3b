"""Runs a blocking loop in a thread of its own for an asyncio program, and stops it when asked."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


async def run_in_thread(
    work: Callable[[], T], stop: Callable[[], None], cancel: Callable[[], None] = lambda: None
) -> T:
    """Run `work` in a thread and wait for it. A cancelled caller stops it, and waits until it has ended."""
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(work())
        except BaseException as error:
            result.set_exception(error)

    threading.Thread(target=run, name="moldau.kit", daemon=True).start()
    ended = asyncio.wrap_future(result)
    try:
        return await asyncio.shield(ended)
    except asyncio.CancelledError:
        if ended.done():
            raise
        stop()
        cancel()
        await asyncio.wait([ended])
        if not ended.cancelled():
            ended.exception()  # seen: the caller is told that it was cancelled
        raise
