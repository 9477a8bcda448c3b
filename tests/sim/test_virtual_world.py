"""The simulation itself: time, order, connections, death, and that a seed decides all of it."""

from __future__ import annotations

import asyncio
import random

import pytest
from sim_loop import StandsStill
from sim_network import ProcessNetwork
from sim_process import Process
from sim_world import World, simulate


class Receiver(asyncio.BufferedProtocol):
    """Keeps what comes, in a small buffer, and how it ended."""

    def __init__(self) -> None:
        self.got = bytearray()
        self.ends: list[object] = []
        self.calls: list[str] = []
        self._buffer = bytearray(100)

    def connection_made(self, transport):
        self.transport = transport

    def get_buffer(self, sizehint):
        return self._buffer

    def buffer_updated(self, nbytes):
        self.got += self._buffer[:nbytes]

    def connection_lost(self, exc):
        self.ends.append(type(exc).__name__ if exc else None)

    def pause_writing(self):
        self.calls.append("pause")

    def resume_writing(self):
        self.calls.append("resume")


async def connected(world: World) -> tuple[Process, Receiver, Process, Receiver]:
    """Two processes and their ends of one connection."""
    server, client = world.process("server"), world.process("client")
    there = Receiver()
    address = ProcessNetwork(world.network, server).listen("server", 1, 10)
    await address.serve(lambda: there)
    connecting = world.spawn(client, ProcessNetwork(world.network, client).connect("server", 1, Receiver))
    _, here = await connecting
    await world.until(lambda: hasattr(there, "transport"))
    return client, here, server, there


def test_time_jumps_to_the_next_timer(seed):
    async def scenario(world: World) -> None:
        order: list[str] = []
        world.loop.call_later(600.0, order.append, "later")
        world.loop.call_later(1.0, order.append, "sooner")
        world.loop.call_later(2.0, order.append, "never").cancel()
        await asyncio.sleep(600.5)
        assert order == ["sooner", "later"]
        assert 600.5 <= world.loop.time() < 600.6

    simulate(scenario, seed)


def test_what_can_never_come_is_not_waited_for():
    async def scenario(world: World) -> None:
        await world.loop.create_future()

    with pytest.raises(AssertionError, match="nothing is ready and no timer is set") as caught:
        simulate(scenario, 3)
    assert isinstance(caught.value.__cause__, StandsStill)


def test_callbacks_of_a_process_keep_their_order(seed):
    async def scenario(world: World) -> None:
        order: list[tuple[str, int]] = []
        processes = [world.process("a"), world.process("b")]
        for number in range(50):
            for process in processes:
                world.loop.call_soon(order.append, (process.name, number), context=process.context())
        await asyncio.sleep(1)
        for process in processes:
            assert [number for name, number in order if name == process.name] == list(range(50))

    simulate(scenario, seed)


@pytest.mark.seeds(20)
def test_bytes_arrive_whole_once_and_in_order_however_they_are_cut(seed):
    async def scenario(world: World) -> None:
        world.network.segment_bytes_max = world.random.choice([1, 7, 1000, 64 * 1024])
        _, here, _, there = await connected(world)
        sent = bytearray()
        for _ in range(40):
            piece = world.random.randbytes(world.random.randint(1, 300))
            sent += piece
            here.transport.write(piece)
            if world.random.random() < 0.2:
                world.network.separate("client", "server")
            await world.sleep_ms(world.random.choice([0, 1, 30]))
            world.network.join("client", "server")
        here.transport.close()
        await world.until(lambda: bool(there.ends))
        assert there.got == sent
        assert (here.ends, there.ends) == ([None], [None])

    simulate(scenario, seed)


def test_a_reader_that_stops_is_felt_by_the_writer(seed):
    async def scenario(world: World) -> None:
        _, here, _, there = await connected(world)
        there.transport.pause_reading()
        sent = 0
        while not here.calls:
            here.transport.write(b"x" * 10_000)
            sent += 10_000
            await world.sleep_ms(5)
        assert sent < 400_000
        await world.sleep_ms(1000)
        assert here.calls == ["pause"]
        assert not there.got
        there.transport.resume_reading()
        await world.until(lambda: len(there.got) == sent)
        assert here.calls == ["pause", "resume"]

    simulate(scenario, seed)


@pytest.mark.seeds(20)
def test_a_killed_process_does_nothing_more_and_its_peer_gets_a_first_part(seed):
    async def scenario(world: World) -> None:
        client, here, _, there = await connected(world)
        done: list[str] = []

        async def work() -> None:
            try:
                while True:
                    here.transport.write(b"0123456789" * 10)
                    done.append("written")
                    await asyncio.sleep(0.001)
            finally:
                done.append("finally")

        world.spawn(client, work())
        await world.sleep_ms(world.random.random() * 20)
        client.kill()
        count = len(done)
        await world.until(lambda: bool(there.ends))
        await world.sleep_ms(1000)
        assert len(done) == count
        assert "finally" not in done
        assert (b"0123456789" * 10 * count).startswith(bytes(there.got))
        assert here.ends == []

    simulate(scenario, seed)


def test_a_reset_ends_both_sides(seed):
    async def scenario(world: World) -> None:
        _, here, _, there = await connected(world)
        assert world.network.reset() == 1
        await world.until(lambda: bool(here.ends) and bool(there.ends))
        assert here.ends == there.ends == ["ConnectionResetError"]

    simulate(scenario, seed)


def test_nobody_answers_where_nobody_serves(seed):
    async def scenario(world: World) -> None:
        client = world.process("client")
        network = ProcessNetwork(world.network, client)
        bound = await ProcessNetwork(world.network, world.process("server")).bind("server", 1, 10)
        for port in (1, 2):
            with pytest.raises(ConnectionRefusedError):
                await world.spawn(client, network.connect("server", port, Receiver))
        with pytest.raises(OSError, match="in use"):
            network.listen("server", 1, 10)
        bound.close()
        network.listen("server", 1, 10).close()
        world.network.separate("client", "server")
        with pytest.raises(TimeoutError):
            await world.spawn(client, network.connect("server", 1, Receiver))

    simulate(scenario, seed)


def test_blocking_work_ends_later_or_fails(seed):
    async def scenario(world: World) -> None:
        def fault(process, work):
            if work is refused:
                raise OSError("the worker failed")

        def refused() -> None: ...

        world.loop.worker_fault = fault
        before = world.loop.time()
        assert await world.loop.run_in_executor(None, lambda: 7) == 7
        assert world.loop.time() > before
        with pytest.raises(OSError, match="the worker failed"):
            await world.loop.run_in_executor(None, refused)

    simulate(scenario, seed)


def test_a_failure_tells_its_seed_and_how_to_run_it_again():
    async def scenario(world: World) -> None:
        assert world.random.random() < 0, "impossible"

    with pytest.raises(AssertionError, match=r"seed 41 failed: impossible[\s\S]*MOLDAU_SIM_SEED=41 pytest"):
        simulate(scenario, 41)


def test_an_error_that_nobody_handles_fails_the_run():
    async def scenario(world: World) -> None:
        process = world.process("a")
        world.loop.call_soon(lambda: 1 // 0, context=process.context())
        await world.sleep_ms(1)

    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        simulate(scenario, 0)


def test_other_seeds_take_other_ways():
    async def scenario(world: World) -> None:
        _, here, _, there = await connected(world)
        here.transport.write(random.Random(1).randbytes(1000))
        here.transport.close()
        await world.until(lambda: bool(there.ends))

    digests = [simulate(scenario, seed)[1].digest() for seed in range(5)]
    assert len(set(digests)) == 5
    assert digests == [simulate(scenario, seed)[1].digest() for seed in range(5)]
