"""Watching one broker: the probes, the metrics and the pages on the second port, put together from its parts.

Made as soon as there is time for it, which is during recovery when that takes long, and after the start when
it does not: the parts join in as they come into being (`attach`). Until then they are not looked at.
"""

import os
import socket
from collections.abc import Callable, Mapping, Sequence

from moldau import __version__
from moldau.core.clock import Clock
from moldau.core.settings.broker import BrokerSettings
from moldau.core.timers import Timers
from moldau.handlers.registry import TABLE
from moldau.metadata.image import Image
from moldau.monitor.health import Health, Phase
from moldau.monitor.loop_lag import LoopLag
from moldau.monitor.metrics import Metrics
from moldau.monitor.pages import Pages
from moldau.monitor.probes import (
    appends_waiting,
    clock_jumped_back,
    disk_nearly_full,
    event_loop_lag,
    file_descriptors,
    log_directories,
    partitions,
    recovery,
    slow_fsync,
)
from moldau.monitor.sources import (
    FsyncSource,
    GroupsSource,
    ListenerSource,
    LogManagerSource,
    ReplicasSource,
    Sources,
)
from moldau.server.http import HttpServer


class Monitoring:
    """Health and metrics of one broker, and the HTTP port that shows them."""

    def __init__(
        self,
        *,
        node_id: int,
        clock: Clock,
        timers: Timers,
        image: Callable[[], Image],
        settings: Callable[[], BrokerSettings],
        addresses: Callable[[], Mapping[str, str]],
    ) -> None:
        self._clock = clock
        self._timers = timers
        self._settings = settings
        self._addresses = addresses
        self.sources = Sources(node_id=node_id, version=__version__, image=image, api_name=_api_name)
        self.health = Health(clock, self._facts)
        self._lag = LoopLag(clock, timers)
        self.health.register(
            event_loop_lag(self._lag),
            clock_jumped_back(self._lag, clock),
            file_descriptors(),
            partitions(image, lambda: self.sources.replicas),
        )
        self._server = HttpServer(Pages(self.health, Metrics(self.sources, self.health, self._lag)).routes())

    async def start(self, sock: socket.socket) -> None:
        """Begin to watch, and to answer on `sock`, which is bound and listens."""
        self._lag.start()
        self.health.watch(self._timers)
        await self._server.open(sock=sock)

    async def stop(self) -> None:
        """End both."""
        self.health.stop()
        self._lag.stop()
        await self._server.close()

    # Parts that come into being

    def attach_logs(self, manager: LogManagerSource) -> None:
        """The log directories, from the beginning of recovery on."""
        if self.sources.log_manager is None:
            self.sources.log_manager = manager
            paths = [directory.path for directory in manager.directories]
            self.health.register(
                log_directories(manager),
                recovery(manager),
                disk_nearly_full(lambda: paths, lambda: self._settings().moldau_health_disk_min_free_ratio),
            )

    def attach(
        self,
        replicas: ReplicasSource,
        groups: GroupsSource,
        listeners: Sequence[ListenerSource],
        fsyncs: FsyncSource,
        request_counts: Mapping[tuple[int, int], int],
    ) -> None:
        """Everything else, once it serves."""
        self.sources.replicas = replicas
        self.sources.groups = groups
        self.sources.listeners = listeners
        self.sources.fsyncs = fsyncs
        self.sources.request_counts = request_counts
        self.health.register(appends_waiting(replicas), slow_fsync(fsyncs, self._clock))

    def entered(self, phase: Phase) -> None:
        """The broker is at this point of its life now."""
        self.health.phase = phase

    def _facts(self) -> Mapping[str, object]:
        return {
            "version": __version__,
            "node_id": self.sources.node_id,
            "cluster_id": self.sources.image().cluster_id,
            "uptime_ms": round(self.health.uptime_ms),
            "pid": os.getpid(),
            "listeners": dict(self._addresses()),
        }


def _api_name(api_key: int) -> str:
    entry = TABLE.get(api_key)
    return str(api_key) if entry is None else entry.name
