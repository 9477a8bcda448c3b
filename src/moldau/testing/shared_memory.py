"""A metadata store that several brokers of one process share: an ensemble without a network, for simulations.

It keeps the contract of a real ensemble's store (metadata/store.py, and its conformance suite), and fails on
command. A disconnected broker gets no events and waits; after the session's timeout its session ends on both
sides. Entries are kept as bytes: brokers share no object.

    ensemble = SharedMemory(timers)          the ensemble: log, registrations, the controller's seat
    store = ensemble.store()                 one broker's access to it: a `MetadataStore`
    ensemble.disconnect(store)               nothing passes between the broker and the ensemble ...
    ensemble.reconnect(store)                ... until now; after the timeout its session is over
    ensemble.expire(store)                   its session ends now
    ensemble.lose_answer(store)              its next append is made, and the connection lost with the answer

Events to others travel by the event loop: in order for each broker, later than the change itself. Nothing is
random here; with `delay_ms` the caller decides how long each way takes.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence

from moldau.broker.metadata.changes import Change, replay
from moldau.broker.metadata.codec import decode_changes, decode_image, encode_changes, encode_image, to_json
from moldau.broker.metadata.image import EMPTY_IMAGE, Image
from moldau.broker.metadata.store import (
    ControllerFenced,
    Deliver,
    Entry,
    Event,
    Known,
    LiveBrokers,
    NodeIdInUse,
    NoSession,
    OutcomeUnknown,
    Registration,
    SeatVacant,
    SessionEnded,
    Snapshot,
    StoreStatus,
    VersionConflict,
)
from moldau.common.core.timers import TimerHandle, Timers


class _Session:
    """What the ensemble knows of one broker while it lives."""

    def __init__(self, store: "SharedMemoryStore") -> None:
        self.store = store
        self.registration: Registration | None = None


class SharedMemory:
    """The ensemble. `kept_entries_max`: older entries are dropped; who needs them gets a snapshot."""

    def __init__(
        self,
        timers: Timers,
        *,
        session_timeout_ms: int = 6_000,
        kept_entries_max: int = 10_000,
        delay_ms: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.timers = timers
        self.session_timeout_ms = session_timeout_ms
        self.kept_entries_max = kept_entries_max
        self.delay_ms = delay_ms
        self.image = EMPTY_IMAGE
        self.entries: list[bytes] = []  # the newest ones, up to image.version
        self.sessions: list[_Session] = []
        self.controller: _Session | None = None
        self.controller_epoch = 0
        self._broker_epoch = 0

    def store(self) -> "SharedMemoryStore":
        """A store for one more broker; it is opened by the broker."""
        return SharedMemoryStore(self)

    # What may happen to a broker

    def disconnect(self, store: "SharedMemoryStore") -> None:
        """The broker and the ensemble do not reach each other any more."""
        store.cut_off()

    def reconnect(self, store: "SharedMemoryStore") -> None:
        """They reach each other again."""
        store.reached()

    def expire(self, store: "SharedMemoryStore") -> None:
        """The broker's session ends, whether it can be reached or not."""
        store.session_over("the session was ended")

    def lose_answer(self, store: "SharedMemoryStore") -> None:
        """The broker's next append is made, but the connection is lost before the answer."""
        store.answer_lost = True

    # Used by the stores

    def live(self) -> Mapping[int, Registration]:
        """The registered brokers, by node id."""
        found = [session.registration for session in self.sessions if session.registration is not None]
        return {each.node_id: each for each in sorted(found)}

    def append(self, changes: Sequence[Change]) -> int:
        """Write one entry; gives its version."""
        data = to_json(encode_changes(changes))
        version = self.image.version + 1
        self.image = replay(self.image, version, decode_changes(json.loads(data)))
        self.entries.append(data)
        del self.entries[: -self.kept_entries_max]
        self.wake()
        return version

    def register(self, session: _Session, broker: Registration) -> int:
        """Write down that the session's broker lives; gives its epoch."""
        for holder in list(self.sessions):
            held = holder.registration
            if holder is session or held is None or held.node_id != broker.node_id:
                continue
            if broker.succeeds(held):
                self.end(holder)
                continue
            raise NodeIdInUse(f"a broker with node.id={broker.node_id} is registered already")
        self._broker_epoch += 1
        session.registration = broker._replace(broker_epoch=self._broker_epoch)
        self.wake()
        return self._broker_epoch

    def elect(self, session: _Session) -> int | None:
        """Give the session the seat, if it is vacant or its own already."""
        if self.controller is None:
            self.controller = session
            self.controller_epoch += 1
        return self.controller_epoch if self.controller is session else None

    def end(self, session: _Session) -> None:
        """The session is over: registration and seat go."""
        if session in self.sessions:
            self.sessions.remove(session)
        if self.controller is session:
            self.controller = None
        self.wake()

    def wake(self) -> None:
        """Something changed: deliver it to all connected brokers soon."""
        for session in list(self.sessions):
            session.store.hear_soon()


class SharedMemoryStore:
    """One broker's `MetadataStore` on the ensemble."""

    def __init__(self, ensemble: SharedMemory) -> None:
        self._ensemble = ensemble
        self._session: _Session | None = None
        self._deliver: Deliver | None = None
        self._version = 0
        self._heard: tuple[Mapping[int, Registration] | None, int] = (None, 0)
        """Which brokers were last heard of, and after which controller epoch the seat was vacant."""
        self._connected = asyncio.Event()
        self._connected.set()
        self._hearing = False
        self._expiry: TimerHandle | None = None
        self._closed = False
        self.answer_lost = False

    # The interface: metadata/store.py has the promises

    async def open(self) -> Image:
        await self._reach()
        self._begin()
        image = self._copied_image()
        self._version = image.version
        return image

    async def follow(self, after_version: int, deliver: Deliver, known: Known | None = None) -> None:
        del known  # for tests: its images are small
        await self._reach()
        if self._deliver is not None:
            raise ValueError("one broker, one follower")
        self._version, self._deliver = after_version, deliver
        self._hear()

    async def append_if(
        self, version: int, changes: Sequence[Change], *, controller_epoch: int | None = None
    ) -> int:
        await self._reach()
        ensemble = self._ensemble
        if self._held() is None:
            raise NoSession("the session with the metadata store has ended")
        if controller_epoch is not None and (
            controller_epoch != ensemble.controller_epoch or ensemble.controller is not self._session
        ):
            raise ControllerFenced(controller_epoch, ensemble.controller_epoch)
        if version != ensemble.image.version:
            self._hear()
            raise VersionConflict(version, ensemble.image.version)
        appended = ensemble.append(changes)
        if self.answer_lost:
            self.answer_lost = False
            self.cut_off()
        try:
            await self._reach()
        except NoSession as error:
            raise OutcomeUnknown(str(error)) from error
        self._hear()
        return appended

    async def register_broker(self, broker: Registration) -> int:
        await self._reach()
        session = self._held() or self._begin()
        epoch = self._ensemble.register(session, broker)
        self._hear()
        return epoch

    async def elect_controller(self, node_id: int) -> int | None:
        del node_id
        await self._reach()
        session = self._held()
        if session is None:
            raise NoSession("the session with the metadata store has ended")
        epoch = self._ensemble.elect(session)
        self._hear()
        return epoch

    def status(self) -> StoreStatus:
        """Whether the ensemble is reached; it has no clock to tell since when."""
        return StoreStatus("the ensemble in memory", self._connected.is_set(), 0.0, 0.0)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed, self._deliver = True, None
        if self._expiry is not None:
            self._expiry.cancel()
        if self._session is not None:
            self._ensemble.end(self._session)
            self._session = None
        self._connected.set()

    # The connection

    def cut_off(self) -> None:
        """Nothing passes from now on; the session ends when that lasts."""
        if not self._connected.is_set() or self._closed:
            return
        self._connected.clear()
        if self._session is not None:
            self._expiry = self._ensemble.timers.call_later(
                self._ensemble.session_timeout_ms,
                lambda: self.session_over("the metadata store could not be reached for too long"),
            )

    def reached(self) -> None:
        """Everything passes again: what was missed is heard now."""
        if self._expiry is not None:
            self._expiry.cancel()
        self._connected.set()
        self.hear_soon()

    def session_over(self, reason: str) -> None:
        """The session ends on both sides."""
        session, self._session = self._session, None
        if session is None:
            return
        self._heard = (None, 0)
        self._ensemble.end(session)
        if session.registration is None and self._deliver is not None:
            self._begin()
            self.hear_soon()
        elif self._deliver is not None:
            self._deliver(SessionEnded(reason))

    def _held(self) -> _Session | None:
        """The session, if the ensemble has not given this broker's registration to another process."""
        if self._session is not None and self._session not in self._ensemble.sessions:
            self.session_over("another process of this broker has registered")
        return self._session

    async def _reach(self) -> None:
        """A way to the ensemble and, where that is wanted, its delay."""
        delay_ms = self._ensemble.delay_ms()
        if delay_ms > 0:
            passed = asyncio.Event()
            self._ensemble.timers.call_later(delay_ms, passed.set)
            await passed.wait()
        await self._connected.wait()
        if self._closed:
            raise NoSession("the metadata store is closed")

    def _begin(self) -> _Session:
        self._session = _Session(self)
        self._ensemble.sessions.append(self._session)
        return self._session

    # Events

    def hear_soon(self) -> None:
        """Hear what is new, after the others' turn."""
        if self._hearing or self._closed:
            return
        self._hearing = True

        def hear() -> None:
            self._hearing = False
            if self._connected.is_set():
                self._hear()

        delay_ms = self._ensemble.delay_ms()
        if delay_ms > 0:
            self._ensemble.timers.call_later(delay_ms, hear)
        else:
            asyncio.get_running_loop().call_soon(hear)

    def _hear(self) -> None:
        """Deliver what this broker has not heard yet."""
        ensemble = self._ensemble
        oldest = ensemble.image.version - len(ensemble.entries)
        if self._version < oldest:
            self._send(Snapshot(self._copied_image()))
            self._version = ensemble.image.version
        for data in ensemble.entries[self._version - oldest :]:
            if self._deliver is None:
                return
            self._version += 1
            self._send(Entry(self._version, decode_changes(json.loads(data))))
        if self._session is None:
            return
        live, vacant_after = ensemble.live(), ensemble.controller_epoch if ensemble.controller is None else 0
        before, self._heard = self._heard, (live, vacant_after)
        if live != before[0]:
            self._send(LiveBrokers(live))
        if vacant_after not in (0, before[1]):
            self._send(SeatVacant(vacant_after))

    def _send(self, event: Event) -> None:
        if self._deliver is not None:
            self._deliver(event)

    def _copied_image(self) -> Image:
        return decode_image(json.loads(to_json(encode_image(self._ensemble.image))))
