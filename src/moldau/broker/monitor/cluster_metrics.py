"""Metrics of the cluster: brokers, missing replicas, the metadata store, fetches from leaders."""

from collections.abc import Iterator

from moldau.broker.metadata.image import Image
from moldau.broker.metadata.store import StoreStatus
from moldau.broker.monitor.cluster_watch import ClusterWatch
from moldau.broker.monitor.exposition import labels, samples, single
from moldau.broker.monitor.sources import FetcherSource, ReplicasSource

_ROWS_A_PIECE = 500
_LAGGING_MAX = 10_000


def brokers(watch: ClusterWatch, image: Image) -> Iterator[str]:
    """Each broker's state and share, and the replicas that are missing, by broker and cause."""
    rows = [(labels(broker=broker.node_id), broker) for broker in watch.brokers()]
    yield samples(
        "moldau_broker_state",
        [(tag, 0 if broker.fenced else 2 if broker.shutting_down else 1) for tag, broker in rows],
    )
    yield samples("moldau_broker_leaders", [(tag, watch.leaders.get(b.node_id, 0)) for tag, b in rows])
    yield samples("moldau_broker_replicas", [(tag, watch.replicas.get(b.node_id, 0)) for tag, b in rows])
    yield samples(
        "moldau_missing_replicas",
        [(labels(broker=each.node_id, cause=each.cause), each.partition_count) for each in watch.troubles()],
    )
    yield single("moldau_reassigning_partitions", watch.reassigning_count)
    yield single("moldau_metadata_version", image.version)


def metadata_store(status: StoreStatus) -> Iterator[str]:
    """The metadata store on other machines."""
    yield single("moldau_metadata_store_up", int(status.is_up))
    yield single("moldau_metadata_store_latency_seconds", status.latency_ms / 1000)


def in_sync_sets(replicas: ReplicasSource, fetcher: FetcherSource | None) -> Iterator[str]:
    """Changes of in-sync sets, and what went from leaders to followers."""
    counts = replicas.in_sync_counts
    yield single("kafka_server_replicamanager_isrshrinks_total", counts.shrinks)
    yield single("kafka_server_replicamanager_isrexpands_total", counts.expands)
    fetched = 0 if fetcher is None else fetcher.counts.bytes_fetched
    yield single("kafka_server_brokertopicmetrics_replicationbytesin_total", fetched)
    yield single("kafka_server_brokertopicmetrics_replicationbytesout_total", replicas.replication_bytes_out)


def fetches(fetcher: FetcherSource) -> Iterator[str]:
    """This broker's fetches from leaders: how far each partition is behind, and errors."""
    failing = {leader for leader, _, _ in fetcher.failing()}
    largest = failed_count = 0
    lagging: list[tuple[str, int]] = []
    for number, (partition, leader, lag) in enumerate(list(fetcher.lags())):
        failed_count += leader in failing
        largest = max(largest, lag)
        if lag and len(lagging) < _LAGGING_MAX:
            name = f"ReplicaFetcherThread-0-{leader}"  # as Kafka calls it, for dashboards
            tag = labels(clientId=name, topic=partition.topic, partition=partition.index)
            lagging.append((tag, lag))
        if not number % _ROWS_A_PIECE:
            yield ""
    replica = labels(clientId="Replica")
    yield samples("kafka_server_replicafetchermanager_maxlag", [(replica, largest)])
    yield samples("kafka_server_replicafetchermanager_failedpartitionscount", [(replica, failed_count)])
    yield samples("kafka_server_fetcherlagmetrics_consumerlag", lagging)
    counts = fetcher.counts
    yield single("moldau_replica_fetches_total", counts.requests)
    yield single("moldau_replica_fetches_failed_total", counts.failed_requests)
    yield single("moldau_replica_fetch_errors_total", counts.partition_errors)
    yield single("moldau_replica_fetch_corrupt_total", counts.corrupt_batches)
