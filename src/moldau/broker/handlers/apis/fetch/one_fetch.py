"""One Fetch request: the partitions it reads, the answer made of them, and the wait for more.

    collect ──> enough, or an error ──> frame
       └──> too little ──> wait ──> more, or the time is up ──> collect ──> frame

Rows are read as the request's client may read them now: it must have Read on the topic, a follower
ClusterAction, also when a parked request goes on. Within a session an answer leaves out what the client
knows, and partitions that gave records go to the end of the order.

Hot: `collect`, `frame` and `choose` run for every Fetch. Budget, all but the socket: 27 reference loops for
one record, 70 for a parked fetch that is woken by one (bench/hot_path.py). Not here: which partitions those
are (fetch.py), very many of them (fetch_many.py), what a partition gives (replication/partition.py).
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from moldau.broker.handlers.apis.fetch.read_replica import preferred_replica
from moldau.broker.handlers.parts.broker import Broker
from moldau.broker.handlers.parts.current_leader import fetch_endpoints, leader_for_fetch
from moldau.broker.handlers.parts.exchange import AnswerFrame, Exchange, Slot
from moldau.broker.handlers.parts.rights import may, may_on_cluster
from moldau.broker.handlers.parts.session import Session
from moldau.broker.replication.fetch_session import FetchTarget, Targets
from moldau.broker.replication.partition import CONSUMER, Partition
from moldau.broker.replication.waiters import UNKNOWN_BYTES
from moldau.common.core.timers import TimerHandle
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.hot_fetch import (
    ROW_ERROR_CODE,
    ROW_FIELDS,
    ROW_HIGH_WATERMARK,
    ROW_LOG_START_OFFSET,
    ROW_RECORDS,
    FetchBody,
    FetchedPartition,
    diverging_field,
    encode_fetch_response,
    leader_field,
)
from moldau.common.protocol.hot_wire import frame_answer_parts
from moldau.common.protocol.operations import Operation, ResourceType

if TYPE_CHECKING:
    from moldau.broker.security.quotas.limits import ClientLimits

_FLEXIBLE_FROM = 12
_RACK_FROM = 11
_TOPIC_ID_FROM = 13
_READ_COMMITTED = 1
_NO_RECORDS = b""
_FETCH = 1


class OneFetch:
    """One Fetch request: what it wants, and how its answer is collected."""

    __slots__ = (
        "any_replica",
        "authorizer",
        "began_us",
        "broker",
        "broker_epoch",
        "correlation_id",
        "exchange",
        "incremental",
        "known",
        "leaders",
        "limits",
        "listener",
        "lookup",
        "max_bytes",
        "min_bytes",
        "missing_bytes",
        "preferred",
        "rack",
        "read_committed",
        "replica_id",
        "session",
        "session_id",
        "slot",
        "tagged",
        "targets",
        "tells_follower",
        "timer",
        "version",
        "was_parked",
        "watched",
    )

    def __init__(
        self, broker: Broker, session: Session, version: int, correlation_id: int, body: FetchBody
    ) -> None:
        self.broker = broker
        self.authorizer = broker.authorizer
        self.session = session
        self.listener = session.listener
        self.began_us = broker.request_times.now_us()
        self.version = version
        self.correlation_id = correlation_id
        replica_id, _, min_bytes, max_bytes, isolation_level, _, _, _, _, rack, broker_epoch = body
        self.replica_id, self.broker_epoch = replica_id, broker_epoch
        # Else it would wait for more than it is given room for.
        self.min_bytes = min(min_bytes, broker.response_room.fetch_bytes // 2)
        self.max_bytes = min(max_bytes, broker.settings.fetch_max_bytes)
        selects = broker.settings.replica_selector_class is not None
        self.tells_follower = selects and self.replica_id >= 0
        self.any_replica = self.replica_id == CONSUMER and version >= _RACK_FROM
        self.rack = ""  # where preferred read replicas are chosen by it
        if selects and self.any_replica and rack:
            self.rack = rack.decode(errors="replace")
        self.read_committed = isolation_level == _READ_COMMITTED
        by_id = version >= _TOPIC_ID_FROM
        self.lookup = broker.replicas.by_topic_id if by_id else broker.replicas.by_name_bytes
        self.targets = Targets()
        self.session_id = 0
        self.incremental = False
        self.slot: Slot | None = None
        self.timer: TimerHandle | None = None
        self.was_parked = False  # what it tells of a follower has counted
        self.watched: list[Partition] = []
        self.known: dict[FetchTarget, FetchedPartition] | None = None  # what a parked follower would get
        self.tagged: dict[tuple[bytes, int], bytes] | None = None  # of rows with tagged fields
        self.leaders: list[int] | None = None  # which rows name, as they lead and this broker does not
        self.preferred: dict[tuple[bytes, int], int] | None = (
            None  # replicas that consumers should rather ask
        )
        self.missing_bytes = 0
        self.exchange: Exchange | None = None
        self.limits: ClientLimits | None = None

    def limit(self, limits: "ClientLimits", exchange: Exchange | None) -> None:
        """Serve it within its client's quotas. A follower has none; who only says to be one has."""
        if self.is_follower():
            limits.drop()
            return
        self.exchange, self.limits = exchange, limits
        bytes_max = limits.fetch_bytes_max()
        if bytes_max is not None:
            self.max_bytes = min(self.max_bytes, bytes_max)
            self.min_bytes = min(self.min_bytes, self.max_bytes)

    def is_follower(self) -> bool:
        """Whether a broker asks, which has the right to what only brokers get."""
        return self.replica_id >= 0 and may_on_cluster(self.broker, self.session, Operation.CLUSTER_ACTION)

    # Collecting

    def collect(self) -> tuple[list[tuple[FetchTarget, FetchedPartition]], int, bool]:
        """The rows of an answer, how many bytes of records they hold, and whether it may not wait."""
        rows: list[tuple[FetchTarget, FetchedPartition]] = []
        self.tagged = self.leaders = self.preferred = None
        left_bytes = min(self.max_bytes, self.broker.response_room.fetch_bytes)
        total_bytes, failed = self.read(self.targets.values(), rows, left_bytes, 0)
        return rows, total_bytes, failed

    def read(
        self,
        targets: Iterable[FetchTarget],
        rows: list[tuple[FetchTarget, FetchedPartition]],
        left_bytes: int,
        total_bytes: int,
    ) -> tuple[int, bool]:
        """Add the rows of these targets, with `left_bytes` of records at most; the bytes of all rows so far,
        and whether one of these must be answered at once: an error, say."""
        failed = False
        known = self.known
        if known is not None and not self.is_follower():
            known = None  # it has lost the right to it
        for target in targets:
            row = self._unchanged(target, known) if known else None
            if row is None:
                row = self._read(target, left_bytes, total_bytes == 0)
            size_bytes = len(row[ROW_RECORDS])
            total_bytes += size_bytes
            left_bytes -= size_bytes
            failed = (
                failed or row[ROW_ERROR_CODE] != 0 or self.tagged is not None or self.preferred is not None
            )
            if (
                self.tells_follower
                and self.session_id
                and row[ROW_HIGH_WATERMARK] != target.told_high_watermark
            ):
                failed = True
            rows.append((target, row))
        return total_bytes, failed

    def remember(self, rows: list[tuple[FetchTarget, FetchedPartition]]) -> None:
        """It waits, as these rows are too little. Of a follower's many partitions most have not changed when
        it goes on: that is cheaper to see than to read again. (Rows with records are read again in any case,
        and are not kept meanwhile.)
        """
        if self.replica_id >= 0:
            self.known = {target: row for target, row in rows if not row[ROW_RECORDS]}

    def _unchanged(
        self, target: FetchTarget, known: dict[FetchTarget, FetchedPartition]
    ) -> FetchedPartition | None:
        """The row of before, if nothing has come since, and nothing else has changed; None: read again."""
        row = known.get(target)
        if row is None or row[ROW_ERROR_CODE] or row[ROW_RECORDS]:
            return None
        held = self.lookup.get(target.key)
        partition = None if held is None else held.get(target.index)
        if (
            partition is None
            or not partition.leads
            or partition.leader_epoch != target.leader_epoch
            or partition.high_watermark != row[ROW_HIGH_WATERMARK]
            or partition.log.written_end_offset != target.offset
            or partition.log.log_start_offset != row[ROW_LOG_START_OFFSET]
        ):
            return None
        return row

    def _read(self, target: FetchTarget, left_bytes: int, first: bool) -> FetchedPartition:
        held = self.lookup.get(target.key)
        partition = None if held is None else held.get(target.index)
        if self.authorizer is not None and not self._may_read(target, partition):
            return (target.index, ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1, -1, -1, None, _NO_RECORDS)
        if partition is None:
            error_code = self._absence(target, held is None)
            self._refused(target, error_code)
            return (target.index, error_code, -1, -1, -1, None, _NO_RECORDS)
        partition.stats.fetches += 1
        if self.rack:
            elsewhere = self._elsewhere(target, partition)
            if elsewhere is not None:
                return elsewhere
        read = partition.read(
            target.offset,
            min(target.limit_bytes, left_bytes),
            self.read_committed,
            first,
            target.leader_epoch,
            target.last_fetched_epoch,
            self.replica_id,
            self.broker_epoch,
            target.log_start_offset,
            self.any_replica,
            self.was_parked,
        )
        if read.diverging is not None:
            self._tag(target, diverging_field(*read.diverging))
        if read.error_code:
            partition.stats.failed_fetches += 1
            self._refused(target, read.error_code)
        return read[:ROW_FIELDS]  # what diverges is a tagged field

    def _may_read(self, target: FetchTarget, partition: Partition | None) -> bool:
        """Whether the client has the right to the partition now. (An id that no topic has needs none.)"""
        if self.replica_id >= 0:
            return may_on_cluster(self.broker, self.session, Operation.CLUSTER_ACTION)
        if partition is not None:
            name: str | None = partition.topic
        elif self.version >= _TOPIC_ID_FROM:
            name = self.broker.metadata.image.topic_names.get(target.key)
        else:
            name = target.key.decode(errors="replace")
        return name is None or may(self.broker, self.session, Operation.READ, ResourceType.TOPIC, name)

    def _elsewhere(self, target: FetchTarget, partition: Partition) -> FetchedPartition | None:
        """A row without records that names the replica in the consumer's rack; None: read here."""
        if partition.refusal(target.leader_epoch):
            return None
        image = self.broker.metadata.image
        replica = preferred_replica(image, self.listener, partition, self.rack, target.offset)
        if replica is None:
            return None
        if self.preferred is None:
            self.preferred = {}
        self.preferred[target.key, target.index] = replica
        aborted = () if self.read_committed else None
        start_offset = partition.log.log_start_offset
        stable = partition.last_stable_offset
        return (target.index, 0, partition.high_watermark, stable, start_offset, aborted, _NO_RECORDS)

    def _refused(self, target: FetchTarget, error_code: int) -> None:
        """Name the partition's leader, if the client is refused because it does not know it."""
        leader = leader_for_fetch(self.broker, self.version, target.key, target.index, error_code)
        if leader is not None:
            self._tag(target, leader_field(*leader))
            if self.leaders is None:
                self.leaders = []
            self.leaders.append(leader.leader_id)

    def _tag(self, target: FetchTarget, fields: bytes) -> None:
        if self.tagged is None:
            self.tagged = {}
        self.tagged[target.key, target.index] = fields

    def _absence(self, target: FetchTarget, topic_is_unknown: bool) -> int:
        """The error code of a partition that is not here."""
        by_id = self.version >= _TOPIC_ID_FROM
        if topic_is_unknown:
            return ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return self.broker.replicas.absence(target.key, target.index, by_id=by_id)

    # Answering

    def frame(self, rows: list[tuple[FetchTarget, FetchedPartition]]) -> AnswerFrame:
        """The answer; an incremental one leaves out what the client already knows."""
        delay_ms = 0
        if self.limits is not None:
            delay_ms, gives = self.delay_ms(rows)
            if not gives:
                return self.empty_frame(delay_ms)
        topics: list[tuple[bytes, list[FetchedPartition]]] = []
        self.choose(rows, topics)
        parts = encode_fetch_response(
            self.version,
            topics,
            session_id=self.session_id,
            throttle_time_ms=delay_ms,
            tagged=self.tagged,
            preferred=self.preferred,
            last_fields=self.last_fields(),
        )
        return self.framed(parts)

    def delay_ms(self, rows: list[tuple[FetchTarget, FetchedPartition]]) -> tuple[int, bool]:
        """How long the client must wait if it gets these rows, and whether it gets them all the same; the
        connection is muted."""
        limits = self.limits
        if limits is None:
            return 0, True
        delay_ms, gives = limits.fetch_delay_ms(sum([len(row[ROW_RECORDS]) for _, row in rows]))
        if delay_ms and self.exchange is not None:
            self.exchange.mute(delay_ms)
        elif delay_ms:
            limits.owe(delay_ms)
        return delay_ms, gives

    def empty_frame(self, delay_ms: int) -> AnswerFrame:
        """The answer of a client that must wait (KIP-219): nothing was told, so a new session is none."""
        session_id = self.session_id
        if session_id and not self.incremental:
            self.broker.fetch_sessions.close(session_id, self.session.principal)
            session_id = 0
        parts = encode_fetch_response(self.version, (), session_id=session_id, throttle_time_ms=delay_ms)
        return frame_answer_parts(self.correlation_id, self.version >= _FLEXIBLE_FROM, parts)

    def last_fields(self) -> bytes:
        """The response's own tagged fields: where the leaders that its rows name are reached."""
        if not self.leaders:
            return b"\x00"
        return fetch_endpoints(self.broker, self.listener, self.version, self.leaders)

    def framed(self, parts: list[bytes | memoryview]) -> AnswerFrame:
        """The whole answer around its body."""
        if self.limits is not None:
            self.limits.fetched(sum(map(len, parts)))
        times = self.broker.request_times
        times.of(_FETCH).observe(times.now_us() - self.began_us)
        return frame_answer_parts(self.correlation_id, self.version >= _FLEXIBLE_FROM, parts)

    def choose(
        self,
        rows: Iterable[tuple[FetchTarget, FetchedPartition]],
        topics: list[tuple[bytes, list[FetchedPartition]]],
    ) -> None:
        """Add to `topics` what the client does not know yet."""
        last_key = topics[-1][0] if topics else None
        for target, row in rows:
            if self.session_id:
                news = (
                    row[ROW_RECORDS]
                    or row[ROW_ERROR_CODE]
                    or row[ROW_HIGH_WATERMARK] != target.told_high_watermark
                    or row[ROW_LOG_START_OFFSET] != target.told_start_offset
                    or (self.tagged is not None and (target.key, target.index) in self.tagged)
                    or (self.preferred is not None and (target.key, target.index) in self.preferred)
                )
                if self.incremental and not news and not target.told_error:
                    continue
                target.told_error, target.told_high_watermark, target.told_start_offset = (
                    row[ROW_ERROR_CODE],
                    row[ROW_HIGH_WATERMARK],
                    row[ROW_LOG_START_OFFSET],
                )
                if row[ROW_RECORDS]:
                    self._move_to_end(target)
            if target.key != last_key:
                last_key = target.key
                topics.append((last_key, []))
            topics[-1][1].append(row)
            if row[ROW_RECORDS]:
                self._count(target, len(row[ROW_RECORDS]))

    def _move_to_end(self, target: FetchTarget) -> None:
        if len(self.targets) > 1:
            key = (target.key, target.index)
            if self.targets.pop(key, None) is not None:  # it may have been forgotten between two slices
                self.targets[key] = target

    def _count(self, target: FetchTarget, size_bytes: int) -> None:
        if self.replica_id >= 0:
            self.broker.replicas.replication_bytes_out += size_bytes
            return
        held = self.lookup.get(target.key)
        partition = None if held is None else held.get(target.index)
        if partition is not None:
            partition.stats.bytes_out += size_bytes

    # Waiting

    def wait(self, exchange: Exchange, max_wait_ms: int, total_bytes: int) -> None:
        """Park until enough bytes have come, something changed, or the time is up."""
        self.was_parked = True
        self.missing_bytes = max(1, self.min_bytes - total_bytes)
        self.slot = exchange.park(blocking=True, on_lost=self.forget)
        for target in self.targets.values():
            held = self.lookup.get(target.key)
            partition = None if held is None else held.get(target.index)
            if partition is not None:
                partition.park(self, self.replica_id)
                self.watched.append(partition)
        self.timer = self.broker.timers.call_later(max_wait_ms, self.finish)

    def more(self, bytes_added: int, stable_bytes: int) -> None:
        """A watched partition has `bytes_added` more to read, `stable_bytes` of them if only committed
        records are read (UNKNOWN_BYTES after a transaction marker); 0: it changed in another way.
        """
        added_bytes = stable_bytes if self.read_committed and bytes_added else bytes_added
        if added_bytes == UNKNOWN_BYTES:
            self._look_again()
            return
        self.missing_bytes -= added_bytes
        if self.missing_bytes <= 0 or not bytes_added:
            self.finish()

    def _begin(self) -> None:
        if self.limits is not None:
            self.limits.begin()

    def _end(self) -> None:
        if self.limits is not None:
            self.limits.end()

    def _look_again(self) -> None:
        """A transaction marker made an unknown number of bytes readable: read again, and go on waiting if
        they are too few.
        """
        slot = self.slot
        if slot is None:
            return
        self._begin()
        rows, total_bytes, failed = self.collect()
        if total_bytes >= self.min_bytes or failed:
            self.forget()
            slot.fill(self.frame(rows))
        else:
            self.missing_bytes = self.min_bytes - total_bytes
        self._end()

    def finish(self) -> None:
        slot = self.slot
        if slot is None:
            return
        self.forget()
        self._begin()
        rows, _, _ = self.collect()
        slot.fill(self.frame(rows))
        self._end()

    def forget(self) -> None:
        """Stop waiting, without an answer."""
        self.slot = None
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        for partition in self.watched:
            partition.parked.remove(self)
        self.watched = []
