"""A disk in memory that can be told to fill up, to fail, and to lose power, at any step and from a seed.

Each file has two contents: what a reader sees, and what is on the platter. `sync` copies the first to the
second. `power_cut` goes back to the second, and lets chance decide, page by page, which of the unsynced
writes had reached it: a write may be whole, torn or lost, whatever was written before or after it. Names
(creations, renames, removals) are journaled, as in every file system of today: they reach the disk in order,
and `sync_directory` brings all of them there; a power cut keeps some first part of the rest. A name may
survive without its bytes.

`process_kill` models kill -9: everything written stays, since the page cache lives on.

A `fault` is asked before each change with the operation's name and path; it may raise OSError, or raise
`Crash` to stop the world at that step. Only one thread may use it.
"""

import errno
import itertools
import os
import random
from collections.abc import Callable, Sequence

from moldau.common.core.files import Buffer

PAGE_BYTES = 512


class Crash(BaseException):
    """The machine stops here. Not an Exception, so that no handler of the code under test swallows it."""


class _File:
    __slots__ = ("content", "durable", "modified_ms", "touched_pages")

    def __init__(self) -> None:
        self.content = bytearray()
        self.durable = bytearray()
        self.touched_pages: set[int] = set()
        self.modified_ms = 0


class SimulatedFiles:
    """A `Files` that keeps everything in memory and misbehaves on demand."""

    def __init__(
        self, seed: int = 0, *, capacity_bytes: int = 1 << 40, now_ms: Callable[[], int] = lambda: 0
    ) -> None:
        self._random = random.Random(seed)
        self._names: dict[str, _File] = {}
        self._durable_names: dict[str, _File] = {}
        self._journal: list[list[tuple[str, _File | None]]] = []
        self._directories: dict[str, None] = {"/": None}  # in the order in which they were made
        self._open: dict[int, _File] = {}
        self._paths: dict[int, str] = {}
        self._locked: dict[int, _File] = {}  # by the descriptor that holds the lock
        self._next_fd = 3
        self._now_ms = now_ms
        self.capacity_bytes = capacity_bytes
        self.fault: Callable[[str, str], None] = lambda operation, path: None
        self.writes_torn = False
        self.sync_count = 0

    # -- failing -----------------------------------------------------------------------------------

    def process_kill(self) -> None:
        """kill -9: descriptors are gone, what was written stays."""
        self._open.clear()
        self._paths.clear()
        self._locked.clear()

    def power_cut(self) -> None:
        """Unsynced pages and names survive by chance, each for itself."""
        self.process_kill()
        survivors = self._random.randint(0, len(self._journal))
        self._settle_names(survivors)
        self._journal.clear()
        self._names = dict(self._durable_names)
        for file in {id(file): file for file in self._names.values()}.values():
            self._settle_pages(file)

    def _settle_names(self, count: int) -> None:
        """The first `count` journaled changes of names reach the disk."""
        for path, file in itertools.chain.from_iterable(self._journal[:count]):
            if file is None:
                self._durable_names.pop(path, None)
            else:
                self._durable_names[path] = file
        del self._journal[:count]

    def _settle_pages(self, file: _File) -> None:
        size = len(file.durable)
        if len(file.content) != size and self._random.random() < 0.7:
            # The size may reach the disk before the bytes do: then zeros stand where nothing was written.
            size = self._random.randint(min(size, len(file.content)), max(size, len(file.content)))
        survived = bytearray(file.durable[:size].ljust(size, b"\0"))
        for page in file.touched_pages:
            start = page * PAGE_BYTES
            if self._random.random() < 0.5:
                piece = file.content[start : min(start + PAGE_BYTES, size)]
                survived[start : start + len(piece)] = piece
        file.content, file.durable = survived, bytearray(survived)
        file.touched_pages.clear()

    def flip_bit(self, path: str, bit: int) -> None:
        """One bit of this file is another one from now on, here and on the platter."""
        file = self._names[path]
        for content in (file.content, file.durable):
            if bit // 8 < len(content):
                content[bit // 8] ^= 1 << bit % 8

    def open_paths(self) -> list[str]:
        """The path of each open descriptor."""
        return list(self._paths.values())

    def used_bytes(self) -> int:
        """What all files hold together."""
        return sum(len(file.content) for file in self._names.values())

    # -- the interface -----------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False, truncate: bool = False) -> int:
        file = self._names.get(path)
        if file is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            if os.path.dirname(path) not in self._directories:
                raise FileNotFoundError(errno.ENOENT, "no such directory", path)
            self.fault("create", path)
            file = self._names[path] = _File()
            self._journal.append([(path, file)])
            file.modified_ms = self._now_ms()
        elif truncate:
            self.fault("truncate", path)
            self._resize(file, 0)
        fd = self._next_fd
        self._next_fd += 1
        self._open[fd] = file
        self._paths[fd] = path
        return fd

    def _file(self, fd: int) -> _File:
        try:
            return self._open[fd]
        except KeyError:
            raise OSError(errno.EBADF, "bad file descriptor") from None

    def close(self, fd: int) -> None:
        self._file(fd)
        del self._open[fd], self._paths[fd]
        self._locked.pop(fd, None)

    def duplicate(self, fd: int) -> int:
        copy = self._next_fd
        self._next_fd += 1
        self._open[copy] = self._file(fd)
        self._paths[copy] = self._paths[fd]
        return copy

    def pread(self, fd: int, size_bytes: int, position: int) -> bytes:
        file = self._file(fd)
        self.fault("read", self._paths[fd])
        return bytes(file.content[position : position + size_bytes])

    def pwrite(self, fd: int, data: Buffer, position: int) -> int:
        file = self._file(fd)
        size = len(data)
        try:
            self.fault("write", self._paths[fd])
        except Crash:
            # The machine dies in the middle of the write: any prefix of it may have been taken.
            self._put(file, memoryview(data)[: self._random.randint(0, size)], position)
            raise
        room = self.capacity_bytes - self.used_bytes() + max(0, len(file.content) - position)
        if size > room:
            if room <= 0:
                raise OSError(errno.ENOSPC, "no space left on device", self._paths[fd])
            size = room
        elif self.writes_torn and size > 1 and self._random.random() < 0.3:
            size = self._random.randint(1, size)
        self._put(file, memoryview(data)[:size], position)
        return size

    def _put(self, file: _File, data: memoryview, position: int) -> None:
        size = len(data)
        if not size:
            return
        if len(file.content) < position:
            file.content.extend(bytes(position - len(file.content)))
        file.content[position : position + size] = data
        file.touched_pages.update(range(position // PAGE_BYTES, (position + size - 1) // PAGE_BYTES + 1))
        file.modified_ms = self._now_ms()

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        return self.pwrite(fd, b"".join(buffers), position)

    def _resize(self, file: _File, size_bytes: int) -> None:
        if size_bytes < len(file.content):
            del file.content[size_bytes:]
        else:
            file.content.extend(bytes(size_bytes - len(file.content)))
        file.modified_ms = self._now_ms()

    def truncate(self, fd: int, size_bytes: int) -> None:
        self.fault("truncate", self._paths[fd])
        self._resize(self._file(fd), size_bytes)

    def size_bytes(self, fd: int) -> int:
        return len(self._file(fd).content)

    def sync(self, fd: int) -> None:
        file = self._file(fd)
        self.fault("sync", self._paths[fd])
        self.sync_count += 1
        file.durable = bytearray(file.content)
        file.touched_pages.clear()

    def sync_directory(self, path: str) -> None:
        self.fault("sync_directory", path)
        self._settle_names(len(self._journal))

    def list_directory(self, path: str) -> list[str]:
        if path not in self._directories:
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        self.fault("list", path)
        everything = list(self._names) + [name for name in self._directories if name != "/"]
        return [os.path.basename(name) for name in everything if os.path.dirname(name) == path]

    def is_directory(self, path: str) -> bool:
        return path in self._directories

    def exists(self, path: str) -> bool:
        return path in self._names or path in self._directories

    def file_size_bytes(self, path: str) -> int:
        if path not in self._names:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return len(self._names[path].content)

    def modified_ms(self, path: str) -> int:
        if path not in self._names:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return self._names[path].modified_ms

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        if path not in self._names:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        self._names[path].modified_ms = modified_ms

    def make_directory(self, path: str) -> None:
        # Directories are taken to survive; the log syncs what it puts into them.
        while path not in self._directories:
            self.fault("make_directory", path)
            self._directories[path] = None
            path = os.path.dirname(path)

    def rename(self, source: str, target: str) -> None:
        self.fault("rename", source)
        if source in self._directories:
            self._rename_directory(source, target)
            return
        if source not in self._names:
            raise FileNotFoundError(errno.ENOENT, "no such file", source)
        file = self._names[target] = self._names.pop(source)
        self._journal.append([(source, None), (target, file)])

    def _rename_directory(self, source: str, target: str) -> None:
        self._settle_names(len(self._journal))
        for names in (self._names, self._durable_names):
            for name in [name for name in names if name.startswith(source + "/")]:
                names[target + name[len(source) :]] = names.pop(name)
        for name in [name for name in self._directories if name == source or name.startswith(source + "/")]:
            del self._directories[name]
            self._directories[target + name[len(source) :]] = None

    def remove(self, path: str) -> None:
        if path in self._names:
            self.fault("remove", path)
            del self._names[path]
            self._journal.append([(path, None)])

    def remove_tree(self, path: str) -> None:
        self.fault("remove", path)
        self._settle_names(len(self._journal))
        for names in (self._names, self._durable_names):
            for name in [name for name in names if name.startswith(path + "/")]:
                del names[name]
        for name in [name for name in self._directories if name == path or name.startswith(path + "/")]:
            del self._directories[name]

    def lock(self, fd: int) -> bool:
        file = self._file(fd)
        if any(locked is file for holder, locked in self._locked.items() if holder != fd):
            return False
        self._locked[fd] = file
        return True

    def free_bytes(self, path: str) -> tuple[int, int]:
        return self.capacity_bytes, max(0, self.capacity_bytes - self.used_bytes())
