"""The decision loop: decide on the current image, append the changes, publish the new image.

One decision is made at a time, each on the image that the one before led to. After a conflict with another
broker's append it is made again on the newer image. A cancelled caller does not interrupt an append, which
runs in a task of its own.

    decide(image) --> store.append_if(version, changes) --> Entry --> replay --> subscribers --> answer

The answer leaves when this broker is in step with the new image: the folders of a new topic's partitions are
there. The next decision does not wait for that. Entries of other brokers take the same path from `Entry` on.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from moldau.broker.controller.decision import Decision, Outcome, Steps, decided
from moldau.broker.metadata.changes import Change, PartitionsChanged, replay
from moldau.broker.metadata.difference import changes_between
from moldau.broker.metadata.image import Image
from moldau.broker.metadata.levels import LevelTooHigh, check_level
from moldau.broker.metadata.store import (
    ControllerFenced,
    Entry,
    Event,
    MetadataStore,
    NoSession,
    OutcomeUnknown,
    Snapshot,
    StoreStatus,
    VersionConflict,
)
from moldau.broker.metadata.view import MetadataView
from moldau.common.core.slow_lane import SlowLane
from moldau.common.core.timers import TimerHandle, Timers
from moldau.common.protocol.errors import ErrorCode

log = logging.getLogger("moldau.controller")

R = TypeVar("R")
Decide = Callable[[Image], Decision[R] | Steps[R]]

AWAY_MS = 5_000
"""How long the store must have been away before clients that wait for it are told."""


class DecisionLoop:
    """Makes decisions one after the other. `heard` is called with every event of the store after it took
    effect here.
    """

    def __init__(
        self,
        store: MetadataStore,
        view: MetadataView,
        lane: SlowLane | None,
        heard: Callable[[Event], None],
        timers: Timers | None = None,
        status: Callable[[], StoreStatus | None] = lambda: None,
    ) -> None:
        """`status`: how the store is reached, None where it is on this machine."""
        self._store = store
        self._timers = timers
        self._status = status
        self._view = view
        self._lane = lane
        self._heard = heard
        self._deciding = asyncio.Lock()
        self._tasks: set[asyncio.Task[object]] = set()
        self._queued: set[asyncio.Task[Any] | None] = set()
        """Those of `_tasks` that have not begun, so that nothing of them can have been made."""
        self._pending: list[asyncio.Future[None]] = []
        """What this broker's parts have still to do for the newest image."""

    async def open(self) -> Image:
        """Open the store, publish what it holds, and follow it. MetadataStoreError when it cannot be."""
        image = await self._store.open()
        self._view.publish(image, ())
        await self._store.follow(image.version, self._delivered, lambda: self._view.image)
        return self._view.image

    async def decide(
        self,
        decide: Decide[R],
        failed: Callable[[Outcome], R] | None = None,
        *,
        validate_only: bool = False,
        controller_epoch: int | None = None,
        in_step: bool = True,
        newest: bool = False,
        for_client: bool = False,
    ) -> R:
        """Decide, append the changes, return the answer. `controller_epoch`: it is the controller's decision,
        refused with ControllerFenced when that epoch is over. `in_step`: not before this broker's own parts
        follow the new image. `newest`: a decision that changes nothing holds only if the image is the newest
        there is. A failed append is answered with `failed`; without it, OSError, NoSession,
        OutcomeUnknown or LevelTooHigh is raised. `for_client`: while the store is away, who waits is told so
        after `AWAY_MS`, by `failed`.
        """
        if validate_only:
            return (await self._decided(decide, self._view.image)).answer
        task = asyncio.ensure_future(self._run(decide, controller_epoch, in_step, newest))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            if for_client and failed is not None and self._timers is not None and self._status() is not None:
                away = await self._done_or_away(task, self._timers)
                if away is not None:
                    return failed(self._put_off(task, away))
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_log_outcome)
            raise
        except (OSError, NoSession, OutcomeUnknown, LevelTooHigh) as error:
            if failed is None:
                raise
            return failed(_unwritten(error))

    async def _done_or_away(self, task: "asyncio.Task[Any]", timers: Timers) -> StoreStatus | None:
        """Wait for `task`, or until it has waited for long and the store is away: then its status."""
        over = asyncio.Event()
        away: StoreStatus | None = None
        timer: TimerHandle | None = None

        def look() -> None:
            nonlocal away, timer
            status = self._status()
            if status is None or status.is_up or status.since_seconds * 1000 < AWAY_MS:
                timer = timers.call_later(AWAY_MS, look)
            else:
                away = status
                over.set()

        timer = timers.call_later(AWAY_MS, look)
        task.add_done_callback(lambda _: over.set())
        try:
            await over.wait()
        finally:
            if timer is not None:
                timer.cancel()
        return None if task.done() else away

    def _put_off(self, task: "asyncio.Task[Any]", away: StoreStatus) -> Outcome:
        """What a client hears that waits no longer. What has not begun is dropped, or clients that ask again
        and again would queue up."""
        cause = f"{away.name} is not reached for {away.since_seconds:.0f} s"
        if task in self._queued:
            task.cancel()
            return Outcome(ErrorCode.REQUEST_TIMED_OUT, f"The change was not made: {cause}")
        task.add_done_callback(_log_outcome)
        return Outcome(ErrorCode.REQUEST_TIMED_OUT, f"The change waits, and may yet be made: {cause}")

    async def _decided(self, decide: Decide[R], image: Image) -> Decision[R]:
        outcome = decide(image)
        if isinstance(outcome, Decision):
            return outcome
        return decided(outcome) if self._lane is None else await self._lane.slices().run(outcome)

    async def _run(self, decide: Decide[R], controller_epoch: int | None, in_step: bool, newest: bool) -> R:
        task = asyncio.current_task()
        self._queued.add(task)
        try:
            await self._deciding.acquire()
        finally:
            self._queued.discard(task)
        try:
            while True:
                # Entries of other brokers may come between two slices: the version is that of the image
                # decided on, whatever the newest one is by then.
                image = self._view.image
                decision = await self._decided(decide, image)
                entries = [each for each in (*decision.earlier, decision.changes) if each]
                if not (entries or newest):
                    return decision.answer
                try:
                    await self._append(image, entries or [()], controller_epoch)
                except VersionConflict as conflict:
                    log.info("%s; deciding again", conflict)
                    continue
                pending = self._pending
                break
        finally:
            self._deciding.release()
        if pending and in_step:
            await asyncio.wait(pending)
        return decision.answer

    async def _append(
        self, image: Image, entries: Sequence[Sequence[Change]], controller_epoch: int | None
    ) -> None:
        """Append what was decided on `image`. VersionConflict: the entries that are not there must be decided
        again. (Not at every conflict: else a failover of many thousand partitions, which takes a second to
        decide, would wait for as long as others append more often.)
        """
        version, overtaken = image.version, False
        *earlier, last = entries
        for changes in earlier:
            check_level(image, changes)
            while True:
                now = self._view.image
                if overtaken and not _holds(changes, image, now):
                    raise VersionConflict(version, now.version)
                version = now.version if overtaken else version
                try:
                    await self._store.append_if(version, changes, controller_epoch=controller_epoch)
                except VersionConflict:
                    overtaken = True
                else:
                    break
            version += 1
        if overtaken:  # the last entry may depend on everything
            raise VersionConflict(image.version, version)
        check_level(image, last)
        await self._store.append_if(version, last, controller_epoch=controller_epoch)

    async def confirm(self) -> bool:
        """Append an entry without changes: it succeeds only at the newest version, and what is newer has been
        delivered by the time it fails. False: the session is over, or the store could not be asked.
        """
        async with self._deciding:
            try:
                await self._store.append_if(self._view.image.version, ())
            except VersionConflict:
                pass
            except (NoSession, OutcomeUnknown, OSError):
                return False
        return True

    def _delivered(self, event: Event) -> None:
        old = self._view.image
        if isinstance(event, Entry):
            new = replay(old, event.version, event.changes)
            self._pending = self._view.publish(new, event.changes)
        elif isinstance(event, Snapshot):
            log.info("metadata: from version %d on to the snapshot of %d", old.version, event.image.version)
            changes = event.changes if event.since is old else None  # else entries came meanwhile
            if changes is None:
                changes = changes_between(old, event.image)
            self._pending = self._view.publish(event.image, changes)
        self._heard(event)


def _holds(changes: Sequence[Change], then: Image, now: Image) -> bool:
    """Whether an earlier entry, decided on one image, would be decided so on another: it is about partitions
    that are the same, and so are brokers and settings."""
    if now.brokers is not then.brokers or now.configs is not then.configs or now.level != then.level:
        return False
    return all(
        isinstance(each, PartitionsChanged) and now.topics.get(each.topic) is then.topics[each.topic]
        for each in changes
    )


def _log_outcome(task: asyncio.Task[Any]) -> None:
    """Nobody waits for this decision any more: log what came of it."""
    error = None if task.cancelled() else task.exception()
    if isinstance(error, OSError | NoSession | OutcomeUnknown | LevelTooHigh | ControllerFenced):
        log.info("a change that nobody waits for any more was not confirmed: %s", error)
    elif error is not None:
        log.error("a change that nobody waits for any more failed", exc_info=error)


def _unwritten(error: Exception) -> Outcome:
    """Error code and message for a change that was not appended."""
    if isinstance(error, OutcomeUnknown):
        message = f"The change may have been made, but that could not be confirmed: {error}"
        return Outcome(ErrorCode.REQUEST_TIMED_OUT, message)
    if isinstance(error, LevelTooHigh):
        return Outcome(ErrorCode.UNSUPPORTED_VERSION, str(error))
    if isinstance(error, NoSession):
        message = f"The change could not be made, try again: {error}"
        return Outcome(ErrorCode.NOT_CONTROLLER, message)
    return Outcome(ErrorCode.KAFKA_STORAGE_ERROR, f"The change could not be written: {error}")
