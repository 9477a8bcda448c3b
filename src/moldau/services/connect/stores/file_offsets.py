"""Offsets of a standalone worker: in a topic, exactly once as those of a group, and in Kafka's file from
time to time.

Kafka's standalone worker has only the file, written every `offset.flush.interval.ms`; what was read since is
read again after a crash. Ours commits records and offsets in one transaction, so they must be in Kafka; the
file follows, so that Kafka's worker can go on from it, and is where we begin:

    start   the file is as we left it (its digest is beside it, FILE.moldau): the topic counts
            somebody else has written it since: the file counts, and goes into the topic
            we had left one and it was removed: all begins anew, as with Kafka's worker
            what goes into the topic is noted as ours at once: a crash later does not go back to it
    then    topic ──> state ──> file, every interval and at the end
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Protocol

from moldau.common.settings.rows import SettingError
from moldau.services.connect.stores.interface import WRITE_SECONDS
from moldau.services.connect.stores.kafka_log import NotWritten
from moldau.services.connect.stores.offset_file import encode, load, save
from moldau.services.connect.stores.offsets import BytesRecord, KnownOffset, OffsetsState

log = logging.getLogger("moldau.connect.stores.file")
_SETTING = "offset.storage.file.filename"


class OffsetLog(Protocol):
    """The topic (kafka_log.py)."""

    def start(self, timeout_seconds: float) -> None:
        """Read what there is."""

    def send(self, records: Sequence[tuple[str | bytes, bytes | None]], timeout_seconds: float) -> int:
        """Write; the last one's offset."""

    def read_to_end(self, timeout_seconds: float) -> None:
        """Read what was written."""

    def close(self) -> None:
        """End."""


class FileOffsets:
    """The topic's state, and the file. Without a topic (`attach` was not called), the file is all there
    is."""

    def __init__(self, path: Path, interval_seconds: float) -> None:
        self._path, self._interval_seconds = path, interval_seconds
        self._mark = path.with_name(path.name + ".moldau")
        self._lock = Lock()
        self._state = OffsetsState()
        self._entries: dict[bytes, bytes | None] = {}
        self._changed = False
        self._saved = ""
        """The digest of what stands in the file."""
        self._topic: OffsetLog | None = None
        self._stopping = Event()
        self._thread = Thread(target=self._follow, name="connect-offset-file", daemon=True)

    def attach(self, topic: OffsetLog) -> None:
        """Keep offsets in a topic, whose records `replay` is given."""
        self._topic = topic

    def replay(self, key: bytes | None, value: bytes | None, partition: int, offset: int) -> None:
        """A record of the topic."""
        self._apply([(key or b"", value)])

    def _apply(self, records: Sequence[BytesRecord]) -> None:
        with self._lock:
            for key, value in records:
                self._state.replay(key, value)
                self._entries.pop(key, None)
                if value is not None:
                    self._entries[key] = value
            self._changed = True

    def start(self, timeout_seconds: float) -> None:
        """SettingError: the file cannot be read, or is something else. LogFailed, TimeoutError."""
        try:
            found = load(self._path)
        except (OSError, ValueError) as problem:
            raise SettingError(_SETTING, f"{_SETTING}={self._path} cannot be read: {problem}") from None
        if self._topic is None:
            self._apply(list(found.items()))
        else:
            self._topic.start(timeout_seconds)
            self._take_over(found)
            self._save_if_changed()
        self._changed = False
        self._thread.start()

    def _take_over(self, found: dict[bytes, bytes | None]) -> None:
        assert self._topic is not None
        self._saved = _digest(found)
        is_ours = self._mark.exists() and self._saved in self._mark.read_text().split()
        with self._lock:
            new = {key: value for key, value in found.items() if self._entries.get(key) != value}
        if new and not is_ours:
            log.info("%s has offsets of another worker: %d go into the topic", self._path, len(new))
            self._topic.send(list(new.items()), timeout_seconds=WRITE_SECONDS)
            self._topic.read_to_end(WRITE_SECONDS)
        if not is_ours and self._mark.exists():
            self._forget_what_is_gone(found)
        with self._lock:
            self._changed = self._entries != found or (bool(found) and not is_ours)

    def _forget_what_is_gone(self, found: dict[bytes, bytes | None]) -> None:
        assert self._topic is not None
        with self._lock:
            gone = [key for key in self._entries if found.get(key) is None]
        if gone:
            log.warning(
                "%s was removed or rewritten, without %d offsets that were in it: they are forgotten",
                self._path,
                len(gone),
            )
            self._topic.send([(key, None) for key in gone], timeout_seconds=WRITE_SECONDS)
            self._topic.read_to_end(WRITE_SECONDS)

    def close(self) -> None:
        """Write the file, and end."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(10)
        self._save_if_changed()
        if self._topic is not None:
            self._topic.close()

    def _follow(self) -> None:
        while not self._stopping.wait(self._interval_seconds):
            self._save_if_changed()

    def _save_if_changed(self) -> None:
        try:
            self._save()
        except OSError as problem:
            log.error("the file of offsets %s was not written: %s", self._path, problem.strerror)

    def _save(self) -> None:
        with self._lock:
            if not self._changed:
                return
            entries, self._changed = dict(self._entries), False
        try:
            # Both digests, then the file, then the new one alone: whatever a crash leaves is known as ours.
            new = _digest(entries)
            self._mark.write_text(f"{self._saved}\n{new}\n")
            save(self._path, entries)
            self._mark.write_text(f"{new}\n")
            self._saved = new
        except OSError:
            self._changed = True
            raise

    def offsets(self, connector: str) -> list[KnownOffset]:
        """What is known of a connector. LogFailed, TimeoutError."""
        if self._topic is not None:
            self._topic.read_to_end(WRITE_SECONDS)
        with self._lock:
            return self._state.offsets(connector)

    def write(self, connector: str, wanted: Sequence[KnownOffset]) -> None:
        """Set or forget. NotWritten, LogFailed, TimeoutError."""
        with self._lock:
            records = self._state.records(connector, wanted)
        if self._topic is None:
            self._apply(records)
        else:
            self._topic.send(records, WRITE_SECONDS)
            self._topic.read_to_end(WRITE_SECONDS)
        try:
            self._save()
        except OSError as problem:
            raise NotWritten(
                f"the file of offsets {self._path} was not written: {problem.strerror}"
            ) from None


def _digest(entries: dict[bytes, bytes | None]) -> str:
    return hashlib.sha256(encode(dict(sorted(entries.items())))).hexdigest()
