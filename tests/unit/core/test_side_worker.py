"""Work beside the loop: in order, one piece at a time, and nobody waits for what was cancelled."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from kept import kept

from moldau.common.core.side_worker import PutOff, SideWorker


def test_pieces_run_in_order_and_one_at_a_time() -> None:
    async def scene() -> None:
        running, most, order = 0, 0, []
        gate = threading.Lock()

        def piece(number: int) -> int:
            nonlocal running, most
            with gate:
                running += 1
                most = max(most, running)
            order.append(number)
            with gate:
                running -= 1
            return number * 2

        with ThreadPoolExecutor(4) as executor:
            worker = SideWorker(asyncio.get_running_loop(), executor)
            futures = [worker.run(lambda number=number: piece(number), None) for number in range(50)]  # type: ignore[misc]
            assert await asyncio.gather(*futures) == [number * 2 for number in range(50)]
        assert (most, order) == (1, list(range(50)))

    asyncio.run(scene())


def test_an_error_is_its_own_piece_s_alone() -> None:
    async def scene() -> None:
        worker = SideWorker(asyncio.get_running_loop())
        failing, fine = worker.run(lambda: 1 // 0, 1), worker.run(lambda: "fine", 2)
        with pytest.raises(ZeroDivisionError):
            await failing
        assert await fine == "fine"

    asyncio.run(scene())


def test_what_is_cancelled_before_its_turn_is_never_begun() -> None:
    async def scene() -> None:
        worker = SideWorker(asyncio.get_running_loop())
        begin, done = threading.Event(), []
        first = worker.run(lambda: begin.wait(10), None)
        dropped, last = (
            worker.run(lambda: done.append("dropped"), 1),
            worker.run(lambda: done.append("last"), 2),
        )
        dropped.cancel()
        first.cancel()  # while it runs: its result is dropped, and the others still have their turn after it
        begin.set()
        await last
        assert done == ["last"]

    asyncio.run(scene())


def test_after_the_end_nothing_is_begun_and_nobody_waits() -> None:
    async def scene() -> None:
        worker = SideWorker(asyncio.get_running_loop())
        begin, done = threading.Event(), []
        first = worker.run(lambda: begin.wait(10), None)
        waiting = worker.run(lambda: done.append("waiting"), None)
        worker.close()
        begin.set()
        assert await first
        late = worker.run(lambda: done.append("late"), None)
        assert (waiting.cancelled(), late.cancelled(), done) == (True, True, [])

    asyncio.run(scene())


def test_sources_have_their_turns_one_after_the_other() -> None:
    async def scene() -> None:
        worker = SideWorker(asyncio.get_running_loop(), None, lambda: 0.0)  # all use the same
        begin, done = threading.Event(), []
        first = worker.run(lambda: begin.wait(10), "first")
        pieces = [("greedy", 1), ("greedy", 2), ("greedy", 3), ("modest", 1), ("late", 1), ("modest", 2)]
        futures = [worker.run(lambda piece=piece: done.append(piece), piece[0]) for piece in pieces]  # type: ignore[misc]
        begin.set()
        await asyncio.gather(first, *futures)
        assert done == [
            ("greedy", 1),
            ("modest", 1),
            ("late", 1),
            ("greedy", 2),
            ("modest", 2),
            ("greedy", 3),
        ]

    asyncio.run(scene())


class Clock:
    """Goes on by what a piece says that it takes."""

    def __init__(self) -> None:
        self.now_seconds = 0.0
        self.order: list[str] = []

    def __call__(self) -> float:
        return self.now_seconds

    def piece(self, name: str, seconds: float, hold: threading.Event | None = None) -> None:
        self.order.append(name)
        if hold is not None:
            assert hold.wait(30)
        self.now_seconds += seconds


def test_short_pieces_go_before_those_of_who_has_used_seconds() -> None:
    async def scene() -> None:
        clock, hold = Clock(), threading.Event()
        with ThreadPoolExecutor(1) as executor:
            worker = SideWorker(asyncio.get_running_loop(), executor, clock)
            futures = []
            for number in range(3):
                for name in "ABCD":
                    gate = hold if (name, number) == ("A", 1) else None
                    work = partial(clock.piece, name, 1.0, gate)
                    futures.append(worker.run(work, name))
            await futures[3]  # each has run once, and A runs for the second time until it is let go
            futures += [worker.run(partial(clock.piece, "good", 0.001), "good") for _ in range(2)]
            hold.set()
            await asyncio.gather(*futures)
        assert "".join(clock.order) == "ABCDA" + "goodgood" + "BCDABCD"

    asyncio.run(scene())


def test_who_comes_back_has_saved_up_little() -> None:
    async def scene() -> None:
        clock = Clock()
        with ThreadPoolExecutor(1) as executor:
            worker = SideWorker(asyncio.get_running_loop(), executor, clock)
            await worker.run(partial(clock.piece, "i", 1.0), "idle")
            for _ in range(5):
                await worker.run(partial(clock.piece, "b", 1.0), "busy")
            many = [worker.run(partial(clock.piece, "i", 1.0), "idle") for _ in range(4)]
            await asyncio.gather(*many, worker.run(partial(clock.piece, "b", 1.0), "busy"))
        assert "".join(clock.order) == "ibbbbb" + "iibii"

    asyncio.run(scene())


def test_sources_of_long_ago_are_forgotten() -> None:
    async def scene() -> None:
        worker = SideWorker(asyncio.get_running_loop(), None, lambda: 0.0)
        for number in range(3000):
            await worker.run(lambda: None, number)
        assert kept(worker) <= 1_100

    asyncio.run(scene())


def test_what_turns_out_long_is_waited_for_by_nobody_else() -> None:
    """Fifty sources come at once, each with long work that does not show before it runs."""

    async def scene() -> None:
        hold, done = threading.Event(), []

        def puts_off() -> None:
            done.append("?")
            raise PutOff

        def long_work(number: int) -> int:
            assert hold.wait(30)
            done.append("L")
            return number

        with ThreadPoolExecutor(2) as executor:
            worker = SideWorker(asyncio.get_running_loop(), executor)
            bombs = [worker.run(puts_off, number, partial(long_work, number)) for number in range(50)]
            for _ in range(3):
                await worker.run(partial(done.append, "g"), "good")
            assert "".join(done) == "?" * 50 + "ggg"
            bombs[49].cancel()
            failing = worker.run(puts_off, "failing", lambda: 1 // 0)
            hold.set()
            assert await asyncio.gather(*bombs[:49]) == list(range(49))
            with pytest.raises(ZeroDivisionError):
                await failing
            assert done.count("L") == 49, "one of them was cancelled before its turn"

    asyncio.run(scene())


def test_what_was_put_off_ends_with_the_worker() -> None:
    async def scene() -> None:
        worker = SideWorker(asyncio.get_running_loop())
        begin = threading.Event()

        def puts_off() -> None:
            begin.wait(10)
            raise PutOff

        future = worker.run(puts_off, 1, lambda: None)
        worker.close()
        begin.set()
        with pytest.raises(asyncio.CancelledError):
            await future

    asyncio.run(scene())
