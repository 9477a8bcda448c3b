"""A client's metadata of a cluster: which broker leads or coordinates what, and retries.

Every operation is an *attempt* that returns a result, raises a final error, or raises `Retriable` or
`OSError`; `persist` repeats it, with growing pauses and new metadata, for the time that the options allow
(five minutes by default, enough for a broker's restart). The first contact may have a shorter limit, so that
a wrong address is reported soon.

    cluster.persist("read the offsets of orders-0", lambda: ... cluster.leader("orders", 0).ask(request) ...)

Not thread-safe, and not picklable: pass `bootstrap_servers` and `options` to another process and create a new
one there.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from types import TracebackType
from typing import NamedTuple, Self, TypeAlias, TypeVar

from moldau.client.connection import Connection, ConnectionLost
from moldau.client.errors import ClusterTimeout, OptionError, Retriable, UnknownTopic, check, error_words
from moldau.client.options import ClientOptions, parse_options
from moldau.common.core.backoff import pauses
from moldau.common.core.ids import ZERO_UUID
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.find_coordinator import FindCoordinatorRequest
from moldau.common.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

TopicPartition: TypeAlias = tuple[str, int]
ResultT = TypeVar("ResultT")

GROUP, TRANSACTION = 0, 1
"""Kinds of coordinators."""
UNKNOWN_TOPIC_GRACE_SECONDS = 3.0
"""A topic counts as missing after this time: other brokers learn of a new one a moment later."""
_NO_BROKER = -1
_UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


class PartitionPlace(NamedTuple):
    """A partition's leader (node id; -1: none at the moment) and its topic's id."""

    leader: int
    leader_epoch: int
    topic_id: bytes


class Cluster:
    """A cluster, reached through any of its brokers; a context manager that closes its connections."""

    def __init__(
        self,
        bootstrap_servers: str,
        options: Mapping[str, str] | ClientOptions | None = None,
        *,
        first_contact_seconds: float | None = None,
        known_elsewhere: Collection[str] = (),
        connect: Callable[[str, int, ClientOptions], Connection] = Connection,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._connect, self._clock, self._sleep = connect, clock, sleep
        self.bootstrap_servers = bootstrap_servers
        self.options = (
            options if isinstance(options, ClientOptions) else parse_options(options or {}, known_elsewhere)
        )
        self._bootstrap = parse_servers(bootstrap_servers)
        self._first_contact_seconds = first_contact_seconds
        self._reached = False
        self._nodes: dict[int, tuple[str, int]] = {}
        self._places: dict[str, dict[int, PartitionPlace]] = {}
        self._coordinators: dict[tuple[int, str], int] = {}
        self._connections: dict[tuple[str, int], Connection] = {}
        self._unknown_since: dict[str, float] = {}

    def persist(
        self, wanted: str, attempt: Callable[[], ResultT], within_seconds: float | None = None
    ) -> ResultT:
        """Repeat `attempt` until it returns. ClusterTimeout, naming what was `wanted` and the last
        reason, after the limit.
        """
        started = self._clock()
        between = pauses(self.options.backoff_seconds, self.options.backoff_seconds_max, random.random)
        while True:
            try:
                return attempt()
            except (Retriable, OSError) as problem:
                if isinstance(problem, ClusterTimeout):
                    raise
                limit = self.options.api_timeout_seconds if within_seconds is None else within_seconds
                if not self._reached and self._first_contact_seconds is not None:
                    limit = min(limit, self._first_contact_seconds)
                pause = next(between)
                if self._clock() + pause - started > limit:
                    late = ClusterTimeout(
                        f"cannot {wanted}, tried for {limit:g} seconds at {self.bootstrap_servers}: {problem}"
                    )
                    late.error_code = getattr(problem, "error_code", 0)
                    raise late from problem
            self._sleep(pause)

    # Connections

    def any_broker(self) -> Connection:
        """A connection to some broker: an open idle one, else any that can be reached."""
        for connection in self._connections.values():
            if connection.is_open and not connection.unanswered:
                return connection
        failures = []
        for address in dict.fromkeys([*self._nodes.values(), *self._bootstrap]):
            try:
                return self._connection(address)
            except ConnectionLost as error:
                failures.append(str(error))
        raise ConnectionLost("; ".join(failures))

    def broker(self, node_id: int) -> Connection:
        """A connection to one broker; Retriable if the cluster has none of this id."""
        if node_id not in self._nodes:
            raise Retriable(f"the cluster has no broker {node_id} at the moment")
        return self._connection(self._nodes[node_id])

    def leader(self, topic: str, partition: int) -> Connection:
        """A connection to a partition's leader. Retriable without a leader; UnknownTopic."""
        place = self.place(topic, partition)
        try:
            return self.broker(place.leader)
        except (OSError, Retriable):
            self.forget_places(topic)  # it may be gone for good, and another one leading
            raise

    def borrow_leader(self, topic: str, partition: int) -> Connection:
        """As `leader`, for pipelined requests: the connection is exclusive until `give_back`."""
        connection = self.leader(topic, partition)
        self._connections.pop((connection.host, connection.port), None)
        return connection

    def give_back(self, connection: Connection) -> None:
        """Return a borrowed connection to the pool; close it if it has unread responses."""
        address = (connection.host, connection.port)
        if not connection.is_open or connection.unanswered or address in self._connections:
            connection.close()
        else:
            self._connections[address] = connection

    def coordinator(self, key: str, kind: int = GROUP) -> Connection:
        """A connection to the coordinator of a group or a transactional id; Retriable without one."""
        node_id = self.coordinator_id(key, kind)
        try:
            return self.broker(node_id)
        except (OSError, Retriable):
            self.forget_coordinator(key, kind)
            raise

    def coordinator_id(self, key: str, kind: int = GROUP) -> int:
        """The node id of a coordinator; Retriable without one."""
        node_id = self._coordinators.get((kind, key))
        if node_id is None:
            node_id = self._coordinators[kind, key] = self._find_coordinator(key, kind)
        return node_id

    def learn_coordinator(self, key: str, node_id: int, kind: int = GROUP) -> None:
        """Take over a coordinator that an answer has named."""
        self._coordinators[kind, key] = node_id

    def forget_coordinator(self, key: str, kind: int = GROUP) -> None:
        """Look up the coordinator again next time, after NOT_COORDINATOR or a broken connection."""
        self._coordinators.pop((kind, key), None)

    def _find_coordinator(self, key: str, kind: int) -> int:
        request = FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key])
        answer = self._single_or_many(self.any_broker(), request)
        what = f"the coordinator of {'group' if kind == GROUP else 'transactional id'} {key!r}"
        check(answer.error_code, f"find {what}")
        self._nodes[answer.node_id] = (answer.host, answer.port)
        node_id: int = answer.node_id
        return node_id

    @staticmethod
    def _single_or_many(connection: Connection, request: FindCoordinatorRequest):  # type: ignore[no-untyped-def]
        if connection.version_of(FindCoordinatorRequest) >= 4:
            request.key = ""
            return connection.ask(request).coordinators[0]
        request.coordinator_keys = []
        return connection.ask(request)

    def _connection(self, address: tuple[str, int]) -> Connection:
        connection = self._connections.get(address)
        if connection is None or not connection.is_open:
            connection = self._connections[address] = self._connect(*address, self.options)
            self._reached = True
        return connection

    # Metadata

    def topics(self) -> dict[str, int]:
        """All topics with their partition counts, without internal ones."""
        answers = self.persist("list the topics", lambda: self._metadata(None))
        return {
            topic.name: len(topic.partitions)
            for topic in answers
            if topic.name is not None and not topic.is_internal and not topic.error_code
        }

    def partition_counts(self, names: Iterable[str]) -> dict[str, int]:
        """The partition count of each topic. UnknownTopic for a topic that does not exist."""
        wanted = list(dict.fromkeys(names))
        if not wanted:
            return {}

        def attempt() -> dict[str, int]:
            for topic in self._metadata(wanted):
                self._judge_topic(topic)
            return {name: len(self._places[name]) for name in wanted}

        return self.persist(f"look up {', '.join(wanted)}", attempt)

    def place(self, topic: str, partition: int) -> PartitionPlace:
        """A partition's leader and topic id, cached or newly requested. UnknownTopic; Retriable while
        it may appear.
        """
        places = self._places.get(topic)
        if places is None or partition not in places or places[partition].leader == _NO_BROKER:
            for answer in self._metadata([topic]):
                self._judge_topic(answer)
            places = self._places[topic]
        if partition not in places:
            raise UnknownTopic(f"topic {topic} has no partition {partition}, but {len(places)} partitions")
        if places[partition].leader == _NO_BROKER:
            raise Retriable(f"{topic}-{partition} has no leader at the moment")
        return places[partition]

    def topic_id(self, topic: str) -> bytes | None:
        """The topic's id in the last metadata; None if brokers send none."""
        places = self._places.get(topic) or {}
        return next((place.topic_id for place in places.values() if place.topic_id != ZERO_UUID), None)

    def forget_places(self, topic: str) -> None:
        """Request the topic's leaders again next time, after NOT_LEADER_OR_FOLLOWER or a broken
        connection.
        """
        self._places.pop(topic, None)

    def check_partition(self, error_code: int, topic: str, partition: int, wanted: str) -> None:
        """Raise for an error code of a partition's leader: as `errors.check`, and errors that mean a
        moved leader or a deleted topic invalidate the metadata.
        """
        if error_code in _UNKNOWN or error_code == ErrorCode.INCONSISTENT_TOPIC_ID:
            self.forget_places(topic)
            self.place(topic, partition)  # raises if it is gone
            raise Retriable(error_words(error_code))
        try:
            check(error_code, wanted)
        except Retriable:
            self.forget_places(topic)
            raise

    def _judge_topic(self, topic: MetadataResponseTopic) -> None:
        """Return if the topic exists; raise UnknownTopic once it has been missing for a while."""
        name = topic.name or ""
        if topic.error_code in _UNKNOWN:
            since = self._unknown_since.setdefault(name, self._clock())
            if self._clock() - since < UNKNOWN_TOPIC_GRACE_SECONDS:
                raise Retriable(f"topic {name} is not known")
            del self._unknown_since[name]
            raise UnknownTopic(f"there is no topic {name} at {self.bootstrap_servers}", name)
        self._unknown_since.pop(name, None)
        check(topic.error_code, f"look up topic {name}")

    def _metadata(self, names: list[str] | None) -> list[MetadataResponseTopic]:
        """Send one Metadata request and cache the response."""
        topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        answer = self.any_broker().ask(MetadataRequest(topics=topics, allow_auto_topic_creation=False))
        return self.learn(answer)

    def learn(self, answer: MetadataResponse) -> list[MetadataResponseTopic]:
        """Take brokers and leaders from a Metadata response; return its topics. Retriable if it has no
        brokers.
        """
        check(answer.error_code, "read the cluster's metadata")
        if not answer.brokers:
            raise Retriable("the cluster names no brokers")
        self._nodes = {each.node_id: (each.host, each.port) for each in answer.brokers}
        found: list[MetadataResponseTopic] = answer.topics
        for topic in found:
            if topic.name is None or topic.error_code:
                self._places.pop(topic.name or "", None)
                continue
            self._places[topic.name] = {
                each.partition_index: PartitionPlace(each.leader_id, each.leader_epoch, topic.topic_id)
                for each in topic.partitions
            }
        return found

    # Positions (offsets.py)

    def offsets(
        self, wanted: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, int]:
        """The offset for each partition's time: -2 the earliest, -1 the log end, else that of the first
        record at or after these milliseconds since 1970 (-1 if there is none).
        """
        from moldau.client import offsets

        return offsets.list_offsets(self, wanted, read_committed=read_committed)

    def commit_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, int],
        metadata: str = "",
        within_seconds: float | None = None,
    ) -> None:
        """Commit offsets for a group, which must have no members.

        Partitions that the cluster does not know (any more) are left out.
        """
        from moldau.client import offsets as positions

        positions.commit_offsets(self, group_id, offsets, metadata, within_seconds)

    def committed_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """The group's committed offsets; partitions without one are left out."""
        from moldau.client import offsets

        return {
            partition: committed.offset
            for partition, committed in offsets.committed_offsets(self, group_id, partitions).items()
        }

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def parse_servers(bootstrap_servers: str) -> list[tuple[str, int]]:
    """Parse host:port,host:port into pairs; IPv6 hosts are in brackets. OptionError."""
    servers = []
    for text in filter(None, (part.strip() for part in bootstrap_servers.split(","))):
        host, colon, port = text.rpartition("://")[2].rpartition(":")
        if not colon or not host or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 65536:
            raise OptionError(f"a bootstrap server must read host:port, and not {text!r}")
        servers.append((host.strip("[]"), int(port)))
    if not servers:
        raise OptionError("no bootstrap server is named: give kafka.bootstrap.servers as host:port")
    return servers
