"""The current image, and who wants to hear of a new one.

Everything in a broker reads metadata here. Subscribers are called in the order in which they subscribed, on
the event loop, once for each append, with the image before, the image after and the changes between them;
when one of them fails, that is logged and the others still hear.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from moldau.metadata.changes import Change
from moldau.metadata.image import EMPTY_IMAGE, Image

log = logging.getLogger("moldau.metadata")

Pending = asyncio.Future[None] | None
"""None when a subscriber is in step with the image at once, else a future for when it is."""
Subscriber = Callable[[Image, Image, Sequence[Change]], Pending]


class MetadataView:
    """Holds the newest image; `image` may be read at any time.

    `derived` is a place for what was computed from the image (an encoded answer, say); a new image empties
    it.
    """

    __slots__ = ("_subscribers", "derived", "image")

    def __init__(self, image: Image = EMPTY_IMAGE) -> None:
        self.image = image
        self.derived: dict[object, Any] = {}
        self._subscribers: list[Subscriber] = []

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call `subscriber(old, new, changes)` for every new image from now on."""
        self._subscribers.append(subscriber)

    def publish(self, new: Image, changes: Sequence[Change]) -> list[asyncio.Future[None]]:
        """Make `new` the current image and tell the subscribers; gives what is still to be done by them.
        Only the controller loop calls this."""
        old, self.image = self.image, new
        self.derived.clear()
        pending = []
        for subscriber in self._subscribers:
            try:
                future = subscriber(old, new, changes)
            except Exception:
                log.exception("a subscriber failed on metadata version %d", new.version)
            else:
                if future is not None:
                    pending.append(future)
        return pending
