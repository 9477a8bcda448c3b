"""What waits on the disk: a spool, so that records outlive the process and a broker that is away.

A call returns when its record is written (kill -9 does not lose it), or with `durable` when it is synced (nor
does a power cut). Each record carries its place in the spool in the header `moldau-id`: after a crash the
last batch may be sent again, and a reader can tell.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from moldau.kit.batched.buffer import BLOCK, DROP_NEW, BatchFull, Closed, Drop, never
from moldau.kit.batched.record import decode, encode
from moldau.kit.sending import Outgoing
from moldau.kit.spool import Spool, SpoolError, SpoolFull

log = logging.getLogger("moldau.kit.batched")

BATCH_BYTES = 8 << 20
SYNC_SECONDS = 1.0


class SpooledBuffer:
    """A `Buffer` in a spool."""

    def __init__(
        self,
        topic: str,
        folder: Path,
        capacity_bytes: int,
        when_full: str,
        drop: Drop,
        *,
        durable: bool,
    ) -> None:
        self._topic = topic
        self._when_full = when_full
        self._drop = drop
        self._durable = durable
        self.spool = Spool.open(
            folder, capacity_bytes=capacity_bytes, segment_bytes=min(16 << 20, max(4096, capacity_bytes // 8))
        )
        self._batch_start = self.spool.position
        self._synced_at_seconds = time.monotonic()
        self._closing = False
        self._changed = threading.Condition()

    def try_put(self, records: Sequence[Outgoing]) -> bool:
        data = [encode(record) for record in records]
        if self._closing:
            raise Closed
        try:
            self._append(data)
        except SpoolFull as problem:
            if self._when_full == BLOCK:
                return False
            if self._when_full != DROP_NEW:
                raise BatchFull(str(problem)) from None
            for record in records:
                self._drop(record, "full")
        with self._changed:
            self._changed.notify_all()
        return True

    def _append(self, data: list[bytes]) -> None:
        try:
            if self._durable:
                self.spool.append_durably(data)
            else:
                self.spool.append(data)
        except SpoolFull:
            raise
        except SpoolError:
            if self._closing:  # it was closed in this moment
                raise Closed from None
            raise

    def put(self, records: Sequence[Outgoing], given_up: Callable[[], bool] = never) -> None:
        while not self.try_put(records) and not given_up():
            with self._changed:
                self._changed.wait(0.2)

    def take(self, size: int, seconds: float) -> list[Outgoing]:
        spool = self.spool
        since = time.monotonic() if self.waiting() else None
        while True:
            with self._changed:
                if self.waiting() >= size or self._closing:
                    break
                if since is None and self.waiting():
                    since = time.monotonic()
                left = SYNC_SECONDS if since is None else since + seconds - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(min(left, SYNC_SECONDS))
            self.keep()
        self._sync()
        self._batch_start, found = spool.read(spool.position, records_max=size, size_bytes_max=BATCH_BYTES)
        identity = spool.spool_id.hex()
        return [
            decode(self._topic, data, f"{identity}:{number}")
            for number, data in enumerate(found, self._batch_start)
        ]

    def done(self, count: int) -> None:
        self.spool.acknowledge(self._batch_start + count)
        try:
            self.spool.save_position()
        except OSError as problem:  # after a crash more would be sent again
            log.warning("%s: the position was not saved: %s", self.spool.folder, problem)
        with self._changed:
            self._changed.notify_all()

    def keep(self) -> None:
        if time.monotonic() - self._synced_at_seconds >= SYNC_SECONDS:
            self._sync()

    def _sync(self) -> None:
        self._synced_at_seconds = time.monotonic()
        try:
            self.spool.sync()
        except OSError as problem:  # what was written since the last sync is taken back
            log.error(
                "%s: the disk refused a sync, unsynced records are lost: %s", self.spool.folder, problem
            )

    def waiting(self) -> int:
        return self.spool.next_number - self.spool.position

    def closing(self) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify_all()

    def close(self) -> None:
        try:
            self.spool.close()
        except (OSError, SpoolError) as problem:
            log.error("%s: not closed cleanly: %s", self.spool.folder, problem)
