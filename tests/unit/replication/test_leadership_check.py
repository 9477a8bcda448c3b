"""Offsets beyond the end are refused as by somebody who does not lead, until leadership is confirmed."""

from __future__ import annotations

import asyncio

from kept import kept

from moldau.broker.replication.leadership_check import EVERY_MS, LeadershipCheck

AT_28, AT_29 = ("t", 0, 0, 28), ("t", 0, 0, 29)


class Store:
    """A metadata store that answers when it is told to."""

    def __init__(self) -> None:
        self.now_ms = 5.0
        self.asked: list[asyncio.Future[bool]] = []
        self.check = LeadershipCheck(lambda: self.now_ms, self._confirm)

    async def _confirm(self) -> bool:
        answer = asyncio.get_running_loop().create_future()
        self.asked.append(answer)
        return await answer

    async def answers(self, confirmed: bool) -> None:
        await _turns()
        self.asked[-1].set_result(confirmed)
        await _turns()


async def _turns() -> None:
    for _ in range(4):
        await asyncio.sleep(0)


def test_it_is_sure_once_the_store_was_asked() -> None:
    async def scene() -> None:
        store = Store()
        assert not store.check.leads_certainly(AT_28)
        await _turns()
        assert not store.check.leads_certainly(AT_28), "before the store has answered"
        await store.answers(True)
        assert store.check.leads_certainly(AT_28)
        assert len(store.asked) == 1

    asyncio.run(scene())


def test_what_is_asked_for_while_the_store_is_asked_needs_another_answer() -> None:
    """That answer may be older than the record that the reader has seen elsewhere."""

    async def scene() -> None:
        store = Store()
        store.check.leads_certainly(AT_28)
        await _turns()
        assert not store.check.leads_certainly(AT_29)
        await store.answers(True)
        assert not store.check.leads_certainly(AT_29)
        assert len(store.asked) == 1, "asked more than once a second"
        store.now_ms += EVERY_MS
        assert not store.check.leads_certainly(AT_29)
        await store.answers(True)
        assert store.check.leads_certainly(AT_29)

    asyncio.run(scene())


def test_an_answer_that_does_not_come_confirms_nothing() -> None:
    async def scene() -> None:
        store = Store()
        store.check.leads_certainly(AT_28)
        await store.answers(False)
        store.now_ms += EVERY_MS
        assert not store.check.leads_certainly(AT_28)
        await store.answers(True)
        assert store.check.leads_certainly(AT_28)

    asyncio.run(scene())


def test_a_confirmation_does_not_last() -> None:
    async def scene() -> None:
        store = Store()
        store.check.leads_certainly(AT_28)
        await store.answers(True)
        store.now_ms += 60_000
        assert not store.check.leads_certainly(AT_28)
        store.check.stop()

    asyncio.run(scene())


def test_many_offsets_take_no_memory_for_long() -> None:
    async def scene() -> None:
        store = Store()
        for offset in range(5_000):
            assert not store.check.leads_certainly(("t", 0, 0, offset))
        assert kept(store.check) <= 2_000
        store.check.stop()

    asyncio.run(scene())
