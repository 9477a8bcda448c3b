"""The task that dials goes on when the loop comes to it: the connection may be in use by then."""

import asyncio
from collections.abc import Awaitable, Callable

from peer_world import Here, turns

from moldau.common.protocol.messages.end_txn import EndTxnResponse


def on_a_loop(test: Callable[[Here], Awaitable[None]]) -> None:
    async def run() -> None:
        here = Here()
        here.network.held = here.loop.create_future()
        await test(here)
        here.peers.close()
        await turns()

    asyncio.run(run())


def test_a_connection_that_is_greeted_before_its_dialler_goes_on_is_kept() -> None:
    async def run(here: Here) -> None:
        asked = here.ask()
        wire = await here.network.accept()
        wire.greet()
        await turns()
        assert not wire.ended
        here.network.held.set_result(None)  # type: ignore[union-attr]
        await turns()
        wire.respond(wire.sent.pop(), EndTxnResponse(error_code=51))
        assert (await asked).error_code == 51
        again = here.ask()
        wire.respond(wire.sent.pop(), EndTxnResponse(error_code=52))
        assert (await again).error_code == 52
        assert len(here.network.wires) == 1

    on_a_loop(run)


def test_a_connection_that_is_lost_before_its_dialler_goes_on_ends_the_attempt() -> None:
    async def run(here: Here) -> None:
        asked = here.ask()
        wire = await here.network.accept()
        wire.greet()
        wire.lose()
        await turns()
        assert "closed the connection" in str(asked.exception())
        here.network.held = None
        again = here.ask()
        await here.pass_ms(100)
        second = await here.network.accept()
        second.greet()
        second.respond(second.sent.pop(), EndTxnResponse(error_code=7))
        assert (await again).error_code == 7

    on_a_loop(run)


def test_an_attempt_that_takes_too_long_is_called_off_while_it_dials() -> None:
    async def run(here: Here) -> None:
        asked = here.ask(timeout_ms=60_000)
        wire = await here.network.accept()
        await here.pass_ms(10_001)
        assert wire.ended
        assert "no connection within 10000 ms" in str(asked.exception())

    on_a_loop(run)
