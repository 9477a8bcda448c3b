"""The second port of one broker: its monitor, and the HTTP server that carries the monitor's pages.

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
from moldau.monitor.health import Phase
from moldau.monitor.monitor import Monitor
from moldau.monitor.request_times import RequestTimes
from moldau.monitor.sources import (
    FsyncSource,
    GroupsSource,
    ListenerSource,
    LogManagerSource,
    ReplicasSource,
    RequestMemorySource,
    ResponseMemorySource,
    Sources,
    TransactionsSource,
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
        log_manager: LogManagerSource,
    ) -> None:
        self.sources = Sources(
            node_id=node_id, version=__version__, image=image, log_manager=log_manager, api_name=_api_name
        )
        self._monitor = Monitor(
            clock,
            timers,
            self.sources,
            min_free_ratio=lambda: settings().moldau_health_disk_min_free_ratio,
            transaction_age_ms_max=lambda: settings().moldau_health_transaction_max_age_ms,
            facts=lambda: {"pid": os.getpid(), "listeners": dict(addresses())},
        )
        self._server = HttpServer(self._monitor.routes())

    async def start(self, sock: socket.socket) -> None:
        """Begin to watch, and to answer on `sock`, which is bound and listens."""
        self._monitor.start()
        await self._server.open(sock=sock)

    async def stop(self) -> None:
        """End both."""
        self._monitor.stop()
        await self._server.close()

    def attach(
        self,
        replicas: ReplicasSource,
        groups: GroupsSource | None,
        transactions: TransactionsSource | None,
        listeners: Sequence[ListenerSource],
        fsyncs: FsyncSource,
        request_counts: Mapping[tuple[int, int], int],
        request_times: RequestTimes,
        requests: RequestMemorySource,
        responses: ResponseMemorySource,
    ) -> None:
        """The parts that exist once clients are served."""
        self.sources.replicas = replicas
        self.sources.groups = groups
        self.sources.transactions = transactions
        self.sources.listeners = listeners
        self.sources.fsyncs = fsyncs
        self.sources.request_counts = request_counts
        self.sources.request_times = request_times
        self.sources.requests = requests
        self.sources.responses = responses

    def entered(self, phase: Phase) -> None:
        """The broker is at this point of its life now."""
        self._monitor.health.phase = phase


def _api_name(api_key: int) -> str:
    entry = TABLE.get(api_key)
    return str(api_key) if entry is None else entry.name
