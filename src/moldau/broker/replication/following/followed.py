"""One partition that is fetched from its leader: where the next fetch begins, and whether it may.

ready ──> told to the leader ──> answered ──> appended ──> [fsynced] ──> ready
                                    └──> an error: paused ──> ready
"""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from moldau.broker.replication.partition import Partition
    from moldau.broker.replication.role_outputs import FetchFrom


class Position(NamedTuple):
    """What a fetch asks for; its result counts only while this is still what is wanted."""

    leader_epoch: int
    offset: int


class Followed:
    """A partition, and what its role wants next."""

    __slots__ = ("failures", "partition", "paused", "position", "ready")

    def __init__(self, partition: "Partition", fetch: "FetchFrom") -> None:
        self.partition = partition
        self.position = Position(fetch.leader_epoch, fetch.offset)
        self.ready = True  # else its last records are not safe on this disk yet
        self.paused = 0
        """Not 0: an error came, and it is left out of fetches. Counts the pauses."""
        self.failures = 0
        """Errors since something was fetched."""

    @property
    def name(self) -> str:
        return f"{self.partition.topic}-{self.partition.index}"

    def wants(self, fetch: "FetchFrom") -> None:
        """The role wants to fetch from here next."""
        if fetch.leader_epoch != self.position.leader_epoch:
            self.paused = self.failures = 0
        self.position = Position(fetch.leader_epoch, fetch.offset)
        self.ready = True
