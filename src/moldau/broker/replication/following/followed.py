"""One partition that is fetched from its leader: where the next fetch begins, and in which state it is.

The transitions are fetch_machine.py's; nothing else changes a state.
"""

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from moldau.broker.replication.partition import Partition
    from moldau.broker.replication.role_outputs import FetchFrom


class FetchState(Enum):
    """What keeps a partition out of the next request, if anything does."""

    FETCHING = "fetching"
    """Nothing: the next request asks for it, if the leader's session does not already."""
    STORING = "storing"
    """Its records, or its truncation, are not safe on this disk yet; the next request waits for that."""
    LATE = "late"
    """As STORING, but for so long that the others are fetched without it."""
    SEARCHING = "searching"
    """The leader has nothing at its offset, and is asked where its log begins and ends."""
    PAUSED = "paused"
    """After an error, until a time."""
    THROTTLED = "throttled"
    """The rate of throttled replicas is exceeded (KIP-73)."""
    STOPPED = "stopped"
    """It is not followed here any more."""


class Position(NamedTuple):
    """What a fetch asks for; its result counts only while this is still what is wanted."""

    leader_epoch: int
    offset: int


class Followed:
    """A partition, and what its role wants next."""

    __slots__ = ("failures", "is_stored", "partition", "position", "resume_ms", "state")

    def __init__(self, partition: "Partition", fetch: "FetchFrom") -> None:
        self.partition = partition
        self.position = Position(fetch.leader_epoch, fetch.offset)
        self.state = FetchState.FETCHING
        self.is_stored = True
        """Whether all that came is safe on this disk: only then `position` is where the next fetch begins."""
        self.resume_ms = 0.0
        """When a pause ends."""
        self.failures = 0
        """Errors since something was fetched."""

    @property
    def name(self) -> str:
        return f"{self.partition.topic}-{self.partition.index}"

    @property
    def is_fetched(self) -> bool:
        """Whether requests ask for it."""
        return self.state is FetchState.FETCHING

    @property
    def is_followed(self) -> bool:
        """Whether it is still followed here."""
        return self.state is not FetchState.STOPPED
