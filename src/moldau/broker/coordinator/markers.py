"""Transaction markers (COMMIT and ABORT control records), and the interface that writes them.

The coordinator decides in `__transaction_state`; every partition of the transaction then gets a control
record COMMIT or ABORT in its own log. A `MarkerWriter` writes it:

    led by this broker    LocalMarkers appends it (replication/markers.py)
    led by any            ClusterMarkers has it appended here, or by WriteTxnMarkers (cluster_markers.py)

Contract: NONE means that the marker is committed; any other outcome is an error code or an exception. A
partition missing in the result counts as not written.

Not here: which markers are due, and what is tried again (transaction/delivery.py).
"""

from collections.abc import Awaitable, Sequence
from typing import NamedTuple, Protocol

TopicPartition = tuple[str, int]
"""A topic's name and a partition's index."""


class Marker(NamedTuple):
    """The end of one transaction, as a partition gets it.

    coordinator_epoch     the leader epoch of the coordinator's partition; a marker of a lower one is refused
    transaction_version   2 where the producer's epoch grows with every transaction (KIP-890), else 0 or 1
    """

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    transaction_version: int


class MarkerWriter(Protocol):
    """Writes markers to partitions, through their leaders."""

    def write(
        self, marker: Marker, partitions: Sequence[TopicPartition]
    ) -> Awaitable[dict[TopicPartition, int]]:
        """Write `marker` to each of `partitions`; an error code for each, NONE once it is committed there."""
