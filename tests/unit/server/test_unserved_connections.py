"""Connections that are not served (too many, too fast, a failed login): what they send costs nothing."""

import asyncio
import contextlib
import struct
from collections.abc import Awaitable, Callable

import uvloop
from server_world import Script

from moldau.broker.handlers.parts.broker import ResponseRoom
from moldau.broker.server.connection import Connection, Dispatcher
from moldau.broker.server.interfaces import Parts
from moldau.broker.server.listener import Listener
from moldau.broker.server.listeners import Listeners
from moldau.common.core.client_state import ClientState
from moldau.common.core.clock import SystemClock
from moldau.common.core.network import SystemNetwork
from moldau.common.core.timers import LoopTimers
from moldau.common.settings.listeners import listeners as planned
from moldau.common.settings.sources import from_texts

LONG = struct.pack(">i", 50_000_000) + bytes(8_000_000)


class Slow:
    def delay_ms(self, host: str) -> int:
        return 500


class FailsLogins(Script):
    """The first frame fails, and is answered after a while; what follows is not wanted."""

    def __init__(self) -> None:
        super().__init__()
        self.connections: list[Connection] = []

    def connected(self, connection: Connection) -> Dispatcher:
        self.connections.append(connection)
        return self  # type: ignore[return-value]

    def request(self, connection: Connection, view: memoryview, position: int, end: int) -> Parts | None:
        slot = connection.park(blocking=True)
        connection.ignore_input()

        def over() -> None:
            slot.fill([b"no"])
            connection.close()

        connection.listener.timers.call_later(500, over)
        return None


def on_each_loop(scene: Callable[[Listener, FailsLogins], Awaitable[None]]) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        settings = from_texts({"listeners": "PLAINTEXT://127.0.0.1:0"}).broker
        dispatcher = FailsLogins()
        listeners = Listeners(
            settings,
            network=SystemNetwork(loop),
            clock=SystemClock(),
            timers=LoopTimers(loop),
            seconds=lambda: 0.0,
            response_room=ResponseRoom(),
            client_state=ClientState(0, SystemClock()),
            http_address=lambda: None,
        )
        await listeners.bind(planned(settings))
        await listeners.serve(settings, dispatcher)  # type: ignore[arg-type]
        async with asyncio.timeout(100):
            await scene(listeners.all[0], dispatcher)
            await listeners.close()

    asyncio.run(main())
    uvloop.run(main())


async def flood(listener: Listener, held: Callable[[], int], data: bytes = LONG) -> int:
    """Send a long frame until the broker closes; the most that it has kept of it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    writer.write(data)
    kept_bytes = 0
    answer = asyncio.ensure_future(reader.read())
    while not answer.done():
        await asyncio.sleep(0.01)
        kept_bytes = max(kept_bytes, held())
    writer.close()
    with contextlib.suppress(ConnectionError):
        await answer
    return kept_bytes


def test_a_connection_over_its_addresss_rate_is_not_read() -> None:
    async def scene(listener: Listener, dispatcher: FailsLogins) -> None:
        listener.connection_rates = Slow()  # type: ignore[assignment]
        assert await flood(listener, lambda: sum(each.received_bytes for each in listener.delayed)) == 0
        assert dispatcher.connections == []
        assert not listener.delayed

    on_each_loop(scene)


def test_behind_a_failed_login_nothing_is_kept() -> None:
    async def scene(listener: Listener, dispatcher: FailsLogins) -> None:
        def held() -> int:
            return sum(each.received_bytes for each in listener.connections)

        assert await flood(listener, held, struct.pack(">i", 4) + b"auth" + LONG) == 0
        assert len(dispatcher.connections) == 1

    on_each_loop(scene)
