"""Moves logs between the log directories of this broker (AlterReplicaLogDirs, KIP-113).

A *future* log in the other directory is filled from the current one, which goes on serving, and takes its
place once it has everything:

    a/t-0              b/t-0.<id>-future     copied piece by piece, also what is appended meanwhile
    a/t-0  (held)      b/t-0.<id>-future     nothing is appended now; the rest is copied, all of it fsynced
    a/t-0.<id>-delete  b/t-0.<id>-future
    a/t-0.<id>-delete  b/t-0                 taken over; appends go on, the old folder goes as a deleted one

While it is held (one fsync of little) appends are refused with the retriable error of a full disk. Both logs
are equal from then on. A crash may leave any line of this picture. A power cut may also leave `a/t-0  b/t-0`,
as two disks keep no common order: `b/t-0` has a file `replica-moved` then, and wins (`moved_copy`). The next
start finishes a move whose old folder has its `-delete` name (`finish_interrupted`), and begins others from
the start.

A truncation of the current log starts the copy again: their histories may differ then. `pace` throttles the
copy, never the log itself.

Not here: who asks (cluster/alter_replica_log_dirs.py), and the partition that gets another log
(replication/manager.py).
"""

import logging
import random
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from moldau.broker.log.files.directory import LogDirectory
from moldau.broker.log.files.directory_checkpoints import DirectoryCheckpoints
from moldau.broker.log.files.segment import CorruptSegment
from moldau.broker.log.log import Log
from moldau.broker.log.open_logs import OpenLogs
from moldau.broker.log.reading.reader import OffsetOutOfRange
from moldau.broker.log.recovery.loading import DELETE_SUFFIX, partition_name
from moldau.broker.log.recovery.unopened import moved_name
from moldau.broker.log.upkeep.background import Background
from moldau.broker.log.upkeep.creation import create_log
from moldau.broker.log.upkeep.removal import Removal
from moldau.common.core.clock import Clock
from moldau.common.core.files import Files, write_atomically
from moldau.common.core.timers import TimerHandle, Timers

FUTURE_SUFFIX = "-future"
MOVED_NAME = "replica-moved"
_COPIED_AT_ONCE_BYTES = 1 << 20
_FORCED_WHILE_HELD_BYTES_MAX = 4 << 20
"""More than this is brought to the disk before appends are held."""
_PAUSE_MS = 100
_NAME_BYTES_MAX = 255

logger = logging.getLogger("moldau.log.directory_moves")

Key = tuple[str, int]


class Pace(Protocol):
    """A limit of bytes per second."""

    def exceeded(self) -> bool:
        """Whether to wait."""

    def record(self, size_bytes: int) -> None:
        """So many bytes were copied."""


class Unlimited:
    """No limit."""

    def exceeded(self) -> bool:
        return False

    def record(self, size_bytes: int) -> None:
        pass


class NameTooLong(Exception):
    """The topic's name leaves no room for the name of a future log's folder."""


class Interrupted(NamedTuple):
    """A move that a stop interrupted: begun again after the start."""

    key: Key
    directory: LogDirectory
    path: str


class _Move:
    __slots__ = (
        "cleaned_offset",
        "current",
        "directory",
        "future",
        "generation",
        "held",
        "move_id",
        "timer",
        "unforced_bytes",
    )

    def __init__(self, current: Log, future: Log, directory: LogDirectory, move_id: str) -> None:
        self.current = current
        self.future = future
        self.directory = directory
        self.move_id = move_id
        self.generation = current.flusher.generation
        self.held = False
        self.unforced_bytes = 0
        """Copied, and perhaps not on the disk yet."""
        self.timer: TimerHandle | None = None
        self.cleaned_offset: int | None = None


class DirectoryMoves:
    """The moves under way, by partition."""

    def __init__(
        self,
        logs: OpenLogs,
        checkpoints: DirectoryCheckpoints,
        removal: Removal,
        *,
        files: Files,
        clock: Clock,
        timers: Timers,
        background: Background,
        source: random.Random,
        delete_delay_ms: Callable[[], int],
    ) -> None:
        """`delete_delay_ms`: how long a folder stays that is not needed any more."""
        self._logs = logs
        self._checkpoints = checkpoints
        self._removal = removal
        self._files = files
        self._clock = clock
        self._timers = timers
        self.background = background
        self._random = source
        self._delete_delay_ms = delete_delay_ms
        self._moves: dict[Key, _Move] = {}
        self.pace: Pace = Unlimited()
        self.high_watermark: Callable[[Log], int] = lambda log: log.log_start_offset
        """How far a log's records are committed."""
        self.on_moved: Callable[[Log, Log], None] = lambda current, future: None
        """Called with the log that was replaced and the one in its place, before anything is appended."""

    def futures(self) -> Iterator[tuple[LogDirectory, Log, int]]:
        """Every future log, its directory, and how many offsets it is behind."""
        for move in self._moves.values():
            lag = move.current.log_end_offset - move.future.log_end_offset
            yield move.directory, move.future, max(0, lag)

    def __len__(self) -> int:
        return len(self._moves)

    # -- asking ------------------------------------------------------------------------------------

    def ask(self, current: Log, directory: LogDirectory) -> None:
        """Move the log there; a move to another directory ends, also when it is at home there already.
        OSError when the disk refuses; NameTooLong.
        """
        key = (current.topic, current.partition)
        known = self._moves.get(key)
        if known is not None:
            if known.directory is directory:
                return
            self.cancel(key)
        if self._logs.directory_of(current) is directory:
            return
        move_id = f"{self._random.getrandbits(128):032x}"
        name = f"{current.topic}-{current.partition}.{move_id}{FUTURE_SUFFIX}"
        if len(name) > _NAME_BYTES_MAX:
            raise NameTooLong(current.topic)
        try:
            future = create_log(
                self._files,
                f"{directory.path}/{name}",
                current.topic,
                current.partition,
                current.topic_id or bytes(16),
                current.settings,
                descriptors=current.files.descriptors,
                now_ms=self._clock.now_ms(),
                source=self._random,
                start_offset=current.log_start_offset,
            )
        except OSError as error:
            self._logs.report(directory, error)
            raise
        move = self._moves[key] = _Move(current, future, directory, move_id)
        move.cleaned_offset = self._checkpoints.cleaned_offsets.get(key)
        future.on_error = lambda log, error: self._logs.report(directory, error)
        logger.info("%s-%d moves from %s to %s", *key, self._logs.directory_of(current).path, directory.path)
        self._soon(move)

    def cancel(self, key: Key) -> None:
        """Stop the move of this partition, if there is one, and remove what was copied."""
        move = self._moves.pop(key, None)
        if move is None:
            return
        self._let_go(move)
        if move.timer is not None:
            move.timer.cancel()
        move.future.writer.go_offline()
        target = moved_name(self._random, move.directory, *key, DELETE_SUFFIX)
        try:
            move.future.close(clean=False)
            self._files.rename(move.future.directory, target)
        except OSError as error:
            self._logs.report(move.directory, error)
            return
        self._removal.folder(target, self._delete_delay_ms(), move.directory)

    def went_offline(self, directory: LogDirectory, _logs: Sequence[Log] = ()) -> None:
        """This directory's disk failed: moves from and to it end; the logs that are current stay."""
        for key, move in list(self._moves.items()):
            if directory in (move.directory, self._logs.directory_of(move.current)):
                self.cancel(key)

    def stop(self) -> None:
        """The broker stops: the next start begins the moves again."""
        for move in self._moves.values():
            if move.timer is not None:
                move.timer.cancel()
            self._let_go(move)
            move.future.close(clean=False)
        self._moves.clear()

    # -- copying -----------------------------------------------------------------------------------

    def _soon(self, move: _Move, delay_ms: int = 0) -> None:
        move.timer = self._timers.call_later(delay_ms, lambda: self._step(move))

    def _step(self, move: _Move) -> None:
        move.timer = None
        key = (move.current.topic, move.current.partition)
        if self._moves.get(key) is not move:
            return
        try:
            self._go_on(move)
        except (OSError, CorruptSegment, _NotCopied) as error:
            # A damaged or failing source stays what it is; the target's failures are reported by its log.
            self._fail(move, error)

    def _go_on(self, move: _Move) -> None:
        current, future = move.current, move.future
        if current.flusher.generation != move.generation:
            self._let_go(move)
            move.generation = current.flusher.generation
            future.truncate_fully_and_start_at(current.log_start_offset)
        if not move.held and self.pace.exceeded():
            self._soon(move, _PAUSE_MS)
        elif self._copy(move) and future.log_end_offset < current.written_end_offset:
            self._soon(move)
        elif not move.held:
            if move.unforced_bytes > _FORCED_WHILE_HELD_BYTES_MAX:
                self._force(move, lambda: self._soon(move))
            else:
                self._hold(move)
        elif current.log_end_offset == current.written_end_offset:
            future.take_over(current, self._clock.now_ms())
            self._force(move, lambda: self._replace(move))
        else:
            self._soon(move)  # the write at the end of the turn comes first

    def _copy(self, move: _Move) -> bool:
        """Copy a piece; whether there was one."""
        current, future = move.current, move.future
        if future.log_end_offset < current.log_start_offset:
            future.truncate_fully_and_start_at(current.log_start_offset)
        try:
            data = current.reader.read(
                future.log_end_offset,
                _COPIED_AT_ONCE_BYTES,
                end_offset=current.written_end_offset,
                min_one_batch=True,
            )
        except OffsetOutOfRange:
            return True  # it begins later now
        except OSError as error:
            self._logs.storage_failed(current, error)
            raise _NotCopied(f"it cannot be read: {error}") from error
        if not data:
            return False
        result = future.append_as_follower(
            memoryview(data),
            current.latest_leader_epoch,
            self._clock.now_ms(),
            current.log_start_offset,
        )
        if result.error_code:
            raise _NotCopied(result.error_message or f"error {result.error_code}")
        future.transactions.settle(self.high_watermark(current))
        self.pace.record(len(data))
        move.unforced_bytes += len(data)
        return True

    # -- taking over -------------------------------------------------------------------------------

    def _hold(self, move: _Move) -> None:
        """Everything is copied: append nothing more. Compaction, which replaces segments, ends first."""
        if move.current in self._logs.being_cleaned or move.current.is_cutting:
            self._soon(move, _PAUSE_MS)
            return
        self._logs.being_cleaned.add(move.current)
        move.current.writer.hold()
        move.held = True
        self._soon(move)

    def _let_go(self, move: _Move) -> None:
        if move.held:
            move.held = False
            move.current.writer.release()
            self._logs.being_cleaned.discard(move.current)

    def _force(self, move: _Move, then: Callable[[], None]) -> None:
        """Bring all that is copied to the disk, in the background."""
        future, unforced_bytes = move.future, move.unforced_bytes
        job = future.flusher.job()
        path = f"{future.directory}/{MOVED_NAME}"

        def work() -> None:
            if job is not None:
                job.run()
            write_atomically(self._files, path, move.move_id.encode())

        def done(error: BaseException | None) -> None:
            key = (move.current.topic, move.current.partition)
            if self._moves.get(key) is not move:
                return  # it was cancelled meanwhile
            if error is not None:
                self._fail(move, error)
                return
            if job is not None:
                future.flusher.job_done(job)
            move.unforced_bytes -= unforced_bytes
            try:
                then()
            except OSError as failure:
                self._fail(move, failure)

        self.background.run(work, done)

    def _replace(self, move: _Move) -> None:
        """Both logs are equal and on their disks: change their names, and put one in the other's place."""
        current, future = move.current, move.future
        key = (current.topic, current.partition)
        same = (
            current.flusher.generation == move.generation and current.log_end_offset == future.log_end_offset
        )
        if not same or current.offline or future.offline or self._logs.get(*key) is not current:
            self._let_go(move)
            self._soon(move)
            return
        home = self._logs.directory_of(current)
        old, new = current.directory, f"{move.directory.path}/{key[0]}-{key[1]}"
        retired = f"{old}.{move.move_id}{DELETE_SUFFIX}"
        self._files.rename(old, retired)
        try:
            self._files.rename(future.directory, new)
        except OSError:
            self._files.rename(retired, old)
            raise
        current.moved_to(retired)
        future.moved_to(new)
        del self._moves[key]
        self._logs.being_cleaned.discard(current)
        self._put_in_place(move)
        current.writer.go_offline()
        self.on_moved(current, future)
        logger.info("%s-%d has moved from %s to %s", *key, home.path, move.directory.path)
        self._tidy(home, move, retired)

    def _put_in_place(self, move: _Move) -> None:
        key, directory = (move.current.topic, move.current.partition), move.directory
        self._logs.replace(move.current, move.future, directory)
        if self._checkpoints.cleaned_offsets.pop(key, None) is not None:
            # Compaction's work on what had been copied before it is done again.
            self._checkpoints.cleaned_offsets[key] = move.cleaned_offset or 0
            self._checkpoints.save_cleaned_offsets(directory)
        self._checkpoints.save_recovery_points(directory, lambda worked: None)

    def _tidy(self, home: LogDirectory, move: _Move, retired: str) -> None:
        """The old folder's new name comes to the disk; then the mark may go, and later the folder."""
        marked = move.future

        def done(error: BaseException | None) -> None:
            if isinstance(error, OSError):
                self._logs.report(home, error)
                return
            try:
                self._files.remove(f"{marked.directory}/{MOVED_NAME}")
            except OSError as failure:
                logger.warning("%s/%s could not be removed: %s", marked.directory, MOVED_NAME, failure)
            move.current.close(clean=False)
            self._removal.folder(retired, self._delete_delay_ms(), home)

        self.background.run(lambda: self._files.sync_directory(home.path), done)

    def _fail(self, move: _Move, error: BaseException) -> None:
        key = (move.current.topic, move.current.partition)
        logger.error(
            "%s-%d could not be moved to %s, and stays in %s: %s",
            *key,
            move.directory.path,
            self._logs.directory_of(move.current).path,
            error,
        )
        if isinstance(error, OSError):
            self._logs.report(move.directory, error)
        if self._moves.get(key) is move:
            self.cancel(key)


class _NotCopied(Exception):
    """The future log does not take what the current one has: a batch is damaged."""


# -- starting --------------------------------------------------------------------------------------


def finish_interrupted(files: Files, directories: Sequence[LogDirectory]) -> list[Interrupted]:
    """Before logs are opened: finish the moves that had only a name to change, and find the others."""
    found: dict[str, list[tuple[Key, LogDirectory, str]]] = {}
    retired: set[str] = set()
    for directory in directories:
        try:
            names = sorted(files.list_directory(directory.path))
        except OSError:
            continue  # it is reported when its logs are looked for
        for name in names:
            stem, _, rest = name.rpartition(".")
            if rest.endswith(DELETE_SUFFIX):
                retired.add(f"{stem}.{rest.removesuffix(DELETE_SUFFIX)}")
            elif rest.endswith(FUTURE_SUFFIX):
                key = partition_name(stem)
                if key is not None:
                    move = f"{stem}.{rest.removesuffix(FUTURE_SUFFIX)}"
                    found.setdefault(move, []).append((key, directory, f"{directory.path}/{name}"))
    interrupted: list[Interrupted] = []
    for move, futures in found.items():
        for key, directory, path in futures:
            target = f"{directory.path}/{key[0]}-{key[1]}"
            if move in retired and not files.exists(target):
                logger.warning("%s-%d: its move to %s is finished now", *key, directory.path)
                try:
                    files.rename(path, target)
                    files.sync_directory(directory.path)
                except OSError as error:
                    directory.report(error)
            else:
                interrupted.append(Interrupted(key, directory, path))
    return interrupted


def moved_copy(files: Files, paths: Sequence[str]) -> str | None:
    """Of the folders of one partition in several directories, the one that a move has just made; None when
    that cannot be told.
    """
    marked = [path for path in paths if files.exists(f"{path}/{MOVED_NAME}")]
    return marked[0] if len(marked) == 1 else None
