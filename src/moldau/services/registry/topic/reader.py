"""A thread that replays the schemas' topic into the state, and follows its end.

Only committed records count, but aborted ones are told to the state too: another registry, whose consumer
reads uncommitted records, may have seen their ids. `wait_for(end())` is the barrier that makes a read see
every write before it: `end` counts open transactions too, behind which a reader of committed records does not
get.

A topic that was created anew, truncated or damaged ends the reading for good (`failure`): to go on would
give ids twice. Whoever waits is told. Everything else is tried again, also a topic that is not known: a
broker that starts may not know it yet.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from threading import Condition, Event, Lock, Thread

from moldau.client.cluster import Cluster, PartitionPlace
from moldau.client.connection import ConnectionLost
from moldau.client.errors import ClientError, ClusterTimeout, CorruptRecords, Retriable, UnknownTopic
from moldau.client.fetcher import FetchedBatches, classify
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from moldau.common.records.batch import CorruptBatch, iter_batches
from moldau.services.registry.problems import Code, RegistryProblem
from moldau.services.registry.state.state import State

log = logging.getLogger("moldau.registry.topic.reader")
_PARTITION = 0
_EARLIEST, _LATEST = -2, -1
_BY_NAME = 12
_NO_LIMIT = 2**62
_PAUSE_SECONDS = 0.2
_READ_COMMITTED = 1


class TopicReader:
    """Reads one topic. `start` begins, `close` ends it; both once."""

    def __init__(self, connect: Callable[[], Cluster], topic: str, state: State) -> None:
        """`connect` makes a client; each thread needs its own."""
        self._topic, self._state = topic, state
        self._cluster, self._asking = connect(), connect()
        self._asking_lock = Lock()
        self._moved = Condition()
        self._stopping = Event()
        self._position = 0
        self._topic_id: bytes | None = None
        self._fetch_bytes = self._cluster.options.fetch_bytes
        self._thread = Thread(target=self._run, name="registry-reader", daemon=True)
        self.is_following = False
        """Whether the broker answered the last fetch."""
        self.failure: str | None = None
        """Why the topic is not read any more."""

    def start(self) -> None:
        """Begin at the first record. ClientError."""
        self._position = self._end(_EARLIEST)
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(self._cluster.options.request_timeout_seconds)
        with self._moved:
            self.failure = self.failure or "the registry is closed"
            self._moved.notify_all()
        self._cluster.close()
        self._asking.close()

    @property
    def position(self) -> int:
        """The next offset to read."""
        return self._position

    def end(self) -> int:
        """The log end offset now, open transactions included. RegistryProblem."""
        try:
            return self._end(_LATEST)
        except (ClientError, OSError) as error:
            raise RegistryProblem(
                Code.STORE, f"The end of topic {self._topic} is not known: {error}"
            ) from error

    def _end(self, which: int) -> int:
        place = (self._topic, _PARTITION)
        with self._asking_lock:
            return self._asking.offsets({place: which})[place]

    def wait_for(self, offset: int, timeout_seconds: float) -> None:
        """Return once everything before `offset` is in the state. RegistryProblem (STORE, TIMEOUT)."""
        deadline = time.monotonic() + timeout_seconds
        with self._moved:
            while self._position < offset:
                if self.failure is not None:
                    raise RegistryProblem(Code.STORE, f"The topic {self._topic} is not read: {self.failure}")
                left = deadline - time.monotonic()
                if left <= 0:
                    raise RegistryProblem(
                        Code.TIMEOUT,
                        f"The topic {self._topic} was read up to offset {self._position} only, and not to "
                        f"{offset}, within {timeout_seconds:g} seconds",
                    )
                self._moved.wait(left)

    def _run(self) -> None:
        complained = False
        while not self._stopping.is_set():
            try:
                self._read_once()
                complained, self.is_following = False, True
            except (Retriable, ConnectionLost, ClusterTimeout, UnknownTopic, OSError) as problem:
                if not complained:
                    log.warning("topic %s cannot be read at the moment: %s", self._topic, problem)
                complained, self.is_following = True, False
                self._stopping.wait(_PAUSE_SECONDS)
            except (ClientError, CorruptBatch) as problem:
                self._fail(str(problem))
                return
            except Exception:
                log.exception("topic %s is not read any more", self._topic)
                self._fail("an error of the registry itself; see its log")
                return

    def _fail(self, reason: str) -> None:
        if not self._stopping.is_set():
            log.error("topic %s is not read any more: %s; restart the registry", self._topic, reason)
        with self._moved:
            self.failure = reason
            self._moved.notify_all()

    def _read_once(self) -> None:
        data = self._fetch()
        if not data.records:
            return
        batches = list(iter_batches(data.records, allow_partial_tail=True))
        if not batches:
            self._fetch_bytes *= 2  # the first batch is larger
            return
        name = f"{self._topic}-{_PARTITION}"
        fetched = FetchedBatches(batches, data.aborted_transactions)
        for batch, is_aborted in classify(fetched, _NO_LIMIT, self._cluster.options.check_crcs, name):
            if not batch.is_control:
                for record in batch.records():
                    if record.offset < self._position:
                        continue  # a batch is sent whole
                    if is_aborted:
                        self._state.replay_aborted(record.key, record.value)
                    else:
                        self._state.replay(record.key, record.value, record.timestamp_ms, record.offset)
            with self._moved:
                self._position = batch.next_offset
                self._moved.notify_all()

    def _fetch(self) -> PartitionData:
        """One response of the leader. Retriable, OSError; ClientError if it will not get better."""
        place: PartitionPlace = self._cluster.place(self._topic, _PARTITION)
        if self._topic_id is None:
            self._topic_id = place.topic_id
        elif self._topic_id != place.topic_id:
            raise CorruptRecords("it was deleted and created anew")
        by_id = any(place.topic_id)
        wanted = FetchPartition(
            partition=_PARTITION, fetch_offset=self._position, partition_max_bytes=self._fetch_bytes
        )
        request = FetchRequest(
            max_wait_ms=self._cluster.options.fetch_wait_ms,
            min_bytes=1,
            max_bytes=self._fetch_bytes,
            isolation_level=_READ_COMMITTED,
            topics=[FetchTopic(topic=self._topic, topic_id=place.topic_id, partitions=[wanted])],
        )
        try:
            connection = self._cluster.leader(self._topic, _PARTITION)
            answer: FetchResponse = connection.ask(request, at_most=2**15 if by_id else _BY_NAME)
        except OSError:
            self._cluster.forget_places(self._topic)
            raise
        data: PartitionData | None = None
        if not answer.error_code:
            data = answer.responses[0].partitions[0]
        code = answer.error_code if data is None else data.error_code
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise CorruptRecords(f"offset {self._position} is not in it any more: records were lost")
        if code == ErrorCode.UNKNOWN_SERVER_ERROR:
            raise Retriable("the broker had an error of its own")
        if code:
            self._cluster.check_partition(code, self._topic, _PARTITION, f"read {self._topic}")
        assert data is not None
        return data
