"""One broker: builds its parts, wires them together, starts them in order, stops them in reverse.

    start   addresses -> metadata (locks the data) -> logs (recovery) -> partitions -> coordinators -> clients
    stop    in reverse; the logs leave their clean-shutdown marker

This is the only module that knows all parts (those of security are made in node_security.py): where one
needs another, node.py passes it in. The machine (loop, clock, files, network, threads, randomness) comes from
the `Host`; by default that is this machine.

What a cluster adds is passed in here too: the metadata store (`Host.metadata_store`), `InSyncChanges` and
`FollowerFetcher` (`_build_replication`), `MarkerWriter` (`_build_coordinators`), `TransactionVerifier`
(`_serve_clients`).
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from moldau.broker.controller.controller import Controller
from moldau.broker.coordinator.election import ElectedCoordinator, ElectedCoordinators
from moldau.broker.coordinator.stall_guard import never
from moldau.broker.handlers import load_all
from moldau.broker.handlers.apis.produce.produce_transactional import Verifications
from moldau.broker.handlers.apis.transactions.transaction_verifier import (
    LocalTransactionVerifier,
    TransactionVerifier,
)
from moldau.broker.handlers.parts.broker import Broker, ResponseRoom
from moldau.broker.host import Host, system_host
from moldau.broker.log.files.checkpoints import stored_cluster_id
from moldau.broker.log.files.descriptors import segment_descriptors
from moldau.broker.log.files.directory import LogDirectory
from moldau.broker.log.files.run_marks import RunMarks
from moldau.broker.log.log import Log
from moldau.broker.log.manager import LogManager
from moldau.broker.log.upkeep.background import LoopBackground
from moldau.broker.log.upkeep.housekeeping import Housekeeping
from moldau.broker.metadata.changes import Change
from moldau.broker.metadata.configs import effective_broker_settings, topic_settings
from moldau.broker.metadata.embedded import EmbeddedStore
from moldau.broker.metadata.first_changes import read_first_changes, remove_first_changes
from moldau.broker.metadata.image import EMPTY_IMAGE, Image
from moldau.broker.metadata.store import MetadataStoreError, NoSession, OutcomeUnknown
from moldau.broker.metadata.view import MetadataView
from moldau.broker.monitor.request_times import RequestTimes
from moldau.broker.node_security import (
    check_security_of_peers,
    make_audit,
    make_authorizer,
    make_handshakes,
    make_logins,
    make_policies,
    make_quotas,
    make_tls,
    secure_http,
)
from moldau.broker.peers.late import LatePeers
from moldau.broker.replication.coordinator_log import ReplicatedLog
from moldau.broker.replication.fetch_session import FetchSessions
from moldau.broker.replication.group_commit import GroupCommit
from moldau.broker.replication.high_watermark_checkpoint import HighWatermarkCheckpoint
from moldau.broker.replication.in_sync_changes import LocalInSyncChanges
from moldau.broker.replication.manager import ReplicaManager
from moldau.broker.replication.markers import LocalMarkers
from moldau.broker.replication.peers import LateFetcher
from moldau.broker.replication.producer_ids import ProducerIds
from moldau.broker.server.addresses import endpoints, shown
from moldau.broker.server.dispatch import Dispatch
from moldau.broker.server.exposure import exposures
from moldau.broker.server.listeners import Listeners
from moldau.broker.server.monitoring_port import MonitoringPort
from moldau.common.core.client_state import ClientState
from moldau.common.core.side_worker import SideWorker
from moldau.common.core.slow_lane import SlowLane
from moldau.common.protocol.errors import ErrorCode
from moldau.common.settings.broker import BrokerSettings
from moldau.common.settings.listeners import listeners
from moldau.common.settings.sources import StaticSettings

if TYPE_CHECKING:
    from moldau.broker.coordinator.group.service import GroupCoordinator
    from moldau.broker.coordinator.markers import MarkerWriter
    from moldau.broker.coordinator.transaction.service import TransactionCoordinator
    from moldau.broker.metadata.store import StoreStatus
    from moldau.broker.peers.broker_peers import BrokerPeers
    from moldau.broker.peers.round_trip import RoundTrips
    from moldau.broker.replication.following.replica_fetcher import ReplicaFetcher
    from moldau.broker.security.login.logins import Logins
    from moldau.broker.server.http_tls import HttpTls
    from moldau.broker.server.monitoring import Monitoring
    from moldau.common.credentials.jwt.key_source import KeySource

log = logging.getLogger("moldau.node")

# Late enough not to hold up the first clients with imports.
_COORDINATORS_DELAY_MS = 500
_CLEANER_DELAY_MS = 1000
_HEALTH_TOPIC_MS = 3_600_000
_OWN_TOPIC_REPLICAS_MAX = 3
_NODE_ID_LOOK_MS = 100


class _FollowsImage(Protocol):
    """A part that sends requests to other brokers."""

    def follow(self, image: Image) -> None: ...

    def close(self) -> None: ...


class Node:
    """A broker in this process, on the running event loop."""

    def __init__(self, settings: StaticSettings | BrokerSettings, host: Host | None = None) -> None:
        """`host` is this machine unless another is given; one host serves one node."""
        self.static = settings if isinstance(settings, StaticSettings) else StaticSettings.of(settings)
        self.node_id = self.static.broker.node_id
        self.phase = "STARTING"
        self.metadata = MetadataView()
        self.response_room = ResponseRoom()
        self._given_host = host
        self._settings = self.static.broker
        self._clean = True
        self._stops: list[tuple[str, Callable[[], object]]] = []
        self._starting: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._loading: asyncio.Future[None] | None = None
        self.in_cluster = False
        """Whether the metadata store may have other brokers; if not, nothing is sent to any."""
        self._elsewhere: list[_FollowsImage] = []
        self._partitions_closed = False
        self.round_trips: RoundTrips | None = None
        self.token_keys: Callable[[], Sequence[KeySource]] = tuple
        """The keys of token issuers, for OAUTHBEARER."""
        self._stalled: Callable[[], bool] = never
        """Whether this process stalled, and does not know yet what was decided since (stall_guard.py)."""

    @property
    def address(self) -> str:
        """host:port of the first listener."""
        first = self.listeners.all[0]
        return f"{shown(first.host)}:{first.port}"

    @property
    def http_address(self) -> str | None:
        """host:port of health and metrics, if there is such a port."""
        return self.monitoring_port.address

    def settings(self) -> BrokerSettings:
        """The settings in effect now: static ones with the dynamic ones over them."""
        return self._settings

    # Starting

    async def start(self) -> None:
        """Start everything; when this returns, clients are served.

        Raises AddressError, SettingError, MetadataStoreError, StorageError or OSError when it cannot, with a
        sentence for the person who runs the broker; what was started until then is stopped again. So it is
        when the caller is cancelled; CancelledError also when `stop` was called meanwhile.
        """
        self.round_trips = None
        self._stopping = None  # a stop before this had nothing to stop
        self._partitions_closed = False
        self._starting = asyncio.ensure_future(self._start())
        try:
            await self._starting
        except GeneratorExit:
            raise  # the loop has ended without it: no part can be stopped any more
        except BaseException:
            await self.stop(clean=False)
            raise

    async def _start(self) -> None:
        self.host = self._given_host or system_host()
        self._stops.append(("workers", lambda: self.host.workers.shutdown(wait=True)))
        self.slow_lane = SlowLane(now_seconds=self.host.seconds)  # parts below the handlers get it handed in
        for warning in self.static.warnings:
            log.warning("%s", warning)
        self.logs = self._make_logs()
        await self._take_addresses()
        load_all()
        await self._open_metadata()
        self._elsewhere = []
        self._make_authorizer()
        await self._open_logs()
        await self._adopt_topics()
        await self._report_losses()
        self._build_peers()
        self._build_replication()
        self._build_housekeeping()
        self._build_coordinators()
        self.metadata.subscribe(self._apply)
        self.metadata.subscribe(self.coordinators.metadata_changed)
        # A change that is being written now may come while parts are stopped: the next start carries it out.
        self._stops.append(("subscribers of the metadata", self.metadata.close))
        await self._serve_clients()
        self._enter("RUNNING")

    async def _take_addresses(self) -> None:
        """Bind the addresses before anything is written: a port in use leaves no new folder behind."""
        host, settings = self.host, self._settings
        planned = listeners(settings)
        self.monitoring_port = MonitoringPort(
            self.static, host.network, host.timers, self._make_monitoring, self._show_parts
        )
        self._stops.append(("monitoring", self.monitoring_port.stop))
        self.monitoring_port.bind()
        self.http_tls = await self._secure_http()
        self.client_state = ClientState(settings.moldau_client_state_max_bytes, host.clock)
        self.listeners = Listeners(
            settings,
            client_state=self.client_state,
            network=host.network,
            clock=host.clock,
            timers=host.timers,
            seconds=host.seconds,
            response_room=self.response_room,
            http_address=lambda: self.http_address,
            make_tls=lambda name, protocol: make_tls(host, name, protocol),
            make_handshakes=lambda: make_handshakes(host),
        )
        self._stops.append(("addresses", self.listeners.close))
        if self.http_tls is not None:
            self.listeners.also_renewed.append(self.http_tls.tls)
        await self.listeners.bind(planned)
        for exposure in self._exposures():
            log.warning("%s", exposure)

    async def _secure_http(self) -> "HttpTls | None":
        has_port = self.monitoring_port.address is not None
        secured = await secure_http(self.host, self._settings, has_port=has_port)
        if secured is not None:
            self._stops.append(("TLS of the HTTP port", secured.close))
        return secured

    async def _open_metadata(self) -> None:
        host, broker = self.host, self.static.broker
        store = host.metadata_store(host, broker, self.slow_lane)
        self.in_cluster = not isinstance(store, EmbeddedStore)
        self.metadata.timers = host.timers
        policies = make_policies(host, self.static, self._stops)
        self.controller = Controller(
            self.node_id,
            store,
            self.metadata,
            self.static,
            host.random,
            self.slow_lane,
            host.timers,
            host.clock,
            policies,
            in_cluster=self.in_cluster,
        )
        self._stops.append(("metadata", self.controller.this_broker.close))
        folder = broker.metadata_log_dir or broker.data_directories[0]
        first = read_first_changes(host.files, folder)
        made = await self.controller.this_broker.open(
            stored_cluster_id(host.files, broker.data_directories), first
        )
        remove_first_changes(host.files, folder, used=made)
        self._settings = effective_broker_settings(self.metadata.image, broker, self.node_id)
        if self.in_cluster:
            await check_security_of_peers(
                self.host, self.static.broker, self._settings, self.listeners.all[0].name
            )

    def _make_authorizer(self) -> None:
        """Who is told of refusals and administrative changes, and who may do what; None: none is set."""
        peers = LatePeers(lambda: self._make_peers("audit"))
        self.audit = make_audit(
            self.host,
            self.static.broker,
            lambda: self.metadata.image,
            peers,
            lambda name: self._create_own_topic(name, 1, {}),
            self._stops,
        )
        if self.static.broker.moldau_audit_topic:
            self._elsewhere.append(peers)
        self.authorizer = make_authorizer(
            self.static.broker, self.metadata, self.audit, self.listeners.rights_changed
        )

    def _make_logs(self) -> LogManager:
        host = self.host
        return LogManager(
            self.static.broker,
            clock=host.clock,
            timers=host.timers,
            files=host.files,
            background=LoopBackground(host.loop, host.workers),
            pool=host.pool,
            source=host.random,
            descriptor_limit=segment_descriptors(host.open_files_max),
        )

    async def _close_logs(self) -> None:
        if self._loading is not None:
            # A start that was called off: the thread goes on, and holds the folders until it is done.
            await asyncio.wait([self._loading])
        self.logs.close(clean=self._clean, broker_epoch=self.controller.this_broker.presence.complete_since)

    def _mark_runs(self) -> None:
        """The next start must tell what an unclean stop has taken, if others rely on the logs here."""
        forced = self.static.broker.moldau_durability == "group"
        self.logs.directories.run_marks = RunMarks(self.host.files, self.host.boot_id(), forced)

        async def registered(complete_since: Sequence[int]) -> None:
            await self.host.loop.run_in_executor(
                self.host.workers, lambda: self.logs.directories.mark_running(complete_since)
            )

        self.controller.this_broker.call_when_registered(registered)

    async def _open_logs(self) -> None:
        self._stops.append(("logs", self._close_logs))
        if self.in_cluster:
            self._mark_runs()
        self.logs.settings = self._settings
        self._enter("RECOVERY")
        image = self.metadata.image
        self._loading = self.host.loop.run_in_executor(
            self.host.workers,
            lambda: self.logs.load(
                image.cluster_id,
                self.node_id,
                lambda topic: topic_settings(image, self.static.broker, topic),
                lambda topic, index: image.is_sole_copy(topic, index, self.node_id),
            ),
        )
        await asyncio.shield(self._loading)

    async def _adopt_topics(self) -> None:
        """Adopt topics found in the log directories of a new cluster: of Kafka's, or after the metadata was
        lost.
        """
        if self.controller.this_broker.cluster_is_new and len(self.logs):
            from moldau.broker.replication.adoption import found_topics, next_producer_id

            found = found_topics(self.logs, self.host.random)
            await self.controller.this_broker.adopt_topics(found, next_producer_id(self.logs))

    def _build_peers(self) -> None:
        """Requests to other brokers, but for fetches, which have connections of their own."""
        self.peers = LatePeers(lambda: self._make_peers("requests"))
        self._stops.append(("requests to other brokers", self.peers.close))

    def _make_peers(self, purpose: str) -> "BrokerPeers":
        from moldau.broker.peers.broker_peers import BrokerPeers
        from moldau.broker.peers.security import PeerSecurity
        from moldau.common.settings.listeners import inter_broker_listener

        settings = self._settings
        return BrokerPeers(
            self.node_id,
            lambda: self.metadata.image,
            self.host,
            self.slow_lane,
            purpose=purpose,
            listener_name=inter_broker_listener(self.static.broker),
            setup_timeout_ms=settings.socket_connection_setup_timeout_ms,
            # A response holds one batch that was a request once, or many smaller ones.
            frame_bytes_max=settings.socket_request_max_bytes + settings.replica_fetch_response_max_bytes,
            secure=PeerSecurity(self.settings).secure,
        )

    async def _report_losses(self) -> None:
        """Before this broker counts as back: replicas that are less than the cluster takes them for."""
        if len(self.metadata.image.brokers) < 2:
            return
        from moldau.broker.replication.losses import find_losses

        await self._wait_for_node_id()
        found = await self.slow_lane.slices().run(find_losses(self.metadata.image, self.node_id, self.logs))
        self.logs.missing.withhold(sorted(found.withheld))
        await self._until_written(
            lambda: self.controller.this_broker.replicas_lost(found.lost, found.offline)
        )

    async def _until_written(self, write: Callable[[], Awaitable[None]]) -> None:
        """Make a change that may be made twice, again when the answer of the store is lost; for as long as a
        broker may take to register. MetadataStoreError.
        """
        clock = self.host.clock
        deadline_ms = clock.monotonic_ms() + self._settings.initial_broker_registration_timeout_ms
        while True:
            try:
                await write()
                return
            except (NoSession, OutcomeUnknown) as error:
                if clock.monotonic_ms() >= deadline_ms:
                    raise MetadataStoreError(
                        f"what has become of the logs here could not be told to the other brokers: {error}"
                    ) from error
                log.warning("the metadata store's answer was lost; asking again: %s", error)
            await self._pause()

    async def _pause(self) -> None:
        over = asyncio.Event()
        self.host.timers.call_later(_NODE_ID_LOOK_MS, over.set)
        await over.wait()

    async def _wait_for_node_id(self) -> None:
        """Wait while a broker with other log directories is registered under this id: what these here lack
        says nothing about its replicas. It is another broker, or this one before its disks were replaced,
        whose session ends soon. MetadataStoreError when it lives on.
        """
        clock, ours, told = self.host.clock, self.logs.directories.ids, False
        deadline_ms = clock.monotonic_ms() + self._settings.initial_broker_registration_timeout_ms
        while True:
            held = self.metadata.image.brokers.get(self.node_id)
            if held is None or held.fenced or any(each in held.directories for each in ours):
                return
            if clock.monotonic_ms() >= deadline_ms:
                raise MetadataStoreError(
                    f"a broker with node.id={self.node_id} and other log directories is registered; give "
                    "each broker its own"
                )
            if not told:
                log.warning(
                    "a broker with node.id=%d and other log directories is registered: another broker, or "
                    "this one before its disks were replaced; waiting until it is free",
                    self.node_id,
                )
                told = True
            await self._pause()

    def _build_replication(self) -> None:
        host = self.host
        self.group_commit = GroupCommit(
            host.loop, host.workers, lambda partition, error: self.logs.storage_failed(partition.log, error)
        )
        self.fetcher = LateFetcher(self._make_fetcher)
        self._stops.append(("fetches from leaders", self.fetcher.close))
        in_sync_changes = LocalInSyncChanges(self.node_id, self.controller, lambda: self.metadata.image)
        self.replicas = ReplicaManager(
            self.node_id,
            self.static.broker,
            self.logs,
            host.clock,
            self.group_commit,
            in_sync_changes,
            self.fetcher,
        )
        self._stops.append(("truncations", self.group_commit.finish))
        self._stops.append(("in-sync changes", in_sync_changes.stop))
        self._stops.append(("partitions", self._close_partitions))
        self.logs.on_offline = self._directory_failed
        self.replicas.on_made_again = self.controller.this_broker.replica_made_again
        self.replicas.takes_part = False  # before it is registered
        self.replicas.apply(EMPTY_IMAGE, self.metadata.image, ())
        self.replicas.serve(self.slow_lane)
        self.replicas.set_strays_aside()

    def _close_partitions(self) -> None:
        self._partitions_closed = True
        self._show_parts()
        self.replicas.close()

    def _make_fetcher(self) -> "ReplicaFetcher":
        from moldau.broker.replication.following.fetch_parts import FetchCounts, FetchParts
        from moldau.broker.replication.following.follower_session import FetchLimits
        from moldau.broker.replication.following.replica_fetcher import ReplicaFetcher

        def limits() -> FetchLimits:
            settings = self._settings
            return FetchLimits(
                settings.replica_fetch_wait_max_ms,
                settings.replica_fetch_min_bytes,
                settings.replica_fetch_response_max_bytes,
                settings.replica_fetch_max_bytes,
            )

        parts = FetchParts(
            node_id=self.node_id,
            host=self.host,
            clock=self.host.clock,
            lane=self.slow_lane,
            limits=limits,
            pause_ms_max=lambda: self._settings.replica_fetch_backoff_ms,
            timeout_ms=lambda: self._settings.replica_socket_timeout_ms,
            broker_epoch=lambda: self.controller.this_broker.broker_epoch,
            counts=FetchCounts(),
            quota=self.replicas.follower_quota,
            save_log_start=self._save_log_start,
        )
        return ReplicaFetcher(parts, self._make_peers, lambda: self._settings.num_replica_fetchers)

    def _save_log_start(self, held: Log, done: Callable[[], None]) -> None:
        """Write down where this log begins, unless its files say so."""
        directory = self.logs.checkpoints.note_log_start(held)
        self.logs.checkpoints.save_log_starts([] if directory is None else [directory], done)

    def _directory_failed(self, directory: LogDirectory, logs: Sequence[Log]) -> None:
        """Its partitions answer KAFKA_STORAGE_ERROR here, and get other leaders."""
        self.replicas.close_offline()
        self.controller.this_broker.replicas_offline([(each.topic, each.partition) for each in logs])

    def _log_end(self, topic: str, topic_id: bytes, index: int) -> tuple[int, int] | None:
        """The leader epoch of the last record here and the log end offset; None: there is no log to read."""
        held = self.logs.get(topic, index)
        if held is None or held.offline or held.topic_id != topic_id:
            return None
        return held.latest_leader_epoch, held.written_end_offset

    def _build_housekeeping(self) -> None:
        """Periodic work: retention and flushes, compaction, checkpoints."""
        housekeeping = Housekeeping(self.logs, self.replicas.high_watermark_of)
        housekeeping.start()
        self._stops.append(("housekeeping", housekeeping.stop))
        if self._settings.log_cleaner_enable:
            self._begin_later("compaction", _CLEANER_DELAY_MS, self._begin_compaction)
        checkpoint = HighWatermarkCheckpoint(
            self.replicas,
            self.logs,
            lambda: self.metadata.image,
            self.host.timers,
            self.slow_lane,
            self._settings.replica_high_watermark_checkpoint_interval_ms,
        )
        checkpoint.start()
        self._stops.append(("checkpoints", checkpoint.stop))

    def _begin_compaction(self) -> None:
        from moldau.broker.log.compaction.cleaner import Cleaner

        host = self.host
        cleaner = Cleaner(self.logs, self.replicas.high_watermark_of, lambda: host.cleaning_worker(host))
        cleaner.start()
        self._stops.append(("compaction", cleaner.stop))

    def _begin_later(self, name: str, delay_ms: int, begin: Callable[[], None]) -> None:
        """Start a part after a delay: its imports must not delay the first clients."""
        timer = self.host.timers.call_later(delay_ms, begin)
        self._stops.append((f"timer of {name}", timer.cancel))

    # Coordinators

    def _build_coordinators(self) -> None:
        """Each is made by the first request for it, or soon after the start."""
        made = self._show_parts
        self.groups = ElectedCoordinator(self.node_id, self._make_groups, made)
        self.transactions = ElectedCoordinator(self.node_id, self._make_transactions, made)
        self.coordinator_log = ReplicatedLog(self.replicas.partition, self.host.clock)
        self.coordinators = ElectedCoordinators(self.groups, self.transactions)
        self.coordinators.follow(self.metadata.image)
        self.producer_ids = ProducerIds(self.controller)
        self.local_markers = LocalMarkers(
            self.node_id, self.replicas, self.groups.get, self.host.clock, self.slow_lane
        )
        self.markers: MarkerWriter = self.local_markers
        self.transaction_verifier: TransactionVerifier = LocalTransactionVerifier(self.transactions.get)
        if self.in_cluster:
            self._reach_other_brokers()
        self.replicas.on_internal_topic = self.coordinators.follow_topic
        self._stops.append(("coordinators", self.coordinators.stop))
        self._begin_later("coordinators", _COORDINATORS_DELAY_MS, self.coordinators.make_all)

    def _reach_other_brokers(self) -> None:
        """Markers go to leaders, and questions about transactions to coordinators, on other brokers too.

        Responses on one connection come in order, and a question may wait for a commit, or a marker: so each
        has connections of its own.
        """
        from moldau.broker.coordinator.cluster_markers import ClusterMarkers
        from moldau.broker.coordinator.stall_guard import StallGuard
        from moldau.broker.handlers.apis.transactions.cluster_verifier import ClusterTransactionVerifier
        from moldau.broker.replication.end_doubt import EndDoubt

        def image() -> Image:
            return self.metadata.image

        marker_peers = LatePeers(lambda: self._make_peers("markers"))
        question_peers = LatePeers(lambda: self._make_peers("transactions"))
        markers = ClusterMarkers(self.node_id, image, self.local_markers, marker_peers)
        verifier = ClusterTransactionVerifier(self.node_id, image, self.transaction_verifier, question_peers)
        self.markers, self.transaction_verifier = markers, verifier
        stall_ms = self._settings.zookeeper_session_timeout_ms / 2
        guard = StallGuard(self.host.clock, self.host.timers, stall_ms, self.controller.confirm)
        guard.start()
        self._stalled = guard
        self._stops.append(("stall guard", guard.stop))
        end_doubt = EndDoubt(self.host.clock.monotonic_ms, self.controller.confirm)
        self.replicas.end_doubt = end_doubt
        self._stops.append(("doubt about ends", end_doubt.stop))
        parts: list[_FollowsImage] = [marker_peers, question_peers, markers, verifier]
        self._elsewhere += parts
        for part in parts:
            self._stops.append(("transactions of other brokers", part.close))

    def _make_groups(self) -> "GroupCoordinator":
        from moldau.broker.coordinator.group.service import GroupCoordinator

        return GroupCoordinator(
            log=self.coordinator_log,
            image=lambda: self.metadata.image,
            settings=self.settings,
            clock=self.host.clock,
            timers=self.host.timers,
            random_source=self.host.random,
            stalled=self._stalled,
            account=self.client_state.groups,
        )

    def _make_transactions(self) -> "TransactionCoordinator":
        from moldau.broker.coordinator.transaction.service import TransactionCoordinator

        return TransactionCoordinator(
            log=self.coordinator_log,
            image=lambda: self.metadata.image,
            settings=self.settings,
            clock=self.host.clock,
            timers=self.host.timers,
            producer_ids=self.producer_ids,
            markers=self.markers,
            stalled=self._stalled,
        )

    # Metadata

    def _follow_quotas(self, old: Image, new: Image, changes: Sequence[Change]) -> None:
        """The clients' quotas are those of the new image; nothing is made before there is one."""
        quotas = self.broker.quotas
        if quotas is None:
            if not new.quotas:
                return
            quotas = self.broker.quotas = make_quotas(self.host, self.static.broker)
            self._show_parts()
        quotas.follow(new, old, changes)
        self.listeners.quotas_changed(quotas)

    def _apply(self, old: Image, new: Image, changes: Sequence[Change]) -> asyncio.Future[None] | None:
        """Apply new metadata: first settings, then partitions, then coordinators, which depend on them."""
        if old.configs is not new.configs:
            self._settings = effective_broker_settings(new, self.static.broker, self.node_id)
            self.broker.settings = self._settings
            self.logs.settings = self._settings
            self.listeners.change_limits(self._settings)
        if old.quotas is not new.quotas:
            self._follow_quotas(old, new, changes)
        self.peers.follow(new)
        self.fetcher.follow(new)
        self.controller.this_broker.log_ends.heard(new, changes)
        self.coordinators.resign(new)  # at once; what they have begun to lead waits for its partition
        for part in self._elsewhere:
            part.follow(new)
        pending = self.replicas.apply(old, new, changes)
        if pending is None:
            self.coordinators.follow(new)
            return None
        return self._coordinators_follow(pending, new)

    def _coordinators_follow(self, partitions: asyncio.Future[None], new: Image) -> asyncio.Future[None]:
        """Done when the coordinators are in step too; fails if one does, so that it is told again."""
        in_step: asyncio.Future[None] = self.host.loop.create_future()

        def follow(_: asyncio.Future[None]) -> None:
            try:
                self.coordinators.follow(new)
            except Exception as error:
                in_step.set_exception(error)
            else:
                in_step.set_result(None)

        partitions.add_done_callback(follow)
        return in_step

    # Clients

    async def _serve_clients(self) -> None:
        host, settings = self.host, self._settings
        self.side_worker = SideWorker(host.loop, host.workers, host.seconds)
        self._stops.append(("side worker", self.side_worker.close))
        self.broker = Broker(
            node_id=self.node_id,
            settings=settings,
            clock=host.clock,
            timers=host.timers,
            random=host.random,
            metadata=self.metadata,
            controller=self.controller,
            replicas=self.replicas,
            log_manager=self.logs,
            make_groups=self.groups.get,
            make_transactions=self.transactions.get,
            markers=self.local_markers,
            transaction_verifier=self.transaction_verifier,
            fetch_sessions=FetchSessions(
                settings.max_incremental_fetch_session_cache_slots,
                host.random,
                self.client_state.fetch_sessions,
            ),
            producer_ids=self.producer_ids,
            request_times=RequestTimes(lambda: int(host.seconds() * 1e6)),
            response_room=self.response_room,
            slow_lane=self.slow_lane,
            side_worker=self.side_worker,
            authorizer=self.authorizer,
            audit=self.audit,
        )
        self.broker.verifications = Verifications(self.broker)
        if self.listeners.have_tls:
            self.broker.check_stores = self.listeners.problem_with_stores
        self.logins = self._make_logins()
        self._follow_quotas(EMPTY_IMAGE, self.metadata.image, ())
        self._stops.append(("listeners", self._close_listeners))
        found_at = endpoints(self.listeners.all, self.static.broker, host.network.name)
        await self.controller.this_broker.register(
            found_at, settings.broker_rack, self.logs.directories.complete_epochs, self.logs.directories.ids
        )
        self.fetcher.begin()
        if self.in_cluster:
            self.controller.this_broker.log_ends.begin(self._log_end)
        await self.listeners.serve(settings, Dispatch(self.broker, self.logins))
        if settings.moldau_health_round_trip_interval_ms:
            self._begin_round_trips(settings.moldau_health_round_trip_interval_ms)

    def _make_logins(self) -> "Logins | None":
        names = [each.name for each in self.listeners.all if each.security_protocol.startswith("SASL_")]
        if not names:
            return None
        parts = make_logins(
            names,
            self.host,
            self.settings,
            lambda: self.metadata.image,
            self.controller.token_signer,
            self._stops,
        )
        self.token_keys = parts.keys.all
        return parts.logins

    def _begin_round_trips(self, interval_ms: int) -> None:
        from moldau.broker.peers.round_trip import RoundTrips

        peers = LatePeers(lambda: self._make_peers("health"))
        trips = RoundTrips(
            self.node_id,
            lambda: self.metadata.image,
            self.host,
            peers,
            self._create_health_topic,
            self.host.loop.create_task,
            interval_ms,
        )
        self._elsewhere.append(peers)
        self._stops.append(("connection of round trips", peers.close))
        self._stops.append(("round trips", trips.stop))
        self.round_trips = trips
        trips.start()

    async def _create_health_topic(self, name: str, partition_count: int) -> str | None:
        kept = {"retention.ms": str(_HEALTH_TOPIC_MS), "segment.ms": str(_HEALTH_TOPIC_MS)}
        return await self._create_own_topic(name, partition_count, kept)

    async def _create_own_topic(
        self, name: str, partition_count: int, configs: Mapping[str, str]
    ) -> str | None:
        """Create a topic of the broker's own; None, or why it could not be."""
        from moldau.broker.controller.topics import NewTopic

        live = sum(not each.fenced for each in self.metadata.image.brokers.values())
        replicas = min(max(live, 1), _OWN_TOPIC_REPLICAS_MAX)
        new = NewTopic(name, partition_count, replicas, configs=dict(configs))
        (result,) = await self.controller.create_topics([new])
        code = result.outcome.error_code
        if not result.outcome.failed or code is ErrorCode.TOPIC_ALREADY_EXISTS:
            return None
        return f"{code.name}: {result.outcome.message or 'no details'}"

    async def _close_listeners(self) -> None:
        self.listeners.hold()
        await self.group_commit.settle()  # what was appended is still answered
        await self.listeners.close()

    # Monitoring

    def _enter(self, phase: str) -> None:
        """Enter this phase, and show monitoring the parts that exist by now."""
        self.phase = phase
        self._show_parts()

    def _make_monitoring(self) -> "Monitoring":
        from moldau.broker.server.monitoring import Monitoring

        return Monitoring(
            node_id=self.node_id,
            host=self.host,
            image=lambda: self.metadata.image,
            metadata_behind=self.metadata.behind,
            uncreated_topics=lambda: {} if self.phase == "STARTING" else self.controller.uncreated,
            settings=self.settings,
            log_manager=self.logs,
            store_status=self._store_status,
            fetcher=lambda: self.fetcher.made if self.phase in ("RUNNING", "SHUTTING_DOWN") else None,
            addresses=lambda: {each.name: f"{shown(each.host)}:{each.port}" for each in self.listeners.all},
            notices=self._exposures,
            tls=self.http_tls,
        )

    def _exposures(self) -> list[str]:
        """What other machines reach without security."""
        has_authorizer = bool(self.static.broker.authorizer_class_name)
        return exposures(self.listeners.all, has_authorizer=has_authorizer)

    def _store_status(self) -> "StoreStatus | None":
        return None if self.phase == "STARTING" else self.controller.store_status()

    def _show_parts(self) -> None:
        """Give monitoring, once it has begun, the parts that exist."""
        monitoring = self.monitoring_port.monitoring
        if monitoring is None:
            return
        monitoring.entered(self.phase)
        if self.phase in ("RUNNING", "SHUTTING_DOWN"):
            sources = monitoring.sources
            # Closed by a stop is not offline: nothing is wrong with them. (Monitoring may begin in a stop.)
            sources.replicas = None if self._partitions_closed else self.replicas
            sources.groups, sources.transactions = self.groups.made, self.transactions.made
            sources.listeners, sources.fsyncs = self.listeners.all, self.group_commit
            sources.requests, sources.responses = self.listeners.requests, self.listeners.responses
            sources.client_state = self.client_state
            sources.request_counts = self.broker.request_counts
            sources.request_times = self.broker.request_times
            sources.quotas = self.broker.quotas
            sources.token_keys = self.token_keys
            if self.round_trips is not None:
                sources.round_trips = self.round_trips.counts

    # Stopping

    async def stop(self, *, clean: bool = True) -> None:
        """Stop what was started, in reverse; a part that fails to stop does not affect the others.

        A start that is under way is called off. Who calls again, or is cancelled, does not disturb the stop.
        """
        if self._stopping is None:
            self._stopping = asyncio.ensure_future(self._stop(clean))
        await asyncio.shield(self._stopping)

    async def _stop(self, clean: bool) -> None:
        if self._starting is not None and not self._starting.done():
            self._starting.cancel()
            await asyncio.wait([self._starting])
        if self.phase == "RUNNING":
            self._enter("SHUTTING_DOWN")
            self._clean = clean
            if clean:
                await self.controller.this_broker.shut_down()
        else:
            self._clean = False
        while self._stops:
            name, stop = self._stops.pop()
            try:
                result = stop()
                if inspect.isawaitable(result):
                    await result
            except Exception:
                self._clean = False
                log.exception("stopping the %s failed", name)
