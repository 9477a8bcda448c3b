"""The current image, and the parts of the broker that follow it.

The broker's parts read metadata here. Subscribers are called for each new image, in the order of
subscription, on the event loop: with the last image that they applied, the new one, and the changes between
the two.

When a subscriber fails, the others are still called; the failure is logged and reported by health (`behind`);
and the subscriber is called again, after a while and with every later image, with all changes since the last
image that it applied completely. So it may get a change twice, and must be able to go on from wherever it
stopped.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from moldau.broker.metadata.changes import Change
from moldau.broker.metadata.difference import changes_between
from moldau.broker.metadata.image import EMPTY_IMAGE, Image
from moldau.common.core.timers import TimerHandle, Timers

log = logging.getLogger("moldau.metadata")

RETRY_DELAY_MS = 1_000
_LOGGED_CHANGES_MAX = 5

Pending = asyncio.Future[None] | None
"""None when a subscriber is in step with the image at once, else a future for when it is."""
Subscriber = Callable[[Image, Image, Sequence[Change]], Pending]


class Behind(NamedTuple):
    """A subscriber that failed. `version`: that of the image it is in step with."""

    name: str
    version: int
    error: str


class _Subscription:
    """One subscriber, and its progress. `told`: the last image it was called with and did not fail at;
    `reached`: the newest image that it has applied completely.
    """

    __slots__ = ("delivered", "error", "name", "reached", "subscriber", "under_way")

    def __init__(self, name: str, subscriber: Subscriber, image: Image) -> None:
        self.name = name
        self.subscriber = subscriber
        self.delivered = self.reached = image
        self.under_way = 0
        self.error = ""


class MetadataView:
    """Holds the newest image; `image` may be read at any time.

    `derived` is a place for what was computed from the image (an encoded answer, say); a new image empties
    it. `timers`: who failed is called again after a while; without them, with the next image only.
    """

    __slots__ = ("_retry", "_subscriptions", "derived", "image", "timers")

    def __init__(self, image: Image = EMPTY_IMAGE, timers: Timers | None = None) -> None:
        self.image = image
        self.timers = timers
        self.derived: dict[object, Any] = {}
        self._subscriptions: list[_Subscription] = []
        self._retry: TimerHandle | None = None

    def subscribe(self, subscriber: Subscriber, name: str | None = None) -> None:
        """Call `subscriber(old, new, changes)` for every new image from now on. `name`: for the log and for
        health; else that of the function."""
        name = name or str(getattr(subscriber, "__qualname__", subscriber))
        self._subscriptions.append(_Subscription(name, subscriber, self.image))

    def publish(self, new: Image, changes: Sequence[Change]) -> list[asyncio.Future[None]]:
        """Make `new` the current image and call the subscribers; returns futures of their unfinished work.
        Only the decision loop calls this.
        """
        old, self.image = self.image, new
        self.derived.clear()
        pending = []
        for each in self._subscriptions:
            future = self._deliver(
                each, changes if each.delivered is old else changes_between(each.delivered, new)
            )
            if future is not None:
                pending.append(future)
        return pending

    def behind(self) -> list[Behind]:
        """The subscribers that failed and have not caught up yet."""
        return [Behind(each.name, each.reached.version, each.error) for each in self._failed()]

    def close(self) -> None:
        """Stop calling subscribers. New images can still be published, and read."""
        self._subscriptions.clear()
        if self._retry is not None:
            self._retry.cancel()

    def _failed(self) -> Iterator[_Subscription]:
        return (each for each in self._subscriptions if each.error)

    def _deliver(self, each: _Subscription, changes: Sequence[Change]) -> Pending:
        old, new = each.delivered, self.image
        try:
            future = each.subscriber(old, new, changes)
        except Exception as error:
            self._fell_behind(each, new, changes, error)
            return None
        each.delivered = new
        each.under_way += 1
        if future is None:
            self._done(each, new, changes, None)
        else:
            future.add_done_callback(lambda done: self._done(each, new, changes, done))
        return future

    def _done(
        self,
        each: _Subscription,
        new: Image,
        changes: Sequence[Change],
        future: "asyncio.Future[None] | None",
    ) -> None:
        each.under_way -= 1
        error = None if future is None or future.cancelled() else future.exception()
        if error is not None:
            self._fell_behind(each, new, changes, error)
        elif each.under_way == 0 and each.delivered.version >= new.version:
            if each.error:
                log.warning("%s is in step with metadata version %d again", each.name, each.delivered.version)
            each.reached, each.error = each.delivered, ""

    def _fell_behind(
        self, each: _Subscription, new: Image, changes: Sequence[Change], error: BaseException
    ) -> None:
        error_before, each.delivered = each.error, each.reached
        each.error = f"version {new.version}: {type(error).__name__}: {error}"
        if each.error != error_before:  # else it is the same as a moment ago
            listed = ", ".join(repr(change)[:200] for change in changes[:_LOGGED_CHANGES_MAX])
            more = max(0, len(changes) - _LOGGED_CHANGES_MAX)
            message = "%s failed on metadata version %d and is tried again; the changes: %s and %d more"
            log.error(message, each.name, new.version, listed, more, exc_info=error)
        if self._retry is None and self.timers is not None:
            self._retry = self.timers.call_later(RETRY_DELAY_MS, self._try_again)

    def _try_again(self) -> None:
        self._retry = None
        for each in list(self._failed()):
            if each.delivered is not self.image:  # else it is on its way
                self._deliver(each, changes_between(each.delivered, self.image))
