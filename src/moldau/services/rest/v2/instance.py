"""One consumer instance: a member of a group whose records are read over HTTP.

Its consumer is polled on the event loop without waiting; calls that may block (commit, seek, close) run in
threads, one at a time. What was polled but not yet returned is kept in `unread`, and belongs to the group's
next owner once the partition is taken away.

    polled   unread   returned to the client   stored or committed
    -------> -------> ----------------------->
Only what was returned is ever committed. With auto.commit.enable it counts as processed when the client comes
again (as in a consumer's poll), so that records of a response that was lost are read again.

Not here: reading (reading.py), the expiry of instances (instances.py), HTTP (consumers.py).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any, NamedTuple, TypeVar

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from moldau.services.http.problems import HttpProblem
from moldau.services.kafka.librdkafka_errors import problem_in
from moldau.services.rest.embedded import Format
from moldau.services.rest.v2.errors import (
    KAFKA_RETRIABLE_ERROR,
    illegal_state,
    instance_not_found,
    request_problem,
)
from moldau.services.rest.v2.fields import OffsetAt, Place

log = logging.getLogger("moldau.rest")

EXCLUSIVE = "Subscription to topics, partitions and pattern are mutually exclusive"
NOT_SUBSCRIBED = "Consumer is not subscribed to any topics or assigned any partitions"
_REQUEST_SECONDS = 10.0
_SEEK_SECONDS = 10.0
_SEEK_PAUSE_SECONDS = 0.02
_GIVE_UP_SECONDS = 10.0
_GIVE_UP_PAUSE_SECONDS = 0.005
_DROPPED_RECORDS = 100
_COORDINATOR_PAUSE_SECONDS = 0.1
_COORDINATOR_STARTS = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError._WAIT_COORD,
)

ResultT = TypeVar("ResultT")


class InstanceConfig(NamedTuple):
    """What a client may say about a new instance; None: as the proxy's settings say."""

    format: Format = Format.BINARY
    auto_commit: str | None = None
    offset_reset: str | None = None
    min_bytes: int | None = None
    timeout_ms: int | None = None


class Subscription(NamedTuple):
    """What an instance reads: topics by name, topics by pattern, or partitions that the client chose."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    find_topics: Callable[[bool], Awaitable[Sequence[str]]] | None = None
    """The topics that match the pattern now; False: or a moment ago."""
    places: tuple[Place, ...] = ()


class Instance:
    """Used on one event loop."""

    def __init__(
        self,
        group: str,
        name: str,
        config: InstanceConfig,
        consumer: Consumer,
        auto_commit: bool,
        pool: Executor,
        owner: str,
    ) -> None:
        """`owner` is the name of the user who made it."""
        self.owner = owner
        self.group = group
        self.name = name
        self.config = config
        self.consumer = consumer
        self.unread: deque[Message] = deque()
        self.read_turn = asyncio.Lock()
        self.subscription = Subscription()
        self.topics: tuple[str, ...] = ()
        self.used_at = time.monotonic()
        self.pattern_due_at = 0.0
        self.running = 0
        self.reads = 0
        self.prefetch_bytes = 0
        """Its share of what all instances may fetch ahead (prefetch.py)."""
        self.closed = False
        self._leaving: Subscription | None = None
        """What is being given up: its pattern is not followed any more."""
        self._auto_commit = auto_commit
        self._pool = pool
        self._turn = asyncio.Lock()
        self._returned: dict[Place, int] = {}
        self._unsent: dict[Place, int] = {}
        """Where records begin that were returned and not sent, while they could not be sought."""

    # -- the consumer's side, on the event loop ------------------------------------------------------------

    def poll(self, records_max: int) -> list[Message]:
        """What is there now, errors among it. Returns at once; group callbacks happen within."""
        if self.closed:
            raise instance_not_found()
        try:
            return self.consumer.consume(records_max, 0)
        except KafkaException as failed:
            raise request_problem(problem_in(failed)) from None

    def is_assigned(self) -> bool:
        """Whether there is anything that could be read, now or after the group has formed."""
        return self.subscription != Subscription()

    def unread_bytes(self) -> int:
        """The bytes of the records that wait for the next read."""
        return sum(len(each.key() or b"") + len(each.value() or b"") for each in self.unread)

    def note_returned(self, last: Mapping[Place, int]) -> None:
        """Records up to these offsets (inclusive) are in a response."""
        for place, offset in last.items():
            self._returned[place] = offset + 1

    def store_returned(self) -> None:
        """The client came again: what it was given counts as processed. For auto.commit.enable."""
        if self._auto_commit and self._returned:
            self._store(self._returned)

    def _store(self, places: Iterable[Place]) -> None:
        for place in places:
            try:
                self.consumer.store_offsets(offsets=[TopicPartition(*place, self._returned[place])])
            except KafkaException:  # no longer assigned: nobody may commit it here
                continue

    def _lost(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        """Partitions were taken away, or given up for a new assignment."""
        if self.closed:
            return
        places = {Place(each.topic, each.partition) for each in partitions}
        if self._auto_commit:
            self._store([place for place in self._returned if place in places])
        self._forget(places)

    def _forget(self, places: Iterable[Place]) -> None:
        gone = set(places)
        self.unread = deque(each for each in self.unread if place_of(each) not in gone)
        for place in gone:
            self._returned.pop(place, None)
            self._unsent.pop(place, None)

    # -- calls that may block ------------------------------------------------------------------------------

    async def call(self, work: Callable[[], ResultT]) -> ResultT:
        """Run a call of the consumer in a thread, after those before it. HttpProblem."""
        async with self._turn:
            if self.closed:
                raise instance_not_found()
            try:
                return await asyncio.get_running_loop().run_in_executor(self._pool, work)
            except KafkaException as failed:
                raise request_problem(problem_in(failed)) from None

    async def subscribe(self, wanted: Subscription) -> None:
        """Join the group for topics, by name or those that match a pattern. HttpProblem 40903."""
        now = self.subscription
        if now.places or (now.topics and wanted.pattern) or (now.pattern and wanted.topics):
            raise illegal_state(EXCLUSIVE)
        await self._subscribe(wanted.topics if wanted.find_topics is None else await wanted.find_topics(True))
        self.subscription = wanted

    async def follow_pattern(self) -> None:
        """Subscribe to what matches the pattern by now. HttpProblem."""
        wanted = self.subscription
        if wanted.find_topics is not None:
            topics = await wanted.find_topics(False)
            is_wanted = self.subscription is wanted and self._leaving is not wanted
            if is_wanted and set(topics) != set(self.topics):
                await self._subscribe(topics)

    async def _subscribe(self, topics: Sequence[str]) -> None:
        if topics:
            await self.call(
                lambda: self.consumer.subscribe(list(topics), on_revoke=self._lost, on_lost=self._lost)
            )
        else:
            await self.call(self.consumer.unsubscribe)
        self.topics = tuple(topics)

    async def assign(self, places: Sequence[Place]) -> None:
        """Read these partitions, from where the group has committed. HttpProblem 40903."""
        if self.subscription.topics or self.subscription.pattern:
            raise illegal_state(EXCLUSIVE)
        kept = set(self.subscription.places) & set(places)
        self._forget(set(self.subscription.places) - kept)

        def work() -> None:
            starts = dict.fromkeys(places, OFFSET_INVALID)
            if kept:
                for each in self.consumer.position([TopicPartition(*place) for place in kept]):
                    starts[Place(each.topic, each.partition)] = each.offset
            self.consumer.assign([TopicPartition(*place, start) for place, start in starts.items()])

        await self.call(work)
        self.subscription = Subscription(places=tuple(dict.fromkeys(places)))

    async def unsubscribe(self) -> None:
        """Read nothing."""
        before = self._leaving = self.subscription
        try:
            if before.places:
                await self.call(self.consumer.unassign)
            else:
                await self.call(self.consumer.unsubscribe)
                await self._give_partitions_up(before)
        finally:
            self._leaving = None
        if self.subscription is before:  # and not another one, that was asked for meanwhile
            self.subscription = Subscription()
            self.topics = ()
            self.unread.clear()
            self._returned.clear()
            self._unsent.clear()

    async def _give_partitions_up(self, before: Subscription) -> None:
        """Let the callback of the partitions that are taken away happen; it gives them up.

        With `unassign` they would be given up before, and the callback still come, at the latest while the
        consumer closes. It then asks a group that may have ended, with the interpreter's lock held: nobody
        answers, and the process stands still for ever (docs/decisions/unsubscribing.md).
        """
        ends = time.monotonic() + _GIVE_UP_SECONDS
        while self.subscription is before and (self.poll(_DROPPED_RECORDS) or await self.assignment()):
            if time.monotonic() >= ends:  # the rest happens while the consumer closes
                log.warning("consumer %s/%s still has partitions of its group", self.group, self.name)
                return
            await asyncio.sleep(_GIVE_UP_PAUSE_SECONDS)

    async def assignment(self) -> list[Place]:
        """The partitions that are read now."""
        found = await self.call(self.consumer.assignment)
        return sorted(Place(each.topic, each.partition) for each in found)

    async def seek(self, positions: Sequence[OffsetAt]) -> None:
        """Go on at these offsets. HttpProblem 40903 for a partition that is not assigned."""
        places = {Place(each.topic, each.partition): each.offset for each in positions}

        def work() -> None:
            self._check_assigned(places)
            ends = time.monotonic() + _SEEK_SECONDS
            for place, offset in places.items():
                self._seek(TopicPartition(*place, offset), ends)

        await self.call(work)
        self._forget(places)
        self._returned |= places

    async def seek_to_end(self, wanted: Sequence[Place], *, beginning: bool) -> None:
        """Go to the first offset, or behind the last one, as they are now. HttpProblem 40903."""

        def work() -> None:
            self._check_assigned(wanted)
            for place in wanted:
                low, high = self._ends(place)
                ends = time.monotonic() + _SEEK_SECONDS
                self._seek(TopicPartition(*place, low if beginning else high), ends)

        await self.call(work)
        self._forget(wanted)

    def _ends(self, place: Place) -> tuple[int, int]:
        found = self.consumer.get_watermark_offsets(TopicPartition(*place), timeout=_REQUEST_SECONDS)
        return found or (OFFSET_BEGINNING, OFFSET_END)

    def _check_assigned(self, wanted: Iterable[Place]) -> None:
        assigned = {Place(each.topic, each.partition) for each in self.consumer.assignment()}
        for place in wanted:
            if place not in assigned:
                raise illegal_state(f"No current assignment for partition {place.topic}-{place.partition}")

    def _seek(self, target: TopicPartition, ends: float) -> None:
        """librdkafka seeks only once it fetches the partition, a moment after it was assigned."""
        while True:
            try:
                self.consumer.seek(target)
            except KafkaException as refused:
                if refused.args[0].code() != KafkaError._STATE or time.monotonic() > ends:
                    raise
                time.sleep(_SEEK_PAUSE_SECONDS)
            else:
                return

    async def rewind(self, first: Mapping[Place, int], reads: int) -> None:
        """A response was not sent: read its records again, unless another read has happened since.

        None of them counts as processed, also where they cannot be sought now: the next read does that first.
        """
        if self.reads != reads or self.closed:
            return
        self._returned |= first
        self._unsent |= first
        try:
            await self.seek_unsent()
        except HttpProblem as problem:
            log.info(
                "records of %s/%s that were not sent are sought later: %s", self.group, self.name, problem
            )

    async def seek_unsent(self) -> None:
        """Go back to records that were returned and not sent, in each partition for itself; what belongs to
        others now is left to them. HttpProblem 50003 where that cannot be done yet.
        """
        if not self._unsent:
            return
        sought: dict[Place, int] = {}
        taken_away: list[Place] = []
        waiting: dict[Place, KafkaException] = {}

        def work() -> None:
            assigned = {Place(each.topic, each.partition) for each in self.consumer.assignment()}
            ends = time.monotonic() + _SEEK_SECONDS
            for place, offset in dict(self._unsent).items():
                if place not in assigned:
                    taken_away.append(place)
                    continue
                try:
                    self._seek(TopicPartition(*place, offset), ends)
                except KafkaException as refused:
                    waiting[place] = refused
                else:
                    sought[place] = offset

        await self.call(work)
        still = {
            place: offset for place, offset in sought.items() if place in self._unsent
        }  # not lost meanwhile
        self._forget([*still, *taken_away])
        self._returned |= still
        for place, refused in waiting.items():
            raise HttpProblem(
                KAFKA_RETRIABLE_ERROR,
                f"Records of {place.topic}-{place.partition} that could not be sent are read again once its "
                f"broker answers ({problem_in(refused)}): ask again.",
            )

    async def commit(self, wanted: Sequence[OffsetAt] | None, *, wait: bool) -> None:
        """Commit offsets: each is that of the last record processed. None: all records that were returned."""
        if wanted is None:
            offsets = [TopicPartition(*place, offset) for place, offset in self._returned.items()]
        else:
            offsets = [_commit_of(each) for each in wanted]
        if offsets and wait:
            await self.call(lambda: self._commit(offsets))
        elif offsets:
            await self.call(lambda: self.consumer.commit(offsets=offsets, asynchronous=True))

    def _commit(self, offsets: list[TopicPartition]) -> None:
        """Again while the group's coordinator is only starting, which librdkafka does not do."""
        ends = time.monotonic() + _REQUEST_SECONDS
        while True:
            try:
                self._commit_once(offsets)
            except KafkaException as refused:
                if refused.args[0].code() not in _COORDINATOR_STARTS or time.monotonic() > ends:
                    raise
                time.sleep(_COORDINATOR_PAUSE_SECONDS)
            else:
                return

    def _commit_once(self, offsets: list[TopicPartition]) -> None:
        for each in self.consumer.commit(offsets=offsets, asynchronous=False) or ():
            if each.error is not None:
                raise KafkaException(each.error)

    async def committed(self, wanted: Sequence[Place]) -> list[OffsetAt]:
        """What the group has committed, by whomever; partitions without are left out."""
        asked = [TopicPartition(*place) for place in wanted]
        found = await self.call(lambda: self.consumer.committed(asked, timeout=_REQUEST_SECONDS))
        for each in found:
            if each.error is not None:
                raise request_problem(problem_in(KafkaException(each.error)))
        return [
            OffsetAt(each.topic, each.partition, each.offset, each.metadata or "")
            for each in found
            if each.offset >= 0
        ]

    async def close(self, *, processed: bool) -> None:
        """Leave the group. `processed`: the client has had all that was returned."""
        if self.closed:
            return
        if processed:
            self.store_returned()
        self.closed = True
        async with self._turn:
            await asyncio.get_running_loop().run_in_executor(self._pool, self._close)
        self.unread.clear()

    def _close(self) -> None:
        try:
            self.consumer.close()
        except (KafkaException, RuntimeError) as problem:
            log.info("consumer %s/%s ended with: %s", self.group, self.name, problem)


def place_of(message: Message) -> Place:
    """Where a record is."""
    topic, partition = message.topic(), message.partition()
    assert topic is not None
    assert partition is not None
    return Place(topic, partition)


def offset_of(message: Message) -> int:
    """The offset of a record."""
    offset = message.offset()
    assert offset is not None
    return offset


def _commit_of(wanted: OffsetAt) -> TopicPartition:
    optional: dict[str, Any] = {} if wanted.metadata is None else {"metadata": wanted.metadata}
    return TopicPartition(wanted.topic, wanted.partition, wanted.offset + 1, **optional)
