"""The driver's view of the cluster: a query's partitions, and their start and end offsets.

Every request waits for an unreachable broker, up to the query's timeout: a stream survives a broker's
restart. Responses are trusted, except for an end below one seen earlier: a new leader may not know the high
watermark yet, so the request is repeated before records count as lost.

A stream requests the ends every few milliseconds. Topics and partitions change seldom, so they are requested
twice a second, and once more when there is something to read: a recreated topic has another id and other
offsets. The id must be requested after the ends: only then an unchanged id proves that the ends are those of
the known topic.

Not here: reading records (reading.py), on the executors.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from moldau.client.cluster import Cluster
from moldau.client.errors import UnknownTopic
from pyspark_moldau.errors import OptionError
from pyspark_moldau.offsets import EARLIEST, LATEST, Offsets, TopicPartition, names
from pyspark_moldau.options import SourceOptions
from pyspark_moldau.topic_selection import (
    Assigned,
    AtOffsets,
    AtTime,
    AtTimes,
    Everywhere,
    Matching,
    Named,
    Position,
)

FIRST_CONTACT_SECONDS = 30.0
"""A wrong address should show sooner than a broker is given up that was there."""
PARTITIONS_AGE_SECONDS = 0.5
GROUP_PATIENCE_SECONDS = 2.0
"""The query waits meanwhile, and these offsets are only for tools."""
NO_OFFSET = -1


class ClusterView:
    """One query's view of its cluster. Connects on first use."""

    def __init__(self, options: SourceOptions, clock: Callable[[], float] = time.monotonic) -> None:
        self._options = options
        self._clock = clock
        self._cluster: Cluster | None = None
        self._partitions: list[TopicPartition] = []
        self._partitions_until: float | None = None
        self._some_missing = False
        self.topic_ids: dict[str, bytes] = {}
        """Of the topics that were there at the last look; without those of brokers that know no ids."""

    def partitions(self, known: Iterable[TopicPartition] | None = ()) -> list[TopicPartition]:
        """The partitions that the query's topic selection has now, in order.

        A topic that is selected by name and does not exist is an OptionError, unless it is `known`: then it
        did exist, and the caller decides what its end means. With None, any may be missing, and appear later.
        """
        topics = self._options.topics
        counts = self._counts()
        ids = {topic: self.cluster.topic_id(topic) for topic in counts}
        self.topic_ids = {topic: known_id for topic, known_id in ids.items() if known_id is not None}
        existing = {(topic, index) for topic, count in counts.items() for index in range(count)}
        if isinstance(topics, Named) and known is not None:
            self._refuse_missing(set(topics.topics) - counts.keys() - {topic for topic, _ in known}, "topic")
        if isinstance(topics, Assigned) and known is not None:
            missing = set(topics.partitions) - existing - set(known)
            self._refuse_missing({f"{topic}-{index}" for topic, index in missing}, "partition")
        if isinstance(topics, Assigned):
            existing &= set(topics.partitions)
        return sorted(existing)

    def _counts(self) -> dict[str, int]:
        """The partition counts of the selected topics that exist."""
        topics = self._options.topics
        if isinstance(topics, Matching):
            every = self.cluster.topics()
            return {topic: count for topic, count in every.items() if topics.takes(topic)}
        wanted = topics.topics if isinstance(topics, Named) else {topic for topic, _ in topics.partitions}
        if not self._some_missing:
            try:
                return self.cluster.partition_counts(wanted)
            except UnknownTopic:
                # The client asked again for some seconds. Once is enough: from now on look at the whole list.
                self._some_missing = True
        every = self.cluster.topics()
        self._some_missing = not every.keys() >= set(wanted)
        return {topic: every[topic] for topic in wanted if topic in every}

    def _refuse_missing(self, missing: set[str], what: str) -> None:
        if missing:
            listed = ", ".join(sorted(missing))
            subject = f"the {what} {listed} does" if len(missing) == 1 else f"the {what}s {listed} do"
            raise OptionError(f"{subject} not exist on {self._options.bootstrap_servers}")

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The log start offset of each partition."""
        return self._offsets(dict.fromkeys(partitions, EARLIEST))

    def ends(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The log end offset of each partition, from one response."""
        return self._offsets(dict.fromkeys(partitions, LATEST))

    def latest(self, known: Mapping[TopicPartition, int]) -> Offsets:
        """The log end offset of each of the query's partitions; `known` are ends that were seen before."""
        ends: Offsets = {}
        for attempt in range(self._options.retries):
            if attempt:
                time.sleep(self._options.retry_interval_seconds)
            try:
                ends = self.ends(self.recent_partitions(known))
            except UnknownTopic:  # deleted between the two questions
                self._partitions_until = None
                if attempt + 1 == self._options.retries:
                    raise
                continue
            if all(ends[one] >= known.get(one, 0) for one in ends):
                break
        if any(known.get(one) != end for one, end in ends.items()):
            self._look(known)
        return ends

    def recent_partitions(self, known: Iterable[TopicPartition]) -> list[TopicPartition]:
        """As `partitions`, from metadata that may be half a second old."""
        if self._partitions_until is None or self._clock() >= self._partitions_until:
            self._look(known)
        return self._partitions

    def _look(self, known: Iterable[TopicPartition]) -> None:
        self._partitions = self.partitions(known if self._options.fail_on_data_loss else None)
        self._partitions_until = self._clock() + PARTITIONS_AGE_SECONDS

    def resolve(self, position: Position, option: str, *, latest_where_no_match: bool) -> Offsets:
        """The offsets of a starting or ending position (of option `option`) now."""
        wanted = self._wanted(position, self.partitions(), option)
        questions = {one: number for one, number in wanted.items() if _is_question(position, number)}
        offsets = self._offsets(questions)
        unmatched = [one for one, offset in offsets.items() if offset == NO_OFFSET]
        if unmatched and not latest_where_no_match:
            raise OptionError(
                f"{names(unmatched)} has no record as new as {option} asks for; with "
                "startingOffsetsByTimestampStrategy=latest the query would begin at its end"
            )
        return {**wanted, **offsets, **self._offsets(dict.fromkeys(unmatched, LATEST))}

    def _wanted(self, position: Position, partitions: list[TopicPartition], option: str) -> Offsets:
        if isinstance(position, Everywhere):
            return dict.fromkeys(partitions, position.offset)
        if isinstance(position, AtTime):
            return dict.fromkeys(partitions, position.timestamp_ms)
        numbers = position.timestamps_ms if isinstance(position, AtTimes) else position.offsets
        left_out, too_many = set(partitions) - set(numbers), set(numbers) - set(partitions)
        if left_out:
            hint = " (-1 for latest, -2 for earliest)" if isinstance(position, AtOffsets) else ""
            raise OptionError(f"{option} must name every partition{hint}; it leaves out {names(left_out)}")
        if too_many:
            raise OptionError(f"{option} names what the query does not read: {names(too_many)}")
        return dict(numbers)

    def commit(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit these offsets for the consumer group."""
        self.cluster.commit_offsets(group_id, offsets, within_seconds=GROUP_PATIENCE_SECONDS)

    def _offsets(self, wanted: Mapping[TopicPartition, int]) -> Offsets:
        return self.cluster.offsets(wanted, read_committed=self._options.read_committed) if wanted else {}

    @property
    def cluster(self) -> Cluster:
        """The client, connected on first use."""
        if self._cluster is None:
            self._cluster = Cluster(
                self._options.bootstrap_servers,
                self._options.client_options,
                first_contact_seconds=FIRST_CONTACT_SECONDS,
            )
        return self._cluster

    def close(self) -> None:
        """Close the connections."""
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None


def _is_question(position: Position, number: int) -> bool:
    return isinstance(position, AtTime | AtTimes) or number < 0
