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

from moldau.broker.metadata.codec import to_json
from moldau.broker.metadata.store import NO_BROKER_EPOCH, NodeIdInUse, Registration
from moldau.broker.metadata.zookeeper.discovery import broker_json
from moldau.broker.metadata.zookeeper.layout import Layout
from moldau.broker.metadata.zookeeper.session import ConnectionAway, Failure, Session
from moldau.common.core.clock import Clock


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
        return decode(found[0])._replace(broker_epoch=self._epoch_base + found[1].czxid)

    async def register(self, session: Session, broker: Registration) -> int:
        """Register this broker for as long as the session lasts; gives its epoch. NodeIdInUse."""
        layout = self._layout
        while True:
            await session.reach()
            try:
                replaced = await self._replaced(session, broker)
                await session.transaction(
                    partial(self._fill, session=session, broker=broker, replaced=replaced)
                )
                stat = await session.stat(layout.broker(broker.node_id))
            except ConnectionAway:
                continue  # what was made, if it was, is found as one's own
            except Failure as failure:
                if isinstance(failure.cause, (zk.NodeExistsError, zk.NoNodeError)):
                    continue  # another broker was faster, or the other one has gone
                raise failure.cause from None
            if stat is not None:
                return self._epoch_base + int(stat.czxid)

    async def _replaced(self, session: Session, broker: Registration) -> list[str]:
        """The nodes that this registration replaces: this session's, or an earlier process's, with the seat
        that it may have. NodeIdInUse: another broker's."""
        layout, node_id = self._layout, broker.node_id
        stat = await session.stat(layout.broker(node_id))
        if stat is None:
            return []
        names = await session.children(layout.live)
        live = [f"{layout.live}/{name}" for name in names if name.rpartition("-")[0] == str(node_id)]
        nodes = [layout.broker(node_id), *live]
        if stat.ephemeralOwner == session.session_id:
            return nodes
        held = await session.find(live[0]) if live else None
        if held is None or not broker.succeeds(decode(held[0])):
            raise NodeIdInUse(
                f"a broker with node.id={node_id} is registered in ZooKeeper already: another broker, or "
                "this one before a crash, until its session has expired"
            )
        seat = await session.stat(layout.controller)
        if seat is not None and seat.ephemeralOwner == stat.ephemeralOwner:
            nodes.append(layout.controller)
        return nodes

    def _fill(
        self, request: TransactionRequest, session: Session, broker: Registration, replaced: list[str]
    ) -> None:
        for path in replaced:
            request.delete(path)
        now_ms = self._clock.now_ms()
        request.create(
            self._layout.broker(broker.node_id),
            broker_json(broker, session.options.protocols, now_ms),
            acl=session.public_acl(),
            ephemeral=True,
        )
        request.create(
            f"{self._layout.live}/{broker.node_id}-", encode(broker), ephemeral=True, sequence=True
        )


def encode(broker: Registration) -> bytes:
    """A registration, without its epoch."""
    return to_json(broker._replace(broker_epoch=NO_BROKER_EPOCH)._asdict())


def decode(data: bytes) -> Registration:
    """A registration, without its epoch. Fields of newer versions are left out."""
    value = {name: each for name, each in json.loads(data).items() if name in Registration._fields}
    value["endpoints"] = {name: (host, port) for name, (host, port) in value["endpoints"].items()}
    for name in ("levels", "directories"):
        if name in value:
            value[name] = tuple(value[name])
    return Registration(**value)
