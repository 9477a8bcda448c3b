"""Keeps this broker registered in the metadata store, and stands for election as controller.

Registration and controllership last as long as the store's session, and are sought again when it has ended.
As the controller, this broker records broker failures and the leaders that follow (membership.py).

    SessionEnded   register again, then stand for election
    SeatVacant     stand for election
    LiveBrokers    as the controller: decide on it; else remember it, in case of a later election
    ConfigsChanged (an entry) as the controller, if it affects elections: decide again

A single task does all of this, step by step, and re-checks what is due after each; events only wake it.
Failures are logged and retried after a pause.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from moldau.broker.controller.decision import Steps
from moldau.broker.controller.loop import DecisionLoop
from moldau.broker.controller.membership import Followed, RulesOf, brokers_changed, take_seat
from moldau.broker.metadata.changes import Change, ConfigsChanged, FeatureChanged, LogEndsTold
from moldau.broker.metadata.image import Image
from moldau.broker.metadata.store import (
    NO_BROKER_EPOCH,
    ControllerFenced,
    Event,
    LiveBrokers,
    MetadataStore,
    MetadataStoreError,
    NodeIdInUse,
    NoSession,
    OutcomeUnknown,
    Registration,
    SeatVacant,
    SessionEnded,
    Snapshot,
)
from moldau.broker.metadata.view import MetadataView
from moldau.common.core.timers import TimerHandle, Timers

log = logging.getLogger("moldau.controller")

_RETRY_DELAY_MS = 1_000


_SETTINGS_OF_LEADERS = ("min.insync.replicas", "unclean.leader.election.enable")


class Presence:
    """Keeps this broker registered, and the controller elected."""

    def __init__(self, node_id: int, store: MetadataStore, view: MetadataView, rules: RulesOf) -> None:
        self._node_id = node_id
        self._store = store
        self._view = view
        self._rules = rules
        self.timers: Timers | None = None
        self.on_seat: Callable[[int | None], None] = lambda controller_epoch: None
        """Called when this broker becomes the controller, and (with None) when it is no longer."""
        self.broker_epoch: int | None = None
        """The broker epoch of the present registration; None while there is none."""
        self.on_registered: Callable[[Sequence[int]], Awaitable[None]] = _nothing
        """Called with the broker epochs since which the logs are complete, after each registration."""
        self._complete_since: list[int] = []
        """Broker epochs since which the logs here have lost nothing: this process's, and that before a stop.
        """
        self.controller_epoch: int | None = None
        """The controller epoch of this broker; None while it is not the controller."""
        self._registration: Registration | None = None
        self._live: Mapping[int, Registration] = {}
        self._decided_on: Mapping[int, Registration] | None = None
        """The live brokers that this controller last decided on; None when it must decide anew."""
        self._seat_sought = False
        self._woken = False
        self._task: asyncio.Task[None] | None = None
        self._retry: TimerHandle | None = None
        self._joined: asyncio.Future[int] | None = None
        self._limit: TimerHandle | None = None
        self._refused = ""
        self._closing = False

    async def join(
        self,
        loop: DecisionLoop,
        registration: Registration,
        limit_ms: float = 60_000,
        *,
        complete_since: Sequence[int] = (),
    ) -> int:
        """Register, and stay registered; returns the broker epoch once the image has it. `complete_since`:
        broker epochs of earlier processes since which the logs have lost nothing.

        Raises what the store raises when it refuses (MetadataStoreError, OSError). While the node id is in
        use (after a crash, until the former session has ended) it waits, for `limit_ms` at most.
        """
        self._loop = loop
        self._registration = registration
        self._complete_since += complete_since
        self._joined = asyncio.get_running_loop().create_future()
        self._limit_ms = limit_ms
        self._wake()
        try:
            return await self._joined
        finally:
            self._joined = None
            self._stop_waiting()

    def _stop_waiting(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None

    def _waited_too_long(self) -> None:
        """The node id belongs to a broker that goes on living: two have the same."""
        self._limit = None
        if self._joined is not None and not self._joined.done():
            self._joined.set_exception(MetadataStoreError(f"{self._refused}; give each broker its own"))
            self._registration = None

    @property
    def complete_since(self) -> int:
        """A broker epoch since which the logs here have lost nothing: the one in the image, if it is one. (A
        session may end before the controller has heard of it.) NO_BROKER_EPOCH if there is none.
        """
        epochs, known = self._complete_since, self._view.image.brokers.get(self._node_id)
        if known is not None and known.broker_epoch in epochs:
            return known.broker_epoch
        return epochs[-1] if epochs else NO_BROKER_EPOCH

    @property
    def live(self) -> Mapping[int, Registration]:
        """The brokers that are registered, as the store told last."""
        return self._live

    def heard(self, event: Event) -> None:
        """Handle an event of the store; entries and snapshots have been published already."""
        if isinstance(event, LiveBrokers):
            self._live = event.brokers
            self._wake()
        elif isinstance(event, SeatVacant):
            self._seat_sought = True
            self._wake()
        elif isinstance(event, SessionEnded):
            log.warning("registering again: %s", event.reason)
            self.broker_epoch = None
            self._step_down()
            self._wake()
        else:
            self._look_whether_joined()
            if isinstance(event, Snapshot) or any(map(_concerns_leaders, event.changes)):
                self._decided_on = None
                self._wake()

    async def close(self) -> None:
        """Stop."""
        self._closing = True
        if self._joined is not None and not self._joined.done():
            self._joined.set_exception(NoSession("the broker stops"))
        if self._retry is not None:
            self._retry.cancel()
        self._stop_waiting()
        self._step_down()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    # The task

    def _wake(self) -> None:
        self._woken = True
        if self._task is None and self._registration is not None and not self._closing:
            self._task = asyncio.get_running_loop().create_task(self._work())

    async def _work(self) -> None:
        while self._woken:
            self._woken = False
            try:
                await self._attend()
            except (NoSession, ControllerFenced) as error:
                log.info("%s", error)  # the event that follows says what to do
                self._step_down()
            except OutcomeUnknown as error:
                log.warning("the metadata store's answer was lost; looking again: %s", error)
                self._retry_later()
            except Exception as error:
                if self._joined is not None and not self._joined.done():
                    self._joined.set_exception(error)
                    self._registration = None  # the caller decides whether to try again
                    break
                log.exception("the broker's registration or its work as controller failed; trying again")
                self._retry_later()
        self._task = None

    def _retry_later(self) -> None:
        if self.timers is not None:
            self._retry = self.timers.call_later(_RETRY_DELAY_MS, self._wake)

    async def _attend(self) -> None:
        """Do what is due, in the order of dependency: register, stand for election, decide."""
        if self.broker_epoch is None and not await self._register():
            return
        if self._seat_sought:
            self._seat_sought = False
            try:
                held = await self._store.elect_controller(self._node_id)
            except Exception:
                self._seat_sought = True
                raise
            if held is None or self.broker_epoch is None:
                return
            if held != self.controller_epoch:
                log.info("this broker is the controller, in epoch %d", held)
                self.on_seat(held)
            self.controller_epoch, self._decided_on = held, None
        if self.controller_epoch is not None and self._decided_on is not self._live:
            live, before = self._live, self._view.image
            self._decided_on = live  # before: what comes meanwhile may have come too late for this decision
            try:
                # The other brokers must not wait for the disks of this one.
                followed = await self._loop.decide(
                    lambda image: self._decide(image, live),
                    controller_epoch=self.controller_epoch,
                    in_step=False,
                )
            except BaseException:
                self._decided_on = None
                raise
            self._log_followed(followed, before)
        self._look_whether_joined()

    def _decide(self, image: Image, live: Mapping[int, Registration]) -> Steps[Followed]:
        held = self.controller_epoch
        if held is not None and image.controller_epoch < held:
            return take_seat(image, self._node_id, held, live, self._rules)
        return brokers_changed(image, live, self._rules)

    def _log_followed(self, followed: Followed, before: Image) -> None:
        """Say in the log which brokers came and went, and what that meant for partitions."""
        if len(self._live) == 1 and self._node_id in self._live and not followed.gone:
            return  # a broker alone
        what = [f"broker {node} is registered" for node in followed.registered]
        for node in followed.gone:
            known = before.brokers.get(node)
            why = "has stopped" if known is not None and known.shutting_down else "is gone: its session ended"
            what.append(f"broker {node} {why}")
        if followed.led_by_others or followed.leaderless:
            what.append(f"{followed.led_by_others} partitions have another leader")
        if followed.leaderless:
            what.append(f"{followed.leaderless} have none until a replica with all records is back")
        if what:
            level = logging.WARNING if followed.gone else logging.INFO
            log.log(level, "%s", "; ".join(what))

    def _step_down(self) -> None:
        if self.controller_epoch is not None:
            self.on_seat(None)
        self.controller_epoch = self._decided_on = None

    async def _register(self) -> bool:
        assert self._registration is not None
        broker = self._registration._replace(previous_broker_epoch=self.complete_since)
        try:
            epoch = await self._store.register_broker(broker)
        except NodeIdInUse as error:
            if self._refused != str(error):
                log.warning("%s; waiting until it is free", error)
            self._refused = str(error)
            if self._limit is None and self._joined is not None and self.timers is not None:
                self._limit = self.timers.call_later(self._limit_ms, self._waited_too_long)
            return False
        self._refused = ""
        self.broker_epoch = epoch
        self._complete_since.append(epoch)
        self._seat_sought = True
        await self.on_registered(tuple(self._complete_since))
        return True

    def _look_whether_joined(self) -> None:
        joined, epoch = self._joined, self.broker_epoch
        known = self._view.image.brokers.get(self._node_id)
        if joined is None or joined.done() or epoch is None or known is None:
            return
        if known.broker_epoch == epoch and not known.fenced:
            joined.set_result(epoch)


async def _nothing(complete_since: Sequence[int]) -> None:
    """Nobody keeps them."""


def _concerns_leaders(change: Change) -> bool:
    if isinstance(change, LogEndsTold):
        return bool(change.ends)
    if isinstance(change, FeatureChanged):
        return True
    return isinstance(change, ConfigsChanged) and any(name in change.values for name in _SETTINGS_OF_LEADERS)
