"""Runs a test's broker in a thread of the same process, on an event loop of its own."""

from __future__ import annotations

import asyncio
import os
import threading
import warnings
from collections.abc import Mapping
from dataclasses import replace

from moldau.broker.host import system_host
from moldau.broker.node import Node
from moldau.common.settings.sources import StaticSettings, from_texts
from moldau.testing.broker import START_TIMEOUT_SECONDS, Addresses
from moldau.testing.faults import Faults
from moldau.testing.faulty_dispatch import faulty_dispatch


class ThreadHost:
    """One thread, one event loop, one node. Errors of the start are raised in the caller's thread."""

    def __init__(self) -> None:
        self.faults = Faults()
        self._going_on: threading.Event | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._finish: asyncio.Event | None = None
        self._failure: BaseException | None = None
        self._addresses: Addresses | None = None

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
        self._failure = None
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(static, ready)), name="moldau-broker", daemon=True
        )
        self._thread.start()
        in_time = ready.wait(START_TIMEOUT_SECONDS)
        if self._failure is not None:
            self._thread.join()
            self._thread = None
            raise self._failure
        if not in_time:
            raise TimeoutError(f"the broker was not ready after {START_TIMEOUT_SECONDS:.0f} s")
        assert self._addresses is not None
        return self._addresses

    async def _serve(self, static: StaticSettings, ready: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._finish = asyncio.Event()
        try:
            host = replace(system_host(), files=self.faults.disk, dispatch=faulty_dispatch(self.faults))
            node = Node(static, host)
            await node.start()
            self._addresses = Addresses(node.address, node.http_address or "")
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
        self.resume()
        self._loop.call_soon_threadsafe(self._finish.set)
        self._thread.join(START_TIMEOUT_SECONDS)
        self._thread = None

    def pause(self) -> None:
        """Let the event loop stand still, as SIGSTOP does to a process."""
        if self._loop is None or self._going_on is not None:
            return
        stands, going_on = threading.Event(), threading.Event()

        def stand() -> None:
            stands.set()
            going_on.wait()

        self._going_on = going_on
        self._loop.call_soon_threadsafe(stand)
        stands.wait(START_TIMEOUT_SECONDS)

    def resume(self) -> None:
        """Let it go on."""
        going_on, self._going_on = self._going_on, None
        if going_on is not None:
            going_on.set()

    def kill(self) -> None:
        """Raise: a thread cannot be killed."""
        raise RuntimeError("a broker in a thread cannot be killed: make it with Broker(process=True)")
