"""A lane: one topic's way through the agent, with its spool, its quota and what its clients have numbered.

Each topic has a folder and a spool of its own, so that a topic that cannot be delivered holds nobody else up,
and its quota bounds its disk. The sources' last sequences are in the spool's records; before segments with
such records are removed, they are saved in the file `sources`.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable
from pathlib import Path

from moldau.common.core.crc import crc32c
from moldau.common.core.files import OsFiles, write_atomically
from moldau.kit.agent.message import source_of
from moldau.kit.agent.settings import Quota
from moldau.kit.spool import Spool, SpoolDamaged

ROUND_RECORDS = 5_000
SOURCES_MAX = 10_000
"""Sources a topic whose last sequences are remembered; the one that was silent longest is forgotten first."""


class Lane:
    """One topic. `spool` is opened by the first use in the writing thread."""

    def __init__(self, topic: str, folder: Path, quota: Quota) -> None:
        self.topic = topic
        self.quota = quota
        self._folder = folder
        self._spool: Spool | None = None
        self._sources: dict[str, int] = {}
        self._lock = threading.Lock()
        self._allowance_bytes = float(quota.bytes_per_second)
        self._allowed_at_seconds: float | None = None
        # for the delivery
        self.cursor = 0
        self.round_records = ROUND_RECORDS  # fewer while a refused one is looked for
        self.held_until_seconds = 0.0
        self.held_seconds = 0.0
        self.held_because = ""
        self.known = False

    # -- quota ---------------------------------------------------------------------------------------

    def may_take(self, size_bytes: int, now_seconds: float) -> bool:
        """Whether the quota of bytes a second has room; takes it then. A second's worth may come at once."""
        rate = self.quota.bytes_per_second
        if not rate:
            return True
        if self._allowed_at_seconds is not None:
            passed = now_seconds - self._allowed_at_seconds
            self._allowance_bytes = min(rate, self._allowance_bytes + passed * rate)
        self._allowed_at_seconds = now_seconds
        if self._allowance_bytes < min(size_bytes, rate):
            return False
        self._allowance_bytes -= size_bytes
        return True

    # -- the spool -----------------------------------------------------------------------------------

    @property
    def spool(self) -> Spool | None:
        """The spool, once it is open."""
        return self._spool

    def open(self) -> Spool:
        """Open the spool and read what the sources have sent. Raises SpoolError, OSError."""
        if self._spool is None:
            capacity = self.quota.spool_bytes
            segment = min(16 << 20, max(64 << 10, capacity // 8))
            spool = Spool.open(self._folder, capacity_bytes=capacity, segment_bytes=segment)
            spool.before_removal = self._save_sources
            try:
                self._sources = self._load_sources()
                at = spool.oldest_number
                while True:
                    at, records = spool.read(at)
                    if not records:
                        break
                    self.remember(map(source_of, records))
                    at += len(records)
            except BaseException:
                spool.abandon()
                raise
            self.cursor = spool.position
            self._spool = spool
        return self._spool

    def is_duplicate(self, source: str, sequence: int) -> bool:
        """Whether this source's message was taken before."""
        return bool(source) and sequence <= self._sources.get(source, -(1 << 63))

    def remember(self, sent: Iterable[tuple[str, int]]) -> None:
        """Note the sequences of records that are on the disk."""
        with self._lock:
            for source, sequence in sent:
                if source:
                    last = self._sources.pop(source, sequence)
                    self._sources[source] = max(last, sequence)
            while len(self._sources) > SOURCES_MAX:
                del self._sources[next(iter(self._sources))]

    def save(self) -> None:
        """Save the spool's position, and the sources before records of theirs go. Raises OSError."""
        if self._spool is not None:
            self._spool.save_position()

    def close(self) -> None:
        """Save everything and unlock. Raises OSError."""
        if self._spool is not None:
            self._spool.close()

    @property
    def _sources_path(self) -> str:
        return os.path.join(self._folder, "sources")

    def _save_sources(self) -> None:
        with self._lock:
            line = json.dumps(self._sources).encode()
        write_atomically(OsFiles(), self._sources_path, line + f"\n{crc32c(line):08x}\n".encode())

    def _load_sources(self) -> dict[str, int]:
        try:
            content = Path(self._sources_path).read_bytes()
        except FileNotFoundError:
            return {}
        line, _, check = content.rpartition(b"\n")[0].partition(b"\n")
        if check != f"{crc32c(line):08x}".encode():
            raise SpoolDamaged(self._sources_path, 0, "its checksum is wrong")
        found: dict[str, int] = json.loads(line)
        return found
