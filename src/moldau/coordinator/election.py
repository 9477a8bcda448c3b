"""Which partitions of its internal topic a coordinator answers for: those that this broker leads.

A coordinator (of groups, of transactions) is made when it is first needed, since a broker is ready sooner
without it, and is then told of every partition that this broker begins or ceases to lead. A partition that it
leads in a later epoch than before is given up and loaded again: another broker may have led it meanwhile.

Invariant: what a coordinator was told is what the last image says that `follow` got.
"""

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from moldau.coordinator.coordinator import Coordinator
from moldau.metadata.changes import Change
from moldau.metadata.image import EMPTY_IMAGE, Image, TopicState

C = TypeVar("C", bound=Coordinator)


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
        self._stopped = False
        self.made: C | None = None
        """The coordinator, if there has been need of it."""

    def get(self) -> C:
        """The coordinator, made and started now if there was no need of it before."""
        if self.made is None:
            self.made = self._make()
            self.made.start()
            self._tell(EMPTY_IMAGE, self._image)
            self._on_made()
        return self.made

    def follow(self, image: Image) -> None:
        """The partitions are in step with this image: so is the coordinator after this."""
        old = self._image
        if image.version > old.version and not self._stopped:
            self._image = image
            self._tell(old, image)

    def metadata_changed(self, old: Image, new: Image, changes: Sequence[Change]) -> None:
        """Pass a change of the metadata on."""
        if self.made is not None:
            self.made.metadata_changed(old, new, changes)

    def stop(self) -> None:
        """End it, if it was made."""
        self._stopped = True
        if self.made is not None:
            self.made.stop()

    def _tell(self, old: Image, new: Image) -> None:
        if self.made is None:
            return
        old_topic, new_topic = old.topics.get(self.made.topic), new.topics.get(self.made.topic)
        if old_topic is new_topic:
            return
        before, after = self._led(old_topic), self._led(new_topic)
        for partition, _ in sorted(before.items() - after.items()):
            self.made.resigned(partition)
        for partition, leader_epoch in sorted(after.items() - before.items()):
            self.made.elected(partition, leader_epoch)

    def _led(self, topic: TopicState | None) -> dict[int, int]:
        """The partitions that this broker leads, with their leader epochs."""
        if topic is None:
            return {}
        return {
            index: each.leader_epoch
            for index, each in enumerate(topic.partitions)
            if each.leader == self._node_id
        }


class ElectedCoordinators:
    """The coordinators of one broker, as the broker treats them: all alike."""

    def __init__(self, *rows: ElectedCoordinator[Any]) -> None:
        """In the order in which they are told of anything; they stop in reverse."""
        self._rows = rows

    def make_all(self) -> None:
        """Coordinators have duties that nobody asks for: a transaction that was decided before the broker
        stopped gets its markers now, and one that is open may be past its time.
        """
        for row in self._rows:
            row.get()

    def follow(self, image: Image) -> None:
        """The partitions are in step with this image."""
        for row in self._rows:
            row.follow(image)

    def metadata_changed(self, old: Image, new: Image, changes: Sequence[Change]) -> None:
        """There is a new image; a subscriber of the view."""
        for row in self._rows:
            row.metadata_changed(old, new, changes)

    def stop(self) -> None:
        """End those that were made."""
        for row in reversed(self._rows):
            row.stop()
