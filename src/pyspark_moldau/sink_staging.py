"""Passes encoded batches from a task to the driver: inside the commit message, or beside it in a file.

A commit message goes from the task through its JVM to the driver's JVM and on to the driver's Python, copied
at each step; 130 MB cost two seconds of CPU time. If task and driver share a disk (always on one machine), a
file is cheaper, and needs no memory of the driver: it is mapped, and its pages are sent.

The driver creates a folder for each write, with a random name. A task that sees this folder, and may write
there, puts large data into a file of it, and only the file's name into the message; a task elsewhere puts
everything into the message. At the end the driver removes the folder with all attempts' files; if the driver
dies, it is removed with Spark's own temporary folder, which contains it.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO

from moldau.client.sealing import EncodedBatch

MESSAGE_BYTES_MAX = 256 * 1024
PREFIX = "moldau-sink-"
LEFT_BEHIND_SECONDS = 3600.0
"""The age at which an empty folder counts as abandoned; a later task sends its batches in its message."""
_swept: set[str] = set()


@dataclass(frozen=True)
class Staged:
    """A task's batches for the driver. Those without a body have it in the file, one after the other."""

    rows: tuple[tuple[str, int, int, int, int, int], ...] = ()
    """Topic, partition, record count, codec, timestamp, size of the body."""
    bodies: tuple[bytes, ...] = ()
    path: str | None = None

    def batches(self) -> Iterator[EncodedBatch]:
        """The batches, on the driver."""
        if self.path is None:
            for row, body in zip(self.rows, self.bodies, strict=True):
                yield EncodedBatch(*row[:5], body)
            return
        with open(self.path, "rb") as file:
            mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        position = 0
        for row in self.rows:
            yield EncodedBatch(*row[:5], mapped[position : position + row[5]])
            position += row[5]


def make_folder() -> str:
    """A folder for one write, on the driver's machine."""
    parent = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    _sweep(parent if os.path.isdir(parent) else tempfile.gettempdir())
    return tempfile.mkdtemp(prefix=PREFIX, dir=parent if os.path.isdir(parent) else None)


def _sweep(parent: str) -> None:
    """Once a process, remove the folders of failed micro-batches: Spark's abort does not name the
    micro-batch.
    """
    if parent in _swept:
        return
    _swept.add(parent)
    try:
        names = [name for name in os.listdir(parent) if name.startswith(PREFIX)]
    except OSError:
        return  # not to be read: what lies there is somebody else's care
    for name in names:
        with contextlib.suppress(OSError):  # not empty, or gone
            path = os.path.join(parent, name)
            if time.time() - os.stat(path).st_mtime > LEFT_BEHIND_SECONDS:
                os.rmdir(path)


def remove_folder(folder: str | None) -> None:
    """Remove it with all that is in it."""
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


class Stage:
    """A task's staged batches."""

    def __init__(self, folder: str | None) -> None:
        is_here = folder is not None and os.path.isdir(folder) and os.access(folder, os.W_OK)
        self._folder = folder if is_here else None
        self._rows: list[tuple[str, int, int, int, int, int]] = []
        self._bodies: list[bytes] = []
        self._size = 0
        self._file: IO[bytes] | None = None

    def add(self, batches: Iterable[EncodedBatch]) -> None:
        """Append batches."""
        for batch in batches:
            self._rows.append((*batch[:5], len(batch.body)))
            self._bodies.append(bytes(batch.body))
            self._size += len(batch.body)
        if self._folder is not None and self._size > MESSAGE_BYTES_MAX:
            if self._file is None:
                self._file = open(os.path.join(self._folder, uuid.uuid4().hex), "wb")  # noqa: SIM115
            self._file.writelines(self._bodies)
            self._bodies.clear()

    def discard(self) -> None:
        """The task has failed: remove its file."""
        if self._file is not None:
            self._file.close()
            os.unlink(self._file.name)

    def done(self) -> Staged:
        """The commit message's content."""
        if self._file is None:
            return Staged(tuple(self._rows), tuple(self._bodies))
        self._file.writelines(self._bodies)
        self._file.close()
        return Staged(tuple(self._rows), (), self._file.name)
