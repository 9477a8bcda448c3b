"""The metadata store of a single broker: one file in its data folder, and nothing to install.

The file is a row of checked frames (frames.py): a snapshot of the image first, when there is one, then one
frame for each append, forced to the disk before the append is acknowledged. When the entries outgrow the
snapshot, the whole is written anew as one snapshot into a second file, which then takes the first one's
place.

    metadata.log   | snapshot, version 40 | 41 | 42 | 43 |  -> compacted ->  | snapshot, version 43 |

A lock file keeps a second broker out of the folder. Only the fsync leaves the event loop.
"""

import asyncio
import fcntl
import json
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from moldau.metadata.changes import Change, replay
from moldau.metadata.codec import decode_changes, decode_image, encode_changes, encode_image, to_json
from moldau.metadata.frames import MAGIC, frame, read_frames
from moldau.metadata.image import EMPTY_IMAGE, BrokerState, Image
from moldau.metadata.store import Deliver, MetadataStoreError, VersionConflict

log = logging.getLogger("moldau.metadata")

FILE_NAME = "moldau-metadata.log"
LOCK_NAME = ".moldau-lock"
_REPLAYED_ENTRIES_MAX = 256
"""More entries than this behind the snapshot are folded into it at start, since each costs a pass over what
it touches."""


class EmbeddedStore:
    """A `MetadataStore` in `folder`. `snapshot_min_bytes`: growth of the file, in bytes, after which it is
    compacted."""

    def __init__(self, folder: Path | str, snapshot_min_bytes: int = 4_194_304) -> None:
        self._folder = Path(folder)
        self._path = self._folder / FILE_NAME
        self._snapshot_min_bytes = snapshot_min_bytes
        self._image = EMPTY_IMAGE
        self._entries: list[tuple[int, Sequence[Change]]] = []
        self._followers: list[Deliver] = []
        self._append_lock = asyncio.Lock()
        self._file = -1
        self._lock_file = -1
        self._size_bytes = 0
        self._snapshot_size_bytes = 0
        self._broken = ""

    async def open(self) -> Image:
        """Lock the folder, read the file, cut off a torn end. MetadataStoreError: in use, damaged, or not
        readable."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._take_lock()
        try:
            self._read()
        except BaseException:
            self._release()
            raise
        return self._image

    async def follow(self, after_version: int, deliver: Deliver) -> None:
        """Deliver the entries after this version, and all later ones."""
        oldest = self._image.version - len(self._entries)
        if after_version < oldest:
            raise ValueError(
                f"entries after version {after_version} are no longer kept; the oldest is {oldest + 1}"
            )
        for version, changes in self._entries:
            if version > after_version:
                deliver(version, changes)
        self._followers.append(deliver)

    async def append_if(self, version: int, changes: Sequence[Change]) -> int:
        """Append one entry, durably, if the log is still at `version`."""
        async with self._append_lock:
            if version != self._image.version:
                raise VersionConflict(version, self._image.version)
            entry = {"version": version + 1, "changes": encode_changes(changes)}
            await self._write(frame(to_json(entry)))
            self._image = replay(self._image, version + 1, changes)
            self._entries.append((version + 1, changes))
            for deliver in self._followers:
                deliver(version + 1, changes)
            if self._grown_bytes() > max(self._snapshot_min_bytes, self._snapshot_size_bytes):
                await asyncio.get_running_loop().run_in_executor(None, self._compact)
            return version + 1

    async def register_broker(self, broker: BrokerState) -> int:
        """This process holds the folder's lock, so it is the only broker there is; it must be the one of last
        time."""
        others = [node_id for node_id in self._image.brokers if node_id != broker.node_id]
        if others:
            raise MetadataStoreError(
                f"the data folder {self._folder} belongs to broker {others[0]}, "
                f"but node.id is {broker.node_id}; "
                f"set node.id={others[0]}, or use another data folder"
            )
        return self._image.version + 1

    async def elect_controller(self, node_id: int) -> int | None:
        """The only broker is the controller."""
        del node_id
        return self._image.controller_epoch + 1

    async def close(self) -> None:
        """Close the file and let the folder go."""
        async with self._append_lock:
            self._release()

    def _grown_bytes(self) -> int:
        return self._size_bytes - self._snapshot_size_bytes

    # The file

    def _read(self) -> None:
        created = not self._path.exists()
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        content = self._path.read_bytes()
        payloads, end = read_frames(content, str(self._path))
        if end < len(content):
            log.warning("%s: an interrupted write of %d bytes is cut off", self._path, len(content) - end)
            os.ftruncate(self._file, end)
            os.fsync(self._file)
        if end == 0:
            os.pwrite(self._file, MAGIC, 0)
            os.fsync(self._file)
            end = len(MAGIC)
        if created:
            _sync_folder(self._folder)
        self._size_bytes = end
        self._replay(payloads)

    def _replay(self, payloads: list[memoryview]) -> None:
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
        self._image = image
        if entries > _REPLAYED_ENTRIES_MAX:
            self._compact()

    async def _write(self, data: bytes) -> None:
        if self._broken:
            raise OSError(self._broken)
        start = self._size_bytes
        try:
            _write_at(self._file, data, start)
            await asyncio.get_running_loop().run_in_executor(None, os.fsync, self._file)
        except OSError as error:
            self._take_back(start, error)
            raise
        except asyncio.CancelledError:
            self._broken = "a metadata write was interrupted; restart the broker"
            raise
        self._size_bytes = start + len(data)

    def _take_back(self, start: int, error: OSError) -> None:
        """The entry was not acknowledged, so it must not be there after a restart either."""
        log.error("%s: an entry could not be written: %s", self._path, error)
        try:
            os.ftruncate(self._file, start)
            os.fsync(self._file)
        except OSError as second:
            self._broken = f"the metadata file {self._path} cannot be written: {second}; restart the broker"
            log.critical("%s", self._broken)

    def _compact(self) -> None:
        """Write the image as one snapshot beside the file, then let it take the file's place."""
        fresh = self._path.with_suffix(".tmp")
        data = MAGIC + frame(to_json({"snapshot": encode_image(self._image)}))
        try:
            new_file = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
            try:
                _write_at(new_file, data, 0)
                os.fsync(new_file)
                os.replace(fresh, self._path)
            except OSError:
                os.close(new_file)
                raise
            _sync_folder(self._folder)
        except OSError as error:
            log.warning("%s could not be compacted, and goes on growing: %s", self._path, error)
            self._snapshot_size_bytes = self._size_bytes
            return
        os.close(self._file)
        self._file = new_file
        self._size_bytes = self._snapshot_size_bytes = len(data)
        self._entries = []

    # The lock

    def _take_lock(self) -> None:
        path = self._folder / LOCK_NAME
        try:
            self._lock_file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise MetadataStoreError(
                f"the data folder {self._folder} cannot be used: {error.strerror}"
            ) from error
        try:
            fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = os.pread(self._lock_file, 32, 0).decode(errors="replace").strip()
            os.close(self._lock_file)
            self._lock_file = -1
            raise MetadataStoreError(
                f"another broker{f' (process {owner})' if owner else ''} uses the data folder "
                f"{self._folder}; stop it, or give this one a folder of its own"
            ) from None
        os.ftruncate(self._lock_file, 0)
        os.pwrite(self._lock_file, f"{os.getpid()}\n".encode(), 0)

    def _release(self) -> None:
        for descriptor in (self._file, self._lock_file):
            if descriptor >= 0:
                os.close(descriptor)
        self._file = self._lock_file = -1
        self._broken = "the metadata store is closed"


def _write_at(file: int, data: bytes, position: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(file, view, position)
        view, position = view[written:], position + written


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
