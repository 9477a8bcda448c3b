"""The machine's own network keeps the promises of core/network.py."""

import asyncio
import contextlib
import errno
import socket
from collections.abc import Awaitable, Callable
from itertools import pairwise

import pytest
import uvloop

from moldau.common.core.accepting import ACCEPTS_PER_TURN
from moldau.common.core.network import SystemNetwork

Scene = Callable[[SystemNetwork], Awaitable[None]]


class Greeter(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport) or hasattr(transport, "write")
        transport.write(b"hello")


class Hears(asyncio.Protocol):
    def __init__(self) -> None:
        self.heard: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self.heard.set_result(data)


def on_each_loop(scene: Scene) -> None:
    async def main() -> None:
        async with asyncio.timeout(20):
            await scene(SystemNetwork(asyncio.get_running_loop()))

    asyncio.run(main())
    uvloop.run(main())


async def greeting(network: SystemNetwork, port: int) -> bytes:
    transport, hears = await network.connect("127.0.0.1", port, Hears)
    heard = await hears.heard
    transport.close()
    return heard


def test_a_bound_address_refuses_until_it_is_served() -> None:
    async def scene(network: SystemNetwork) -> None:
        address = await network.bind("127.0.0.1", 0, 16)
        assert (address.host, address.port > 0) == ("127.0.0.1", True)
        with pytest.raises(ConnectionRefusedError):
            await network.connect("127.0.0.1", address.port, Hears)
        await address.serve(Greeter)
        assert await greeting(network, address.port) == b"hello"
        address.close()
        address.close()

    on_each_loop(scene)


def test_a_listening_address_keeps_connections_until_it_is_served() -> None:
    async def scene(network: SystemNetwork) -> None:
        address = network.listen("127.0.0.1", 0, 16)
        early = asyncio.ensure_future(greeting(network, address.port))
        done, _ = await asyncio.wait({early}, timeout=0.05)
        assert not done
        await address.serve(Greeter)
        assert await early == b"hello"
        address.close()
        address.close()

    on_each_loop(scene)


def test_an_address_that_is_taken_is_refused() -> None:
    async def scene(network: SystemNetwork) -> None:
        first = network.listen("127.0.0.1", 0, 16)
        with pytest.raises(OSError, match="in use") as listened:
            network.listen("127.0.0.1", first.port, 16)
        assert listened.value.errno == errno.EADDRINUSE
        with pytest.raises(OSError, match="in use") as bound:
            await network.bind("127.0.0.1", first.port, 16)
        assert bound.value.errno == errno.EADDRINUSE
        first.close()
        again = network.listen("127.0.0.1", first.port, 16)
        again.close()

    on_each_loop(scene)


def test_an_address_that_waits_accepts_later() -> None:
    async def scene(network: SystemNetwork) -> None:
        address = await network.bind("127.0.0.1", 0, 16)
        await address.serve(Greeter)
        address.wait()
        address.wait()
        early = asyncio.ensure_future(greeting(network, address.port))
        done, _ = await asyncio.wait({early}, timeout=0.05)
        assert not done
        address.go_on()
        assert await early == b"hello"
        address.close()

    on_each_loop(scene)


def test_many_connections_are_accepted_a_few_at_a_time() -> None:
    async def scene(network: SystemNetwork) -> None:
        address = await network.bind("127.0.0.1", 0, 100)
        turns: list[int] = []
        loop = asyncio.get_running_loop()
        made = 0
        all_made = asyncio.Event()

        class Counted(Greeter):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                nonlocal made
                made += 1
                if made == 50:
                    all_made.set()
                super().connection_made(transport)

        def count() -> None:
            turns.append(made)
            if made < 50:
                loop.call_soon(count)

        clients = []
        for _ in range(50):  # in the system's queue before the first is accepted
            client = socket.socket()
            client.setblocking(False)
            clients.append(client)
        await address.serve(Counted)
        for client in clients:
            client.connect_ex(("127.0.0.1", address.port))
        count()
        await all_made.wait()
        assert max(after - before for before, after in pairwise(turns)) <= 2 * ACCEPTS_PER_TURN
        for client in clients:
            client.close()
        address.close()

    on_each_loop(scene)


def test_the_systems_queue_has_room_for_many_whatever_the_setting_says() -> None:
    """Those for whom it has no place try again after 1, 3, 7 s: the last of a thousand after a minute."""

    async def scene(network: SystemNetwork) -> None:
        address = await network.bind("127.0.0.1", 0, 1)
        await address.serve(Greeter)
        address.wait()
        clients = [socket.socket() for _ in range(200)]
        for client in clients:
            client.setblocking(False)
        async with asyncio.timeout(15):
            loop = asyncio.get_running_loop()
            await asyncio.gather(
                *(loop.sock_connect(each, ("127.0.0.1", address.port)) for each in clients)
            )  # though none is accepted
        for client in clients:
            client.close()
        address.close()

    on_each_loop(scene)


def test_connections_that_begin_while_the_address_is_closed_are_ended() -> None:
    async def scene(network: SystemNetwork) -> None:
        address = await network.bind("127.0.0.1", 0, 16)
        made = 0

        class Last(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                nonlocal made
                made += 1
                address.close()

        await address.serve(Last)
        address.wait()
        loop = asyncio.get_running_loop()
        clients = [socket.socket() for _ in range(5)]
        for client in clients:
            client.setblocking(False)
            await loop.sock_connect(client, ("127.0.0.1", address.port))
        address.go_on()
        for client in clients:
            with contextlib.suppress(ConnectionResetError):
                assert await loop.sock_recv(client, 1) == b""
            client.close()
        assert made >= 1

    on_each_loop(scene)


def test_closing_an_address_leaves_its_connections() -> None:
    async def scene(network: SystemNetwork) -> None:
        address = network.listen("127.0.0.1", 0, 16)
        await address.serve(Greeter)
        transport, hears = await network.connect("127.0.0.1", address.port, Hears)
        assert await hears.heard == b"hello"
        address.close()
        await asyncio.sleep(0)
        assert not transport.is_closing()
        transport.close()

    on_each_loop(scene)
