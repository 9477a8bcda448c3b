"""Renders a scrape of everything in `Sources`, in pieces.

Nothing is prepared between scrapes: the hot code increments plain integers, and the scrape pays for the rest.
`render` is a generator, and the sender yields to the event loop between its pieces, so that a scrape of
10,000 partitions delays a request by one piece at most, about a millisecond.
"""

from collections.abc import Iterator

from moldau.broker.monitor import (
    broker_metrics,
    cluster_metrics,
    group_metrics,
    partition_metrics,
    transaction_metrics,
)
from moldau.broker.monitor.cluster_watch import ClusterWatch
from moldau.broker.monitor.health import Health
from moldau.broker.monitor.loop_lag import LoopLag
from moldau.broker.monitor.open_transactions import OpenTransactionWatch
from moldau.broker.monitor.sources import Sources

_PIECE_BYTES_MIN = 32 * 1024


class Metrics:
    """Renders the metrics of the sources."""

    def __init__(
        self,
        sources: Sources,
        health: Health,
        lag: LoopLag,
        watch: OpenTransactionWatch,
        cluster: ClusterWatch,
    ) -> None:
        self._sources = sources
        self._watch = watch
        self._cluster = cluster
        self._health = health
        self._lag = lag
        self._traffic = broker_metrics.Traffic()

    def render(self) -> Iterator[bytes]:
        """The whole text, in pieces; after an empty piece the sender should yield to the event loop."""
        gathered: list[str] = []
        size = 0
        for text in self._texts():
            gathered.append(text)
            size += len(text)
            if size >= _PIECE_BYTES_MIN:
                yield "".join(gathered).encode()
                gathered, size = [], 0
            elif not text:
                yield b""
        yield "".join(gathered).encode()

    def _texts(self) -> Iterator[str]:
        sources = self._sources
        image = sources.image()
        yield from broker_metrics.state(sources, image, self._health, self._lag)
        if sources.process_facts is not None:
            yield from broker_metrics.this_process(sources.process_facts())
        yield from broker_metrics.requests(sources)
        yield from broker_metrics.connections(list(sources.listeners))
        if sources.quotas is not None:
            from moldau.broker.monitor.quota_metrics import quotas

            yield from quotas(sources.quotas, list(sources.listeners))
        if sources.requests is not None and sources.responses is not None:
            yield from broker_metrics.memory(sources.requests, sources.responses)
        if sources.client_state is not None:
            yield from broker_metrics.client_state(sources.client_state)
        if sources.log_manager is not None:
            yield from broker_metrics.directories(sources.log_manager)
            if sources.log_manager.compaction is not None:
                from moldau.broker.monitor.compaction_metrics import compaction

                yield from compaction(sources.log_manager.compaction)
        pulled = sources.mirrors()
        if pulled is not None:
            from moldau.broker.monitor.mirror_probe import mirror_metrics

            yield from mirror_metrics(pulled)
        if sources.round_trips is not None:
            from moldau.broker.monitor.round_trip_probe import round_trip_metrics

            yield from round_trip_metrics(sources.round_trips)
        if sources.replicas is not None:
            yield from self._traffic.render(sources.replicas.stats)
        yield from partition_metrics.cluster(image, sources.node_id)
        yield from cluster_metrics.brokers(self._cluster, image)
        status, fetcher = sources.store_status(), sources.fetcher()
        if status is not None:
            yield from cluster_metrics.metadata_store(status)
        if fetcher is not None:
            yield from cluster_metrics.fetches(fetcher)
        if sources.replicas is not None:
            yield from partition_metrics.held(sources.replicas, sources.node_id)
            yield from cluster_metrics.in_sync_sets(sources.replicas, fetcher)
            yield transaction_metrics.held_back(self._watch.look())
        if sources.groups is not None:
            yield from group_metrics.groups(sources.groups, image, sources.replicas)
        if sources.transactions is not None:
            yield from transaction_metrics.coordinated(sources.transactions)
