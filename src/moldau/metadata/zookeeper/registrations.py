"""Brokers that live: two ephemeral nodes a broker, made and removed together.

/brokers/ids/<node id> is Kafka's, and keeps a second broker from taking the id. The other one,
/moldau/live/<id>-<sequence>, has a new name for each registration, so that one watch on the parent and the
names tell what is new; only that is read.

A broker's epoch is the id of the ZooKeeper transaction that made the nodes, which rises from one registration
to the next, plus a base where the cluster had higher epochs before it came here.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from functools import partial

from kazoo import exceptions as zk
from kazoo.client import TransactionRequest

from moldau.core.clock import Clock
from moldau.metadata.codec import to_json
from moldau.metadata.store import NodeIdInUse, Registration
from moldau.metadata.zookeeper.discovery import broker_json
from moldau.metadata.zookeeper.layout import Layout
from moldau.metadata.zookeeper.session import ConnectionAway, Failure, Session


class Registrations:
    """Registers this broker, and knows who lives. `epoch_base`: added to ZooKeeper's transaction ids."""

    def __init__(self, layout: Layout, clock: Clock, epoch_base: int) -> None:
        self._layout = layout
        self._clock = clock
        self._epoch_base = epoch_base
        self._known: dict[str, Registration] = {}

    async def look(self, session: Session, watch: Callable[[], None]) -> Mapping[int, Registration]:
        """The live brokers by node id; `watch` is called when there are others."""
        names = await session.children(self._layout.live, watch)
        unknown = [name for name in names if name not in self._known]
        read = await asyncio.gather(*(self._read(session, name) for name in unknown))
        found = {name: each for name, each in zip(unknown, read, strict=True) if each is not None}
        self._known = {
            name: found.get(name) or self._known[name]
            for name in names
            if name in found or name in self._known
        }
        return {each.node_id: each for each in sorted(self._known.values(), key=lambda each: each.node_id)}

    async def _read(self, session: Session, name: str) -> Registration | None:
        found = await session.find(f"{self._layout.live}/{name}")
        if found is None:
            return None  # it has gone meanwhile, and the watch has fired
        node_id, endpoints, rack, previous = json.loads(found[0])
        by_listener = {listener: (host, port) for listener, (host, port) in endpoints.items()}
        return Registration(node_id, by_listener, rack, previous, self._epoch_base + found[1].czxid)

    async def register(self, session: Session, broker: Registration) -> int:
        """Register this broker for as long as the session lasts; gives its epoch. NodeIdInUse."""
        layout = self._layout
        while True:
            await session.reach()
            try:
                owned = await self._own_nodes(session, broker.node_id)
                await session.transaction(partial(self._fill, session=session, broker=broker, owned=owned))
                stat = await session.stat(layout.broker(broker.node_id))
            except ConnectionAway:
                continue  # what was made, if it was, is found as one's own
            except Failure as failure:
                if isinstance(failure.cause, (zk.NodeExistsError, zk.NoNodeError)):
                    continue  # another broker was faster, or the other one has gone
                raise failure.cause from None
            if stat is not None:
                return self._epoch_base + int(stat.czxid)

    async def _own_nodes(self, session: Session, node_id: int) -> list[str]:
        """The nodes of this session's registration, if there is one. NodeIdInUse: another session's."""
        path = self._layout.broker(node_id)
        stat = await session.stat(path)
        if stat is None:
            return []
        if stat.ephemeralOwner != session.session_id:
            raise NodeIdInUse(
                f"a broker with node.id={node_id} is registered in ZooKeeper already: another broker, or "
                "this one before a crash, until its session has expired"
            )
        names = await session.children(self._layout.live)
        live = [f"{self._layout.live}/{name}" for name in names if name.rpartition("-")[0] == str(node_id)]
        return [path, *live]

    def _fill(
        self, request: TransactionRequest, session: Session, broker: Registration, owned: list[str]
    ) -> None:
        for path in owned:
            request.delete(path)
        now_ms = self._clock.now_ms()
        request.create(
            self._layout.broker(broker.node_id),
            broker_json(broker, session.options.protocols, now_ms),
            acl=session.public_acl(),
            ephemeral=True,
        )
        request.create(
            f"{self._layout.live}/{broker.node_id}-",
            to_json([broker.node_id, broker.endpoints, broker.rack, broker.previous_broker_epoch]),
            ephemeral=True,
            sequence=True,
        )
