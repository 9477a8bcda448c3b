"""Applies a new metadata image to this broker's partitions, topic by topic and in slices.

An image may add or remove thousands of partitions at once, and each costs a few system calls. Small changes
are made at once; what does not fit into one slice goes on in a task that yields to the event loop between
slices.

    image 7 ──> | leaving: t-0, t-1, ... | due: a (7), b (7) |  ──steps──>  waiters of 7 resume
    image 8 ──> | ...                    | ... b (7), c (8)  |              waiters of 8 later

Invariants: removed partitions are gone before new ones are opened, so that a topic deleted and created again
never finds its old folders; a topic is compared with the *newest* image when its turn comes, and from the
start again if it changes between slices; waiters of images resume in image order, once nothing of their image
is left to do.

Not here: what is done for one partition (manager.py).
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from moldau.broker.replication.partition import Partition
from moldau.common.core.slow_lane import Slices, SlowLane

log = logging.getLogger("moldau.replication")


class Due(NamedTuple):
    """The first image that a topic waits for, and the last that changed it."""

    since_version: int
    version: int


class WorkList:
    """Topics to be updated, and partitions to be removed.

    `bring` yields the short steps of one topic, and stops early when `is_current` is false; `remove` closes
    one partition and removes its log; `failed` is called with a topic whose steps raised.
    """

    def __init__(
        self,
        bring: Callable[[str, Due], Iterator[None]],
        remove: Callable[[Partition], None],
        failed: Callable[[str, Exception], None],
    ) -> None:
        self.lane: SlowLane | None = None
        """None: everything at once, as before clients are served."""
        self._bring = bring
        self._remove = remove
        self._failed = failed
        self._due: dict[str, Due] = {}
        self._leaving: deque[tuple[int, Partition]] = deque()
        self._waiters: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._task: asyncio.Task[None] | None = None

    def add(self, name: str, version: int) -> None:
        """This image changed the topic."""
        known = self._due.get(name)
        self._due[name] = Due(version if known is None else known.since_version, version)

    def remove(self, partition: Partition, version: int) -> None:
        """This image removed the partition."""
        self._leaving.append((version, partition))

    def is_current(self, name: str, due: Due) -> bool:
        """Whether the topic has not changed again since its steps began."""
        return self._due.get(name) is due

    def leaving(self) -> list[Partition]:
        """The partitions still to be removed."""
        return [partition for _, partition in self._leaving]

    def work(self, version: int) -> "asyncio.Future[None] | None":
        """Do what is due: None when all is done, else a future that is done when everything up to this image
        is.
        """
        if self._task is None:
            steps = self._steps()
            if self.lane is None:
                for _ in steps:
                    pass
                return None
            slices = self.lane.slices()
            if self._slice(steps, slices):
                return None
            self._task = asyncio.get_running_loop().create_task(self._go_on(steps, slices))
        elif not self._due and not self._leaving:
            return None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((version, future))
        return future

    def stop(self) -> None:
        """Drop the rest: the next start makes up for it from the metadata."""
        if self._task is not None:
            self._task.cancel()
            self._resume(everybody=True)

    @staticmethod
    def _slice(steps: Iterator[None], slices: Slices) -> bool:
        """Run one slice; whether nothing is left."""
        for _ in steps:  # noqa: SIM110 - a loop over a generator's side effects
            if slices.spent():
                return False
        return True

    async def _go_on(self, steps: Iterator[None], slices: Slices) -> None:
        try:
            with slices.lane.paused_full_collections():
                done = False
                while not done:
                    await slices.next_slice()
                    done = self._slice(steps, slices)
        finally:
            self._task = None
            self._resume(everybody=True)

    def _steps(self) -> Iterator[None]:
        while self._leaving or self._due:
            if self._leaving:
                _, partition = self._leaving.popleft()
                try:
                    self._remove(partition)
                except Exception:
                    name = f"{partition.topic}-{partition.index}"
                    log.exception("%s could not be closed and removed: this is a bug", name)
            else:
                name, due = next(iter(self._due.items()))
                try:
                    yield from self._bring(name, due)
                except Exception as error:
                    log.exception(
                        "topic %s could not be brought in step with the metadata: this is a bug; it is tried "
                        "again",
                        name,
                    )
                    self._failed(name, error)
                if self.is_current(name, due):
                    del self._due[name]
            self._resume()
            yield

    def _resume(self, *, everybody: bool = False) -> None:
        """Resume the waiters of images of which nothing is left to do."""
        waiters = self._waiters
        if not waiters:
            return
        oldest = self._oldest()
        while waiters and (everybody or waiters[0][0] < oldest):
            _, future = waiters.popleft()
            if not future.done():
                future.set_result(None)

    def _oldest(self) -> int:
        """The oldest image of which something is left to do."""
        leaving = self._leaving[0][0] if self._leaving else None
        due = next(iter(self._due.values())).since_version if self._due else None
        versions = [each for each in (leaving, due) if each is not None]
        return min(versions, default=2**63)
