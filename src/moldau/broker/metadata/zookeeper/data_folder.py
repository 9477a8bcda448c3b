"""The broker's data folder: its lock, the mark of its cluster, and the metadata that it brings along.

    folder has                          ensemble is empty              ensemble has a cluster
    ----------------------------------------------------------------------------------------------------------
    nothing                             a new cluster                  join
    embedded metadata                   move it there, once            join, if the cluster is the same one
    mark `moving`                       move it there again            join, if the cluster is the same one
    mark `joined`                       refuse: the ensemble lost it   join, if the cluster is the same one

Moving writes the mark first: from then on the broker does not start without ZooKeeper, so the embedded
metadata cannot go on by itself, whether the crash came before or after the ensemble had it.
"""

import logging
from collections.abc import Callable
from pathlib import Path

from moldau.broker.metadata.embedded import FILE_NAME, EmbeddedStore, Lock
from moldau.broker.metadata.folder_owner import JOINED, MOVING, Owner, read_owner, write_owner
from moldau.broker.metadata.image import Image
from moldau.broker.metadata.store import MetadataStoreError
from moldau.common.core.files import Files

log = logging.getLogger("moldau.metadata")


class _NoLock:
    def release(self) -> None:
        pass


class DataFolder:
    """`connect`: zookeeper.connect, for messages and the mark."""

    def __init__(self, folder: Path, files: Files, lock: Callable[[Path], Lock], connect: str) -> None:
        self.path = folder.absolute()
        self._files = files
        self._take_lock = lock
        self._connect = connect
        self._lock: Lock | None = None
        self._owner: Owner | None = None
        self._embedded: Image | None = None

    async def open(self) -> None:
        """Lock the folder and read what it has. MetadataStoreError: in use, or damaged."""
        self._lock = self._take_lock(self.path)
        try:
            self._owner = read_owner(self._files, str(self.path))
            moved = self._owner is not None and self._owner.state == JOINED
            if not moved and self._files.exists(str(self.path / FILE_NAME)):
                store = EmbeddedStore(self.path, files=self._files, lock=lambda folder: _NoLock())
                image = await store.open()
                await store.close()
                self._embedded = image if image.cluster_id else None
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Release the lock; releasing twice does nothing."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def brings(self) -> Image | None:
        """What an empty ensemble gets: the embedded metadata, or None for a new cluster.

        MetadataStoreError: this broker's cluster is in an ensemble that had metadata.
        """
        if self._owner is not None and (self._owner.state == JOINED or self._embedded is None):
            raise MetadataStoreError(
                f"the data in {self.path} belongs to cluster {self._owner.cluster_id}, but there is no "
                f"metadata at zookeeper.connect={self._connect}. If the address or its chroot is wrong, "
                "correct it; if the ensemble has lost its data, restore it"
            )
        if self._embedded is not None:
            self._mark(self._embedded.cluster_id, MOVING)
        return self._embedded

    def check(self, cluster_id: str) -> None:
        """MetadataStoreError: the data is another cluster's than the ensemble's (`cluster_id`; "" while that
        has none)."""
        expected = self._owner.cluster_id if self._owner is not None else ""
        if self._embedded is not None:
            expected = self._embedded.cluster_id
        if expected and expected != cluster_id:
            theirs = f"cluster {cluster_id}" if cluster_id else "a cluster that was just made"
            raise MetadataStoreError(
                f"the data in {self.path} belongs to cluster {expected}, but {theirs} is at "
                f"zookeeper.connect={self._connect}; correct that, or give this broker another data folder"
            )

    def joined(self, cluster_id: str) -> None:
        """The broker is part of this cluster: write it down, once."""
        if self._owner is None or self._owner.state != JOINED:
            if self._embedded is not None:
                log.info(
                    "the metadata of %s is in ZooKeeper (%s) from now on: %d topics and their settings, ids "
                    "and producer ids moved there",
                    self.path,
                    self._connect,
                    len(self._embedded.topics),
                )
            self._mark(cluster_id, JOINED)

    def _mark(self, cluster_id: str, state: str) -> None:
        self._owner = Owner(cluster_id, self._connect, state)
        try:
            write_owner(self._files, str(self.path), self._owner)
        except OSError as error:
            raise MetadataStoreError(f"{self.path} cannot be written: {error.strerror or error}") from error
