"""The controller's seat: the ephemeral node /controller, and /controller_epoch, which outlives it.

Both are written in one transaction, so the epoch rises with each election. An append of the controller
checks the node version of /controller_epoch: from the moment that another has the seat, it is refused.
"""

from collections.abc import Callable
from functools import partial

from kazoo import exceptions as zk
from kazoo.client import TransactionRequest

from moldau.broker.metadata.zookeeper.append import Seat
from moldau.broker.metadata.zookeeper.discovery import controller_json
from moldau.broker.metadata.zookeeper.layout import Layout
from moldau.broker.metadata.zookeeper.session import ConnectionAway, Failure, Session
from moldau.common.core.clock import Clock


class Held:
    """What this broker holds in the ensemble, as long as the present session lasts."""

    __slots__ = ("registration", "seat")

    def __init__(self) -> None:
        self.registration: tuple[int, int] | None = None
        """Node id and broker epoch."""
        self.seat: Seat | None = None
        """The controller's seat."""


class Seats:
    """Elects, and looks who has the seat."""

    def __init__(self, layout: Layout, clock: Clock) -> None:
        self._layout = layout
        self._clock = clock

    async def epoch(self, session: Session) -> Seat:
        """The last controller's epoch."""
        data, stat = await session.get(self._layout.controller_epoch)
        return Seat(int(data), stat.version)

    async def look(self, session: Session, watch: Callable[[], None] | None = None) -> tuple[int, Seat]:
        """The session that has the seat (0 when it is vacant) and the last epoch, which belong together;
        `watch` is called when the seat is taken or given up."""
        while True:
            before = await self.epoch(session)
            stat = await session.stat(self._layout.controller, watch)
            if await self.epoch(session) == before:
                return 0 if stat is None else int(stat.ephemeralOwner), before

    async def elect(self, session: Session, node_id: int) -> Seat | None:
        """Take the seat, if it is vacant or this session's own; None when it is another's."""
        while True:
            try:
                owner, last = await self.look(session)
                if owner:
                    return last if owner == session.session_id else None
                await session.transaction(partial(self._fill, session=session, node_id=node_id, last=last))
            except ConnectionAway:
                continue  # if it was taken, it is found as one's own
            except Failure as failure:
                if isinstance(failure.cause, (zk.NodeExistsError, zk.BadVersionError)):
                    continue
                raise failure.cause from None
            return Seat(last.epoch + 1, last.node_version + 1)

    def _fill(self, request: TransactionRequest, session: Session, node_id: int, last: Seat) -> None:
        layout = self._layout
        request.set_data(layout.controller_epoch, str(last.epoch + 1).encode(), last.node_version)
        request.create(
            layout.controller,
            controller_json(node_id, self._clock.now_ms()),
            acl=session.public_acl(),
            ephemeral=True,
        )
