"""One broker: builds its parts, starts them in order, stops them in reverse. It alone knows all of them.

    start   ports -> metadata (locks the data) -> logs (recovery) -> partitions -> coordinator -> clients
    stop    in reverse; the logs leave their clean-shutdown marker

A broker says that it is ready once clients can produce; the HTTP port answers "not yet, and why" from early
on when recovery takes long, and comes last when it does not, because nobody should wait for it.
"""

import asyncio
import errno
import inspect
import logging
import random
import resource
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.controller.controller import Controller
from moldau.core.clock import Clock, SystemClock
from moldau.core.settings.broker import BrokerSettings
from moldau.core.settings.listeners import Listener as ListenerAddress
from moldau.core.settings.listeners import advertised_listeners, listeners
from moldau.core.settings.sources import StaticSettings
from moldau.core.side_worker import SideWorker
from moldau.core.slow_lane import SlowLane
from moldau.core.timers import LoopTimers
from moldau.handlers import load_all
from moldau.handlers.broker import Broker, ResponseRoom
from moldau.handlers.produce_transactional import Verifications
from moldau.log.background import LoopBackground
from moldau.log.checkpoints import META_PROPERTIES_NAME, read_properties
from moldau.log.descriptors import DEFAULT_LIMIT
from moldau.log.housekeeping import Housekeeping
from moldau.log.manager import LogManager
from moldau.metadata.changes import Change
from moldau.metadata.configs import effective_broker_settings, topic_settings
from moldau.metadata.embedded import EmbeddedStore
from moldau.metadata.image import (
    EMPTY_IMAGE,
    Image,
)
from moldau.metadata.view import MetadataView
from moldau.replication.fetch_session import FetchSessions
from moldau.replication.group_commit import GroupCommit
from moldau.replication.manager import ReplicaManager
from moldau.replication.markers import LocalMarkers
from moldau.replication.partition import Partition
from moldau.replication.producer_ids import ProducerIds
from moldau.server.dispatch import Dispatch
from moldau.server.listener import Limits, Listener
from moldau.server.request_memory import RequestMemory
from moldau.server.response_memory import ResponseMemory
from moldau.server.turns import Turns

if TYPE_CHECKING:
    from moldau.coordinator.coordinator import Coordinator
    from moldau.coordinator.group.service import GroupCoordinator
    from moldau.coordinator.transaction.service import TransactionCoordinator
    from moldau.log.compaction.cleaner import Cleaner
    from moldau.server.monitoring import Monitoring

log = logging.getLogger("moldau.node")

_WORKER_THREADS = 4
_MONITOR_DELAY_MS = 300  # neither may hold up the first clients with its imports
_COORDINATORS_DELAY_MS = 500
_CLEANER_DELAY_MS = 1000
_DESCRIPTORS_MAX = 65_536


class NodeError(Exception):
    """The broker cannot start; the sentence says why and what to do."""


class Node:
    """A broker in this process, on the running event loop."""

    def __init__(
        self,
        settings: StaticSettings | BrokerSettings,
        *,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self.static = settings if isinstance(settings, StaticSettings) else StaticSettings.of(settings)
        self.clock = clock or SystemClock()
        self.random = rng or random.SystemRandom()
        self.node_id = self.static.broker.node_id
        self.listeners: list[Listener] = []
        self.state = "starting"
        self.phase = "STARTING"
        self.metadata = MetadataView()
        self.response_room = ResponseRoom()
        self.slow_lane = SlowLane()  # parts below the handlers get it handed in
        self._groups: GroupCoordinator | None = None
        self._cleaner: Cleaner | None = None
        self._transactions: TransactionCoordinator | None = None
        self._monitoring: Monitoring | None = None
        self._monitor_task: asyncio.Task[None] | None = None
        self._http_socket: socket.socket | None = None
        self.http_address: str | None = None
        self._settings = self.static.broker
        self._led_image = EMPTY_IMAGE  # up to which the coordinators know what they lead
        self._saving: asyncio.Future[None] | None = None
        self._clean = True
        self._executor = ThreadPoolExecutor(_WORKER_THREADS, thread_name_prefix="moldau-worker")
        self._stops: list[tuple[str, Callable[[], object]]] = []

    @property
    def address(self) -> str:
        """host:port of the first listener."""
        first = self.listeners[0]
        return f"{_shown(first.host)}:{first.port}"

    # Starting

    async def start(self) -> None:
        """Start everything; when this returns, clients are served.

        Raises SettingError, MetadataStoreError, StorageError or OSError when it cannot, with a sentence for
        the person who runs the broker; what was started until then is stopped again.
        """
        try:
            await self._start()
        except BaseException:
            await self.stop(clean=False)
            raise

    async def _start(self) -> None:
        loop = asyncio.get_running_loop()
        self.timers = LoopTimers(loop)
        for warning in self.static.warnings:
            log.warning("%s", warning)
        planned = listeners(self.static.broker)
        self.logs = LogManager(
            self.static.broker,
            clock=self.clock,
            timers=self.timers,
            background=LoopBackground(loop, self._executor),
            source=self.random,
            descriptor_limit=_segment_descriptors(),
        )
        self._reserve_http()
        await self._take_addresses(planned)
        self._monitor_timer = self.timers.call_later(_MONITOR_DELAY_MS, self._start_monitoring)
        self._stops.append(("monitoring", self._stop_monitoring))
        load_all()
        await self._open_metadata()
        await self._open_logs(loop)
        await self._adopt_topics()
        self._build_replication(loop)
        self.metadata.subscribe(self._apply)
        self._coordinators_timer = self.timers.call_later(_COORDINATORS_DELAY_MS, self._begin_coordinators)
        self._stops.append(("coordinators", self._stop_coordinators))
        await self._serve_clients()
        self._enter("RUNNING")

    # Addresses of clients

    async def _take_addresses(self, planned: Sequence[ListenerAddress]) -> None:
        """Bind every listener, before anything is written: a port that is taken leaves no new folder behind.

        Nobody is served yet, and a connection is refused as if nothing were there.
        """
        limits = _limits(self._settings)
        self._stops.append(("addresses", self._leave_addresses))
        self.requests = RequestMemory(self._settings.queued_max_request_bytes, self.timers, self.clock)
        self.responses = ResponseMemory(
            self._settings.moldau_queued_max_response_bytes, self.response_room, self.timers, self.clock
        )
        turns = Turns(self.timers)
        for plan in planned:
            listener = Listener(
                plan.name,
                plan.protocol,
                limits,
                self.timers,
                lambda: self.http_address,
                self.requests,
                self.responses,
                turns,
            )
            try:
                await listener.bind(plan.host, plan.port, self._settings.socket_listen_backlog_size)
            except OSError as error:
                raise _cannot_listen(plan.host, plan.port, error) from None
            self.listeners.append(listener)

    async def _leave_addresses(self) -> None:
        for listener in self.listeners:
            await listener.close()

    # Health and metrics

    def _reserve_http(self) -> None:
        """Take the HTTP port, so that its address can be told; it answers when there is time for that."""
        told = self._settings.moldau_http_listener
        if not told:
            return
        host, _, port = told.rpartition(":")
        host = host.strip("[]")
        try:
            self._http_socket = _listening_socket(host, int(port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE or "moldau.http.listener" in self.static.texts:
                why = error.strerror or error
                raise NodeError(
                    f"the HTTP port {told} (moldau.http.listener) cannot be opened: {why}; choose another, "
                    "or set it to nothing to go without health and metrics"
                ) from None
            # Nobody asked for this very port, so a second broker on one machine takes another.
            self._http_socket = _listening_socket(host, 0)
            log.warning("port %s is taken: health and metrics are on a free port this time", port)
        self._http_socket.setblocking(False)
        self.http_address = f"{_shown(host)}:{self._http_socket.getsockname()[1]}"

    def _start_monitoring(self) -> None:
        if self._monitoring is not None or self._http_socket is None or self.state == "stopping":
            return
        from moldau.server.monitoring import Monitoring

        self._monitoring = Monitoring(
            node_id=self.node_id,
            clock=self.clock,
            timers=self.timers,
            image=lambda: self.metadata.image,
            settings=self.settings,
            log_manager=self.logs,
            addresses=lambda: {each.name: f"{_shown(each.host)}:{each.port}" for each in self.listeners},
        )
        self._enter(self.phase)
        self._monitor_task = asyncio.get_running_loop().create_task(self._monitoring.start(self._http_socket))

    async def _stop_monitoring(self) -> None:
        self._monitor_timer.cancel()
        if self._monitoring is not None and self._monitor_task is not None:
            await self._monitor_task
            await self._monitoring.stop()
        if self._http_socket is not None:
            self._http_socket.close()

    def _enter(self, phase: str) -> None:
        """The broker is at this point of its life now; what exists by then can be watched."""
        self.phase = phase
        monitoring = self._monitoring
        if monitoring is None:
            return
        from moldau.monitor.health import Phase

        monitoring.entered(Phase[phase])
        if phase == "RUNNING":
            counts, times = self.broker.request_counts, self.broker.request_times
            monitoring.attach(
                self.replicas,
                self._groups,
                self._transactions,
                self.listeners,
                self.group_commit,
                counts,
                times,
                self.requests,
                self.responses,
            )

    # Parts

    async def _open_metadata(self) -> None:
        broker = self.static.broker
        folder = Path(broker.metadata_log_dir or broker.data_directories[0])
        store = EmbeddedStore(folder, broker.moldau_metadata_snapshot_min_bytes, lane=self.slow_lane)
        self.controller = Controller(
            self.node_id, store, self.metadata, self.static, self.random, self.slow_lane
        )
        self._stops.append(("metadata", self.controller.close))
        await self.controller.open(_told_cluster_id(broker.data_directories))
        self._settings = effective_broker_settings(self.metadata.image, broker, self.node_id)

    async def _open_logs(self, loop: asyncio.AbstractEventLoop) -> None:
        self._stops.append(("logs", lambda: self.logs.close(clean=self._clean)))
        self.logs.settings = self._settings
        self._enter("RECOVERY")
        image = self.metadata.image
        await loop.run_in_executor(
            self._executor,
            lambda: self.logs.load(
                image.cluster_id,
                self.node_id,
                lambda topic: topic_settings(image, self.static.broker, topic),
            ),
        )

    async def _adopt_topics(self) -> None:
        """Take over what another broker, or this one before it lost its metadata, has left in the folders."""
        if self.controller.cluster_is_new and len(self.logs):
            from moldau.replication.adoption import found_topics, next_producer_id

            found = found_topics(self.logs, self.random)
            await self.controller.adopt_topics(found, next_producer_id(self.logs))

    def settings(self) -> BrokerSettings:
        """The settings in effect now: static ones with the dynamic ones over them."""
        return self._settings

    def _build_replication(self, loop: asyncio.AbstractEventLoop) -> None:
        self.group_commit = GroupCommit(loop, self._executor, self._disk_failed)
        self.side_worker = SideWorker(loop, self._executor)
        self.replicas = ReplicaManager(
            self.node_id, self.static.broker, self.logs, self.clock, self.group_commit
        )
        self.logs.on_offline = lambda directory, logs: self.replicas.close_offline()
        self.replicas.apply(EMPTY_IMAGE, self.metadata.image, ())
        self._led_image = self.metadata.image
        self.replicas.serve(self.slow_lane)
        self.replicas.set_strays_aside()
        self.producer_ids = ProducerIds(self.controller)
        self.markers = LocalMarkers(self.node_id, self.replicas, self._groups_now, self.clock, self.slow_lane)
        self._stops.append(("partitions", self.replicas.close))
        housekeeping = Housekeeping(self.logs, self.replicas.high_watermark_of)
        housekeeping.start()
        self._stops.append(("housekeeping", housekeeping.stop))
        if self._settings.log_cleaner_enable:
            self._cleaner_timer = self.timers.call_later(_CLEANER_DELAY_MS, self._begin_compaction)
            self._stops.append(("compaction", self._stop_compaction))
        self._save_high_watermarks()

    def _begin_compaction(self) -> None:
        from moldau.log.compaction.cleaner import Cleaner
        from moldau.log.compaction.process import ProcessWorker

        loop = asyncio.get_running_loop()
        self._cleaner = Cleaner(self.logs, self.replicas.high_watermark_of, lambda: ProcessWorker(loop))
        self._cleaner.start()

    def _stop_compaction(self) -> None:
        self._cleaner_timer.cancel()
        if self._cleaner is not None:
            self._cleaner.stop()

    def _disk_failed(self, partition: Partition, error: OSError) -> None:
        self.logs.storage_failed(partition.log, error)

    def _save_high_watermarks(self) -> None:
        """Write the high watermarks down now and then, as Kafka does, and open what found no room before."""
        interval_ms = self._settings.replica_high_watermark_checkpoint_interval_ms

        async def in_slices() -> None:
            high_watermarks = {}
            async for each in self.slow_lane.slices().each(list(self.replicas.partitions())):
                high_watermarks[each.topic, each.index] = each.high_watermark
            self.logs.save_high_watermarks(high_watermarks)

        def save() -> None:
            self.replicas.open_missing(self.metadata.image)
            if self._saving is None or self._saving.done():
                self._saving = asyncio.ensure_future(in_slices())
            self._checkpoint_timer = self.timers.call_later(interval_ms, save)

        def stop() -> None:
            self._checkpoint_timer.cancel()
            if self._saving is not None:
                self._saving.cancel()

        self._checkpoint_timer = self.timers.call_later(interval_ms, save)
        self._stops.append(("checkpoints", stop))

    def _groups_now(self) -> "GroupCoordinator":
        """The group coordinator, made by the first group request, or soon after the start."""
        if self._groups is None:
            from moldau.coordinator.group.service import GroupCoordinator

            self._groups = GroupCoordinator(
                log=self.replicas,
                image=lambda: self.metadata.image,
                settings=self.settings,
                clock=self.clock,
                timers=self.timers,
                random_source=self.random,
            )
            self._groups.start()
            self._tell_leadership(self._groups, EMPTY_IMAGE, self._led_image)
            self.metadata.subscribe(self._groups.metadata_changed)
            if self._monitoring is not None:
                self._monitoring.sources.groups = self._groups
        return self._groups

    def _transactions_now(self) -> "TransactionCoordinator":
        """The transaction coordinator, made by the first request for it, or soon after the start."""
        if self._transactions is None:
            from moldau.coordinator.transaction.service import TransactionCoordinator

            self._transactions = TransactionCoordinator(
                log=self.replicas,
                image=lambda: self.metadata.image,
                settings=self.settings,
                clock=self.clock,
                timers=self.timers,
                producer_ids=self.producer_ids,
                markers=self.markers,
            )
            self._transactions.start()
            self._tell_leadership(self._transactions, EMPTY_IMAGE, self._led_image)
            self.metadata.subscribe(self._transactions.metadata_changed)
            if self._monitoring is not None:
                self._monitoring.sources.transactions = self._transactions
        return self._transactions

    def _begin_coordinators(self) -> None:
        """Coordinators have duties that nobody asks for: a transaction that was decided before the broker
        stopped gets its markers now, and one that is open may be past its time.
        """
        self._groups_now()
        self._transactions_now()

    def _stop_coordinators(self) -> None:
        self._coordinators_timer.cancel()
        if self._transactions is not None:
            self._transactions.stop()
        if self._groups is not None:
            self._groups.stop()

    def _apply(self, old: Image, new: Image, changes: Sequence[Change]) -> asyncio.Future[None] | None:
        """New metadata: first the settings, then the partitions, then the shards that live on them."""
        if old.configs is not new.configs:
            self._settings = effective_broker_settings(new, self.static.broker, self.node_id)
            self.broker.settings = self._settings
            self.logs.settings = self._settings
            for listener in self.listeners:
                listener.limits = _limits(self._settings)
        pending = self.replicas.apply(old, new, changes)
        if pending is None:
            self._lead(new)
        else:
            pending.add_done_callback(lambda _: self._lead(new))
        return pending

    def _lead(self, image: Image) -> None:
        """The partitions are in step with this image: so are the coordinators' shards now."""
        old = self._led_image
        if image.version <= old.version or self.state == "stopping":
            return
        self._led_image = image
        if self._groups is not None:
            self._tell_leadership(self._groups, old, image)
        if self._transactions is not None:
            self._tell_leadership(self._transactions, old, image)

    def _tell_leadership(self, coordinator: "Coordinator", old: Image, new: Image) -> None:
        """What the coordinator's topic changed in what this broker leads. A partition led in a later epoch is
        loaded again: another broker may have led it in between."""
        if old.topics.get(coordinator.topic) is new.topics.get(coordinator.topic):
            return
        before, after = self._led(old, coordinator.topic), self._led(new, coordinator.topic)
        for index, _ in sorted(before.items() - after.items()):
            coordinator.resigned(index)
        for index, leader_epoch in sorted(after.items() - before.items()):
            coordinator.elected(index, leader_epoch)

    def _led(self, image: Image, name: str) -> dict[int, int]:
        """The partitions of the topic that this broker leads, with their leader epochs."""
        topic = image.topics.get(name)
        if topic is None:
            return {}
        return {
            index: each.leader_epoch
            for index, each in enumerate(topic.partitions)
            if each.leader == self.node_id
        }

    async def _serve_clients(self) -> None:
        settings = self._settings
        self.broker = Broker(
            node_id=self.node_id,
            settings=settings,
            clock=self.clock,
            timers=self.timers,
            random=self.random,
            metadata=self.metadata,
            controller=self.controller,
            replicas=self.replicas,
            log_manager=self.logs,
            make_groups=self._groups_now,
            make_transactions=self._transactions_now,
            markers=self.markers,
            fetch_sessions=FetchSessions(settings.max_incremental_fetch_session_cache_slots, self.random),
            producer_ids=self.producer_ids,
            response_room=self.response_room,
            slow_lane=self.slow_lane,
            side_worker=self.side_worker,
        )
        self.broker.verifications = Verifications(self.broker)
        limits = _limits(settings)
        self._stops.append(("side worker", self.side_worker.close))
        self._stops.append(("listeners", self._close_listeners))
        for listener in self.listeners:
            listener.limits, listener.frame_bytes_max = limits, limits.frame_bytes_max
        await self.controller.register(self._endpoints(), settings.broker_rack)
        for listener in self.listeners:
            try:
                await listener.serve(Dispatch(self.broker))
            except OSError as error:  # bound by both, and another program was the first to listen
                raise _cannot_listen(listener.host, listener.port, error) from None

    def _endpoints(self) -> dict[str, tuple[str, int]]:
        """Where clients find this broker, by listener: as advertised, else where it listens."""
        endpoints = {each.name: (_reachable(each.host), each.port) for each in self.listeners}
        for each in self.listeners:
            name, host = each.name, endpoints[each.name][0]
            if host != each.host and not self.static.broker.advertised_listeners:
                message = "clients of the listener %s, on every interface, are told to connect to %s:%d; "
                message += "if they cannot reach that, set advertised.listeners=%s://HOST:%d"
                log.warning(message, name, host, each.port, name, each.port)
        for told in advertised_listeners(self.static.broker) or ():
            port = told.port or endpoints[told.name][1]
            endpoints[told.name] = (_reachable(told.host), port)
        return endpoints

    async def _close_listeners(self) -> None:
        for listener in self.listeners:
            listener.hold()
        await self.group_commit.settle()  # what was appended is still answered
        for listener in self.listeners:
            await listener.close()
        self.requests.stop()
        self.responses.stop()

    # Stopping

    async def stop(self, *, clean: bool = True) -> None:
        """Stop what was started, in reverse; a part that fails to stop does not hinder the others."""
        self.state = "stopping"
        if self.phase == "RUNNING":
            self._enter("SHUTTING_DOWN")
        self._clean = clean
        while self._stops:
            name, stop = self._stops.pop()
            try:
                result = stop()
                if inspect.isawaitable(result):
                    await result
            except Exception:
                self._clean = False
                log.exception("stopping the %s failed", name)
        self._executor.shutdown(wait=True)
        self.state = "stopped"


def _limits(settings: BrokerSettings) -> Limits:
    return Limits(
        frame_bytes_max=settings.socket_request_max_bytes,
        connections_max=settings.max_connections,
        connections_per_host_max=settings.max_connections_per_ip,
        idle_ms=settings.connections_max_idle_ms,
    )


def _cannot_listen(host: str, port: int, error: OSError) -> NodeError:
    return NodeError(
        f"cannot listen on {_shown(host)}:{port}: {error.strerror or error}; {_listen_remedy(error)}"
    )


def _listen_remedy(error: OSError) -> str:
    """What to do about an address that cannot be listened on: a taken port is only one of the reasons."""
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return "listen on an address of this machine: 127.0.0.1, or 0.0.0.0 for all of them"
    if error.errno in (errno.EACCES, errno.EPERM):
        return "choose a port from 1024 on, or allow the process to use lower ones"
    return "stop what uses the port (another broker?), or choose another one"


def _segment_descriptors() -> int:
    """How many segments may be open at once: half of what the system grants, the rest is for clients."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(DEFAULT_LIMIT, min(soft, _DESCRIPTORS_MAX) // 2) if soft > 0 else DEFAULT_LIMIT


def _listening_socket(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=64)


def _told_cluster_id(directories: Sequence[str]) -> str | None:
    """The cluster id that a log directory was written under, if one says so, as a folder of Kafka's does."""
    for directory in directories:
        try:
            text = Path(directory, META_PROPERTIES_NAME).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        cluster_id = read_properties(text).get("cluster.id")
        if cluster_id:
            return cluster_id
    return None


def _reachable(host: str) -> str:
    """An address to connect to: that of a listener on every interface is the machine's name."""
    return socket.getfqdn() if host in ("", "0.0.0.0", "::") else host


def _shown(host: str) -> str:
    """The host as a client on this machine would write it."""
    if host in ("", "0.0.0.0"):
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host
