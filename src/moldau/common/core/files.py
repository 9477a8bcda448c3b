"""File access, as an injected dependency; a test passes a disk that fills up, fails or loses power.

The interface is the handful of calls that a log needs, in the operating system's own terms: descriptors,
positioned reads and writes, an explicit sync of a file and of a directory. Whatever is not synced may be lost
in a power cut; that is the contract which testing/simulated_files.py enforces. All errors are OSError with
its errno.

`write_atomically` is how every small file (checkpoints, snapshots, markers) is written: aside, synced,
renamed over.

Not here: which bytes go where (log/).
"""

import contextlib
import errno
import os
import shutil
from collections.abc import Sequence
from typing import Protocol, TypeAlias

try:
    import fcntl
except ImportError:  # Windows has no such locks.
    fcntl = None  # type: ignore[assignment]

Buffer: TypeAlias = bytes | bytearray | memoryview

PRIVATE_PREFIX = "moldau-metadata"
"""New files whose names begin so are readable for this user only."""


class Files(Protocol):
    """What touches the disk. Descriptors are small integers; paths are absolute strings."""

    def open(self, path: str, *, create: bool = False, truncate: bool = False) -> int:
        """Open for reading and writing; FileNotFoundError unless it exists or `create`."""

    def close(self, fd: int) -> None:
        """Give the descriptor back."""

    def duplicate(self, fd: int) -> int:
        """A second descriptor of the same file, so that a thread can sync it while the first is closed."""

    def pread(self, fd: int, size_bytes: int, position: int) -> bytes:
        """Up to `size_bytes` from `position`; fewer at the end of the file."""

    def pwrite(self, fd: int, data: Buffer, position: int) -> int:
        """Write, and return how many bytes were written: perhaps fewer than asked."""

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        """As `pwrite`, several buffers one after the other."""

    def truncate(self, fd: int, size_bytes: int) -> None:
        """Cut the file (or grow it with zeros) to this size."""

    def size_bytes(self, fd: int) -> int:
        """The size of the open file."""

    def sync(self, fd: int) -> None:
        """Return when the file's bytes and size are on the disk."""

    def sync_directory(self, path: str) -> None:
        """Return when the directory's entries (creations, renames, removals) are on the disk."""

    def list_directory(self, path: str) -> list[str]:
        """The names in a directory, in no order."""

    def is_directory(self, path: str) -> bool:
        """Whether there is a directory of this name."""

    def exists(self, path: str) -> bool:
        """Whether there is anything of this name."""

    def file_size_bytes(self, path: str) -> int:
        """The size of a file by its name."""

    def modified_ms(self, path: str) -> int:
        """When the file was last written: milliseconds since the Unix epoch."""

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Let the file count as last written at this time."""

    def make_directory(self, path: str) -> None:
        """Create the directory and what it lacks above; nothing happens when it exists."""

    def rename(self, source: str, target: str) -> None:
        """Rename a file (over an existing one) or a directory."""

    def remove(self, path: str) -> None:
        """Remove a file; nothing happens when it is gone already."""

    def remove_tree(self, path: str) -> None:
        """Remove a directory with what it holds; nothing happens when it is gone already."""

    def lock(self, fd: int) -> bool:
        """Lock the file until the descriptor is closed or the process ends; False when another has it locked.

        Always True where the system has no such locks.
        """

    def free_bytes(self, path: str) -> tuple[int, int]:
        """The size of the file system that holds `path`, and what an unprivileged writer may still use of
        it.
        """


class OsFiles:
    """The machine's own files."""

    close = staticmethod(os.close)
    duplicate = staticmethod(os.dup)
    pread = staticmethod(os.pread)
    pwrite = staticmethod(os.pwrite)
    truncate = staticmethod(os.ftruncate)
    sync = staticmethod(getattr(os, "fdatasync", os.fsync))
    list_directory = staticmethod(os.listdir)
    is_directory = staticmethod(os.path.isdir)
    exists = staticmethod(os.path.lexists)
    file_size_bytes = staticmethod(os.path.getsize)
    rename = staticmethod(os.replace)

    def open(self, path: str, *, create: bool = False, truncate: bool = False) -> int:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0) | (os.O_TRUNC if truncate else 0)
        # Metadata has SCRAM keys and passwords in settings: its files are for the broker's user only.
        private = os.path.basename(path).startswith(PRIVATE_PREFIX)
        return os.open(path, flags, 0o600 if private else 0o644)

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        return os.pwritev(fd, buffers, position)

    def size_bytes(self, fd: int) -> int:
        return os.fstat(fd).st_size

    def sync_directory(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def make_directory(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def remove(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def remove_tree(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path)

    def lock(self, fd: int) -> bool:
        if fcntl is None:
            return True
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return False
            raise
        return True

    def free_bytes(self, path: str) -> tuple[int, int]:
        usage = os.statvfs(path)
        return usage.f_blocks * usage.f_frsize, usage.f_bavail * usage.f_frsize


def read_file(files: Files, path: str) -> bytes:
    """The whole of a small file."""
    fd = files.open(path)
    try:
        return files.pread(fd, files.size_bytes(fd), 0)
    finally:
        files.close(fd)


def write_fully(files: Files, fd: int, data: Buffer, position: int) -> None:
    """Write all of `data`, however many calls that takes."""
    view = memoryview(data)
    while view:
        written = files.pwrite(fd, view, position)
        view = view[written:]
        position += written


def write_atomically(files: Files, path: str, data: bytes, *, sync: bool = True) -> None:
    """Replace a small file so that, whenever the power fails, either the old or the new content is found,
    whole.

    Without `sync` only a crash of the process, not of the machine, is covered.
    """
    aside = path + ".tmp"
    fd = files.open(aside, create=True, truncate=True)
    try:
        write_fully(files, fd, data, 0)
        if sync:
            files.sync(fd)
    finally:
        files.close(fd)
    files.rename(aside, path)
    if sync:
        files.sync_directory(os.path.dirname(path))
