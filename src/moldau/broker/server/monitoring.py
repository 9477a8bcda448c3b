"""The monitor of one broker, and the HTTP server for its pages.

`sources` has the parts that are monitored; a part that does not exist yet is left out. Made by
monitoring_port.py.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from moldau import __version__
from moldau.broker.handlers.parts.registry import TABLE
from moldau.broker.metadata.image import Image
from moldau.broker.metadata.store import StoreStatus
from moldau.broker.metadata.view import Behind
from moldau.broker.monitor.health import Phase
from moldau.broker.monitor.monitor import Monitor
from moldau.broker.monitor.process import ProcessFacts
from moldau.broker.monitor.sources import FetcherSource, LogManagerSource, Sources
from moldau.broker.server.http import HttpServer
from moldau.broker.server.http_login import HttpLogins, guarded
from moldau.common.core.clock import Clock
from moldau.common.core.network import Address
from moldau.common.core.timers import Timers
from moldau.common.settings.broker import BrokerSettings

if TYPE_CHECKING:
    from moldau.broker.server.http_tls import HttpTls


class MonitoredHost(Protocol):
    """What monitoring needs of the machine (moldau/broker/host.py says what each is)."""

    clock: Clock
    timers: Timers
    process_id: int

    def process_facts(self) -> ProcessFacts: ...

    def thread_cpu_seconds(self) -> float: ...

    def seconds(self) -> float: ...


class Monitoring:
    """Health and metrics of one broker, and the HTTP port that shows them."""

    def __init__(
        self,
        *,
        node_id: int,
        host: MonitoredHost,
        image: Callable[[], Image],
        metadata_behind: Callable[[], Sequence[Behind]],
        uncreated_topics: Callable[[], Mapping[str, str]],
        settings: Callable[[], BrokerSettings],
        addresses: Callable[[], Mapping[str, str]],
        log_manager: LogManagerSource,
        store_status: Callable[[], StoreStatus | None] = lambda: None,
        fetcher: Callable[[], FetcherSource | None] = lambda: None,
        notices: Callable[[], Sequence[str]] = tuple,
        tls: "HttpTls | None" = None,
    ) -> None:
        """`notices`: sentences that /health shows whatever the verdict is."""
        self.sources = Sources(
            node_id=node_id,
            version=__version__,
            image=image,
            metadata_behind=metadata_behind,
            uncreated_topics=uncreated_topics,
            log_manager=log_manager,
            store_status=store_status,
            fetcher=fetcher,
            process_facts=host.process_facts,
            api_name=_api_name,
        )
        self._monitor = Monitor(
            host.clock,
            host.timers,
            self.sources,
            min_free_ratio=lambda: settings().moldau_health_disk_min_free_ratio,
            transaction_age_ms_max=lambda: settings().moldau_health_transaction_max_age_ms,
            thread_cpu_seconds=host.thread_cpu_seconds,
            facts=lambda: {
                "pid": host.process_id,
                "listeners": dict(addresses()),
                **({"notices": list(said)} if (said := notices()) else {}),
            },
        )
        current = settings()
        logins = HttpLogins(current.moldau_http_users, current.moldau_http_token)
        self._server = HttpServer(
            guarded(self._monitor.routes(), lambda: logins),
            host.clock,
            host.seconds,
            wrap=None if tls is None else tls.wrap,
        )

    async def start(self, address: Address) -> None:
        """Begin to watch, and to answer on this address."""
        self._monitor.start()
        await self._server.serve(address)

    async def stop(self) -> None:
        """End both."""
        self._monitor.stop()
        await self._server.close()

    def entered(self, phase: str) -> None:
        """The broker enters this phase: the name of a `Phase`."""
        self._monitor.health.phase = Phase[phase]


def _api_name(api_key: int) -> str:
    entry = TABLE.get(api_key)
    return str(api_key) if entry is None else entry.name
