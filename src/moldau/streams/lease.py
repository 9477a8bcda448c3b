"""The driver of an app: a file that a newer driver overwrites, and that an older one checks.

Two drivers with the same app and checkpoints would both read and write everything. As with Kafka's producer
fencing, the newer one wins, because the older one is most likely forgotten or half dead. The newer driver
writes its name over the older one's; the older one checks before every micro-batch, and once a second: if its
name is gone, it stops and names the new driver.

The file is advisory, for drivers that see the same folder. What a driver writes between two checks is kept
out of topics by the flow's transactional id, which the newer driver has opened (exactly-once).
"""

from __future__ import annotations

import json
import os
import socket
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass

from moldau.streams.errors import Fenced
from moldau.streams.folder import Folder

DRIVER_FILE = "driver.json"
RENEW_SECONDS = 2.0
FRESH_SECONDS = 10.0


@dataclass(frozen=True)
class Driver:
    """A driver, and when it was last seen (seconds since 1970)."""

    id: str
    host: str
    pid: int
    started: float
    seen: float
    master: str = ""

    def is_fresh(self, now: float) -> bool:
        """Whether it seems to be running."""
        return now - self.seen < FRESH_SECONDS

    def __str__(self) -> str:
        started = time.strftime("%H:%M:%S", time.localtime(self.started))
        return f"process {self.pid} on {self.host}, started {started}"


def driver_of(folder: Folder) -> Driver | None:
    """The last driver of the app's folder; None if there is none, or it has left."""
    try:
        return Driver(**json.loads(folder.read(DRIVER_FILE) or ""))
    except (ValueError, TypeError):
        return None


class Lease:
    """This process as the app's driver."""

    def __init__(
        self, folder: Folder, app: str, master: str = "", clock: Callable[[], float] = time.time
    ) -> None:
        self._folder = folder
        self._app = app
        self._clock = clock
        now = clock()
        self._me = Driver(uuid.uuid4().hex, socket.gethostname(), os.getpid(), now, now, master)

    def take(self) -> Driver | None:
        """Become the driver; returns the one before, if it seems to be running still."""
        before = driver_of(self._folder)
        self._write()
        return before if before is not None and before.is_fresh(self._clock()) else None

    def check(self) -> None:
        """Raise Fenced if another driver has taken over."""
        now = driver_of(self._folder)
        if now is not None and now.id != self._me.id:
            raise Fenced(f"another driver has taken over app {self._app} ({now}): this one stops")

    def renew(self) -> None:
        """Update the time; raises Fenced as `check` does."""
        self.check()
        if self._clock() - self._me.seen >= RENEW_SECONDS:
            self._write()

    def leave(self) -> None:
        """Remove the entry, unless another driver has taken over."""
        now = driver_of(self._folder)
        if now is not None and now.id == self._me.id:
            self._folder.remove_file(DRIVER_FILE)

    def _write(self) -> None:
        self._me = Driver(**{**asdict(self._me), "seen": self._clock()})
        self._folder.write(DRIVER_FILE, json.dumps(asdict(self._me)) + "\n")
