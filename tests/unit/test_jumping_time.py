"""The loop whose time jumps: what takes no time, what does, and what is waited for."""

import asyncio
import socket
import threading
import time

import pytest
from jumping_time import LoopClock, idle, run_in_jumping_time, settled, until


def test_a_sleep_takes_its_time_of_the_loop_and_none_of_the_wall() -> None:
    async def scene() -> tuple[float, int]:
        loop = asyncio.get_running_loop()
        clock = LoopClock(loop)
        begun, begun_ms = loop.time(), clock.now_ms()
        await asyncio.sleep(3600)
        return loop.time() - begun, clock.now_ms() - begun_ms

    begun = time.monotonic()
    assert run_in_jumping_time(scene(), 4000) == (pytest.approx(3600), pytest.approx(3_600_000, abs=1))
    assert time.monotonic() - begun < 60


def test_timers_run_in_their_order_at_their_times() -> None:
    async def scene() -> list[tuple[str, float]]:
        loop = asyncio.get_running_loop()
        ran: list[tuple[str, float]] = []
        for name, seconds in (("c", 50.0), ("a", 0.5), ("b", 7.0)):
            loop.call_later(seconds, lambda name=name: ran.append((name, round(loop.time(), 3))))
        await asyncio.sleep(49.9)
        assert [name for name, _ in ran] == ["a", "b"]
        await asyncio.sleep(0.2)
        return ran

    assert run_in_jumping_time(scene(), 100) == [("a", 0.5), ("b", 7.0), ("c", 50.0)]


def test_time_does_not_jump_past_a_thread_at_work() -> None:
    async def scene() -> None:
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(None, time.sleep, 0.05)
        async with asyncio.timeout(30):  # would be over at once
            await work
        assert 0.04 < loop.time() < 30

    run_in_jumping_time(scene(), 60)


def test_settled_waits_for_threads_and_idle_does_not() -> None:
    async def scene() -> None:
        go = threading.Event()
        done: list[bool] = []
        work = asyncio.ensure_future(asyncio.to_thread(go.wait, 10))
        work.add_done_callback(lambda task: done.append(task.result()))
        await idle()
        assert not done
        go.set()
        await settled()
        assert done == [True]
        assert asyncio.get_running_loop().time() < 10

    run_in_jumping_time(scene(), 60)


def test_settled_runs_what_follows_and_leaves_timers() -> None:
    async def scene() -> None:
        loop = asyncio.get_running_loop()
        ran: list[int] = []

        def step(number: int) -> None:
            ran.append(number)
            if number < 50:
                loop.call_soon(step, number + 1)

        loop.call_soon(step, 0)
        loop.call_later(0.001, ran.append, -1)
        await settled()
        assert ran == list(range(51))

    run_in_jumping_time(scene(), 60)


def test_a_socket_s_data_goes_before_a_jump() -> None:
    async def scene() -> None:
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            theirs.send(b"now")
            async with asyncio.timeout(0.001):
                assert await loop.sock_recv(ours, 10) == b"now"

    run_in_jumping_time(scene(), 60)


def test_what_never_comes_is_said() -> None:
    async def waits() -> None:
        await until(lambda: False)

    async def hangs() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(AssertionError, match="within a minute"):
        run_in_jumping_time(waits(), 100)
    with pytest.raises(TimeoutError):
        run_in_jumping_time(hangs(), 100)
