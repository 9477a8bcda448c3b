"""Reading the log: its head, entries, the snapshot, and the image that a newcomer makes of them.

What is read may be removed meanwhile, because a newer snapshot replaced it. An entry that is gone is `None`;
`load` then begins again from the newer snapshot.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from kazoo import exceptions as zk

from moldau.broker.metadata.changes import Change, replay
from moldau.broker.metadata.image import Image
from moldau.broker.metadata.store import MetadataStoreError
from moldau.broker.metadata.zookeeper.layout import Layout
from moldau.broker.metadata.zookeeper.payload import (
    Header,
    decode_entry,
    decode_snapshot,
    read_header,
    unpack,
)
from moldau.broker.metadata.zookeeper.session import Session

T = TypeVar("T")
ENTRIES_AT_ONCE = 64
_DECODED_HERE_BYTES_MAX = 32_768


class Head(NamedTuple):
    """The newest version. `node_version`: ZooKeeper's, of the head node. `log_bytes`: of all entries ever
    appended."""

    version: int
    node_version: int
    log_bytes: int = 0


class Offload:
    """Runs pure functions in a worker thread, where they are long."""

    def __init__(self, run: Callable[[Callable[[], None]], Awaitable[None]]) -> None:
        self._run = run

    async def __call__(self, function: Callable[[], T]) -> T:
        results: list[T] = []
        await self._run(lambda: results.append(function()))
        return results[0]


async def entry_header(session: Session, layout: Layout, version: int) -> Header | None:
    """The header of an entry's node; None when there is none."""
    found = await session.find(layout.entry(version))
    return None if found is None else read_header(found[0])


async def log_version(session: Session, layout: Layout) -> int:
    """The version of the newest entry."""
    data, _ = await session.get(layout.head)
    version: int = json.loads(data)["version"]
    return version


class LogReader:
    """Reads through one session."""

    def __init__(self, session: Session, layout: Layout, offload: Offload) -> None:
        self._session = session
        self._layout = layout
        self._offload = offload

    async def head(self, watch: Callable[[], None] | None = None) -> Head:
        """The newest version; `watch` is called when there is a newer one."""
        data, stat = await self._session.get(self._layout.head, watch)
        value = json.loads(data)
        return Head(value["version"], stat.version, value.get("bytes", 0))

    async def entry(self, version: int) -> Sequence[Change] | None:
        """An entry's changes, or None: it is not there (any more). MetadataStoreError: it cannot be read."""
        header = await entry_header(self._session, self._layout, version)
        payload = None if header is None else await self.payload(header)
        if payload is None:
            return None
        try:
            if len(payload) <= _DECODED_HERE_BYTES_MAX:
                return decode_entry(payload)
            return await self._offload(lambda: decode_entry(payload))
        except (ValueError, KeyError, TypeError) as error:
            raise MetadataStoreError(f"{self._layout.entry(version)} cannot be read: {error}") from error

    async def entries(self, first: int, last: int) -> list[Sequence[Change] | None]:
        """The entries that led to the versions from `first` to `last`."""
        return await asyncio.gather(*(self.entry(version) for version in range(first, last + 1)))

    async def snapshot_header(self) -> tuple[Header, int]:
        """The header of the snapshot, and the version of its node."""
        data, stat = await self._session.get(self._layout.snapshot)
        return read_header(data), stat.version

    async def snapshot(self) -> Image:
        """The newest snapshot."""
        while True:
            header, _ = await self.snapshot_header()
            payload = await self.payload(header)
            if payload is not None:
                break
        try:
            return await self._offload(lambda: decode_snapshot(payload))
        except (ValueError, KeyError, TypeError) as error:
            raise MetadataStoreError(f"{self._layout.snapshot} cannot be read: {error}") from error

    async def payload(self, header: Header) -> bytes | None:
        """The payload behind a header; None when its parts were removed meanwhile."""
        numbers = range(header.part_count)
        try:
            parts = await asyncio.gather(*(self._part(header.payload_id, number) for number in numbers))
        except zk.NoNodeError:
            return None
        if len(header.body) <= _DECODED_HERE_BYTES_MAX and not parts:
            return unpack(header, parts)
        return await self._offload(lambda: unpack(header, parts))

    async def _part(self, payload_id: str, number: int) -> bytes:
        data, _ = await self._session.get(self._layout.part(payload_id, number))
        return data

    async def load(self) -> Image:
        """The image at the newest version, or a little before."""
        image = await self.snapshot()
        last = (await self.head()).version
        while image.version < last:
            first = image.version + 1
            found = await self.entries(first, min(last, first + ENTRIES_AT_ONCE - 1))
            if None in found:
                missing = first + found.index(None)
                image = await self.snapshot()
                if image.version < missing:
                    raise MetadataStoreError(f"{self._layout.entry(missing)} is missing in ZooKeeper")
                continue
            changes = [each for each in found if each is not None]
            image = await self._offload(partial(_replayed, image, changes))
        return image


def _replayed(image: Image, entries: Sequence[Sequence[Change]]) -> Image:
    for changes in entries:
        image = replay(image, image.version + 1, changes)
    return image
