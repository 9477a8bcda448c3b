"""The outputs of a partition's role (role.py), which partition.py carries out in order.

Each is a plain value, so that a test can print and compare it.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias


class HighWatermark(NamedTuple):
    """The high watermark advances: records in between become readable."""

    before: int
    after: int


class Settle(NamedTuple):
    """Answer these waiting appends with 0 or an error code."""

    waiters: Sequence[Any]
    error_code: int


class WakeFetches(NamedTuple):
    """Another leader or leader epoch: parked Fetch requests look again."""


class TruncateTo(NamedTuple):
    """Truncate the log to this offset, where it diverges from the leader's; then call `truncated`."""

    offset: int


class AskInSync(NamedTuple):
    """Ask the controller for this in-sync set, by compare-and-set on the partition epoch (KIP-497)."""

    in_sync: tuple[int, ...]
    broker_epochs: tuple[int, ...]
    """For each member, the broker epoch under which it was seen in sync; -1: unknown (KIP-903)."""
    leader_epoch: int
    partition_epoch: int


class FetchFrom(NamedTuple):
    """Fetch from the leader, from this offset on."""

    leader: int
    leader_epoch: int
    offset: int


class StopFetching(NamedTuple):
    """There is no leader to fetch from."""


Output: TypeAlias = HighWatermark | Settle | WakeFetches | TruncateTo | AskInSync | FetchFrom | StopFetching
Outputs: TypeAlias = Sequence[Output]
NOTHING: Outputs = ()
