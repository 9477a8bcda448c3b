"""The sessions of one store with the ensemble, one after the other: begun, reached, watched, closed.

A session goes on while its connection is away, if that comes back in time; when it has ended, whoever needs
the ensemble begins another. Not here: one session's connection and requests (session.py), what depends on a
session (store.py).
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from moldau.broker.metadata.store import MetadataStoreError, NoSession, StoreStatus
from moldau.broker.metadata.zookeeper.options import Options
from moldau.broker.metadata.zookeeper.session import Session, SessionOver
from moldau.common.core.timers import Timers

log = logging.getLogger("moldau.metadata")

_SILENT_MS = 2_000  # from then on a start says what it waits for


class Sessions:
    """At most one at a time."""

    def __init__(
        self,
        options: Options,
        timers: Timers,
        seconds: Callable[[], float],
        connected: Callable[[], None],
        over: Callable[[str], None],
    ) -> None:
        """`connected`: the ensemble is reached, for the first time or again. `over`: the present session has
        ended, for this reason.
        """
        self._options = options
        self._timers = timers
        self._seconds = seconds
        self._connected = connected
        self._over = over
        self._over_seconds = seconds()
        """When the last one ended."""
        self.present: Session | None = None
        self.closed = False
        """No other one begins."""

    def status(self) -> StoreStatus:
        """Whether the ensemble is reached, since when, how fast."""
        name, session = f"ZooKeeper at {self._options.hosts}", self.present
        if session is None:
            return StoreStatus(name, False, self._seconds() - self._over_seconds, 0.0)
        return StoreStatus(name, session.up, self._seconds() - session.since_seconds, session.latency_ms)

    async def begin(self, timeout_ms: int | None = None) -> Session:
        """A new session, connected. MetadataStoreError: not within `timeout_ms`."""
        session = self.present = Session(
            self._options,
            asyncio.get_running_loop(),
            self._timers,
            self._seconds,
            connected=self._connected,
            over=self._ended,
        )
        session.start()
        timer, why = None, ""
        said = None
        if timeout_ms is not None:
            said = self._timers.call_later(
                _SILENT_MS,
                lambda: log.warning(
                    "no ZooKeeper answers at %s yet; the start waits for it, up to %d ms",
                    self._options.hosts,
                    timeout_ms,
                ),
            )
            why = f"no ZooKeeper answered at {self._options.hosts} within {timeout_ms} ms"
            timer = self._timers.call_later(timeout_ms, partial(session.end_unless_up, why))
        try:
            await session.reach()
        except SessionOver as error:
            if timer is None or self.closed or not str(error).startswith(why):
                raise
            raise MetadataStoreError(
                f"{error} (zookeeper.connection.timeout.ms); is it running, and is zookeeper.connect right?"
            ) from error
        finally:
            for each in (timer, said):
                if each is not None:
                    each.cancel()
        return session

    async def reached(self) -> Session:
        """The present session, when the ensemble can be reached. NoSession."""
        session = self.present
        if self.closed:
            raise NoSession("the metadata store is closed")
        if session is None:
            raise NoSession("the session with ZooKeeper has ended")
        try:
            await session.reach()
        except SessionOver as error:
            raise NoSession(str(error)) from error
        return session

    def _ended(self, reason: str) -> None:
        self._over_seconds = self._seconds()
        self.present = None
        self._over(reason)
