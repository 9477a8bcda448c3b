"""A metadata store over a network that breaks: what a ZooKeeper shows to each broker, from a seed.

    broker (SimStore)                              ensemble (SimEnsemble)
    request ──── a while, or lost ───────────────> acts on what there is then
            <─── events since the last, answer ─── a while, or lost
            <─── events, late, in order ────────── somebody changed something

A broker sees everything late, and in order; others see it at other moments. When the connection breaks,
requests under way were made or not, and the broker cannot tell; it finds out by reading back once it is
connected again, or is told `OutcomeUnknown`. A session ends at the ensemble when it has not heard from the
broker for the session's timeout: the broker is dead, paused, cut off, or the ensemble is away. The broker
learns that when it reaches the ensemble again, and believes in its session until then.

The ensemble's host in the network is `ENSEMBLE`: `network.separate("node1", ENSEMBLE)` cuts one broker off.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from sim_loop import VirtualLoop
from sim_network import Network
from sim_process import Process

from moldau.broker.metadata.changes import Change
from moldau.broker.metadata.codec import decode_changes, decode_image, encode_image, to_json
from moldau.broker.metadata.image import Image
from moldau.broker.metadata.store import (
    ControllerFenced,
    Deliver,
    Entry,
    Event,
    Known,
    LiveBrokers,
    NoSession,
    OutcomeUnknown,
    Registration,
    SeatVacant,
    SessionEnded,
    Snapshot,
    VersionConflict,
)
from moldau.common.core.timers import LoopTimers
from moldau.testing.shared_memory import SharedMemory, _Session

T = TypeVar("T")

ENSEMBLE = "zookeeper"
SESSION_TIMEOUT_MS = 2000
_LOOKS_PER_SESSION = 4
_HELD_SECONDS = 0.02
_OUTSIDE = contextvars.Context()


class ConnectionLost(Exception):
    """The request was made or not."""


class SimEnsemble(SharedMemory):
    """The ensemble. Its rules are those of `SharedMemory`; what passes between it and brokers is here."""

    def __init__(self, loop: VirtualLoop, network: Network, source: random.Random) -> None:
        super().__init__(LoopTimers(loop), session_timeout_ms=SESSION_TIMEOUT_MS)
        self.loop, self.network, self.random = loop, network, source
        self.away = False
        """Nobody reaches it. Sessions do not end meanwhile: who would end them is not there."""
        self.latency_seconds_max = 0.004
        self.loss = 0.0
        """How likely each message of an append breaks its connection."""
        self.held: set[str] = set()
        """Hosts whose requests do not arrive for now; what the ensemble sends does, and sessions go on."""
        self.on_append: Callable[[Image, Image], None] = lambda before, after: None
        """Told of each entry: the image before and after it."""
        self.stores: list[SimStore] = []

    def access(self, process: Process) -> SimStore:
        """What one broker's process has for one life."""
        self.stores = [each for each in self.stores if each.lives]
        found = SimStore(self, process)
        self.stores.append(found)
        return found

    def store_of(self, process: Process | None) -> SimStore | None:
        """The access of this process."""
        return next((each for each in self.stores if each.process is process), None)

    def append(self, changes: Sequence[Change]) -> int:
        before = self.image
        version = super().append(changes)
        self.on_append(before, self.image)
        return version

    def latency_seconds(self) -> float:
        """Of one message."""
        return self.latency_seconds_max * self.random.random() ** 3

    def later(self, seconds: float, act: Callable[..., None], *args: object) -> None:
        """Something happens at the ensemble, whoever dies or is paused meanwhile."""
        self.loop.call_later(seconds, act, *args, context=_OUTSIDE.copy())


class SimStore:
    """One broker's `MetadataStore`, for one life of its process."""

    def __init__(self, ensemble: SimEnsemble, process: Process) -> None:
        self.process = process
        self._ensemble = ensemble
        self._loop = ensemble.loop
        # The broker's side
        self._session: _Session | None = None
        self._deliver: Deliver | None = None
        self._version = 0
        self._connected = asyncio.Event()
        self._waiting: list[asyncio.Future[Any]] = []
        self._appending = 0
        self._closed = False
        # The ensemble's side
        self._connection = 0
        """Which connection this is; messages of earlier ones are lost."""
        self._up = False
        self._sent_version = -1
        """Up to which entry this connection was sent; -1: the broker does not follow."""
        self._heard: tuple[Mapping[int, Registration] | None, int] = (None, 0)
        self._heard_at = self._loop.time()
        self._reading = False
        # Between them
        self._under_way: deque[tuple[int, list[Event], Callable[[], None] | None]] = deque()
        self._last_arrival = 0.0
        self._look()

    @property
    def lives(self) -> bool:
        """Whether anything can still happen here."""
        return self.process.alive or any(each.store is self for each in self._ensemble.sessions)  # type: ignore[comparison-overlap]

    # The interface: moldau/broker/metadata/store.py has the promises

    async def open(self) -> Image:
        def act() -> Image:
            self._begin()
            return self._copied_image()

        image = await self._ask(act)
        self._version = image.version
        return image

    async def follow(self, after_version: int, deliver: Deliver, known: Known | None = None) -> None:
        del known  # for tests: its images are small
        if self._deliver is not None:
            raise ValueError("one broker, one follower")
        self._version, self._deliver = after_version, deliver

        def act() -> None:
            if self._sent_version < 0:
                self._sent_version = after_version

        await self._ask(act)

    async def append_if(
        self, version: int, changes: Sequence[Change], *, controller_epoch: int | None = None
    ) -> int:
        ensemble = self._ensemble
        made: list[int] = []

        def act() -> int:
            if made:
                return made[0]  # read back: the entry is this broker's own
            session = self._living_session()
            if controller_epoch is not None and (
                controller_epoch != ensemble.controller_epoch or ensemble.controller is not session
            ):
                raise ControllerFenced(controller_epoch, ensemble.controller_epoch)
            if version != ensemble.image.version:
                raise VersionConflict(version, ensemble.image.version)
            made.append(ensemble.append(changes))
            return made[0]

        self._appending += 1
        try:
            try:
                return await self._ask_once(act, loss=ensemble.loss)
            except ConnectionLost as error:
                # Whether to read back is for the store to choose; it cannot once the session is over.
                if ensemble.random.random() < 0.5:
                    raise OutcomeUnknown("the connection was lost during the append") from error
            try:
                return await self._ask(act)
            except NoSession as error:
                raise OutcomeUnknown("the session ended during the append") from error
        finally:
            self._appending -= 1

    async def register_broker(self, broker: Registration) -> int:
        def act() -> int:
            if self._session not in self._ensemble.sessions:
                self._begin()
            assert self._session is not None
            return self._ensemble.register(self._session, broker)

        return await self._ask(act)

    async def elect_controller(self, node_id: int) -> int | None:
        del node_id
        return await self._ask(lambda: self._ensemble.elect(self._living_session()))

    async def close(self) -> None:
        if self._closed:
            return
        while self._appending and self._connected.is_set():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        self._closed, self._deliver = True, None
        session, connection = self._session, self._connection

        def end() -> None:
            if session is not None and connection == self._connection and self._passes():
                self._ensemble.end(session)

        self._ensemble.later(self._ensemble.latency_seconds(), end)
        self._connected.set()
        for each in self._waiting:
            if not each.done():
                each.set_exception(NoSession("the metadata store is closed"))

    # Faults

    def drop(self) -> None:
        """The connection breaks; it is made again soon."""
        if self._up:
            self._up = False
            self._connection += 1
            self._loop.call_soon(self._broken, context=self.process.context())

    def expire(self) -> None:
        """The ensemble ends the session, for reasons of its own."""
        self.session_over("the session was ended")

    def session_over(self, reason: str) -> None:
        """As `expire`. The broker hears of it with its next connection."""
        del reason
        session = next((each for each in self._ensemble.sessions if each.store is self), None)  # type: ignore[comparison-overlap]
        if session is not None:
            self._ensemble.end(session)
            self.drop()

    # Requests, on the broker's side

    async def _ask(self, act: Callable[[], T]) -> T:
        """Have something done that may be done twice."""
        while True:
            try:
                return await self._ask_once(act)
            except ConnectionLost:
                continue

    async def _ask_once(self, act: Callable[[], T], loss: float = 0.0) -> T:
        """`act` runs at the ensemble; what it gives or raises arrives after the events before it."""
        await self._connected.wait()
        if self._closed:
            raise NoSession("the metadata store is closed")
        answer: asyncio.Future[T] = self._loop.create_future()
        self._waiting = [each for each in self._waiting if not each.done()]
        self._waiting.append(answer)
        connection, draw = self._connection, self._ensemble.random

        def arrive() -> None:
            current = connection == self._connection and self._up
            if current and self.process.host in self._ensemble.held and self._passes():
                self._ensemble.later(_HELD_SECONDS, arrive)
                return
            if not current or not self._passes() or draw.random() < loss:
                if current:
                    self.drop()
                self._loop.call_soon(_lose, answer, context=self.process.context())
                return
            result: Any = None
            failure: Exception | None = None
            try:
                result = act()
            except AssertionError:
                raise  # an invariant is broken: the broker must not take it for a failure of the store
            except Exception as error:
                failure = error
            if draw.random() < loss:
                self.drop()
                return

            def answered() -> None:
                if answer.done():
                    return
                if failure is not None:
                    answer.set_exception(failure)
                else:
                    answer.set_result(result)

            self._send(self._news(), answered)

        self._ensemble.later(self._ensemble.latency_seconds(), arrive)
        return await answer

    def _broken(self) -> None:
        """The broker's side of a broken connection."""
        self._connected.clear()
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            _lose(each)

    def _receive(self) -> None:
        connection, events, then = self._under_way.popleft()
        if connection != self._connection or self._closed:
            return
        for event in events:
            if isinstance(event, Entry):
                self._version = event.version
            elif isinstance(event, Snapshot):
                self._version = event.image.version
            if self._deliver is not None:
                self._deliver(event)
        if then is not None:
            then()

    # The ensemble's side

    def hear_soon(self) -> None:
        """Something has changed at the ensemble."""
        if self._up and not self._reading and not self._closed:
            self._reading = True
            self._ensemble.later(self._ensemble.latency_seconds(), self._read)

    def _read(self) -> None:
        self._reading = False
        if not self._passes():
            self.drop()
        elif self._up:
            news = self._news()
            if news:
                self._send(news, None)

    def _send(self, events: list[Event], then: Callable[[], None] | None) -> None:
        arrival = max(self._last_arrival, self._loop.time() + self._ensemble.latency_seconds())
        self._last_arrival = arrival
        self._under_way.append((self._connection, events, then))
        self._loop.call_at(arrival, self._receive, context=self.process.context())

    def _look(self) -> None:
        """Every so often: is the broker there, and does its session go on?"""
        ensemble, now = self._ensemble, self._loop.time()
        passes = self._passes()
        there = passes and not self.process.paused  # the kernel takes bytes, but nobody answers
        if there or ensemble.away:
            self._heard_at = now
        if there and not self._up:
            if not self._closed:
                self._connect()
        elif not passes or (self._session is not None and self._session not in ensemble.sessions):
            self.drop()  # or the same broker has registered from another process
        session = next((each for each in ensemble.sessions if each.store is self), None)  # type: ignore[comparison-overlap]
        if session is not None and now - self._heard_at > ensemble.session_timeout_ms / 1000:
            ensemble.end(session)
            self.drop()
        if self.process.alive or session is not None:
            ensemble.later(ensemble.session_timeout_ms / 1000 / _LOOKS_PER_SESSION, self._look)

    def _connect(self) -> None:
        self._up = True
        self._connection += 1
        self._heard = (None, 0)
        if self._sent_version >= 0:
            self._sent_version = self._version
        session = self._session
        over = session is not None and session not in self._ensemble.sessions

        def connected() -> None:
            self._connected.set()
            if over and self._session is session:
                self._session = None
                if session is not None and session.registration is None and self._deliver is not None:
                    self._begin()
                    self.hear_soon()
                elif self._deliver is not None:
                    self._deliver(SessionEnded("the session with the metadata store has ended"))

        self._send(self._news(), connected)

    def _passes(self) -> bool:
        """Whether bytes pass between the two."""
        network, host = self._ensemble.network, self.process.host
        return (
            self.process.alive
            and not self._ensemble.away
            and not network.are_apart(host, ENSEMBLE)
            and not network.are_apart(ENSEMBLE, host)
        )

    def _begin(self) -> None:
        if self._session in self._ensemble.sessions and self._session is not None:
            return
        self._session = _Session(self)  # type: ignore[arg-type]
        self._heard = (None, 0)
        self._heard_at = self._loop.time()
        self._ensemble.sessions.append(self._session)

    def _living_session(self) -> _Session:
        if self._session is None or self._session not in self._ensemble.sessions:
            raise NoSession("the session with the metadata store has ended")
        return self._session

    def _news(self) -> list[Event]:
        """What this broker was not sent yet."""
        ensemble = self._ensemble
        events: list[Event] = []
        if self._sent_version < 0:
            return events
        oldest = ensemble.image.version - len(ensemble.entries)
        if self._sent_version < oldest:
            events.append(Snapshot(self._copied_image()))
            self._sent_version = ensemble.image.version
        for data in ensemble.entries[self._sent_version - oldest :]:
            self._sent_version += 1
            events.append(Entry(self._sent_version, decode_changes(json.loads(data))))
        if self._session in ensemble.sessions:
            live = ensemble.live()
            vacant_after = ensemble.controller_epoch if ensemble.controller is None else 0
            before, self._heard = self._heard, (live, vacant_after)
            if live != before[0]:
                events.append(LiveBrokers(live))
            if vacant_after not in (0, before[1]):
                events.append(SeatVacant(vacant_after))
        return events

    def _copied_image(self) -> Image:
        return decode_image(json.loads(to_json(encode_image(self._ensemble.image))))


def _lose(answer: asyncio.Future[Any]) -> None:
    if not answer.done():
        answer.set_exception(ConnectionLost())
        answer.exception()  # its caller may be gone
