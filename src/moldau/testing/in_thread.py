"""Runs a test's broker in a thread of the same process, on an event loop of its own."""

from __future__ import annotations

import asyncio
import os
import threading
import warnings
from collections.abc import Mapping

from moldau.broker.node import Node
from moldau.common.settings.sources import from_texts
from moldau.testing.broker import START_TIMEOUT_SECONDS, Addresses


class ThreadHost:
    """One thread, one event loop, one node. Errors of the start are raised in the caller's thread."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._finish: asyncio.Event | None = None
        self._failure: BaseException | None = None

    @property
    def pid(self) -> int:
        """The id of this process."""
        return os.getpid()

    @property
    def running(self) -> bool:
        """Whether its thread was started and not stopped since."""
        return self._thread is not None

    def start(self, settings: Mapping[str, str]) -> Addresses:
        """Start the broker; raises the node's error if it cannot start."""
        static = from_texts(settings)
        for sentence in static.warnings:
            warnings.warn(sentence, stacklevel=4)
        ready = threading.Event()
        node = Node(static)
        self._failure = None
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(node, ready)), name="moldau-broker", daemon=True
        )
        self._thread.start()
        in_time = ready.wait(START_TIMEOUT_SECONDS)
        if self._failure is not None:
            self._thread.join()
            self._thread = None
            raise self._failure
        if not in_time:
            raise TimeoutError(f"the broker was not ready after {START_TIMEOUT_SECONDS:.0f} s")
        return Addresses(node.address, node.http_address or "")

    async def _serve(self, node: Node, ready: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._finish = asyncio.Event()
        try:
            await node.start()
        except BaseException as failure:
            self._failure = failure
            ready.set()
            return
        ready.set()
        await self._finish.wait()
        await node.stop()

    def stop(self) -> None:
        """Stop the broker and wait for its thread."""
        if self._thread is None or self._loop is None or self._finish is None:
            return
        self._loop.call_soon_threadsafe(self._finish.set)
        self._thread.join(START_TIMEOUT_SECONDS)
        self._thread = None

    def kill(self) -> None:
        """Raise: a thread cannot be killed."""
        raise RuntimeError("a broker in a thread cannot be killed: make it with Broker(process=True)")
