"""`Spool`: append, group sync, read, acknowledge.

    segments    0000…00.spool   0000…17.spool   0000…42.spool
                 (removed once all is acknowledged)    ^ appended to

Every record has a number: 0, 1, 2 … over the life of the folder. Three of them say where the spool stands:

    position <= synced_number <= next_number
    taken       on the disk      written

* `append` writes; `sync` brings all that was written to the disk, one sync for however many appends. A reader
  gets nothing beyond `synced_number`, so a number that was read never belongs to another record later.
* `acknowledge` counts in memory, `save_position` on the disk. After a crash reading begins at the saved
  position: what was acknowledged since is read again.
* An append that fails (full disk) leaves nothing behind. After a sync that fails, everything since the sync
  before is taken back, because nobody knows what of it reached the disk.

Any thread may call anything; a lock holds for the time of a write, not of a sync. After a fork the child must
`forget` its `Spool` and may not use it: the folder stays the parent's.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType

from moldau.common.core.files import Files, OsFiles, write_fully
from moldau.kit.spool import frames, position, recovery
from moldau.kit.spool.errors import SpoolDamaged, SpoolError, SpoolFull, SpoolLocked
from moldau.kit.spool.position import Saved
from moldau.kit.spool.recovery import Segment

SEGMENT_BYTES = 16 << 20
CAPACITY_BYTES = 1 << 30
READ_BYTES = 256 << 10


class Spool:
    """An append-only queue of records in a folder; see the module's text. Make it with `Spool.open`."""

    def __init__(
        self,
        folder: str,
        files: Files,
        lock_fd: int,
        saved: Saved,
        segments: list[Segment],
        *,
        segment_bytes: int,
        capacity_bytes: int,
    ) -> None:
        self.folder = folder
        self.spool_id = saved.spool_id
        self.capacity_bytes = capacity_bytes
        self._segment_bytes = segment_bytes
        self._files = files
        self._lock_fd = lock_fd
        self._segments = segments
        self._position = saved.position
        self._saved = saved
        self._next_number = segments[-1].next_number if segments else saved.position
        self._synced_number = self._next_number
        self._fd = self._open_newest()
        self._synced_end = segments[-1].size_bytes if segments else 0
        self._unclean = False  # bytes of a failed write may stand behind the newest segment's end
        self._rollbacks = 0
        self._closed = False
        self._lock = threading.RLock()
        self._syncing = threading.Lock()
        self._saving = threading.Lock()
        self._sync_runs = False
        self._sync_ended = threading.Condition(self._lock)
        self.before_removal: Callable[[], None] = lambda: None
        """Called before acknowledged segments are removed; what it cannot save (OSError) keeps them."""
        self._at = (-1, 0, 0)  # where the last read ended: segment, byte, number

    @classmethod
    def open(
        cls,
        folder: str | os.PathLike[str],
        *,
        segment_bytes: int = SEGMENT_BYTES,
        capacity_bytes: int = CAPACITY_BYTES,
        files: Files | None = None,
        spool_id: bytes | None = None,
    ) -> Spool:
        """Open the spool in `folder`, or make one there (`spool_id`: its 16 bytes, else random).

        Raises SpoolLocked, SpoolDamaged, OSError.
        """
        files = OsFiles() if files is None else files
        folder = os.path.abspath(os.fspath(folder))
        files.make_directory(folder)
        lock_fd = files.open(os.path.join(folder, "lock"), create=True)
        try:
            if not files.lock(lock_fd):
                raise SpoolLocked(
                    f"{folder} is in use by another process: "
                    "stop that one, or give each process a folder of its own"
                )
            saved = position.load(files, folder)
            if saved is None:
                if any(name.endswith(".spool") for name in files.list_directory(folder)):
                    raise SpoolDamaged(os.path.join(folder, position.NAME), 0, "the file is missing")
                saved = Saved(spool_id or os.urandom(frames.ID_BYTES), 0)
                position.save(files, folder, saved, sync=True)
            segments = recovery.recover(files, folder, saved)
            return cls(
                folder,
                files,
                lock_fd,
                saved,
                segments,
                segment_bytes=segment_bytes,
                capacity_bytes=capacity_bytes,
            )
        except BaseException:
            files.close(lock_fd)
            raise

    def _open_newest(self) -> int:
        """The newest segment's descriptor. Synced, as a killed process may have left frames that are not."""
        if not self._segments:
            return -1
        fd = self._files.open(self._segments[-1].path)
        try:
            self._files.sync(fd)
        except BaseException:
            self._files.close(fd)
            raise
        return fd

    # -- where it stands -----------------------------------------------------------------------------

    @property
    def position(self) -> int:
        """The number of the first record that nobody has acknowledged."""
        return self._position

    @property
    def oldest_number(self) -> int:
        """The number of the first record that is still on the disk; it may be acknowledged."""
        with self._lock:
            return self._segments[0].first_number if self._segments else self._next_number

    @property
    def synced_number(self) -> int:
        """All records below this number are on the disk."""
        return self._synced_number

    @property
    def next_number(self) -> int:
        """The number that the next record gets."""
        return self._next_number

    @property
    def size_bytes(self) -> int:
        """What the segments take on the disk."""
        with self._lock:
            return sum(segment.size_bytes for segment in self._segments)

    # -- writing -------------------------------------------------------------------------------------

    def append(self, records: Sequence[bytes]) -> int:
        """Write records, all or none; returns the first one's number. They are on the disk after `sync`.

        Raises SpoolFull, SpoolError (also for what is larger than the capacity), OSError (a full disk);
        nothing was written then.
        """
        return self._append(records)[0]

    def _append(self, records: Sequence[bytes]) -> tuple[int, int]:
        """`append`; the first number, and how often a sync had failed before."""
        if not records:
            return self._next_number, self._rollbacks
        size_bytes = frames.framed_bytes(records)
        if size_bytes + 2 * frames.HEADER.size > self.capacity_bytes:
            raise SpoolError(
                f"{self.folder} takes {self.capacity_bytes} bytes, {size_bytes} never fit: raise the capacity"
            )
        while True:
            with self._lock:
                # Of two syncs at once a failed write is told to one only: no segment is begun meanwhile.
                while self._sync_runs and self._is_full():
                    self._sync_ended.wait()
                self._check_open()
                if self.size_bytes + size_bytes + frames.HEADER.size <= self.capacity_bytes:
                    return self._write(records, size_bytes), self._rollbacks
                newest = self._segments[-1]
                if self._position < self._next_number or newest.first_number == self._next_number:
                    raise SpoolFull(
                        f"{self.folder} holds {self.size_bytes} of {self.capacity_bytes} bytes, "
                        f"{size_bytes} more do not fit: wait until records are taken, or raise the capacity"
                    )
                self._clean()
                self._roll()  # everything is acknowledged: room for it comes with the next segment
            self.save_position()

    def _is_full(self) -> bool:
        """Whether the next records begin a segment."""
        return not self._segments or self._segments[-1].size_bytes >= self._segment_bytes

    def _write(self, records: Sequence[bytes], size_bytes: int) -> int:
        self._clean()
        if self._is_full():
            self._roll()
        segment = self._segments[-1]
        number = self._next_number
        data = frames.frame(
            records, self.spool_id, segment.first_number, segment.size_bytes, self._synced_end
        )
        try:
            write_fully(self._files, self._fd, data, segment.size_bytes)
        except OSError:
            self._unclean = True
            self._clean(quietly=True)
            raise
        segment.size_bytes += size_bytes
        segment.next_number = self._next_number = number + len(records)
        return number

    def _clean(self, *, quietly: bool = False) -> None:
        """Cut what a failed write left behind the newest segment's end, before anything is written there."""
        if not self._unclean:
            return
        try:
            self._files.truncate(self._fd, self._segments[-1].size_bytes)
        except OSError:
            if not quietly:
                raise
        else:
            self._unclean = False

    def _roll(self) -> None:
        """Begin a segment. The one before is synced whole, and the new one's name and header are on the disk
        before the first frame: so only the newest segment can be torn.
        """
        files, number = self._files, self._next_number
        if self._segments:
            self._sync_here()
        path = recovery.segment_path(self.folder, number)
        header = frames.header(self.spool_id, number)
        fd = files.open(path, create=True, truncate=True)
        try:
            write_fully(files, fd, header, 0)
            files.sync(fd)
            files.sync_directory(self.folder)
        except OSError:
            files.close(fd)
            files.remove(path)
            raise
        if self._fd >= 0:
            files.close(self._fd)
        self._fd = fd
        self._segments.append(Segment(path, number, number, len(header)))
        self._synced_end = len(header)

    def sync(self) -> int:
        """Bring everything written to the disk; returns `synced_number`.

        Raises OSError; all records since the last sync that succeeded are taken back then.
        """
        with self._syncing:
            with self._lock:
                self._check_open()
                if self._synced_number == self._next_number:
                    return self._synced_number
                number, end = self._next_number, self._segments[-1].size_bytes
                fd = self._files.duplicate(self._fd)
                self._sync_runs = True
            failure: BaseException | None = None
            try:
                self._files.sync(fd)
            except BaseException as problem:
                failure = problem
            with self._lock:
                self._files.close(fd)
                self._sync_runs = False
                self._sync_ended.notify_all()
                if failure is None:
                    self._synced_number, self._synced_end = number, end
                elif isinstance(failure, OSError):
                    self._take_back()
            if failure is not None:
                raise failure
            return number

    def _sync_here(self) -> None:
        try:
            self._files.sync(self._fd)
        except OSError:
            self._take_back()
            raise
        self._synced_end = self._segments[-1].size_bytes
        self._synced_number = self._next_number

    def _take_back(self) -> None:
        """Forget what was written since the last sync: its pages may or may not have reached the disk."""
        segment = self._segments[-1]
        segment.size_bytes = self._synced_end
        segment.next_number = self._next_number = self._synced_number
        self._rollbacks += 1
        self._unclean = True
        self._clean(quietly=True)

    def append_durably(self, records: Sequence[bytes]) -> int:
        """Append, and return when the records are on the disk. Threads that call it together share one sync.

        Raises what `append` and `sync` raise; the records are not in the spool then.
        """
        number, rollbacks = self._append(records)
        end = number + len(records)
        while True:
            with self._lock:
                if self._rollbacks != rollbacks:
                    raise SpoolError(
                        f"{self.folder}: a sync failed, and the records were taken back: send them again"
                    )
                if self._synced_number >= end:
                    return number
            self.sync()

    # -- reading -------------------------------------------------------------------------------------

    def read(
        self, start: int, *, records_max: int = 1000, size_bytes_max: int = 1 << 20
    ) -> tuple[int, list[bytes]]:
        """Records from number `start` on that are on the disk: the first one's number, and the records.

        At most `records_max`, and about `size_bytes_max` bytes but at least one record, if there is one.
        Raises SpoolError for a number that is acknowledged and gone, SpoolDamaged, OSError.
        """
        with self._lock:
            self._check_open()
            end = self._synced_number
            if start >= end:
                return start, []
            if not self._segments or start < self._segments[0].first_number:
                raise SpoolError(f"{self.folder}: record {start} was acknowledged and is removed")
            segment = next(s for s in reversed(self._segments) if s.first_number <= start)
            first, place, number = self._at
            if first != segment.first_number or number > start:
                place, number = frames.HEADER.size, segment.first_number
            found: list[bytes] = []
            taken_bytes = 0
            for record_number, record in self._walk(segment, place, number, size_bytes_max):
                if record_number < start:
                    continue
                if record_number >= end or len(found) == records_max:
                    break
                if found and taken_bytes + len(record) > size_bytes_max:
                    break
                found.append(record)
                taken_bytes += len(record)
            return start, found

    def _walk(
        self, segment: Segment, place: int, number: int, size_bytes: int
    ) -> Iterator[tuple[int, bytes]]:
        """The records of a segment with their numbers, from its frame at byte `place` on, which begins with
        record `number`. Reads about `size_bytes` at a time.
        """
        newest = segment is self._segments[-1]
        fd = self._fd if newest else self._files.open(segment.path)
        try:
            while place < segment.size_bytes:
                wanted, left = max(size_bytes, READ_BYTES), segment.size_bytes - place
                data = self._files.pread(fd, min(wanted, left), place)
                offset, view = place, memoryview(data)
                while (frame := self._frame(view, place - offset, segment, offset)) is not None:
                    self._at = (segment.first_number, place, number)
                    body = frames.records_of(data, place - offset + frames.FRAME.size, frame.end)
                    for record in body:
                        yield number, record
                        number += 1
                    place = offset + frame.end
                if place == offset and (len(data) == left or len(data) < min(wanted, left)):
                    raise SpoolDamaged(segment.path, place, "a frame has changed since it was written")
                if place == offset:
                    size_bytes = 2 * wanted  # one frame is larger than that
        finally:
            if not newest:
                self._files.close(fd)

    def _frame(self, view: memoryview, start: int, segment: Segment, offset: int) -> frames.Frame | None:
        return frames.frame_at(view, start, self.spool_id, segment.first_number, offset)

    def acknowledge(self, position: int) -> None:
        """All records below this number are done with. On the disk after `save_position`."""
        with self._lock:
            if position > self._synced_number:
                raise SpoolError(f"{self.folder}: record {position - 1} is not in the spool")
            self._position = max(self._position, position)

    def save_position(self) -> None:
        """Write the position to the disk, and remove segments that are acknowledged whole. Raises OSError."""
        with self._saving:
            with self._lock:
                self._check_open()
                newest = self._segments[-1] if self._segments else None
                saved = Saved(
                    self.spool_id,
                    self._position,
                    newest.first_number if newest else -1,
                    self._synced_end,
                )
                if saved == self._saved:
                    return
                removes = len(self._segments) > 1 and self._segments[0].next_number <= saved.position
            if removes:
                self.before_removal()
            position.save(self._files, self.folder, saved, sync=True)
            with self._lock:
                self._saved = saved
                while len(self._segments) > 1 and self._segments[0].next_number <= saved.position:
                    self._files.remove(self._segments[0].path)
                    self._segments.pop(0)

    # -- the end -------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
            raise SpoolError(f"{self.folder}: the spool is closed")

    def close(self) -> None:
        """Sync, save the position, unlock. Raises OSError of these, but is closed then all the same."""
        if self._closed:
            return
        try:
            self.sync()
            self.save_position()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close the descriptors and nothing else: as a crash would leave it."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            for fd in (self._fd, self._lock_fd):
                if fd >= 0:
                    self._files.close(fd)
            self._fd = self._lock_fd = -1

    def forget(self) -> None:
        """As `abandon`, for a child after a fork, in which another thread's lock is held for ever."""
        self._closed = True
        for fd in (self._fd, self._lock_fd):
            if fd >= 0:
                self._files.close(fd)
        self._fd = self._lock_fd = -1

    def __enter__(self) -> Spool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
