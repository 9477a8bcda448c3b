"""A log directory (one entry of log.dirs, often one per disk): its lock, identity, clean-shutdown marker and
checkpoints.

    .lock                             held while a broker uses the directory
    meta.properties                   cluster.id, node.id, directory.id
    .kafka_cleanshutdown              the last stop was clean: nothing needs recovery
    .moldau_running                   in a cluster, what an unclean stop has taken (run_marks.py)
    recovery-point-offset-checkpoint, log-start-offset-checkpoint, replication-offset-checkpoint,
    aborted-transactions-checkpoint

A directory can be full, which is temporary, or offline, which lasts until a restart: after an I/O error the
kernel's page cache cannot be trusted.

Not here: the partitions (manager.py).
"""

import errno
import json
import logging
from collections.abc import Mapping

from moldau.broker.log.files.checkpoints import (
    HIGH_WATERMARK_NAME,
    LOG_START_NAME,
    META_PROPERTIES_NAME,
    RECOVERY_POINT_NAME,
    format_properties,
    read_fields,
    read_offsets,
    read_small_file,
    write_offsets,
)
from moldau.common.core.crc import crc32c
from moldau.common.core.files import Files, write_atomically
from moldau.common.core.ids import uuid_from_text, uuid_to_text

LOCK_NAME = ".lock"
CLEAN_SHUTDOWN_NAME = ".kafka_cleanshutdown"
ROOM_BYTES_MIN = 4 * 1024 * 1024
"""So much must be free again before a full directory counts as usable."""

_TRANSIENT = frozenset({errno.EMFILE, errno.ENFILE, errno.EINTR, errno.EAGAIN, errno.ENOMEM})
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})

logger = logging.getLogger("moldau.log.directory")


class DirectoryUnusable(Exception):
    """The directory is in use, or belongs to another broker or cluster."""


class LogDirectory:
    """One log directory and its state."""

    def __init__(self, files: Files, path: str) -> None:
        self.files = files
        self.path = path
        self.directory_id = bytes(16)
        self.was_clean = False
        self.complete_epochs: tuple[int, ...] = ()
        """The broker epochs since which the logs here have lost nothing; none: their ends may be lost."""
        self.log_count = 0
        self.full = False
        self.failure: OSError | None = None
        self.kept: dict[str, dict[tuple[str, int], int]] = {}
        """What the checkpoint files say of logs that could not be opened."""
        self._lock_fd = -1

    @property
    def offline(self) -> bool:
        """Whether an I/O error has taken the directory out of use."""
        return self.failure is not None

    # -- taking possession -------------------------------------------------------------------------

    def claim(self, cluster_id: str, node_id: int, fresh_id: bytes) -> None:
        """Lock the directory, and check or write its meta.properties; `fresh_id` becomes its directory.id if
        it has none.

        DirectoryUnusable when it is another's; OSError when the disk fails.
        """
        self.files.make_directory(self.path)
        self._lock()
        try:
            self._identify(cluster_id, node_id, fresh_id)
            mark = read_small_file(self.files, f"{self.path}/{CLEAN_SHUTDOWN_NAME}")
            self.was_clean = mark is not None
            self.complete_epochs = () if mark is None else _broker_epochs(mark)
        except BaseException:
            self.release()
            raise

    def _lock(self) -> None:
        fd = self.files.open(f"{self.path}/{LOCK_NAME}", create=True)
        try:
            locked = self.files.lock(fd)
        except BaseException:
            self.files.close(fd)
            raise
        if not locked:
            self.files.close(fd)
            raise DirectoryUnusable(
                f"{self.path} is in use by another broker (it holds {LOCK_NAME}); stop that one first"
            )
        self._lock_fd = fd

    def release(self) -> None:
        """Release the lock."""
        if self._lock_fd >= 0:
            self.files.close(self._lock_fd)
            self._lock_fd = -1

    def _identify(self, cluster_id: str, node_id: int, fresh_id: bytes) -> None:
        path = f"{self.path}/{META_PROPERTIES_NAME}"
        data = read_small_file(self.files, path)
        if data is None and self.files.exists(path):
            raise DirectoryUnusable(
                f"{path} cannot be read, so the owner of {self.path} is unknown; correct its  permissions"
            )
        try:
            found = read_fields(data)
        except ValueError as error:
            raise DirectoryUnusable(f"{path} is damaged ({error}), so the owner is unknown") from None
        wanted = {"cluster.id": cluster_id, "node.id": str(node_id)}
        if "broker.id" in found:
            found.setdefault("node.id", found["broker.id"])
        for name, value in wanted.items():
            if found.get(name, value) != value:
                raise DirectoryUnusable(
                    f"{self.path} belongs to {name}={found[name]}, and this broker has {name}={value}; "
                    f"give it a directory of its own, or correct {META_PROPERTIES_NAME}"
                )
        try:
            self.directory_id = uuid_from_text(found["directory.id"])
        except (KeyError, ValueError):
            self.directory_id = fresh_id
        complete = {"version": "1", **wanted, "directory.id": uuid_to_text(self.directory_id)}
        if any(found.get(name) != value for name, value in complete.items()):
            write_atomically(self.files, path, format_properties({**found, **complete}))

    # -- clean shutdown ----------------------------------------------------------------------------

    def clear_clean_mark(self) -> None:
        """Remove .kafka_cleanshutdown: from now on a stop counts as unclean."""
        if self.was_clean:
            self.files.remove(f"{self.path}/{CLEAN_SHUTDOWN_NAME}")
            self.files.sync_directory(self.path)

    def set_clean_mark(self, broker_epoch: int) -> None:
        """Write .kafka_cleanshutdown with this broker epoch: everything is closed and on the disk."""
        content = b'{"version":0,"brokerEpoch":%d}' % broker_epoch
        write_atomically(self.files, f"{self.path}/{CLEAN_SHUTDOWN_NAME}", content)

    # -- checkpoints -------------------------------------------------------------------------------

    def read_checkpoint(self, name: str) -> dict[tuple[str, int], int]:
        """(topic, partition) -> offset, from one of the checkpoint files."""
        return read_offsets(self.files, f"{self.path}/{name}")

    def checkpoint_checksum(self, name: str) -> int:
        """A crc32c over one of the checkpoint files, 0 where there is none."""
        return crc32c(read_small_file(self.files, f"{self.path}/{name}") or b"")

    def write_checkpoint(self, name: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Replace one of the checkpoint files; lines of logs that could not be opened stay."""
        kept = self.kept.get(name)
        write_offsets(self.files, f"{self.path}/{name}", {**kept, **offsets} if kept else offsets)

    def keep_for(self, key: tuple[str, int], name: str, offset: int) -> None:
        """This log could not be opened: its lines in the checkpoint files stay until it can be."""
        self.kept.setdefault(name, {})[key] = offset

    def keep_no_more(self, key: tuple[str, int]) -> None:
        """This log is open now, or removed: its old lines go."""
        for offsets in self.kept.values():
            offsets.pop(key, None)

    # -- trouble -----------------------------------------------------------------------------------

    def report(self, error: OSError) -> bool:
        """Record a disk error; returns whether it takes the directory offline."""
        if error.errno in _TRANSIENT:
            logger.error("log directory %s: %s (the directory stays in use)", self.path, error)
            return False
        if error.errno in _FULL:
            if not self.full:
                self.full = True
                logger.error(
                    "log directory %s is full: produce requests to it are refused until there is room (%s)",
                    self.path,
                    error.strerror,
                )
            return False
        if self.failure is None:
            self.failure = error
            logger.error(
                "log directory %s is offline after an I/O error (%s): its partitions take no more records; "
                "check the disk, then restart the broker",
                self.path,
                error,
            )
            return True
        return False

    def check_room(self) -> bool:
        """For a full directory: whether there is space again."""
        if self.full and self.free_bytes()[1] >= ROOM_BYTES_MIN:
            self.full = False
            logger.warning("log directory %s has room again", self.path)
        return not self.full

    def free_bytes(self) -> tuple[int, int]:
        """The size of the disk and its free bytes; (-1, -1) when unknown."""
        try:
            return self.files.free_bytes(self.path)
        except OSError:
            return -1, -1


__all__ = [
    "HIGH_WATERMARK_NAME",
    "LOG_START_NAME",
    "RECOVERY_POINT_NAME",
    "DirectoryUnusable",
    "LogDirectory",
]


def _broker_epochs(mark: bytes) -> tuple[int, ...]:
    """The broker epoch in .kafka_cleanshutdown; Kafka wrote none before KIP-966."""
    try:
        epoch = int(json.loads(mark)["brokerEpoch"])
    except (ValueError, KeyError, TypeError):
        return ()
    return (epoch,) if epoch >= 0 else ()
