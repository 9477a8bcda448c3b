"""Fakes of the broker's parts, as far as monitoring looks at them."""

from dataclasses import dataclass, field
from time import thread_time

from moldau.broker.log.compaction.job import Progress
from moldau.broker.log.compaction.report import CompactionReport, Running
from moldau.broker.metadata.image import BrokerState, Image, PartitionState, TopicState
from moldau.broker.metadata.store import StoreStatus
from moldau.broker.metadata.view import Behind
from moldau.broker.monitor.health import Phase
from moldau.broker.monitor.monitor import Monitor
from moldau.broker.monitor.process import read
from moldau.broker.monitor.sources import Sources
from moldau.broker.server.login_counts import LoginCounts
from moldau.common.core.client_state import ClientState
from moldau.common.core.clock import ManualClock
from moldau.common.core.timers import ManualTimers


@dataclass
class FakeSettings:
    min_insync_replicas: int = 1


@dataclass
class FakeRoundTrips:
    done: int = 3
    failed: int = 1
    failed_in_a_row: int = 0
    last_ms: float | None = 2.0
    problem: str = ""


@dataclass
class FakeProducerState:
    last_timestamp_ms: int = 0


@dataclass
class FakeProducers:
    ongoing: dict[int, int] = field(default_factory=dict)
    states: dict[int, FakeProducerState] = field(default_factory=dict)


@dataclass
class FakeLog:
    log_start_offset: int = 0
    log_end_offset: int = 0
    offline_cause: str = ""
    damage: tuple[int, str] | None = None
    unreadable: dict[int, str] = field(default_factory=dict)
    size_bytes: int = 0
    segments: tuple[int, ...] = (0,)
    settings: FakeSettings = field(default_factory=FakeSettings)
    producers: FakeProducers = field(default_factory=FakeProducers)


@dataclass
class FakePartition:
    topic: str
    index: int
    high_watermark: int = 0
    leader: int = 1
    online: bool = True
    isr: tuple[int, ...] = (1,)
    replicas: tuple[int, ...] = (1,)
    waiting_count: int = 0
    log: FakeLog = field(default_factory=FakeLog)

    @property
    def min_in_sync(self) -> int:
        return min(self.log.settings.min_insync_replicas, len(self.replicas))

    @property
    def last_stable_offset(self) -> int:
        return min([self.high_watermark, *self.log.producers.ongoing])


@dataclass
class FakeStats:
    messages_in: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    produces: int = 0
    fetches: int = 0
    failed_produces: int = 0
    failed_fetches: int = 0


@dataclass
class FakeInSyncCounts:
    shrinks: int = 0
    expands: int = 0


@dataclass
class FakeFetchCounts:
    requests: int = 0
    failed_requests: int = 0
    bytes_fetched: int = 0
    partition_errors: int = 0
    corrupt_batches: int = 0


@dataclass
class FakeFetcher:
    behind: list[tuple[FakePartition, int, int]] = field(default_factory=list)
    failed: list[tuple[int, float, str]] = field(default_factory=list)
    counts: FakeFetchCounts = field(default_factory=FakeFetchCounts)

    def lags(self):
        return iter(self.behind)

    def failing(self):
        return iter(self.failed)


@dataclass
class FakeReplicas:
    all: list[FakePartition] = field(default_factory=list)
    stats: dict[str, FakeStats] = field(default_factory=dict)
    unopened: dict[str, str] = field(default_factory=dict)
    in_sync_counts: "FakeInSyncCounts" = field(default_factory=FakeInSyncCounts)
    replication_bytes_out: int = 0

    def partitions(self):
        return iter(self.all)


@dataclass
class FakeDirectory:
    path: str
    total_bytes: int = 1 << 40
    usable_bytes: int = 1 << 39

    def free_bytes(self) -> tuple[int, int]:
        return self.total_bytes, self.usable_bytes


@dataclass
class FakeRecovery:
    done: int = 0
    total: int = 0
    current: str = ""


@dataclass
class FakeStartup:
    progress: FakeRecovery = field(default_factory=FakeRecovery)


def running_compaction() -> CompactionReport:
    report = CompactionReport(ManualClock())
    report.running["accounts", 0] = Running(("accounts", 0), 0.0, Progress("cleaning", 25, 100))
    return report


@dataclass
class FakeLogManager:
    directories: list[FakeDirectory] = field(default_factory=list)
    offline_dirs: list[str] = field(default_factory=list)
    full_dirs: list[str] = field(default_factory=list)
    startup: FakeStartup = field(default_factory=FakeStartup)
    compaction: CompactionReport = field(default_factory=running_compaction)


@dataclass
class FakeGroup:
    group_id: str
    members: int = 0

    def member_count(self) -> int:
        return self.members


@dataclass
class FakeOffset:
    group_id: str
    topic: str
    partition: int
    offset: int
    metadata: str = ""


@dataclass
class FakeGroups:
    all: list[FakeGroup] = field(default_factory=list)
    offsets: list[FakeOffset] = field(default_factory=list)

    def groups(self):
        return iter(self.all)

    def group_counts(self):
        return {("classic", "Stable"): len(self.all)}

    def committed_offsets(self):
        return iter(self.offsets)


@dataclass
class FakeTransaction:
    transactional_id: str
    producer_id: int
    partitions: frozenset[tuple[str, int]]
    start_ms: int
    timeout_ms: int = 60_000


@dataclass
class FakePendingMarkers:
    transactions: int = 0
    partitions: int = 0
    oldest_ms: int = 0
    stopped: int = 0


@dataclass
class FakeTransactions:
    all: list[FakeTransaction] = field(default_factory=list)
    ended: dict[str, int] = field(default_factory=dict)
    pending: FakePendingMarkers = field(default_factory=FakePendingMarkers)
    whole: bool = True

    def state_counts(self):
        return {"Ongoing": len(self.all)}

    def undecided(self):
        return iter(self.all)

    def knows_all(self):
        return self.whole

    def pending_markers(self):
        return self.pending


@dataclass
class FakeCertificate:
    valid_from_ms: int
    valid_until_ms: int
    subject: str = "CN=broker"


@dataclass
class FakeTls:
    certificate: FakeCertificate
    problem: str | None = None


@dataclass
class FakeListener:
    name: str
    connections: set[int] = field(default_factory=set)
    accepted_count: int = 0
    refused_count: int = 0
    handshake_failures: int = 0
    tls: FakeTls | None = None
    logins: LoginCounts = field(default_factory=LoginCounts)
    muted: dict[int, None] = field(default_factory=dict)


@dataclass
class FakeFsyncs:
    fsync_count: int = 0
    fsync_last_ms: float = 0.0


def image_of(*topics: TopicState) -> Image:
    return Image(
        version=1,
        cluster_id="cluster",
        controller_id=1,
        brokers={1: BrokerState(1, 0, {"PLAINTEXT": ("localhost", 9092)})},
        topics={topic.name: topic for topic in topics},
    )


def topic_of(name: str, *partitions: PartitionState) -> TopicState:
    return TopicState(name, bytes(16), partitions or (PartitionState.fresh((1,)),))


@dataclass
class FakeMemory:
    limit_bytes: int = 1 << 20
    used_bytes: int = 1 << 19
    closed_count: int = 2
    depleted_ms: float = 1500.0
    waiting_count: int = 3
    connection_count: int = 4
    full: bool = False

    def depleted_within(self, duration_ms: float) -> bool:
        return self.full

    full_within = depleted_within


class World:
    """A monitor over fakes, with time moved by hand."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.timers = ManualTimers(self.clock)
        self.image = image_of(topic_of("orders"))
        self.manager = FakeLogManager([FakeDirectory("/")])
        self.metadata_behind: list[Behind] = []
        self.uncreated: dict[str, str] = {}
        self.replicas = FakeReplicas([FakePartition("orders", 0)], {"orders": FakeStats()})
        self.groups = FakeGroups()
        self.transactions = FakeTransactions()
        self.transaction_age_ms_max = 300_000
        self.fsyncs = FakeFsyncs()
        self.requests = FakeMemory()
        self.responses = FakeMemory()
        self.client_state = ClientState(1_000_000, self.clock)
        self.listener = FakeListener("PLAINTEXT")
        self.min_free_ratio = 0.0
        self.store_status: StoreStatus | None = None
        self.fetcher: FakeFetcher | None = None
        self.sources = Sources(
            node_id=1,
            version="0.1.0",
            image=lambda: self.image,
            metadata_behind=lambda: self.metadata_behind,
            uncreated_topics=lambda: self.uncreated,
            log_manager=self.manager,
            replicas=self.replicas,
            groups=self.groups,
            transactions=self.transactions,
            listeners=[self.listener],
            fsyncs=self.fsyncs,
            store_status=lambda: self.store_status,
            fetcher=lambda: self.fetcher,
            requests=self.requests,
            responses=self.responses,
            client_state=self.client_state,
            process_facts=read,
            api_name=lambda key: {0: "Produce", 1: "Fetch"}.get(key, str(key)),
        )
        self.monitor = Monitor(
            self.clock,
            self.timers,
            self.sources,
            min_free_ratio=lambda: self.min_free_ratio,
            transaction_age_ms_max=lambda: self.transaction_age_ms_max,
            thread_cpu_seconds=thread_time,
            facts=lambda: {"listeners": "PLAINTEXT://localhost:9092"},
        )
        self.health = self.monitor.health
        self.health.phase = Phase.RUNNING

    def names(self) -> list[str]:
        return [cause.name for cause in self.health.verdict().causes]

    def metrics(self) -> str:
        return b"".join(self.monitor.metrics.render()).decode()
