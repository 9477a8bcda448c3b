"""What all partitions of a broker share; each default is that of a partition by itself, as in tests."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from moldau.replication.group_commit import GroupCommit
from moldau.replication.peers import FollowerFetcher, InSyncChanges, NoPeers
from moldau.replication.ticker import Ticker

if TYPE_CHECKING:
    from moldau.replication.partition import Partition

_NO_FAILURE: "Callable[[Partition, OSError], None]" = lambda partition, error: None  # noqa: E731


class Surroundings(NamedTuple):
    """What all partitions of a broker share."""

    node_id: int
    group_commit: GroupCommit
    monotonic_ms: Callable[[], float]
    timeouts: Ticker | None = None
    """Tells those the time in which appends wait; None: appends do not time out."""
    lags: Ticker | None = None
    """Tells those the time that lead followers; None: nobody falls behind."""
    in_sync_changes: InSyncChanges = NoPeers()
    fetcher: FollowerFetcher = NoPeers()
    broker_epoch: Callable[[int], int | None] = lambda node_id: None
    """With which epoch a broker is registered; None: it is not, is fenced, or shuts down."""
    storage_failed: "Callable[[Partition, OSError], None]" = _NO_FAILURE
    lag_max_ms: float = 30_000
