"""A lock on a data folder: two brokers in one folder would ruin it.

The operating system lets the lock go when its process ends, however it ends, so that no stale lock keeps a
broker from starting. The file holds the owner's process id, for the message to whoever comes second.
"""

import fcntl
import os
from pathlib import Path

from moldau.metadata.store import MetadataStoreError

LOCK_NAME = ".moldau-lock"


class FolderLock:
    """The right to use `folder`, from construction to `release`."""

    def __init__(self, folder: Path) -> None:
        path = folder / LOCK_NAME
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise MetadataStoreError(f"the data folder {folder} cannot be used: {error.strerror}") from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = os.pread(self._descriptor, 32, 0).decode(errors="replace").strip()
            self.release()
            raise MetadataStoreError(
                f"another broker{f' (process {owner})' if owner else ''} uses the data folder {folder}; "
                "stop it, or give this one a folder of its own"
            ) from None
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let the folder go; releasing twice does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def lock_folder(folder: Path) -> FolderLock:
    """Create the folder if it is not there, and lock it. MetadataStoreError: it is in use, or cannot be
    used."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MetadataStoreError(f"the data folder {folder} cannot be created: {error.strerror}") from error
    return FolderLock(folder)
