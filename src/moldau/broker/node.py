"""One broker: starts its parts stage by stage, and stops them in reverse.

    start   addresses -> metadata (locks the data) -> logs (recovery) -> partitions -> coordinators -> clients
    stop    in reverse; the logs leave their clean-shutdown marker

Each stage (stages/) is a value of its own type that holds what exists when it is reached; the next one gets
it, so that nothing can be used before it is there. The machine (loop, clock, files, network, threads,
randomness) comes from the `Host`; by default that is this machine.
"""

import asyncio
import logging
from typing import TYPE_CHECKING, TypeVar

from moldau.broker.controller.controller import Controller
from moldau.broker.handlers import load_all
from moldau.broker.handlers.parts.broker import Broker, ResponseRoom
from moldau.broker.host import Host, system_host
from moldau.broker.log.manager import LogManager
from moldau.broker.metadata.view import MetadataView
from moldau.broker.replication.group_commit import GroupCommit
from moldau.broker.replication.manager import ReplicaManager
from moldau.broker.server.addresses import shown
from moldau.broker.server.listeners import Listeners
from moldau.broker.server.monitoring_port import MonitoringPort
from moldau.broker.stages import storage
from moldau.broker.stages.addresses import Addresses, bind_addresses
from moldau.broker.stages.cluster import Cluster, open_cluster
from moldau.broker.stages.coordination import Coordination, build_coordination
from moldau.broker.stages.ground import Ground, SettingsInEffect, make_logs
from moldau.broker.stages.metadata_changes import MetadataChanges
from moldau.broker.stages.mirroring import LateMirroring
from moldau.broker.stages.replication import Replication, build_replication
from moldau.broker.stages.serving import Serving, begin_serving, build_serving
from moldau.broker.stages.stops import Stops
from moldau.common.core.slow_lane import SlowLane
from moldau.common.settings.broker import BrokerSettings
from moldau.common.settings.sources import StaticSettings

if TYPE_CHECKING:
    from moldau.broker.metadata.store import StoreStatus
    from moldau.broker.peers.round_trip import RoundTrips
    from moldau.broker.server.http_tls import HttpTls
    from moldau.broker.server.monitoring import Monitoring

log = logging.getLogger("moldau.node")

S = TypeVar("S")


class NotStarted(AttributeError):
    """The broker has not been started so far that this part exists."""


class Node:
    """A broker in this process, on the running event loop."""

    def __init__(self, settings: StaticSettings | BrokerSettings, host: Host | None = None) -> None:
        """`host` is this machine unless another is given; one host serves one node."""
        self.static = settings if isinstance(settings, StaticSettings) else StaticSettings.of(settings)
        self.node_id = self.static.broker.node_id
        self.phase = "STARTING"
        self.metadata = MetadataView()
        self.response_room = ResponseRoom()
        self.settings = SettingsInEffect(self.static.broker)
        """Call it for the settings in effect now."""
        self.stops = Stops()
        self._given_host = host
        self._stages: dict[type, object] = {}
        self._port: MonitoringPort | None = None
        self._round_trips: RoundTrips | None = None
        self._starting: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None

    # What exists

    def reached(self, stage: type[S]) -> S:
        """This stage. NotStarted: the start has not come so far."""
        found = self._stages.get(stage)
        if not isinstance(found, stage):
            raise NotStarted(f"the broker {self.node_id} has not been started up to {stage.__name__}")
        return found

    @property
    def address(self) -> str:
        """host:port of the first listener."""
        first = self.listeners.all[0]
        return f"{shown(first.host)}:{first.port}"

    @property
    def http_address(self) -> str | None:
        """host:port of health and metrics, if there is such a port."""
        return self.monitoring_port.address

    @property
    def monitoring_port(self) -> MonitoringPort:
        """The port of health and metrics."""
        if self._port is None:
            raise NotStarted(f"the broker {self.node_id} has not been started")
        return self._port

    @property
    def http_tls(self) -> "HttpTls | None":
        """TLS of that port."""
        return self.reached(Addresses).http_tls

    @property
    def host(self) -> Host:
        """The machine that it runs on."""
        return self.reached(Ground).host

    @property
    def logs(self) -> LogManager:
        """The logs."""
        return self.reached(Ground).logs

    @property
    def listeners(self) -> Listeners:
        """The listeners of clients."""
        return self.reached(Addresses).listeners

    @property
    def controller(self) -> Controller:
        """The controller in this process."""
        return self.reached(Cluster).controller

    @property
    def replicas(self) -> ReplicaManager:
        """The partitions."""
        return self.reached(Replication).replicas

    @property
    def group_commit(self) -> GroupCommit:
        """The writes of a turn."""
        return self.reached(Replication).group_commit

    @property
    def broker(self) -> Broker:
        """What handlers use."""
        return self.reached(Serving).broker

    # Starting

    async def start(self) -> None:
        """Start everything; when this returns, clients are served.

        Raises AddressError, SettingError, MetadataStoreError, StorageError or OSError when it cannot, with a
        sentence for the person who runs the broker; what was started until then is stopped again. So it is
        when the caller is cancelled; CancelledError also when `stop` was called meanwhile.
        """
        self.phase = "STARTING"
        self._stages.clear()
        self._round_trips = None
        self._stopping = None  # a stop before this had nothing to stop
        self._starting = asyncio.ensure_future(self._start())
        try:
            await self._starting
        except GeneratorExit:
            raise  # the loop has ended without it: no part can be stopped any more
        except BaseException:
            await self.stop(clean=False)
            raise

    async def _start(self) -> None:
        ground = self._keep(self._make_ground())
        for warning in self.static.warnings:
            log.warning("%s", warning)
        self._port = MonitoringPort(
            self.static, ground.host.network, ground.late_start, self._make_monitoring, self._show_parts
        )
        addresses = self._keep(await bind_addresses(ground, self._port))
        self._port.begin_soon()
        load_all()
        cluster = self._keep(await open_cluster(ground, addresses))
        self._enter("RECOVERY")
        await storage.open_logs(ground, cluster)
        await storage.adopt_topics(ground, cluster)
        await storage.report_losses(ground, cluster)
        replication = self._keep(build_replication(ground, cluster))
        coordination = self._keep(build_coordination(ground, addresses, cluster, replication))
        # A change that is being written now may come while parts are stopped: the next start carries it out.
        ground.stops.add("subscribers of the metadata", self.metadata.close)
        mirroring = self._keep(LateMirroring(ground, cluster, replication, coordination))
        serving = self._keep(build_serving(ground, addresses, cluster, replication, coordination, mirroring))
        changes = MetadataChanges(ground, addresses, cluster, replication, coordination, serving, mirroring)
        self.metadata.subscribe(changes.apply)
        self.metadata.subscribe(coordination.coordinators.metadata_changed)
        self._round_trips = await begin_serving(ground, addresses, cluster, replication, serving)
        mirroring.image_changed(self.metadata.image)
        self._enter("RUNNING")

    def _make_ground(self) -> Ground:
        host = self._given_host or system_host()
        self.stops.add("workers", lambda: host.workers.shutdown(wait=True))
        return Ground(
            static=self.static,
            settings=self.settings,
            host=host,
            lane=SlowLane(now_seconds=host.seconds),
            metadata=self.metadata,
            logs=make_logs(self.static, host),
            response_room=self.response_room,
            stops=self.stops,
            show_parts=self._show_parts,
        )

    def _keep(self, stage: S) -> S:
        self._stages[type(stage)] = stage
        return stage

    # Monitoring

    def _enter(self, phase: str) -> None:
        """Enter this phase, and show monitoring the parts that exist by now."""
        self.phase = phase
        self._show_parts()

    def _make_monitoring(self) -> "Monitoring":
        from moldau.broker.server.monitoring import Monitoring

        ground = self.reached(Ground)
        return Monitoring(
            node_id=self.node_id,
            host=ground.host,
            image=ground.image,
            metadata_behind=self.metadata.behind,
            uncreated_topics=lambda: {} if self.phase == "STARTING" else self.controller.uncreated,
            settings=self.settings,
            log_manager=ground.logs,
            store_status=self._store_status,
            fetcher=lambda: self.reached(Replication).fetcher.made if self._serves else None,
            addresses=lambda: {each.name: f"{shown(each.host)}:{each.port}" for each in self.listeners.all},
            notices=lambda: self.reached(Addresses).exposures,
            tls=self.http_tls,
        )

    @property
    def _serves(self) -> bool:
        return self.phase in ("RUNNING", "SHUTTING_DOWN")

    def _store_status(self) -> "StoreStatus | None":
        return None if self.phase == "STARTING" else self.controller.store_status()

    def _show_parts(self) -> None:
        """Give monitoring, once it has begun, the parts that exist."""
        monitoring = None if self._port is None else self._port.monitoring
        if monitoring is None:
            return
        monitoring.entered(self.phase)
        if not self._serves:
            return
        sources, serving = monitoring.sources, self.reached(Serving)
        coordination, broker, listeners = self.reached(Coordination), serving.broker, self.listeners
        # Closed by a stop is not offline: nothing is wrong with them. (Monitoring may begin in a stop.)
        sources.replicas = None if self.replicas.closed else self.replicas
        sources.groups, sources.transactions = coordination.groups.made, coordination.transactions.made
        sources.listeners, sources.fsyncs = listeners.all, self.group_commit
        sources.requests, sources.responses = listeners.requests, listeners.responses
        sources.client_state = self.reached(Addresses).client_state
        sources.request_counts, sources.request_times = broker.request_counts, broker.request_times
        sources.quotas = broker.quotas
        sources.mirrors = lambda: self.reached(LateMirroring).made
        sources.token_keys = serving.token_keys
        if self._round_trips is not None:
            sources.round_trips = self._round_trips.counts

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
        self.stops.clean = clean and self.phase == "RUNNING"
        if self.phase == "RUNNING":
            self._enter("SHUTTING_DOWN")
            if clean:
                await self.controller.this_broker.shut_down()
        await self.stops.run()
