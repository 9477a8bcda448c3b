"""Health, metrics and their pages, wired together, started and stopped together.

    monitor = Monitor(clock, timers, sources, ...)     at once, before anything slow: /health can then answer
    sources.log_manager = ...                          each part as it comes into being
    monitor.health.phase = Phase.RUNNING               the node's own progress

Not here: the HTTP server that carries the pages (server/http.py).
"""

from collections.abc import Callable, Mapping

from moldau.broker.monitor.cluster_facts import cluster_facts
from moldau.broker.monitor.cluster_probes import (
    leaders_unreachable,
    metadata_store,
    replication,
    uneven_leaders,
)
from moldau.broker.monitor.cluster_watch import ClusterWatch
from moldau.broker.monitor.compaction_probe import compaction
from moldau.broker.monitor.health import Health
from moldau.broker.monitor.loop_lag import LoopLag
from moldau.broker.monitor.metrics import Metrics
from moldau.broker.monitor.mirror_probe import mirrors
from moldau.broker.monitor.open_transactions import OpenTransactionWatch
from moldau.broker.monitor.page import Route
from moldau.broker.monitor.pages import Pages
from moldau.broker.monitor.probes import standard_probes
from moldau.broker.monitor.round_trip_probe import round_trips
from moldau.broker.monitor.sources import Sources
from moldau.broker.monitor.transaction_probe import transactions
from moldau.common.core.clock import Clock
from moldau.common.core.timers import Timers


class Monitor:
    """Health, metrics and their pages for one broker."""

    def __init__(
        self,
        clock: Clock,
        timers: Timers,
        sources: Sources,
        *,
        min_free_ratio: Callable[[], float],
        transaction_age_ms_max: Callable[[], int],
        thread_cpu_seconds: Callable[[], float],
        facts: Callable[[], Mapping[str, object]] = dict,
    ) -> None:
        """`min_free_ratio` and `transaction_age_ms_max` are asked at each verdict; `thread_cpu_seconds` gives
        the CPU time of the calling thread; `facts` go onto the health page after the usual ones."""
        self.sources = sources
        cluster = ClusterWatch(clock)
        self.health = Health(
            clock, lambda: {**_standard_facts(sources), **cluster_facts(cluster, sources), **facts()}
        )
        self.lag = LoopLag(clock, timers, thread_cpu_seconds)
        watch = OpenTransactionWatch(sources, clock)
        self.metrics = Metrics(sources, self.health, self.lag, watch, cluster)
        self._timers = timers
        self.health.register(*standard_probes(sources, self.lag, clock, min_free_ratio))
        self.health.register(
            replication(cluster, sources.image, clock),
            uneven_leaders(cluster, sources.image, clock),
            metadata_store(sources.store_status),
            leaders_unreachable(sources.fetcher, sources.image, clock),
        )
        self.health.register(round_trips(lambda: sources.round_trips))
        self.health.register(compaction(lambda: sources.log_manager))
        self.health.register(mirrors(sources.image, sources.mirrors))
        self.health.register(transactions(watch, lambda: sources.transactions, transaction_age_ms_max))

    def start(self) -> None:
        """Start sampling and checking."""
        self.lag.start()
        self.health.watch(self._timers)

    def stop(self) -> None:
        """Stop all timers."""
        self.lag.stop()
        self.health.stop()

    def routes(self) -> Mapping[str, Route]:
        """The HTTP server's route table."""
        return Pages(self.health, self.metrics).routes()


def _standard_facts(sources: Sources) -> dict[str, object]:
    image = sources.image()
    facts: dict[str, object] = {
        "version": sources.version,
        "node_id": sources.node_id,
        "cluster_id": image.cluster_id,
        "controller_id": image.controller_id,
        "brokers": len(image.brokers),
        "topics": len(image.topics),
        "partitions": sum(len(topic.partitions) for topic in image.topics.values()),
        "connections": sum(len(each.connections) for each in sources.listeners),
    }
    if sources.log_manager is not None:
        progress = sources.log_manager.startup.progress
        facts["recovery"] = {"done": progress.done, "total": progress.total, "current": progress.current}
        if sources.log_manager.compaction is not None:
            facts["compaction"] = sources.log_manager.compaction.document()
    return facts
