"""`MetadataStore` on a ZooKeeper ensemble.

    following.py    watches, looks, delivers
    appending.py    appends, fenced by version and by the controller's seat
    here            opening, sessions, registration, election

While the connection is away everything waits; the session goes on if it comes back in time. Only ZooKeeper
can say that it did not, so SessionEnded comes when the ensemble is reached again, or when this broker gives
the session up. After that `register_broker` begins another one.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable, Sequence

from kazoo import exceptions as zk

from moldau.broker.metadata.changes import Change
from moldau.broker.metadata.image import Image
from moldau.broker.metadata.store import (
    Deliver,
    Known,
    MetadataStoreError,
    NoSession,
    Registration,
    SessionEnded,
    StoreStatus,
)
from moldau.broker.metadata.zookeeper import foundation
from moldau.broker.metadata.zookeeper.append_turns import AppendTurns
from moldau.broker.metadata.zookeeper.appending import Appending
from moldau.broker.metadata.zookeeper.data_folder import DataFolder
from moldau.broker.metadata.zookeeper.discovery import read_cluster_id
from moldau.broker.metadata.zookeeper.following import Following, Look
from moldau.broker.metadata.zookeeper.layout import Layout
from moldau.broker.metadata.zookeeper.log_reading import LogReader, Offload
from moldau.broker.metadata.zookeeper.opening import open_log
from moldau.broker.metadata.zookeeper.options import Options
from moldau.broker.metadata.zookeeper.registrations import Registrations
from moldau.broker.metadata.zookeeper.seat import Held, Seats
from moldau.broker.metadata.zookeeper.session import ConnectionAway, Session, SessionOver
from moldau.broker.metadata.zookeeper.sessions import Sessions
from moldau.common.core.clock import Clock
from moldau.common.core.slow_lane import SlowLane
from moldau.common.core.timers import Timers

log = logging.getLogger("moldau.metadata")


class ZooKeeperStore:
    """One broker's access to the cluster's metadata. `folder`: its data folder, locked and marked."""

    def __init__(
        self,
        options: Options,
        *,
        clock: Clock,
        timers: Timers,
        source: random.Random,
        seconds: Callable[[], float],
        offload: Callable[[Callable[[], None]], Awaitable[None]],
        lane: SlowLane | None = None,
        folder: DataFolder | None = None,
    ) -> None:
        self._options = options
        self._layout = Layout(options.root)
        self._clock = clock
        self._random = source
        self._offload = Offload(offload)
        self._folder = folder
        self.sessions = Sessions(options, timers, seconds, self._connected, self._session_over)
        self._seats = Seats(self._layout, clock)
        self._held = Held()
        turns = AppendTurns(self._layout, timers)
        self.following = Following(
            self._layout,
            self.sessions,
            Registrations(self._layout, clock, 0),
            self._seats,
            self._held,
            turns,
            timers=timers,
            offload=self._offload,
        )
        self.appending = Appending(
            options,
            self._layout,
            self.sessions,
            self.following,
            self._seats,
            self._held,
            turns,
            source=source,
            timers=timers,
            offload=self._offload,
            lane=lane,
        )
        self._renewal: asyncio.Task[None] | None = None

    @property
    def session(self) -> Session | None:
        """The present session, for monitoring: whether the ensemble is reached, since when, how fast."""
        return self.sessions.present

    def status(self) -> StoreStatus:
        """Whether the ensemble is reached, since when, how fast."""
        return self.sessions.status()

    # Opening and closing

    async def open(self) -> Image:
        """Begin a session, lay the first nodes on an empty ensemble, and read the image.

        MetadataStoreError: the ensemble does not answer in time (zookeeper.connection.timeout.ms), is another
        system's or another cluster's, refuses the credentials; or the data folder is in use.
        """
        try:
            if self._folder is not None:
                await self._folder.open()
            image = await self._read_first()
            self.following.version = image.version
            return image
        except SessionOver as error:
            await self.close()
            raise MetadataStoreError(
                f"the ZooKeeper session has ended while it was opened: {error}"
            ) from error
        except zk.NoAuthError as error:
            await self.close()
            raise foundation.not_authorized(self._layout.base) from error
        except BaseException:
            await self.close()
            raise

    async def _read_first(self) -> Image:
        """Over as many sessions as it takes: a process that starts on a busy machine stands still for longer
        than a short session lasts, and nothing depends on the session yet.
        """
        while True:
            session = None
            try:
                session = await self.sessions.begin(self._options.connection_timeout_ms)
                return await self._read(session)
            except (SessionOver, ConnectionAway) as error:
                if self.sessions.closed:
                    raise SessionOver(str(error)) from error
                if session is not None:
                    session.end("its connection was lost while the metadata was read")
                log.warning(
                    "the metadata is read again in a new ZooKeeper session: %s", error or "no connection"
                )

    async def _read(self, session: Session) -> Image:
        reader = LogReader(session, self._layout, self._offload)
        opened = await open_log(session, self._layout, reader, self._folder, self._random)
        self.following.registrations = Registrations(self._layout, self._clock, opened.broker_epoch_base)
        self.following.head = opened.head
        self.appending.node_version_offset = opened.head.version - opened.head.node_version
        return opened.image

    async def close(self) -> None:
        """End the session; an append under way is finished first while the ensemble can be reached."""
        if self.sessions.closed:
            return
        self.sessions.closed = True
        session = self.sessions.present
        await self.appending.finish(session)
        await self.following.stop()
        await self.appending.stop()
        if self._renewal is not None and not self._renewal.done():
            self._renewal.cancel()
            await asyncio.wait([self._renewal])
        if session is not None:
            await session.close()
        if self._folder is not None:
            self._folder.release()

    # The session

    def _connected(self) -> None:
        self.following.wake(Look.ALL)

    def _session_over(self, reason: str) -> None:
        registered = self._held.registration is not None
        self._held.seat = self._held.registration = None
        self.following.session_over()
        if self.sessions.closed:
            return
        if registered or not self.following.is_followed:
            self.following.send(SessionEnded(reason))
        else:
            self._renewal = asyncio.get_running_loop().create_task(self._begin_again(reason))

    async def _begin_again(self, reason: str) -> None:
        """A broker that starts has not registered yet: nothing depends on its session, but it must hear of
        changes.
        """
        log.warning("a new ZooKeeper session begins: %s", reason)
        if self.sessions.present is None and not self.sessions.closed:
            with contextlib.suppress(SessionOver):  # `_session_over` is called again, and begins another
                await self.sessions.begin()

    # Following and appending

    async def follow(self, after_version: int, deliver: Deliver, known: Known | None = None) -> None:
        """Deliver what there is and all that comes; `known` is the image that this has led to."""
        await self.appending.snapshot_written()
        await self.following.begin(after_version, deliver, known)

    async def append_if(
        self, version: int, changes: Sequence[Change], *, controller_epoch: int | None = None
    ) -> int:
        """Append one entry if the log is still at `version`."""
        return await self.appending.append_if(version, changes, controller_epoch=controller_epoch)

    # Registration and election

    async def register_broker(self, broker: Registration) -> int:
        """Register, beginning a new session if the last one has ended."""
        while True:
            if self.sessions.closed:
                raise NoSession("the metadata store is closed")
            try:
                session = self.sessions.present or await self.sessions.begin()
                await self._join(session)
                self._held.registration = None  # it goes before the next one comes
                epoch = await self.following.registrations.register(session, broker)
                await self.following.look(session, Look.ALL)
                if session is not self.sessions.present:
                    continue  # it ended at this moment, and SessionEnded has been delivered
                self._held.registration = (broker.node_id, epoch)
            except (ConnectionAway, SessionOver) as error:
                if self.sessions.closed:
                    raise NoSession("the metadata store is closed") from error
                continue
            except zk.KazooException as error:
                raise OSError(f"ZooKeeper refused the registration: {type(error).__name__}") from error
            return epoch

    async def _join(self, session: Session) -> None:
        if self._folder is None:
            return
        found = await session.find(self._layout.cluster_id)
        if found is not None:
            cluster_id = read_cluster_id(found[0])
            self._folder.check(cluster_id)  # somebody may have removed the nodes, and another begun a cluster
            self._folder.joined(cluster_id)

    async def elect_controller(self, node_id: int) -> int | None:
        """Take the seat if it is vacant, and deliver all that earlier controllers did."""
        while True:
            session = await self.sessions.reached()
            try:
                seat = await self._seats.elect(session, node_id)
                await self.following.look(session, Look.ALL)
            except (ConnectionAway, SessionOver):
                continue
            except zk.KazooException as error:
                raise OSError(f"ZooKeeper refused the election: {type(error).__name__}") from error
            if seat is None:
                return None
            if session is self.sessions.present:
                self._held.seat = seat
                return seat.epoch
