"""What is new in the ensemble: looked for when a watch fires, and delivered in order.

Three watches tell that there is something: on the log's head, on the live brokers, on the controller's seat.
A watch fires once and tells nothing, so each look sets it again and then reads: what comes between the two
fires it once more. Looks are made one at a time, by a task that a watch or a new connection wakes, and by
callers who promised that all is delivered (an overtaken append, an election, a registration).

    watch fired, connected  ->  wake(what)  ->  task: look, deliver  ->  event, event, event

Not here: the sessions over which it looks (sessions.py), appending (appending.py).
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from enum import Flag, auto
from functools import partial

from moldau.broker.metadata.changes import Change
from moldau.broker.metadata.difference import changes_between
from moldau.broker.metadata.store import (
    Deliver,
    Entry,
    Event,
    Known,
    LiveBrokers,
    MetadataStoreError,
    NoSession,
    Registration,
    SeatVacant,
    Snapshot,
)
from moldau.broker.metadata.zookeeper.append_turns import AppendTurns
from moldau.broker.metadata.zookeeper.layout import Layout
from moldau.broker.metadata.zookeeper.log_reading import ENTRIES_AT_ONCE, Head, LogReader, Offload
from moldau.broker.metadata.zookeeper.registrations import Registrations
from moldau.broker.metadata.zookeeper.seat import Held, Seats
from moldau.broker.metadata.zookeeper.session import ConnectionAway, Session, SessionOver
from moldau.broker.metadata.zookeeper.sessions import Sessions
from moldau.common.core.timers import Timers

log = logging.getLogger("moldau.metadata")

_RETRY_DELAY_MS = 1_000


class Look(Flag):
    """What there may be something new of."""

    NOTHING = 0
    LOG = auto()
    BROKERS = auto()
    SEAT = auto()
    ALL = LOG | BROKERS | SEAT


class Following:
    """One broker's view of the log, the live brokers and the controller's seat."""

    def __init__(
        self,
        layout: Layout,
        sessions: Sessions,
        registrations: Registrations,
        seats: Seats,
        held: Held,
        turns: AppendTurns,
        *,
        timers: Timers,
        offload: Offload,
    ) -> None:
        self._layout = layout
        self._sessions = sessions
        self.registrations = registrations
        self._seats = seats
        self._held = held
        self._turns = turns
        self._timers = timers
        self._offload = offload
        self._deliver: Deliver | None = None
        self._known: Known | None = None
        self.version = 0
        """Of the last entry that was delivered."""
        self.head = Head(0, 0)
        """The log's head as it was last read or set."""
        self.live: Mapping[int, Registration] | None = None
        self.vacant_after: int | None = None
        """The epoch after which the seat's vacancy was delivered; None while it is taken."""
        self._due = Look.NOTHING
        self._looking = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_followed(self) -> bool:
        """Whether events go to anyone."""
        return self._deliver is not None

    async def begin(self, after_version: int, deliver: Deliver, known: Known | None = None) -> None:
        """Deliver what there is and all that comes; `known` is the image that this has led to."""
        if self.is_followed:
            raise ValueError("one broker, one follower")
        self.version, self._deliver, self._known = after_version, deliver, known
        while True:
            session = await self._sessions.reached()
            try:
                await self.look(session, Look.ALL)
            except (ConnectionAway, SessionOver):
                continue
            return

    def wake(self, what: Look) -> None:
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
                await self.look(session, due)
            except (ConnectionAway, SessionOver):
                # The watches are gone with the connection, which may be back: then nobody wakes again.
                self._due = Look.ALL
            except Exception:
                log.exception("the metadata in ZooKeeper could not be read; trying again")
                self._due |= due
                self._timers.call_later(_RETRY_DELAY_MS, lambda: self.wake(Look.NOTHING))
                return

    async def look(self, session: Session, what: Look) -> None:
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
        head = self.head = await reader.head(self._log_changed)
        while self._deliver is not None and self.version < head.version:
            first = self.version + 1
            found = await reader.entries(first, min(head.version, first + ENTRIES_AT_ONCE - 1))
            for version, changes in enumerate(found, start=first):
                if changes is None:
                    await self._deliver_snapshot(reader, version)
                    break
                if version > self.version:
                    self._turns.entry_heard()
                self.deliver_entry(version, changes)
        return head

    async def _deliver_snapshot(self, reader: LogReader, missing: int) -> None:
        image = await reader.snapshot()
        if image.version < missing:
            raise MetadataStoreError(f"{self._layout.entry(missing)} is missing in ZooKeeper")
        since = changes = None
        if self._known is not None:
            since = self._known()
            changes = await self._offload(partial(changes_between, since, image))
        if image.version > self.version:
            self.version = image.version
            self.send(Snapshot(image, since, changes))

    async def _look_at_brokers(self, session: Session) -> None:
        live = await self.registrations.look(session, self._brokers_changed)
        if live != self.live and session is self._sessions.present:
            self.live = live
            self.send(LiveBrokers(live))
        if session is self._sessions.present and self._held.registration is not None:
            node_id, epoch = self._held.registration
            if node_id not in live or live[node_id].broker_epoch != epoch:
                session.end(
                    "the registration was removed from ZooKeeper, or another process has taken it over"
                )

    async def _look_at_seat(self, session: Session) -> None:
        owner, last = await self._seats.look(session, self._seat_changed)
        if session is not self._sessions.present:
            return
        if self._held.seat is not None and owner != session.session_id:
            self._held.seat = None  # somebody removed the node by hand, or took it
        if owner:
            self.vacant_after = None
        elif last.epoch and self.vacant_after != last.epoch:
            self.vacant_after = last.epoch
            self.send(SeatVacant(last.epoch))

    def _log_changed(self) -> None:
        self.wake(Look.LOG)

    def _brokers_changed(self) -> None:
        self.wake(Look.BROKERS)

    def _seat_changed(self) -> None:
        self.wake(Look.SEAT)

    def deliver_entry(self, version: int, changes: Sequence[Change]) -> None:
        if version == self.version + 1:  # else it was delivered by another look, or by its append
            self.version = version
            self.send(Entry(version, changes))

    def send(self, event: Event) -> None:
        if self._deliver is not None:
            self._deliver(event)

    async def catch_up(self, version: int) -> int:
        """Deliver what there is after `version`; gives the newest version. NoSession: the session ended
        before, so nothing may have been delivered."""
        while (session := self._sessions.present) is not None:
            try:
                async with self._looking:
                    return (await self._look_at_log(session)).version
            except (ConnectionAway, SessionOver):
                continue
        raise NoSession(f"the session with ZooKeeper has ended, in which version {version} was overtaken")

    def session_over(self) -> None:
        """The session has ended: the next one looks at all anew."""
        self.live = self.vacant_after = None

    async def stop(self) -> None:
        """Deliver nothing more."""
        self._deliver = None
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])
