"""The metadata store of a single broker: one file in its data folder.

The file is a row of checked frames (frames.py): a snapshot of the image first, when there is one, then one
frame for each append, forced to the disk before the append is acknowledged. When the entries outgrow the
snapshot, a new snapshot is written to a second file, which then replaces the first.

    metadata.log   | snapshot, version 40 | 41 | 42 | 43 |  -> compacted ->  | snapshot, version 43 |

A lock (lock.py) keeps a second broker out of the folder, so the only broker is always registered and the
controller; its session ends when it closes the store. Only the fsync leaves the event loop.

What survives: an entry that was acknowledged, always; the one that was being appended when the power went,
whole or not at all. tests/property/test_metadata_power_cut.py cuts the power at every step.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from moldau.broker.metadata.changes import Change, replay
from moldau.broker.metadata.codec import decode_changes, decode_image, encode_image, entry_in_slices, to_json
from moldau.broker.metadata.frames import MAGIC, frame, read_frames
from moldau.broker.metadata.image import EMPTY_IMAGE, Image
from moldau.broker.metadata.lock import lock_folder
from moldau.broker.metadata.store import (
    ControllerFenced,
    Deliver,
    Entry,
    Event,
    Known,
    LiveBrokers,
    MetadataStoreError,
    NoSession,
    OutcomeUnknown,
    Registration,
    Snapshot,
    VersionConflict,
)
from moldau.common.core.files import Files, OsFiles, read_file, write_atomically, write_fully
from moldau.common.core.slow_lane import SlowLane, all_steps

log = logging.getLogger("moldau.metadata")

FILE_NAME = "moldau-metadata.log"
REPLAYED_ENTRIES_MAX = 256
REPLAYED_TOPICS_MAX = 100_000
"""More entries than this behind the snapshot, or entries times topics, are folded into it at start: an entry
costs a pass over what it touches, and each start adds one that touches every partition."""

Offload = Callable[[Callable[[], None]], Awaitable[None]]
"""Runs a blocking function somewhere else than on the event loop."""


class Lock(Protocol):
    """A held lock."""

    def release(self) -> None:
        """Release the lock."""


async def in_a_thread(blocking: Callable[[], None]) -> None:
    """Run `blocking` in the event loop's pool of threads."""
    await asyncio.get_running_loop().run_in_executor(None, blocking)


class EmbeddedStore:
    """A `MetadataStore` in `folder`. `snapshot_min_bytes`: growth of the file, in bytes, after which it is
    compacted."""

    def __init__(
        self,
        folder: Path | str,
        snapshot_min_bytes: int = 4_194_304,
        *,
        files: Files | None = None,
        lock: Callable[[Path], Lock] = lock_folder,
        offload: Offload = in_a_thread,
        lane: SlowLane | None = None,
    ) -> None:
        self._lane = lane
        self._folder = Path(folder).absolute()
        self._path = str(self._folder / FILE_NAME)
        self._snapshot_min_bytes = snapshot_min_bytes
        self._files = files or OsFiles()
        self._take_lock = lock
        self._offload = offload
        self._lock: Lock | None = None
        self._base = EMPTY_IMAGE
        self._entries: list[tuple[int, Sequence[Change]]] = []  # those behind the snapshot
        self._version = 0
        self._followers: list[Deliver] = []
        self._live: dict[int, Registration] = {}
        self._last_broker_epoch = -1
        self._controller_epoch: int | None = None
        self._append_lock = asyncio.Lock()
        self._fd = -1
        self._size_bytes = 0
        self._snapshot_size_bytes = 0
        self._broken = ""

    async def open(self) -> Image:
        """Lock the folder, read the file, cut off a torn end. MetadataStoreError: in use, damaged, or not
        readable."""
        self._lock = self._take_lock(self._folder)
        try:
            image = self._read()
        except OSError as error:
            self._release()
            raise MetadataStoreError(f"{self._path} cannot be opened: {error.strerror or error}") from error
        except BaseException:
            self._release()
            raise
        return image

    async def follow(self, after_version: int, deliver: Deliver, known: Known | None = None) -> None:
        """Deliver the entries after this version, or a snapshot where they are compacted; then all events."""
        del known  # nobody is served yet
        if after_version < self._version - len(self._entries):
            deliver(Snapshot(self._image()))
        else:
            for version, changes in self._entries:
                if version > after_version:
                    deliver(Entry(version, changes))
        deliver(LiveBrokers(dict(self._live)))
        self._followers.append(deliver)

    def _deliver(self, event: Event) -> None:
        for deliver in self._followers:
            deliver(event)

    async def append_if(
        self, version: int, changes: Sequence[Change], *, controller_epoch: int | None = None
    ) -> int:
        """Append one entry, durably, if the log is still at `version`."""
        async with self._append_lock:
            if self._lock is None:
                raise NoSession("the metadata store is closed")
            if controller_epoch is not None and controller_epoch != self._controller_epoch:
                raise ControllerFenced(controller_epoch, self._latest_controller_epoch())
            if version != self._version:
                raise VersionConflict(version, self._version)
            steps = entry_in_slices(version + 1, changes)
            entry = all_steps(steps) if self._lane is None else await self._lane.slices().run(steps)
            await self._write(frame(entry))
            self._version = version + 1
            self._entries.append((version + 1, changes))
            self._deliver(Entry(version + 1, changes))
            if self._grown_bytes() > max(self._snapshot_min_bytes, self._snapshot_size_bytes):
                await self._offload(self._compact)
            return version + 1

    async def register_broker(self, broker: Registration) -> int:
        """Register: the folder's lock makes this the only broker. Its node id must be that of the image."""
        others = [node_id for node_id in self._image().brokers if node_id != broker.node_id]
        if others:
            raise MetadataStoreError(
                f"the data folder {self._folder} belongs to broker {others[0]}, "
                f"but node.id is {broker.node_id}; "
                f"set node.id={others[0]}, or use another data folder"
            )
        known = self._image().brokers.get(broker.node_id)
        highest = max(self._version, self._last_broker_epoch, -1 if known is None else known.broker_epoch)
        self._last_broker_epoch = highest + 1
        self._live = {broker.node_id: broker._replace(broker_epoch=highest + 1)}
        self._deliver(LiveBrokers(dict(self._live)))
        return highest + 1

    async def elect_controller(self, node_id: int) -> int | None:
        """Elect the only broker."""
        del node_id
        if self._controller_epoch is None:
            self._controller_epoch = self._latest_controller_epoch() + 1
        return self._controller_epoch

    def _latest_controller_epoch(self) -> int:
        return max(self._image().controller_epoch, self._controller_epoch or 0)

    async def close(self) -> None:
        """Close the file and release the folder."""
        async with self._append_lock:
            self._followers.clear()
            self._release()

    def _image(self) -> Image:
        """The newest image, made only when it is needed: followers make their own."""
        for version, changes in self._entries:
            if version > self._base.version:
                self._base = replay(self._base, version, changes)
        return self._base

    def _grown_bytes(self) -> int:
        return self._size_bytes - self._snapshot_size_bytes

    # The file

    def _read(self) -> Image:
        files = self._files
        if not files.exists(self._path) or files.file_size_bytes(self._path) == 0:
            write_atomically(files, self._path, MAGIC)
        self._fd = files.open(self._path)
        content = read_file(files, self._path)
        payloads, end = read_frames(content, self._path)
        if end < len(content):
            log.warning("%s: an interrupted write of %d bytes is cut off", self._path, len(content) - end)
            files.truncate(self._fd, end)
        files.sync(self._fd)  # what a killed process wrote is acted upon from here on, so it must be durable
        files.sync_directory(str(self._folder))
        self._size_bytes = end
        return self._replay(payloads)

    def _replay(self, payloads: list[memoryview]) -> Image:
        image, entries = EMPTY_IMAGE, 0
        self._snapshot_size_bytes = len(MAGIC)
        for position, payload in enumerate(payloads):
            try:
                value: dict[str, Any] = json.loads(bytes(payload))
                if position == 0 and "snapshot" in value:
                    image = decode_image(value["snapshot"])
                    self._snapshot_size_bytes += len(payload) + 8
                    continue
                image = replay(image, value["version"], decode_changes(value["changes"]))
                entries += 1
            except (ValueError, KeyError, TypeError) as error:
                raise MetadataStoreError(f"{self._path}: entry {position} cannot be read: {error}") from error
        self._base, self._version = image, image.version
        if entries > REPLAYED_ENTRIES_MAX or entries * len(image.topics) > REPLAYED_TOPICS_MAX:
            self._compact()
        return image

    async def _write(self, data: bytes) -> None:
        if self._broken:
            raise OSError(self._broken)
        start = self._size_bytes
        try:
            write_fully(self._files, self._fd, data, start)
            await self._offload(lambda: self._files.sync(self._fd))
        except OSError as error:
            self._take_back(start, error)
            if self._broken:
                raise OutcomeUnknown(self._broken) from error
            raise
        except asyncio.CancelledError:
            self._broken = "a metadata write was interrupted; restart the broker"
            raise
        self._size_bytes = start + len(data)

    def _take_back(self, start: int, error: OSError) -> None:
        """Remove an entry that was not acknowledged: it must not be there after a restart."""
        log.error("%s: an entry could not be written: %s", self._path, error)
        try:
            self._files.truncate(self._fd, start)
            self._files.sync(self._fd)
        except OSError as second:
            self._broken = f"the metadata file {self._path} cannot be written: {second}; restart the broker"
            log.critical("%s", self._broken)

    def _compact(self) -> None:
        """Write the image as one snapshot beside the file, then let it take the file's place."""
        files = self._files
        data = MAGIC + frame(to_json({"snapshot": encode_image(self._image())}))
        try:
            write_atomically(files, self._path, data)
            new_fd = files.open(self._path)
        except OSError as error:
            self._compaction_failed(data, error)
            return
        files.close(self._fd)
        self._fd = new_fd
        self._size_bytes = self._snapshot_size_bytes = len(data)
        self._entries = []

    def _compaction_failed(self, data: bytes, error: OSError) -> None:
        """The old file still counts, unless the new one has taken its name already."""
        self._snapshot_size_bytes = self._size_bytes
        if self._files.exists(self._path) and self._files.file_size_bytes(
            self._path
        ) == self._size_bytes != len(data):
            log.warning("%s could not be compacted, and goes on growing: %s", self._path, error)
        else:
            self._broken = f"the metadata file {self._path} was replaced, but not for certain: {error}"
            log.critical("%s; restart the broker", self._broken)

    def _release(self) -> None:
        if self._fd >= 0:
            self._files.close(self._fd)
            self._fd = -1
        if self._lock is not None:
            self._lock.release()
            self._lock = None
        self._broken = "the metadata store is closed"
