"""The partitions are open, and upkeep runs. None leads or follows before this broker is registered."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from moldau.broker.log.files.directory import LogDirectory
from moldau.broker.log.log import Log
from moldau.broker.log.upkeep.housekeeping import Housekeeping
from moldau.broker.metadata.image import EMPTY_IMAGE
from moldau.broker.peers.late import LatePeers
from moldau.broker.replication.group_commit import GroupCommit
from moldau.broker.replication.high_watermark_checkpoint import HighWatermarkCheckpoint
from moldau.broker.replication.in_sync_changes import LocalInSyncChanges
from moldau.broker.replication.late_fetcher import LateFetcher
from moldau.broker.replication.manager import ReplicaManager
from moldau.broker.stages.cluster import Cluster
from moldau.broker.stages.ground import Ground

if TYPE_CHECKING:
    from moldau.broker.replication.following.replica_fetcher import ReplicaFetcher

# Late enough not to hold up the first clients with imports.
_CLEANER_DELAY_MS = 1000


class Replication(NamedTuple):
    """The partitions of this broker, and their ways to others."""

    replicas: ReplicaManager
    group_commit: GroupCommit
    fetcher: LateFetcher
    peers: LatePeers
    """Requests to other brokers, but for fetches, which have connections of their own."""


def build_replication(ground: Ground, cluster: Cluster) -> Replication:
    """Open the partitions of the image."""
    host, logs, stops = ground.host, ground.logs, ground.stops
    this_broker = cluster.controller.this_broker
    peers = cluster.connections.late("requests")
    stops.add("requests to other brokers", peers.close)
    group_commit = GroupCommit(
        host.loop, host.workers, lambda partition, error: logs.open_logs.storage_failed(partition.log, error)
    )
    fetcher = LateFetcher(lambda: make_fetcher(ground, cluster, replicas))
    stops.add("fetches from leaders", fetcher.close)
    in_sync_changes = LocalInSyncChanges(ground.node_id, cluster.controller, ground.image)
    replicas = ReplicaManager(
        ground.node_id, ground.static.broker, logs, host.clock, group_commit, in_sync_changes, fetcher
    )
    stops.add("truncations", group_commit.finish)
    stops.add("in-sync changes", in_sync_changes.stop)

    def close_partitions() -> None:
        replicas.closed = True
        ground.show_parts()
        replicas.close()

    stops.add("partitions", close_partitions)

    def directory_failed(directory: LogDirectory, failed: Sequence[Log]) -> None:
        """Its partitions answer KAFKA_STORAGE_ERROR here, and get other leaders."""
        replicas.close_offline()
        this_broker.replicas_offline([(each.topic, each.partition) for each in failed])

    logs.open_logs.on_offline.append(directory_failed)
    replicas.on_made_again = this_broker.replica_made_again
    replicas.takes_part = False  # before it is registered
    replicas.apply(EMPTY_IMAGE, ground.metadata.image, ())
    replicas.serve(ground.lane)
    replicas.set_strays_aside()
    _begin_upkeep(ground, replicas)
    return Replication(replicas, group_commit, fetcher, peers)


def _begin_upkeep(ground: Ground, replicas: ReplicaManager) -> None:
    """Periodic work: retention and flushes, compaction, checkpoints."""
    settings = ground.settings.now
    housekeeping = Housekeeping(ground.logs, replicas.high_watermark_of)
    housekeeping.start()
    ground.stops.add("housekeeping", housekeeping.stop)

    def begin_compaction() -> None:
        from moldau.broker.log.compaction.cleaner import Cleaner

        host = ground.host
        cleaner = Cleaner(ground.logs, replicas.high_watermark_of, lambda: host.cleaning_worker(host))
        cleaner.start()
        ground.stops.add("compaction", cleaner.stop)

    if settings.log_cleaner_enable:
        ground.begin_later(
            "compaction", _CLEANER_DELAY_MS, begin_compaction, ["moldau.broker.log.compaction.cleaner"]
        )
    checkpoint = HighWatermarkCheckpoint(
        replicas,
        ground.logs,
        ground.image,
        ground.host.timers,
        ground.lane,
        settings.replica_high_watermark_checkpoint_interval_ms,
    )
    checkpoint.start()
    ground.stops.add("checkpoints", checkpoint.stop)


def make_fetcher(ground: Ground, cluster: Cluster, replicas: ReplicaManager) -> "ReplicaFetcher":
    """Fetches from leaders, made when the first partition has one on another broker."""
    from moldau.broker.replication.following.fetch_parts import FetchCounts, FetchParts
    from moldau.broker.replication.following.follower_session import FetchLimits
    from moldau.broker.replication.following.replica_fetcher import ReplicaFetcher

    settings, checkpoints = ground.settings, ground.logs.checkpoints

    def limits() -> FetchLimits:
        return FetchLimits(
            settings.now.replica_fetch_wait_max_ms,
            settings.now.replica_fetch_min_bytes,
            settings.now.replica_fetch_response_max_bytes,
            settings.now.replica_fetch_max_bytes,
        )

    def save_log_start(held: Log, done: Callable[[bool], None]) -> None:
        """Write down where this log begins, unless its files say so."""
        directory = checkpoints.note_log_start(held)
        checkpoints.save_log_starts(
            [] if directory is None else [directory], lambda unwritten: done(not unwritten)
        )

    parts = FetchParts(
        node_id=ground.node_id,
        host=ground.host,
        clock=ground.host.clock,
        lane=ground.lane,
        limits=limits,
        pause_ms_max=lambda: settings.now.replica_fetch_backoff_ms,
        timeout_ms=lambda: settings.now.replica_socket_timeout_ms,
        broker_epoch=lambda: cluster.controller.this_broker.broker_epoch,
        counts=FetchCounts(),
        quota=replicas.follower_quota,
        save_log_start=save_log_start,
    )
    return ReplicaFetcher(parts, cluster.connections.make, lambda: settings.now.num_replica_fetchers)
