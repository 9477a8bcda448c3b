"""What all fetches from leaders share: settings, services of the disk and the loop, counts for metrics."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from moldau.broker.peers.host import PeerHost
from moldau.broker.replication.following.catch_up_pace import CatchUpPace
from moldau.broker.replication.following.follower_session import FetchLimits
from moldau.broker.replication.replication_quota import ReplicationQuota
from moldau.common.core.clock import Clock
from moldau.common.core.slow_lane import SlowLane

if TYPE_CHECKING:
    from moldau.broker.log.log import Log


@dataclass(slots=True, kw_only=True)
class FetchCounts:
    """What was fetched, for metrics."""

    requests: int = 0
    failed_requests: int = 0
    bytes_fetched: int = 0
    partition_errors: int = 0
    corrupt_batches: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchParts:
    """What all fetches of a broker share."""

    node_id: int
    host: PeerHost
    clock: Clock
    lane: SlowLane
    limits: Callable[[], FetchLimits]
    pause_ms_max: Callable[[], int]
    """replica.fetch.backoff.ms: pauses after errors grow up to this."""
    timeout_ms: Callable[[], int]
    """replica.socket.timeout.ms"""
    broker_epoch: Callable[[], int]
    """Under which this broker is registered; -1: it is not."""
    counts: FetchCounts
    quota: ReplicationQuota | None = None
    """Of throttled partitions."""
    pace: CatchUpPace = field(default_factory=CatchUpPace)
    """Of those that catch up."""
    save_log_start: "Callable[[Log, Callable[[bool], None]], None]" = lambda log, done: done(True)
    """Write down where a log begins, then call: whether that worked."""
