"""What a partition's role (role.py) asks its shell (partition.py) to do, in this order.

Each is a plain value, so that a test can print and compare it.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias


class HighWatermark(NamedTuple):
    """The high watermark moves: what lies between may be read."""

    before: int
    after: int


class Settle(NamedTuple):
    """These appends are answered: 0, or an error code."""

    waiters: Sequence[Any]
    error_code: int


class WakeFetches(NamedTuple):
    """Another leader or epoch: whoever waits for records is told so."""


class TruncateTo(NamedTuple):
    """What follower and leader do not have in common begins here; cut it off, then tell `truncated`."""

    offset: int


class AskInSync(NamedTuple):
    """Ask the controller for this in-sync set, by compare-and-set on the partition epoch (KIP-497)."""

    in_sync: tuple[int, ...]
    broker_epochs: tuple[int, ...]
    """Of each member, the registration that was seen to be in sync; -1: unknown (KIP-903)."""
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
