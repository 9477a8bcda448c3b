"""Tells a coordinator which partitions of its internal topic this broker leads, at every change.

A coordinator is made when it is first needed, so that the broker starts faster, and then hears of every
partition that this broker begins or ceases to lead. A partition led in a later epoch than before is resigned
and loaded again: another broker may have led it in between. So is one whose topic was deleted and created
again, where epochs begin anew.

A coordinator resigns as soon as the metadata say so (`resign`). It is elected once the partition is in step
with the metadata (`follow`), which takes a moment where thousands of them change leaders.

Invariant: a coordinator is elected for exactly what the last image given to `follow` says. A partition at
which it failed counts as not elected: the next call of `follow` gives it up and loads it again.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from moldau.broker.coordinator.coordinator import Coordinator
from moldau.broker.metadata.changes import Change
from moldau.broker.metadata.image import EMPTY_IMAGE, Image, TopicState

C = TypeVar("C", bound=Coordinator)

Led = tuple[bytes, int]
"""A partition as this broker leads it: the id of its topic, and the leader epoch."""
_FAILED: Led = (b"", -1)

log = logging.getLogger("moldau.coordinator")


class ElectedCoordinator(Generic[C]):
    """A coordinator that is made on demand and follows the leaders of its topic."""

    def __init__(
        self, node_id: int, make: Callable[[], C], on_made: Callable[[], None] = lambda: None
    ) -> None:
        """`make` builds the coordinator, not started; called once at most, and `on_made` after it."""
        self._node_id = node_id
        self._make = make
        self._on_made = on_made
        self._image = EMPTY_IMAGE
        self._newest = EMPTY_IMAGE
        """What is not led in this one any more is not begun; partitions may not be in step with it yet."""
        self._elected: dict[int, Led] = {}
        self._elected_in: TopicState | None = None
        """The topic that the coordinator is in step with; None also where it failed."""
        self._stopped = False
        self.made: C | None = None
        """The coordinator, if there has been need of it."""

    def get(self) -> C:
        """The coordinator; the first call makes and starts it. After `stop` it is not started, and has no
        partition."""
        if self.made is None:
            self.made = self._make()
            if self._stopped:
                return self.made
            self.made.start()
            try:
                self._elect()
            except Exception:
                log.exception("%s: not all partitions are coordinated; tried again", self.made.topic)
            self._on_made()
        return self.made

    def resign(self, image: Image) -> None:
        """Give up at once what this broker does not lead any more in this image, the newest."""
        self._newest = image
        if self.made is None or self._stopped:
            return
        topic = image.topics.get(self.made.topic)
        if topic is None or topic is not self._elected_in:
            self._give_up(self._led(topic))  # `follow` tells it what it could not be told here

    def image_changed(self, image: Image) -> None:
        """Bring the coordinator in step with this image; the partitions are already.

        Raises what the coordinator raised, after it was told of all that it could be told of; `follow` may
        then be called with the same image again.
        """
        if image.version >= self._image.version and not self._stopped:
            self._image = image
            self._elect()

    def metadata_changed(self, old: Image, new: Image, changes: Sequence[Change]) -> None:
        """Pass a change of the metadata on."""
        if self.made is not None:
            self.made.metadata_changed(old, new, changes)

    def stop(self) -> None:
        """End it, if it was made."""
        self._stopped = True
        if self.made is not None:
            self.made.stop()

    def _elect(self) -> None:
        if self.made is None:
            return
        topic = self._image.topics.get(self.made.topic)
        if topic is self._elected_in and topic is not None:
            return
        led, elected = self._led(topic), self._elected
        if self._newest.version > self._image.version:
            newest = self._led(self._newest.topics.get(self.made.topic))
            led = {partition: each for partition, each in led.items() if newest.get(partition) == each}
        errors = self._give_up(led)
        for partition, (topic_id, leader_epoch) in sorted(led.items()):
            if partition not in elected:
                elected[partition] = _FAILED
                try:
                    self.made.elected(partition, leader_epoch)
                    elected[partition] = (topic_id, leader_epoch)
                except Exception as error:
                    errors.append(error)
        self._elected_in = None if errors else topic
        if errors:
            raise errors[0]

    def _give_up(self, led: dict[int, Led]) -> list[Exception]:
        """Resign what this broker does not lead any more; the errors of what could not be."""
        assert self.made is not None
        elected = self._elected
        errors: list[Exception] = []
        for partition in sorted(each for each in elected if led.get(each) != elected[each]):
            try:
                self.made.resigned(partition)
                del elected[partition]
            except Exception as error:
                errors.append(error)
        return errors

    def _led(self, topic: TopicState | None) -> dict[int, Led]:
        """The partitions that this broker leads."""
        if topic is None:
            return {}
        return {
            index: (topic.topic_id, each.leader_epoch)
            for index, each in enumerate(topic.partitions)
            if each.leader == self._node_id
        }


class ElectedCoordinators:
    """All coordinators of one broker."""

    def __init__(self, *rows: ElectedCoordinator[Any]) -> None:
        """They are told of changes in this order, and stop in reverse."""
        self._rows = rows

    def make_all(self) -> None:
        """Make the coordinators without waiting for a request: transactions decided before a restart need
        their markers, and open ones may have timed out.
        """
        for row in self._rows:
            row.get()

    def resign(self, image: Image) -> None:
        """Have the coordinators give up at once what this broker does not lead any more."""
        for row in self._rows:
            row.resign(image)

    def follow_topic(self, topic: str, image: Image) -> None:
        """The partitions of this topic are in step with the image; those of others may not be yet."""
        for row in self._rows:
            if row.made is not None and row.made.topic == topic:
                try:
                    row.image_changed(image)
                except Exception:
                    log.exception("%s: not all partitions are coordinated; tried again", topic)

    def image_changed(self, image: Image) -> None:
        """The partitions are in step with this image. Raises what the first coordinator raised that failed;
        the others are told all the same."""
        errors: list[Exception] = []
        for row in self._rows:
            try:
                row.image_changed(image)
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def metadata_changed(self, old: Image, new: Image, changes: Sequence[Change]) -> None:
        """Called for each new image, as a subscriber of the metadata view."""
        for row in self._rows:
            row.metadata_changed(old, new, changes)

    def stop(self) -> None:
        """End those that were made."""
        for row in reversed(self._rows):
            row.stop()
