"""`MetadataStore` on a ZooKeeper ensemble.

Three watches tell that there is something new: on the log's head, on the live brokers, on the controller's
seat. A watch fires once and tells nothing, so each look sets it again and then reads: what comes between the
two fires it once more. Looks are made one at a time, by a task that a watch or a new connection wakes, and by
callers that were promised to have been told (an overtaken append, an election, a registration).

    watch fired, connected  ->  _wake(what)  ->  task: look, deliver  ->  event, event, event

While the connection is away everything waits; the session goes on if it comes back in time. Only ZooKeeper
can say that it did not, so SessionEnded comes when the ensemble is reached again, or when this broker gives
the session up. After that `register_broker` begins another one.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import Flag, auto
from functools import partial

from kazoo import exceptions as zk

from moldau.broker.metadata.changes import Change
from moldau.broker.metadata.difference import changes_between
from moldau.broker.metadata.image import Image
from moldau.broker.metadata.store import (
    ControllerFenced,
    Deliver,
    Entry,
    Event,
    Known,
    LiveBrokers,
    MetadataStoreError,
    NoSession,
    OutcomeUnknown,
    Registration,
    SeatVacant,
    SessionEnded,
    Snapshot,
    StoreStatus,
    VersionConflict,
)
from moldau.broker.metadata.zookeeper import foundation
from moldau.broker.metadata.zookeeper.append import Append, Deposed, Forgotten, Overtaken, Seat
from moldau.broker.metadata.zookeeper.data_folder import DataFolder
from moldau.broker.metadata.zookeeper.discovery import read_cluster_id
from moldau.broker.metadata.zookeeper.layout import Layout
from moldau.broker.metadata.zookeeper.log_reading import ENTRIES_AT_ONCE, Head, LogReader, Offload
from moldau.broker.metadata.zookeeper.opening import open_log
from moldau.broker.metadata.zookeeper.options import Options
from moldau.broker.metadata.zookeeper.payload import entry_in_slices, fresh_id, pack
from moldau.broker.metadata.zookeeper.registrations import Registrations
from moldau.broker.metadata.zookeeper.seat import Seats
from moldau.broker.metadata.zookeeper.session import ConnectionAway, Session, SessionOver
from moldau.broker.metadata.zookeeper.sessions import Sessions
from moldau.broker.metadata.zookeeper.snapshots import Snapshots
from moldau.broker.metadata.zookeeper.turns import Turns
from moldau.common.core.clock import Clock
from moldau.common.core.slow_lane import SlowLane, all_steps
from moldau.common.core.timers import Timers

log = logging.getLogger("moldau.metadata")

_PACKED_HERE_BYTES_MAX = 65_536
_RETRY_DELAY_MS = 1_000
_FORGOTTEN = "the connection to ZooKeeper was lost for so long that a snapshot has replaced what was written"


class Look(Flag):
    """What there may be something new of."""

    NOTHING = 0
    LOG = auto()
    BROKERS = auto()
    SEAT = auto()
    ALL = LOG | BROKERS | SEAT


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
        self._timers = timers
        self._random = source
        self._offload = Offload(offload)
        self._lane = lane
        self._folder = folder
        self._registrations = Registrations(self._layout, clock, 0)
        self._seats = Seats(self._layout, clock)
        self._turns = Turns(self._layout, timers)
        self._sessions = Sessions(options, timers, seconds, self._connected, self._session_over)
        self._deliver: Deliver | None = None
        self._known: Known | None = None
        self._version = 0
        self._node_version_offset = 0
        self._head = Head(0, 0)
        """The log's head as it was last read or set."""
        self._live: Mapping[int, Registration] | None = None
        self._own: tuple[int, int] | None = None
        """Node id and epoch of the present registration."""
        self._vacant_after: int | None = None
        """The epoch after which the seat's vacancy was told of; None while it is taken."""
        self._seat: Seat | None = None
        self._due = Look.NOTHING
        self._looking = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._snapshotting: asyncio.Task[None] | None = None
        self._renewal: asyncio.Task[None] | None = None
        self._appending = 0
        self._appends_done = asyncio.Event()

    @property
    def session(self) -> Session | None:
        """The present session, for monitoring: whether the ensemble is reached, since when, how fast."""
        return self._sessions.present

    def status(self) -> StoreStatus:
        """Whether the ensemble is reached, since when, how fast."""
        return self._sessions.status()

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
            self._version = image.version
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
                session = await self._sessions.begin(self._options.connection_timeout_ms)
                return await self._read(session)
            except (SessionOver, ConnectionAway) as error:
                if self._sessions.closed:
                    raise SessionOver(str(error)) from error
                if session is not None:
                    session.end("its connection was lost while the metadata was read")
                log.warning(
                    "the metadata is read again in a new ZooKeeper session: %s", error or "no connection"
                )

    async def _read(self, session: Session) -> Image:
        reader = LogReader(session, self._layout, self._offload)
        opened = await open_log(session, self._layout, reader, self._folder, self._random)
        self._registrations = Registrations(self._layout, self._clock, opened.broker_epoch_base)
        self._head = opened.head
        self._node_version_offset = opened.head.version - opened.head.node_version
        return opened.image

    async def close(self) -> None:
        """End the session; an append under way is finished first while the ensemble can be reached."""
        if self._sessions.closed:
            return
        self._sessions.closed = True
        session = self._sessions.present
        while self._appending and session is not None and session.up:
            self._appends_done.clear()
            timer = self._timers.call_later(50, self._appends_done.set)  # or the connection was lost
            await self._appends_done.wait()
            timer.cancel()
        self._deliver = None
        for task in (self._task, self._snapshotting, self._renewal):
            if task is not None and not task.done():
                task.cancel()
                await asyncio.wait([task])
        if session is not None:
            await session.close()
        if self._folder is not None:
            self._folder.release()

    # The session

    def _connected(self) -> None:
        self._wake(Look.ALL)

    def _session_over(self, reason: str) -> None:
        registered = self._own is not None
        self._seat = self._own = self._live = self._vacant_after = None
        if self._sessions.closed:
            return
        if registered or self._deliver is None:
            self._send(SessionEnded(reason))
        else:
            self._renewal = asyncio.get_running_loop().create_task(self._begin_again(reason))

    async def _begin_again(self, reason: str) -> None:
        """A broker that starts has not registered yet: nothing depends on its session, but it must hear of
        changes.
        """
        log.warning("a new ZooKeeper session begins: %s", reason)
        if self._sessions.present is None and not self._sessions.closed:
            with contextlib.suppress(SessionOver):  # told by `_session_over`, which begins another
                await self._sessions.begin()

    # Following

    async def follow(self, after_version: int, deliver: Deliver, known: Known | None = None) -> None:
        """Deliver what there is and all that comes; `known` is the image that this has led to."""
        if self._deliver is not None:
            raise ValueError("one broker, one follower")
        if self._snapshotting is not None:
            await asyncio.wait([self._snapshotting])
        self._version, self._deliver, self._known = after_version, deliver, known
        while True:
            session = await self._sessions.reached()
            try:
                await self._look(session, Look.ALL)
            except (ConnectionAway, SessionOver):
                continue
            return

    def _wake(self, what: Look) -> None:
        """Look soon."""
        self._due |= what
        if (
            self._deliver is not None
            and not self._sessions.closed
            and (self._task is None or self._task.done())
        ):
            self._task = asyncio.get_running_loop().create_task(self._look_while_due())

    async def _look_while_due(self) -> None:
        while self._due and not self._sessions.closed and (session := self._sessions.present) is not None:
            due, self._due = self._due, Look.NOTHING
            try:
                await self._look(session, due)
            except (ConnectionAway, SessionOver):
                # The watches are gone with the connection, which may be back: then nobody wakes again.
                self._due = Look.ALL
            except Exception:
                log.exception("the metadata in ZooKeeper could not be read; trying again")
                self._due |= due
                self._timers.call_later(_RETRY_DELAY_MS, lambda: self._wake(Look.NOTHING))
                return

    async def _look(self, session: Session, what: Look) -> None:
        """Read what is new, and deliver it."""
        async with self._looking:
            if Look.LOG in what:
                await self._look_at_log(session)
            if Look.BROKERS in what:
                await self._look_at_brokers(session)
            if Look.SEAT in what:
                await self._look_at_seat(session)

    async def _look_at_log(self, session: Session) -> Head:
        reader = LogReader(session, self._layout, self._offload)
        head = self._head = await reader.head(self._log_changed)
        while self._deliver is not None and self._version < head.version:
            first = self._version + 1
            found = await reader.entries(first, min(head.version, first + ENTRIES_AT_ONCE - 1))
            for version, changes in enumerate(found, start=first):
                if changes is None:
                    await self._deliver_snapshot(reader, version)
                    break
                if version > self._version:
                    self._turns.entry_heard()
                self._deliver_entry(version, changes)
        return head

    async def _deliver_snapshot(self, reader: LogReader, missing: int) -> None:
        image = await reader.snapshot()
        if image.version < missing:
            raise MetadataStoreError(f"{self._layout.entry(missing)} is missing in ZooKeeper")
        since = changes = None
        if self._known is not None:
            since = self._known()
            changes = await self._offload(partial(changes_between, since, image))
        if image.version > self._version:
            self._version = image.version
            self._send(Snapshot(image, since, changes))

    async def _look_at_brokers(self, session: Session) -> None:
        live = await self._registrations.look(session, self._brokers_changed)
        if live != self._live and session is self._sessions.present:
            self._live = live
            self._send(LiveBrokers(live))
        if session is self._sessions.present and self._own is not None:
            node_id, epoch = self._own
            if node_id not in live or live[node_id].broker_epoch != epoch:
                session.end(
                    "the registration was removed from ZooKeeper, or another process has taken it over"
                )

    async def _look_at_seat(self, session: Session) -> None:
        owner, last = await self._seats.look(session, self._seat_changed)
        if session is not self._sessions.present:
            return
        if self._seat is not None and owner != session.session_id:
            self._seat = None  # somebody removed the node by hand, or took it
        if owner:
            self._vacant_after = None
        elif last.epoch and self._vacant_after != last.epoch:
            self._vacant_after = last.epoch
            self._send(SeatVacant(last.epoch))

    def _log_changed(self) -> None:
        self._wake(Look.LOG)

    def _brokers_changed(self) -> None:
        self._wake(Look.BROKERS)

    def _seat_changed(self) -> None:
        self._wake(Look.SEAT)

    def _deliver_entry(self, version: int, changes: Sequence[Change]) -> None:
        if version == self._version + 1:  # else it was delivered by another look, or by its append
            self._version = version
            self._send(Entry(version, changes))

    def _send(self, event: Event) -> None:
        if self._deliver is not None:
            self._deliver(event)

    # Appending

    async def append_if(
        self, version: int, changes: Sequence[Change], *, controller_epoch: int | None = None
    ) -> int:
        """Append one entry if the log is still at `version`."""
        session = await self._sessions.reached()
        seat = self._seat if controller_epoch is not None else None
        if controller_epoch is not None and (seat is None or seat.epoch != controller_epoch):
            raise ControllerFenced(controller_epoch, await self._last_epoch(controller_epoch))
        self._appending += 1
        try:
            await self._append(session, version, changes, seat)
        finally:
            self._appending -= 1
            self._appends_done.set()
        return version + 1

    async def _append(
        self, session: Session, version: int, changes: Sequence[Change], seat: Seat | None
    ) -> None:
        steps = entry_in_slices(changes)
        payload = all_steps(steps) if self._lane is None else await self._lane.slices().run(steps)
        payload_id = fresh_id(self._random)
        if len(payload) <= _PACKED_HERE_BYTES_MAX:
            packed = pack(payload_id, payload, version + 1)
        else:
            packed = await self._offload(lambda: pack(payload_id, payload, version + 1))
        if seat is None:
            await self._turns.give_way()
        if self._deliver is not None and self._version > version:
            raise VersionConflict(version, self._version)
        before_bytes = self._head.log_bytes
        log_bytes = before_bytes + packed.size_bytes
        append = Append(self._layout, version, changes, packed, seat, log_bytes)
        try:
            waiting = await append.make(session, version - self._node_version_offset)
            self._turns.appended(waiting or 0)
        except SessionOver as error:
            if not append.in_doubt:
                raise NoSession(str(error)) from error
            await self._find_out(append, version, error)
        except Overtaken:
            await self._forget(append, session)
            await self._turns.overtaken(session)
            raise VersionConflict(version, await self._catch_up(version)) from None
        except Deposed:
            await self._forget(append, session)
            self._seat = None
            held = -1 if seat is None else seat.epoch
            raise ControllerFenced(held, await self._last_epoch(held)) from None
        except Forgotten:
            raise OutcomeUnknown(_FORGOTTEN) from None
        except (zk.KazooException, MetadataStoreError) as error:
            what = "" if isinstance(error, MetadataStoreError) else f"{type(error).__name__} "
            raise OSError(f"ZooKeeper refused a metadata entry: {what}{error}") from error
        if self._head.version <= version:
            self._head = Head(version + 1, version + 1 - self._node_version_offset, log_bytes)
        options = self._options
        if (version + 1) % options.snapshot_entries == 0 or (
            before_bytes // options.snapshot_bytes != log_bytes // options.snapshot_bytes
        ):
            self._write_snapshot()
        self._deliver_entry(version + 1, changes)
        if self._deliver is not None and self._version <= version:
            with contextlib.suppress(NoSession):  # it was made all the same; the next session delivers it
                await self._catch_up(version)

    async def _find_out(self, append: Append, version: int, error: SessionOver) -> None:
        """The session ended while an append was under way: was it made? VersionConflict, OutcomeUnknown.

        It begins the next session itself: who would register again may wait for this very append.
        """
        while not self._sessions.closed:
            try:
                session = self._sessions.present or await self._sessions.begin()
                if await append.is_made(session):
                    return
                if await append.is_overtaken(session):
                    raise VersionConflict(version, await self._catch_up(version))
            except (SessionOver, ConnectionAway):
                continue
            except Forgotten:
                raise OutcomeUnknown(_FORGOTTEN) from None
            break  # the former session's request may still be on its way
        raise OutcomeUnknown(
            f"the connection to ZooKeeper was lost while the metadata was written, and {error}"
        )

    async def _forget(self, append: Append, session: Session) -> None:
        try:
            await append.remove_parts(session)
        except (ConnectionAway, SessionOver):
            return  # removed later, as a crashed writer's

    async def _catch_up(self, version: int) -> int:
        """Deliver what there is after `version`; gives the newest version. NoSession: the session ended
        before, so nothing may have been delivered."""
        while (session := self._sessions.present) is not None:
            try:
                async with self._looking:
                    return (await self._look_at_log(session)).version
            except (ConnectionAway, SessionOver):
                continue
        raise NoSession(f"the session with ZooKeeper has ended, in which version {version} was overtaken")

    async def _last_epoch(self, held: int) -> int:
        """The epoch of the last controller."""
        while (session := self._sessions.present) is not None:
            try:
                await session.sync(self._layout.controller_epoch)
                return (await self._seats.epoch(session)).epoch
            except (ConnectionAway, SessionOver):
                continue
        return held

    def _write_snapshot(self) -> None:
        session = self._sessions.present
        if session is None or (self._snapshotting is not None and not self._snapshotting.done()):
            return
        reader = LogReader(session, self._layout, self._offload)
        snapshots = Snapshots(session, self._layout, reader, self._offload, self._random)

        async def write() -> None:
            try:
                await snapshots.write(self._options.kept_entries)
            except (ConnectionAway, SessionOver) as error:
                log.info("the metadata's snapshot was not finished: %s", error)
            except Exception:
                log.exception("the metadata's snapshot failed; the next one comes")

        self._snapshotting = asyncio.get_running_loop().create_task(write())

    # Registration and election

    async def register_broker(self, broker: Registration) -> int:
        """Register, beginning a new session if the last one has ended."""
        while True:
            if self._sessions.closed:
                raise NoSession("the metadata store is closed")
            try:
                session = self._sessions.present or await self._sessions.begin()
                await self._join(session)
                self._own = None  # it goes before the next one comes
                epoch = await self._registrations.register(session, broker)
                await self._look(session, Look.ALL)
                if session is not self._sessions.present:
                    continue  # it ended at this moment, and SessionEnded has been delivered
                self._own = (broker.node_id, epoch)
            except (ConnectionAway, SessionOver) as error:
                if self._sessions.closed:
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
            session = await self._sessions.reached()
            try:
                seat = await self._seats.elect(session, node_id)
                await self._look(session, Look.ALL)
            except (ConnectionAway, SessionOver):
                continue
            except zk.KazooException as error:
                raise OSError(f"ZooKeeper refused the election: {type(error).__name__}") from error
            if seat is None:
                return None
            if session is self._sessions.present:
                self._seat = seat
                return seat.epoch
