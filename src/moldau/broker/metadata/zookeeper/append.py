"""The fenced append: one transaction that succeeds only while the log is at the version it builds on.

    [check the controller's seat and epoch]  [check the entry's parts]  set head N  create entry N+1

Parts of a large entry are written first, under an id of their own; the transaction makes them visible, all or
none, and checks that they are still there. What a crashed writer left is removed later (snapshots.py).

When the connection is lost, the same transaction is tried again: it cannot be carried out twice. If head has
moved on, entry N+1 tells by its id whose it is.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from kazoo import exceptions as zk
from kazoo.client import TransactionRequest

from moldau.broker.metadata.changes import Change, ClusterCreated
from moldau.broker.metadata.codec import to_json
from moldau.broker.metadata.zookeeper.discovery import cluster_json
from moldau.broker.metadata.zookeeper.layout import Layout
from moldau.broker.metadata.zookeeper.log_reading import entry_header, log_version
from moldau.broker.metadata.zookeeper.payload import Header, Packed
from moldau.broker.metadata.zookeeper.session import ConnectionAway, Failure, Session


class Seat(NamedTuple):
    """The controller's seat, held. `node_version`: of the node /controller_epoch, which fences."""

    epoch: int
    node_version: int


class Overtaken(Exception):
    """Nothing was appended: the log is at another version."""


class Deposed(Exception):
    """Nothing was appended: the seat is another's, or nobody's."""


class Forgotten(Exception):
    """Whether the entry was appended cannot be told any more: a snapshot has replaced it."""


class Append:
    """One entry on its way into the log, from version `version` to the next."""

    def __init__(
        self,
        layout: Layout,
        version: int,
        changes: Sequence[Change],
        packed: Packed,
        seat: Seat | None,
        log_bytes: int = 0,
    ) -> None:
        """`log_bytes`: of all entries with this one."""
        self._log_bytes = log_bytes
        self._layout = layout
        self._version = version
        self._packed = packed
        self._seat = seat
        self._cluster_id = next(
            (each.cluster_id for each in changes if isinstance(each, ClusterCreated)), None
        )
        self.in_doubt = False
        """Whether it may have been made, and that is not known yet."""

    async def make(self, session: Session, node_version: int) -> int | None:
        """Append through `session`. `node_version`: the head's while the log is at the version. Gives how
        many children the head node had (append_turns.py), if that is known.

        Overtaken, Deposed, or what kazoo raises: nothing was appended. SessionOver: `in_doubt`. Forgotten.
        """
        while True:
            try:
                await self._write_parts(session)
                results = await session.transaction(
                    lambda request: self._fill(request, session, node_version)
                )
            except ConnectionAway:
                self.in_doubt = True
                continue
            except Failure as failure:
                if self.in_doubt and await self.is_made(session):
                    return None
                self.in_doubt = False
                if self._is_part(failure.index):
                    continue  # taken for a crashed writer's
                if failure.index < self._checks:
                    raise Deposed from failure.cause
                if isinstance(failure.cause, (zk.BadVersionError, zk.NodeExistsError)):
                    raise Overtaken from failure.cause
                raise failure.cause from None
            return int(results[self._checks + len(self._packed.parts)].numChildren)

    async def is_made(self, session: Session) -> bool:
        """Whether the entry is in the log. Forgotten."""
        while True:
            try:
                await session.sync(self._layout.head)
                header = await self._in_its_place(session)
            except ConnectionAway:
                continue
            return header is not None and header.payload_id == self._packed.payload_id

    async def is_overtaken(self, session: Session) -> bool:
        """Whether another's entry is in its place. Forgotten."""
        header = await self._in_its_place(session)
        return header is not None and header.payload_id != self._packed.payload_id

    async def _in_its_place(self, session: Session) -> Header | None:
        """The header of the entry after `version`; None while there is none."""
        entry = partial(entry_header, session, self._layout, self._version + 1)
        header = await entry()
        if header is None and await log_version(session, self._layout) > self._version:
            header = await entry()  # it came meanwhile, or has gone
            if header is None:
                raise Forgotten
        return header

    async def remove_parts(self, session: Session) -> None:
        """Remove the parts of an entry that was not appended."""
        for number in range(len(self._packed.parts)):
            await session.delete(self._layout.part(self._packed.payload_id, number))

    @property
    def _checks(self) -> int:
        return 0 if self._seat is None else 2

    def _is_part(self, index: int) -> bool:
        return self._checks <= index < self._checks + len(self._packed.parts)

    async def _write_parts(self, session: Session) -> None:
        await asyncio.gather(
            *(self._write_part(session, number, data) for number, data in enumerate(self._packed.parts))
        )

    async def _write_part(self, session: Session, number: int, data: bytes) -> None:
        with contextlib.suppress(zk.NodeExistsError):  # written before the connection was lost
            await session.create(self._layout.part(self._packed.payload_id, number), data)

    def _fill(self, request: TransactionRequest, session: Session, node_version: int) -> None:
        layout = self._layout
        if self._seat is not None:
            request.check(layout.controller_epoch, self._seat.node_version)
            request.check(layout.controller, -1)
        for number in range(len(self._packed.parts)):
            request.check(layout.part(self._packed.payload_id, number), 0)
        request.set_data(
            layout.head, to_json({"version": self._version + 1, "bytes": self._log_bytes}), node_version
        )
        request.create(layout.entry(self._version + 1), self._packed.data)
        if self._cluster_id is not None:
            request.create(layout.cluster_id, cluster_json(self._cluster_id), acl=session.public_acl())
