"""What of a topic partition is in a folder of files: the manifest, and what makes files count exactly once.

    FOLDER/_moldau/TOPIC/PARTITION.json    {"epoch": 3, "next": 1500, "files":
    [["orders/…+0+0000001000.parquet.…",
                                           "orders/orders+0+0000001000.parquet"], …]}

    1  files are written under _moldau, and flushed
    2  the manifest names where they go and the next offset, and is replaced by renaming: now they count
    3  they are renamed into place

Renaming into place and merging (merging.py) exclude one another, by a lock of the topic's.

A crash before 2 leaves files that nobody names, which are removed; one after 2 is completed at the next
start. A task takes the manifest by raising its epoch; an older one, which still runs somewhere, is refused
at step 2.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from moldau.connect.batch import TopicPartition
from moldau.connect.connectors.files.durable import replace_durably, sync_file, sync_folder
from moldau.connect.errors import ConnectError

log = logging.getLogger("moldau.connect")

INTERNAL = "_moldau"


class Manifest:
    """Of one topic partition, taken by this task."""

    def __init__(self, folder: Path, place: TopicPartition) -> None:
        """Take it, and complete what a crash left. OSError, ConnectError."""
        self._folder = folder
        self.home = folder / INTERNAL / place.topic
        """Where the topic's manifests are, and its files in the making."""
        self.home.mkdir(parents=True, exist_ok=True)
        self._path = self.home / f"{place.partition}.json"
        self._place = place
        with self._locked():
            noted = self._read()
            self.epoch: int = noted["epoch"] + 1
            self.next: int | None = noted["next"]
            self._rename(noted["files"])
            self._write([])
            for each in self.home.glob(f"{place.partition}.*.tmp"):
                each.unlink(missing_ok=True)
        self.is_incomplete = False
        """Whether files count that are not in their place."""

    def staged(self, count: int) -> Path:
        """Where the `count`th open file is written."""
        return self.home / f"{self._place.partition}.{self.epoch}.{count}.tmp"

    def commit(self, files: Sequence[tuple[Path, Path]], following: int | None) -> None:
        """These staged files count now, under these names; reading goes on at `following`. OSError,
        ConnectError."""
        for staged, _ in files:
            sync_file(staged)
        names = [
            [str(staged.relative_to(self._folder)), str(final.relative_to(self._folder))]
            for staged, final in files
        ]
        with self._locked():
            noted = self._read()
            self._check(noted)
            self._rename(noted["files"])
            before, self.next = self.next, following
            try:
                self._write(names)
            except OSError:
                if self._read()["files"] != names:
                    self.next = before
                    raise
            self.is_incomplete = True
        self.complete()

    def complete(self) -> None:
        """Rename what counts and is not in its place yet; what fails is tried again by the next call."""
        try:
            with self._locked():
                noted = self._read()
                if noted["epoch"] == self.epoch:
                    self._rename(noted["files"])
            self.is_incomplete = False
        except OSError as error:
            log.warning("%s: files are not in their place yet: %s", self._folder, error.strerror)

    def _rename(self, names: Sequence[Sequence[str]]) -> None:
        if not names:
            return
        with self._lock("folders.lock", fcntl.LOCK_SH):
            for staged, final in names:
                source, target = self._folder / staged, self._folder / final
                if source.exists():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    source.replace(target)
                    sync_folder(target.parent)

    def _write(self, names: Sequence[Sequence[str]]) -> None:
        noted = {"epoch": self.epoch, "next": self.next, "files": list(map(list, names))}
        replace_durably(self._path, json.dumps(noted).encode())

    def _read(self) -> dict[str, Any]:
        try:
            found = json.loads(self._path.read_text())
            return {"epoch": int(found["epoch"]), "next": found["next"], "files": found["files"]}
        except FileNotFoundError:
            return {"epoch": 0, "next": None, "files": []}
        except (ValueError, KeyError, TypeError) as damaged:
            raise ConnectError(
                f"{self._path} is damaged ({damaged}): it says what of the topic is in the folder; "
                "restore it, or remove it to begin at the group's offset"
            ) from damaged

    def sweep(self) -> None:
        """Remove what this task has staged and does not count. OSError, ConnectError."""
        with self._locked():
            counting = {Path(staged).name for staged, _ in self._read()["files"]}
            for each in self.home.glob(f"{self._place.partition}.{self.epoch}.*.tmp"):
                if each.name not in counting:
                    each.unlink(missing_ok=True)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Nobody renames into folders of the topic meanwhile, and this task still has the partition. OSError,
        ConnectError."""
        with self._locked(), self._lock("folders.lock", fcntl.LOCK_EX):
            self._check(self._read())
            yield

    def _check(self, noted: Mapping[str, Any]) -> None:
        if noted["epoch"] != self.epoch:
            raise ConnectError(
                f"another task writes {self._place.topic}-{self._place.partition} into {self._folder} now"
            )

    def _locked(self) -> AbstractContextManager[None]:
        return self._lock(f"{self._place.partition}.lock", fcntl.LOCK_EX)

    @contextmanager
    def _lock(self, name: str, kind: int) -> Iterator[None]:
        descriptor = os.open(self.home / name, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, kind)
            yield
        finally:
            os.close(descriptor)
