"""A lock on a data folder, against a second broker in the same folder.

The operating system releases the lock when the process ends, however it ends, so there are no stale locks.
The file holds the owner's process id, for the second broker's error message.
"""

from pathlib import Path

from moldau.broker.metadata.store import MetadataStoreError
from moldau.common.core.files import Files, OsFiles

LOCK_NAME = ".moldau-lock"


class FolderLock:
    """Holds the lock on `folder`, from construction to `release`."""

    def __init__(self, files: Files, folder: Path, process_id: int | None) -> None:
        self._files = files
        self._descriptor = -1
        try:
            self._descriptor = files.open(str(folder / LOCK_NAME), create=True)
            locked = files.lock(self._descriptor)
        except OSError as error:
            self.release()
            raise MetadataStoreError(f"the data folder {folder} cannot be used: {error.strerror}") from error
        if not locked:
            owner = files.pread(self._descriptor, 32, 0).decode(errors="replace").strip()
            self.release()
            raise MetadataStoreError(
                f"another broker{f' (process {owner})' if owner else ''} uses the data folder {folder}; "
                "stop it, or give this one a folder of its own"
            )
        files.truncate(self._descriptor, 0)
        if process_id is not None:
            files.pwrite(self._descriptor, f"{process_id}\n".encode(), 0)

    def release(self) -> None:
        """Release the lock; releasing twice does nothing."""
        if self._descriptor >= 0:
            self._files.close(self._descriptor)
            self._descriptor = -1


def lock_folder(folder: Path, files: Files | None = None, process_id: int | None = None) -> FolderLock:
    """Create the folder if it is not there, and lock it; `process_id` is named in the second broker's error.

    MetadataStoreError: it is in use, or cannot be used.
    """
    files = files or OsFiles()
    try:
        files.make_directory(str(folder))
    except OSError as error:
        raise MetadataStoreError(f"the data folder {folder} cannot be created: {error.strerror}") from error
    return FolderLock(files, folder, process_id)
