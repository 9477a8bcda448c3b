"""The parts of the broker that all partitions use. The defaults fit a single partition, as in tests."""

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, NamedTuple

from moldau.broker.replication.deletions import Deletions
from moldau.broker.replication.group_commit import GroupCommit
from moldau.broker.replication.peers import FollowerFetcher, InSyncChanges, NoPeers
from moldau.broker.replication.replication_quota import ReplicationQuota
from moldau.broker.replication.ticker import Ticker

if TYPE_CHECKING:
    from moldau.broker.replication.partition import Partition

_NO_FAILURE: "Callable[[Partition, OSError], None]" = lambda partition, error: None  # noqa: E731


class InSyncCounts:
    """How often in-sync sets of partitions led here lost or got a member, for metrics."""

    __slots__ = ("expands", "shrinks")

    def __init__(self) -> None:
        self.shrinks = self.expands = 0


class SharedParts(NamedTuple):
    """Dependencies shared by all partitions of a broker."""

    node_id: int
    group_commit: GroupCommit
    monotonic_ms: Callable[[], float]
    timeouts: "Ticker[Partition] | None" = None
    """Ticks partitions with waiting appends; None: appends do not time out."""
    lags: "Ticker[Partition] | None" = None
    """Ticks partitions that lead followers; None: no follower is removed for lag."""
    in_sync_changes: InSyncChanges = NoPeers()
    fetcher: FollowerFetcher = NoPeers()
    broker_epoch: Callable[[int], int | None] = lambda node_id: None
    """A broker's registered epoch; None: not registered, fenced, or shutting down."""
    is_stranger: Callable[[int, int], bool] = lambda node_id, broker_epoch: False
    """Whether a fetch of this replica with this broker epoch (-1: none) is not of a broker that is registered
    so. It may read, but its offset says nothing about the replica.
    """
    storage_failed: "Callable[[Partition, OSError], None]" = _NO_FAILURE
    leads_certainly: "Callable[[Partition, Hashable], bool]" = lambda partition, verdict: True
    """Whether it is certain that this broker leads, so that this verdict is true: there is no record at this
    offset beyond the end, or a gap in a producer's numbers."""
    lag_max_ms: float = 30_000
    deletions: Deletions | None = None
    """DeleteRecords that wait for followers; None: none does."""
    in_sync_counts: InSyncCounts = InSyncCounts()
    leader_quota: ReplicationQuota = ReplicationQuota(lambda: 0.0)
    """Of what this broker sends to throttled followers."""
    tells_followers: bool = False
    """Whether followers' parked fetches are answered as soon as the high watermark moves: consumers there
    wait for it (KIP-392). Else they hear of it with the next records, or after replica.fetch.wait.max.ms.
    """
