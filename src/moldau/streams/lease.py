"""Who runs an app: a file that the newest driver writes, and that an older one finds changed.

Two drivers with the same app and checkpoints would both read and write everything. Kafka's answer for
producers is fencing: the newer one wins, because the older one is most likely a forgotten or half dead one.
So the newer driver writes its name over the older one's, and the older one looks before every micro-batch,
and once a second: if its name is gone, it stops and says who has it.

That is a matter of good manners between drivers that see the same folder. What a driver does between two
looks is kept out of topics by the transactional id of each flow, which the newer driver has opened anew
(exactly-once).
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
    """Who runs an app, and when it was last seen (seconds since 1970)."""

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
    """Who wrote the app's folder last; None if nobody did, or has left."""
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
        """Become the driver; gives the one that was, if it seems to be running still."""
        before = driver_of(self._folder)
        self._write()
        return before if before is not None and before.is_fresh(self._clock()) else None

    def check(self) -> None:
        """Raise Fenced if somebody else has become the driver."""
        now = driver_of(self._folder)
        if now is not None and now.id != self._me.id:
            raise Fenced(f"another driver has taken over app {self._app} ({now}): this one stops")

    def renew(self) -> None:
        """Say that this driver lives; raises Fenced as `check` does."""
        self.check()
        if self._clock() - self._me.seen >= RENEW_SECONDS:
            self._write()

    def leave(self) -> None:
        """Say that the app is not running any more, unless somebody else runs it."""
        now = driver_of(self._folder)
        if now is not None and now.id == self._me.id:
            self._folder.remove_file(DRIVER_FILE)

    def _write(self) -> None:
        self._me = Driver(**{**asdict(self._me), "seen": self._clock()})
        self._folder.write(DRIVER_FILE, json.dumps(asdict(self._me)) + "\n")
