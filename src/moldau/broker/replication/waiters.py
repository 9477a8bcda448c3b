"""Interfaces of requests that wait on a partition: a Produce request for its commit, a Fetch request for
records.
"""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from moldau.broker.replication.partition import Partition

UNKNOWN_BYTES = -1
"""A transaction marker made an unknown number of bytes readable."""


class Waiter(Protocol):
    """A request that waits for an append to be committed."""

    def settle(self, error_code: int, partition: "Partition") -> None:
        """The records are as safe as `acks` asks for (0), or the wait ended with an error code."""


class FetchWaiter(Protocol):
    """A parked Fetch request."""

    def more(self, bytes_added: int, stable_bytes: int) -> None:
        """`bytes_added` more bytes are readable now; 0: the leader, epoch or start offset changed.
        `stable_bytes` more are readable with read_committed (perhaps UNKNOWN_BYTES).
        """
