"""The lag service whole: a reader a cluster, notifiers, the HTTP side.

async with serve_lag(configuration) as server: ...
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from moldau.client.cluster import Cluster
from moldau.client.errors import ClientError
from moldau.common.credentials.errors import CredentialsError
from moldau.common.settings.rows import SettingError
from moldau.services.http.answers import bytes_answer
from moldau.services.http.application import Application, Health
from moldau.services.http.assembly import gate_of, server_of
from moldau.services.http.counters import CONTENT_TYPE, Sample, exposition
from moldau.services.http.server import HttpServer, in_own_thread
from moldau.services.lag.metrics import samples
from moldau.services.lag.notify.notifier import Notifier
from moldau.services.lag.reading.cluster_facts import ClusterFacts
from moldau.services.lag.reading.offsets_topic import CannotRead, OffsetsTopic
from moldau.services.lag.routes.burrow import Burrow
from moldau.services.lag.routes.configuration import ConfigRoutes
from moldau.services.lag.settings import DEFAULT_PORT, ClusterSettings, LagConfiguration
from moldau.services.lag.store import ClusterStore

log = logging.getLogger("moldau.lag")

_PREFIX = "moldau_lag"


class WatchedCluster:
    """A cluster's store, and the two threads that fill it."""

    def __init__(self, settings: ClusterSettings, clock: Callable[[], float] = time.time) -> None:
        """SettingError: the client's settings are wrong."""
        self.store = ClusterStore(settings.name, settings.limits, settings.accepts)
        self._topic: OffsetsTopic | None = None
        self._settings, self._clock = settings, clock
        self.why_it_asks: str | None = None
        """Why committed offsets are asked for, instead of being read from their topic."""

        def connect() -> Cluster:
            options = {"default.api.timeout.ms": "20000", "client.id": "moldau-lag", **settings.client}
            return Cluster(settings.servers, options)

        try:
            connect().close()
        except (ClientError, CredentialsError) as problem:
            raise SettingError("client-profile", f"cluster {settings.name}: {problem}") from None
        self.facts = ClusterFacts(
            self.store,
            connect,
            settings.intervals,
            asks_for_commits=self._has_no_topic,
            clock=clock,
        )

    def start(self) -> None:
        """Begin to read; a cluster that does not answer is asked again."""
        self.facts.start()

    def stop(self) -> None:
        """End the threads."""
        self.facts.stop()
        if self._topic is not None:
            self._topic.stop()

    def _has_no_topic(self) -> bool:
        """Whether commits must be asked for. Tries to read the topic first, again at each look: a new
        cluster has none yet."""
        if self._topic is None:
            topic = OffsetsTopic(
                self.store,
                self._settings.servers,
                self._settings.client,
                topic=self._settings.offsets_topic,
                start_latest=self._settings.start_latest,
                clock=self._clock,
            )
            try:
                topic.start()
            except CannotRead as problem:
                topic.stop()
                if self.why_it_asks is None:
                    log.info("cluster %s: groups are asked for their offsets: %s", self.store.name, problem)
                self.why_it_asks = str(problem)
                return True
            self._topic, self.why_it_asks = topic, None
        return False

    @property
    def trouble(self) -> str | None:
        """Why nothing new is known at the moment."""
        return self.facts.trouble or (self._topic.trouble if self._topic is not None else None)

    @property
    def is_read(self) -> bool:
        """Whether all has been read once."""
        return self.facts.looks > 0 and (self._topic is None or self._topic.is_current)


@asynccontextmanager
async def serve_lag(configuration: LagConfiguration) -> AsyncIterator[HttpServer]:
    """The service on its listeners. SettingError, ListenError."""
    for warning in configuration.warnings:
        log.warning("%s", warning)
    clusters = [WatchedCluster(each) for each in configuration.clusters]
    stores = {each.store.name: each.store for each in clusters}
    notifiers = [Notifier(each, stores.values()) for each in configuration.notifiers]
    application = _application(configuration, clusters, notifiers)
    server = server_of(application, configuration.http, DEFAULT_PORT)
    async with AsyncExitStack() as ends:
        for cluster in clusters:
            cluster.start()
            ends.push_async_callback(in_own_thread, cluster.stop)
        for notifier in notifiers:
            notifier.start()
            ends.push_async_callback(in_own_thread, notifier.stop)
        await server.start()
        ends.push_async_callback(server.stop)
        yield server


def _application(
    configuration: LagConfiguration, clusters: list[WatchedCluster], notifiers: list[Notifier]
) -> Application:
    stores = {each.store.name: each.store for each in clusters}

    def is_ready() -> bool:
        return all(each.is_read for each in clusters)

    def health() -> Health:
        troubles = {each.store.name: each.trouble for each in clusters if each.trouble}
        asking = {each.store.name: each.why_it_asks for each in clusters if each.why_it_asks}
        return Health(not troubles and is_ready(), {"unreachable": troubles, "asked_for_offsets": asking})

    def own_samples() -> Iterator[Sample]:
        name, text = f"{_PREFIX}_notifications_total", "Notifications by their outcome."
        for each in notifiers:
            for outcome, count in (("delivered", each.delivered), ("failed", each.failed)):
                labels = (("notifier", each.name), ("outcome", outcome))
                yield Sample(name, text, "counter", count, labels)

    async def metrics(request: Request) -> Response:
        counted = list(request.scope["app"].counters.samples(_PREFIX))

        def made() -> bytes:
            return exposition([*samples(stores, int(time.time() * 1000)), *own_samples(), *counted])

        return bytes_answer(await run_in_threadpool(made), CONTENT_TYPE)

    burrow = Burrow(stores, is_ready, ConfigRoutes(configuration.document))
    return Application(
        [*burrow.routes(), Route("/metrics", metrics, methods=["GET"])],
        configuration.http,
        gate=gate_of(configuration.http),
        health=health,
        own_pages=frozenset({"/metrics"}),
        metrics_prefix=_PREFIX,
    )
