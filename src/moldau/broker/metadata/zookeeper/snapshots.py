"""Writes a snapshot of the metadata every so many entries, and removes what it replaces.

    head 2000   entries 1001 .. 2000 | snapshot 2000      the entries up to 1000 are gone

The image is read as a newcomer reads it, from the last snapshot and the entries after it: no broker keeps one
for this. The parts are written first; the node /moldau/snapshot is set under its version, so that of two
writers one wins, and never an older one. Entries stay for some time behind the snapshot, for brokers that
are a little behind.

Parts that no node refers to are what a crashed writer left, or belong to a writer at work: those older than
`ORPHAN_AGE_MS` are removed. A writer that was slower than that finds its parts missing when it makes them
visible, and writes them again.
"""

import asyncio
import logging
import random
from collections.abc import Iterable

from kazoo import exceptions as zk
from kazoo.client import TransactionRequest

from moldau.broker.metadata.zookeeper.layout import Layout
from moldau.broker.metadata.zookeeper.log_reading import LogReader, Offload
from moldau.broker.metadata.zookeeper.payload import (
    Header,
    Packed,
    encode_snapshot,
    fresh_id,
    pack,
    read_header,
)
from moldau.broker.metadata.zookeeper.session import Failure, Session

log = logging.getLogger("moldau.metadata")

ORPHAN_AGE_MS = 600_000
_REMOVED_AT_ONCE = 100


class Snapshots:
    """Writes snapshots through one session."""

    def __init__(
        self, session: Session, layout: Layout, reader: LogReader, offload: Offload, source: random.Random
    ) -> None:
        self._session = session
        self._layout = layout
        self._reader = reader
        self._offload = offload
        self._random = source

    async def write(self, kept_entries: int) -> None:
        """Write a snapshot of the newest version, unless there is one, and remove what it replaces except
        for the newest `kept_entries` entries. ConnectionAway and SessionOver: what is missing is done with
        the next one.
        """
        before, node_version = await self._reader.snapshot_header()
        image = await self._reader.load()
        if image.version > before.version:
            payload_id = fresh_id(self._random)
            packed = await self._offload(lambda: pack(payload_id, encode_snapshot(image), image.version))
            if not await self._publish(packed, node_version):
                return
            log.info("metadata: snapshot of version %d, %d parts", image.version, len(packed.parts))
            await self._remove_parts(before)
        # Entries may be large: never more of them than two snapshots are apart.
        await self._trim(max(image.version - kept_entries, min(before.version, image.version - 1)))
        await self.remove_orphans()

    async def _publish(self, packed: Packed, node_version: int) -> bool:
        """Make the snapshot visible; False if another was faster, or removed the parts as orphans."""
        paths = [self._layout.part(packed.payload_id, number) for number in range(len(packed.parts))]
        for path, data in zip(paths, packed.parts, strict=True):
            await self._session.create(path, data)

        def fill(request: TransactionRequest) -> None:
            for path in paths:
                request.check(path, 0)
            request.set_data(self._layout.snapshot, packed.data, node_version)

        try:
            await self._session.transaction(fill)
        except Failure as failure:
            await self._remove(paths)
            if isinstance(failure.cause, (zk.BadVersionError, zk.NoNodeError)):
                return False
            raise failure.cause from None
        return True

    async def _trim(self, last: int) -> None:
        """Remove the entries up to version `last`, oldest first."""
        names = await self._session.children(self._layout.entries)
        gone = [name for name in names if int(name) <= last]
        for start in range(0, len(gone), _REMOVED_AT_ONCE):
            paths = [f"{self._layout.entries}/{name}" for name in gone[start : start + _REMOVED_AT_ONCE]]
            found = await asyncio.gather(*(self._session.find(path) for path in paths))
            await self._remove(paths)
            for each in found:
                if each is not None:
                    await self._remove_parts(read_header(each[0]))

    async def remove_orphans(self, age_ms: int = ORPHAN_AGE_MS) -> None:
        """Remove parts older than `age_ms`, by ZooKeeper's clock, that no entry and no snapshot refers to."""
        session, layout = self._session, self._layout
        names = await session.children(layout.parts)
        if not names:
            return
        entries = await session.children(layout.entries)
        used = {(await self._reader.snapshot_header())[0].payload_id}
        for start in range(0, len(entries), _REMOVED_AT_ONCE):
            some = [f"{layout.entries}/{name}" for name in entries[start : start + _REMOVED_AT_ONCE]]
            found = await asyncio.gather(*(session.find(path) for path in some))
            used.update(read_header(each[0]).payload_id for each in found if each is not None)
        unused = [f"{layout.parts}/{name}" for name in names if name.rpartition("-")[0] not in used]
        if not unused:
            return
        now_ms = await self._now_ms()
        stats = await asyncio.gather(*(session.stat(path) for path in unused))
        old = [
            path
            for path, stat in zip(unused, stats, strict=True)
            if stat is not None and stat.ctime <= now_ms - age_ms
        ]
        await self._remove(old)
        if old:
            log.info("metadata: removed %d parts that an interrupted write had left", len(old))

    async def _now_ms(self) -> int:
        """ZooKeeper's clock: when a node is made now."""
        path = self._layout.part(fresh_id(self._random), 0)
        await self._session.create(path, b"", ephemeral=True)
        stat = await self._session.stat(path)
        await self._remove([path])
        return 0 if stat is None else int(stat.ctime)

    async def _remove_parts(self, header: Header) -> None:
        await self._remove(
            [self._layout.part(header.payload_id, number) for number in range(header.part_count)]
        )

    async def _remove(self, paths: Iterable[str]) -> None:
        await asyncio.gather(*(self._session.delete(path) for path in paths))
