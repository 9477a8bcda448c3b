"""Fairness between appending brokers: one that was overtaken goes first. Without this, one that appends all
the time starves the others.

Who has just appended is always faster than who must first read what overtook it. So an overtaken broker
makes an ephemeral child of the head node. The answer to every append tells how many children head has, at no
cost; who sees another's waits before its own next append, until another's entry has come or a short time has
passed. Measured with ten brokers: docs/decisions/zookeeper-store.md.

    A appends N     B is overtaken by N, makes head/waiting-7, reads N
    A appends N+1   its answer: head has a child. B is overtaken once more at most
    A gives way     B appends N+2, removes its child             A appends N+3

The controller does not give way: its decisions are urgent, and many entries follow each other.
"""

import asyncio

from moldau.broker.metadata.zookeeper.layout import Layout
from moldau.broker.metadata.zookeeper.session import ConnectionAway, Session, SessionOver
from moldau.common.core.timers import Timers

GIVE_WAY_MS_MAX = 100
WAITING_MS_MAX = 1_000
"""After so long without an append, the decision was given up, and with it the claim to go first."""


class AppendTurns:
    """One broker's part in it."""

    def __init__(self, layout: Layout, timers: Timers) -> None:
        self._layout = layout
        self._timers = timers
        self._claim: tuple[Session, str] | None = None
        self._heard: asyncio.Event | None = None
        """Set when an entry of another broker comes; None while nobody is known to wait."""
        self._removals: set[asyncio.Task[None]] = set()

    async def give_way(self) -> None:
        """Before an append: let those who wait be faster."""
        heard = self._heard
        if heard is not None:
            timer = self._timers.call_later(GIVE_WAY_MS_MAX, heard.set)
            await heard.wait()
            timer.cancel()
            self._heard = None

    def entry_heard(self) -> None:
        """An entry of another broker has come."""
        if self._heard is not None:
            self._heard.set()

    def appended(self, children: int) -> None:
        """An append of this broker was made, when head had so many children."""
        others = children - (1 if self._claim is not None else 0)
        self._heard = asyncio.Event() if others > 0 else None
        self._drop_claim()

    async def overtaken(self, session: Session) -> None:
        """An append of this broker was refused: claim to go before those who have just appended."""
        if self._claim is not None and self._claim[0] is session:
            return
        try:
            path = await session.call(
                lambda client: client.create_async(
                    f"{self._layout.head}/waiting-", b"", ephemeral=True, sequence=True
                )
            )
        except (ConnectionAway, SessionOver):
            return
        claim = self._claim = (session, path)
        self._timers.call_later(WAITING_MS_MAX, lambda: self._drop_claim(claim))

    def _drop_claim(self, which: tuple[Session, str] | None = None) -> None:
        claim = self._claim
        if claim is None or which not in (None, claim):
            return
        self._claim = None
        task = asyncio.get_running_loop().create_task(_remove(*claim))
        self._removals.add(task)
        task.add_done_callback(self._removals.discard)


async def _remove(session: Session, path: str) -> None:
    try:
        await session.delete(path)
    except (ConnectionAway, SessionOver):
        return  # gone with the session, or with the next claim's
