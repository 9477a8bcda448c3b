"""The machine's own files, on a disk that may be full."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from moldau.common.core.files import Buffer, OsFiles


class FullDisk(OsFiles):
    """While `full`, what would take room fails as the kernel lets it fail; reading and removing go on."""

    def __init__(self) -> None:
        self.full = False

    def _take_room(self) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def open(self, path: str, *, create: bool = False, truncate: bool = False) -> int:
        if create and not os.path.lexists(path):
            self._take_room()
        return super().open(path, create=create, truncate=truncate)

    def pwrite(self, fd: int, data: Buffer, position: int) -> int:  # type: ignore[override]
        self._take_room()
        return os.pwrite(fd, data, position)

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        self._take_room()
        return super().pwritev(fd, buffers, position)

    def make_directory(self, path: str) -> None:
        self._take_room()
        super().make_directory(path)

    def free_bytes(self, path: str) -> tuple[int, int]:
        size_bytes, free_bytes = super().free_bytes(path)
        return size_bytes, 0 if self.full else free_bytes
