"""A network cable for brokers on one machine: TCP connections through it can be cut and healed.

A broker advertises the proxy's port to its peers (a listener of its own for them) or reaches ZooKeeper
through one, so that a cut takes what a pulled cable would: no answer, no error, connections that stay open.

    broker 2 ──┐                                       broker 1 ── proxy ── ZooKeeper
    broker 3 ──┴── proxy ── broker 1's peer listener

Cut connections are closed when the cable is plugged in again, as TCP does it with those that timed out. Not
here: delay and loss, which need packets.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading

from moldau.testing.ports import reserve_port


class Cable:
    """One listening port that forwards to a target, in a thread with an event loop of its own."""

    def __init__(self, target: tuple[str, int], port: int = 0) -> None:
        self._reserved = None if port else reserve_port()
        self.port = port or self._reserved.number
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._whole = asyncio.Event()
        self._whole.set()
        self._writers: set[asyncio.StreamWriter] = set()
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), daemon=True)
        self._thread.start()
        ready.wait(30)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def cut(self) -> None:
        """Nothing passes any more, in either direction; new connections hang."""
        self._call(self._whole.clear)

    def heal(self) -> None:
        """Everything passes; what was cut is closed."""

        def plug_in() -> None:
            if not self._whole.is_set():
                for writer in list(self._writers):
                    writer.transport.abort()
                self._whole.set()

        self._call(plug_in)

    def close(self) -> None:
        def end() -> None:
            for task in asyncio.all_tasks(self._loop):
                task.cancel()
            self._loop.call_later(0.1, self._loop.stop)  # after they have ended

        self._call(end)
        self._thread.join(10)
        if self._reserved is not None:
            self._reserved.release()

    def _call(self, function: object) -> None:
        self._loop.call_soon_threadsafe(function)  # type: ignore[arg-type]

    def _run(self, ready: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", self.port))
        ready.set()
        self._loop.run_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        there: asyncio.StreamWriter | None = None
        try:
            await self._whole.wait()
            behind, there = await asyncio.open_connection(*self._target)
            self._writers.add(there)
            both = self._forward(reader, there), self._forward(behind, writer)
            await asyncio.gather(*both, return_exceptions=True)
        except OSError:
            pass
        finally:
            for one in (writer, there):
                if one is not None:
                    self._writers.discard(one)
                    one.transport.abort()

    async def _forward(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(65_536):
            await self._whole.wait()
            sink.write(data)
            await sink.drain()
        await self._whole.wait()
        with contextlib.suppress(OSError):
            sink.write_eof()
