"""What monitoring reads of the broker's parts, as Protocols.

`node.py` fills `Sources`. Everything is read at a scrape or a health check; nothing is called on the request
path. Hot code only increments plain counters (`stats.messages_in += 1`).
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from moldau.broker.metadata.image import EMPTY_IMAGE, Image
from moldau.broker.metadata.store import StoreStatus
from moldau.broker.metadata.view import Behind
from moldau.broker.monitor.request_times import RequestTimes

if TYPE_CHECKING:
    from moldau.broker.log.compaction.report import CompactionReport
    from moldau.broker.monitor.process import ProcessFacts


class SegmentsSettings(Protocol):
    """Of a topic's settings."""


class ProducerStateSource(Protocol):
    """What a log knows of one producer."""

    @property
    def last_timestamp_ms(self) -> int: ...


class ProducersSource(Protocol):
    """The producers of one log. `ongoing` has the first offset of each open transaction and the producer id,
    ascending."""

    @property
    def ongoing(self) -> Mapping[int, int]: ...

    @property
    def states(self) -> Mapping[int, ProducerStateSource]: ...


class LogSource(Protocol):
    """Of one partition's log."""

    @property
    def producers(self) -> ProducersSource: ...

    @property
    def log_start_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...

    @property
    def offline_cause(self) -> str: ...

    @property
    def damage(self) -> tuple[int, str] | None: ...

    @property
    def unreadable(self) -> Mapping[int, str]: ...

    @property
    def settings(self) -> SegmentsSettings: ...

    @property
    def size_bytes(self) -> int: ...

    @property
    def segments(self) -> Sized: ...


class PartitionSource(Protocol):
    """One partition on this broker."""

    @property
    def topic(self) -> str: ...

    @property
    def index(self) -> int: ...

    @property
    def leader(self) -> int: ...

    @property
    def online(self) -> bool: ...

    @property
    def isr(self) -> Sequence[int]: ...

    @property
    def replicas(self) -> Sequence[int]: ...

    @property
    def high_watermark(self) -> int: ...

    @property
    def last_stable_offset(self) -> int: ...

    @property
    def waiting_count(self) -> int: ...

    @property
    def min_in_sync(self) -> int: ...

    @property
    def log(self) -> LogSource: ...


class TopicStatsSource(Protocol):
    """Counters of one topic; they only grow."""

    messages_in: int
    bytes_in: int
    bytes_out: int
    produces: int
    fetches: int
    failed_produces: int
    failed_fetches: int


class ReplicasSource(Protocol):
    """All partitions on this broker, and the counters of their topics."""

    @property
    def stats(self) -> Mapping[str, TopicStatsSource]: ...

    @property
    def unopened(self) -> Mapping[str, str]: ...

    @property
    def in_sync_counts(self) -> "InSyncCountsSource": ...

    @property
    def replication_bytes_out(self) -> int: ...

    def partitions(self) -> Iterable[PartitionSource]: ...


class RecoverySource(Protocol):
    """The progress of loading logs."""

    done: int
    total: int
    current: str


class DirectorySource(Protocol):
    """One log directory."""

    @property
    def path(self) -> str: ...

    def free_bytes(self) -> tuple[int, int]:
        """The size of its disk, and the free space; (-1, -1) if unknown."""


class StartupSource(Protocol):
    """The start of the logs."""

    @property
    def progress(self) -> RecoverySource: ...


class LogManagerSource(Protocol):
    """The data directories."""

    @property
    def directories(self) -> Sequence[DirectorySource]: ...

    @property
    def offline_dirs(self) -> Sequence[str]: ...

    @property
    def full_dirs(self) -> Sequence[str]: ...

    @property
    def startup(self) -> StartupSource: ...

    @property
    def compaction(self) -> "CompactionReport | None": ...


class GroupSource(Protocol):
    """One group."""

    @property
    def group_id(self) -> str: ...

    def member_count(self) -> int: ...


class CommittedOffsetSource(Protocol):
    """One committed offset."""

    @property
    def group_id(self) -> str: ...

    @property
    def topic(self) -> str: ...

    @property
    def partition(self) -> int: ...

    @property
    def offset(self) -> int: ...

    @property
    def metadata(self) -> str: ...


class GroupsSource(Protocol):
    """The group coordinator."""

    def groups(self) -> Iterable[GroupSource]: ...

    def group_counts(self) -> Mapping[tuple[str, str], int]: ...

    def committed_offsets(self) -> Iterable[CommittedOffsetSource]: ...


class TransactionSource(Protocol):
    """One transactional id with an open transaction, or a decided one whose markers are not all written."""

    @property
    def transactional_id(self) -> str: ...

    @property
    def producer_id(self) -> int: ...

    @property
    def partitions(self) -> Collection[tuple[str, int]]: ...

    @property
    def start_ms(self) -> int: ...

    @property
    def timeout_ms(self) -> int: ...


class PendingMarkersSource(Protocol):
    """Markers that are not written yet."""

    @property
    def transactions(self) -> int: ...

    @property
    def partitions(self) -> int: ...

    @property
    def oldest_ms(self) -> int: ...

    @property
    def stopped(self) -> int: ...


class TransactionsSource(Protocol):
    """The transaction coordinator. `knows_all` is false while another broker may coordinate a transaction."""

    @property
    def ended(self) -> Mapping[str, int]: ...

    def state_counts(self) -> Mapping[str, int]: ...

    def undecided(self) -> Iterable[TransactionSource]: ...

    def knows_all(self) -> bool: ...

    def pending_markers(self) -> PendingMarkersSource: ...


class LoginsSource(Protocol):
    """Logins with SASL on one listener."""

    succeeded: int
    failed: int
    succeeded_again: int
    failed_again: int
    expired: int


class CertificateSource(Protocol):
    """The dates of a certificate, in milliseconds since the Unix epoch."""

    @property
    def subject(self) -> str: ...

    @property
    def valid_from_ms(self) -> int: ...

    @property
    def valid_until_ms(self) -> int: ...


class TlsSource(Protocol):
    """The TLS of a listener; `problem` says why its newest stores are not used."""

    @property
    def problem(self) -> str | None: ...

    @property
    def certificate(self) -> CertificateSource: ...


class ListenerSource(Protocol):
    """One listening address."""

    name: str
    accepted_count: int
    refused_count: int
    handshake_failures: int

    @property
    def tls(self) -> TlsSource | None: ...

    @property
    def connections(self) -> Sized: ...

    @property
    def logins(self) -> LoginsSource: ...

    @property
    def muted(self) -> Sized: ...


class MeterSource(Protocol):
    """What those use who share a quota."""

    @property
    def key(self) -> tuple[str | None, str | None]: ...

    def per_second(self) -> float: ...

    def current_limit(self) -> float: ...


class ThrottledSource(Protocol):
    """How often and how long clients had to wait."""

    throttled_count: int
    throttled_ms: int


class MetersSource(ThrottledSource, Protocol):
    """One kind of quota."""

    def recent(self, count: int) -> Sequence[MeterSource]: ...


class QuotasSource(Protocol):
    """All client quotas."""

    def kinds(self) -> Mapping[str, MetersSource]: ...

    @property
    def connections(self) -> ThrottledSource: ...


class RequestMemorySource(Protocol):
    """The limit for request bytes."""

    limit_bytes: int
    used_bytes: int
    closed_count: int

    @property
    def depleted_ms(self) -> float: ...

    @property
    def waiting_count(self) -> int: ...

    def depleted_within(self, duration_ms: float) -> bool: ...


class ResponseMemorySource(Protocol):
    """The limit for unsent responses."""

    limit_bytes: int
    used_bytes: int
    closed_count: int

    @property
    def connection_count(self) -> int: ...

    def full_within(self, duration_ms: float) -> bool: ...


class ClientStateAccountSource(Protocol):
    """What clients make the broker keep, of one kind."""

    name: str
    used_bytes: int
    evicted_count: int
    refused_count: int


class ClientStateSource(Protocol):
    """All that clients make the broker keep."""

    limit_bytes: int
    used_bytes: int

    @property
    def accounts(self) -> Sequence[ClientStateAccountSource]: ...

    def full_within(self, duration_ms: float) -> bool: ...


class FsyncSource(Protocol):
    """The fsyncs of the produce path."""

    fsync_count: int
    fsync_last_ms: float


class FetcherSource(Protocol):
    """This broker's fetches from leaders on others."""

    @property
    def counts(self) -> "FetchCountsSource": ...

    def failing(self) -> Iterable[tuple[int, float, str]]:
        """Leaders from which nothing can be fetched now: since when (monotonic, in milliseconds), and why."""

    def lags(self) -> Iterable[tuple[PartitionSource, int, int]]:
        """Each followed partition, its leader, and how many records it is behind."""


class FetchCountsSource(Protocol):
    """Counters of these fetches; they only grow."""

    requests: int
    failed_requests: int
    bytes_fetched: int
    partition_errors: int
    corrupt_batches: int


class RoundTripSource(Protocol):
    """Records that this broker wrote through its own listener and read back (peers/round_trip.py)."""

    done: int
    failed: int
    failed_in_a_row: int
    last_ms: float | None
    problem: str


class MirrorRow(NamedTuple):
    """One partition that this broker pulls from another cluster."""

    link: str
    topic: str
    partition: int
    lost_seconds: float | None
    """How long ago all that the source had was here; None: it never was."""
    behind: int
    """Offsets behind the source's high watermark; -1: not known."""
    cut_records: int
    missed_records: int
    problem: str


class MirrorsSource(Protocol):
    """Mirrors of other clusters' topics."""

    def rows(self) -> Iterable[MirrorRow]: ...

    def bytes_pulled(self) -> Mapping[str, int]:
        """By link."""


class InSyncCountsSource(Protocol):
    """How often in-sync sets of partitions led here lost or got a member; they only grow."""

    shrinks: int
    expands: int


class TokenKeysSource(Protocol):
    """The keys of a token issuer; `error` says why they could not be loaded the last time."""

    url: str
    error: str | None


def _no_name(api_key: int) -> str:
    return str(api_key)


@dataclass(slots=True)
class Sources:
    """The broker's parts; a part that does not exist yet is None and left out."""

    node_id: int = -1
    version: str = ""
    image: Callable[[], Image] = field(default=lambda: EMPTY_IMAGE)
    metadata_behind: Callable[[], Sequence[Behind]] = tuple
    uncreated_topics: Callable[[], Mapping[str, str]] = dict
    """Internal topics that could not be created, and why."""
    log_manager: LogManagerSource | None = None
    process_facts: "Callable[[], ProcessFacts] | None" = None
    replicas: ReplicasSource | None = None
    groups: GroupsSource | None = None
    transactions: TransactionsSource | None = None
    listeners: Sequence[ListenerSource] = ()
    fsyncs: FsyncSource | None = None
    store_status: Callable[[], StoreStatus | None] = lambda: None
    fetcher: Callable[[], FetcherSource | None] = lambda: None
    round_trips: RoundTripSource | None = None
    quotas: QuotasSource | None = None
    mirrors: Callable[[], MirrorsSource | None] = lambda: None
    token_keys: Callable[[], Sequence[TokenKeysSource]] = tuple
    requests: RequestMemorySource | None = None
    responses: ResponseMemorySource | None = None
    client_state: ClientStateSource | None = None
    request_counts: Mapping[tuple[int, int], int] = field(default_factory=dict)
    request_times: RequestTimes = field(default_factory=RequestTimes)
    api_name: Callable[[int], str] = _no_name
