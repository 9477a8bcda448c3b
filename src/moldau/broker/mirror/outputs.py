"""What the machine of a mirrored partition (machine.py) asks its shell for."""

from typing import NamedTuple, TypeAlias


class AskOffsets(NamedTuple):
    """Where the source's log begins and ends (ListOffsets)."""


class AskEpochEnd(NamedTuple):
    """Where the source's records of this leader epoch end (OffsetForLeaderEpoch)."""

    leader_epoch: int


class AskLast(NamedTuple):
    """Whether the source's batch at the place of this log's last one is the same."""


class Append(NamedTuple):
    """Append what was fetched, and follow the source's log start offset."""

    records: memoryview
    source_start_offset: int


class Truncate(NamedTuple):
    """The source has nothing from here on that this log has: cut it off."""

    offset: int


class BeginAt(NamedTuple):
    """Begin here; what this log holds is gone at the source."""

    offset: int


class RaiseEpoch(NamedTuple):
    """Have the partition's own leader epoch at least so high."""

    leader_epoch: int


class Started(NamedTuple):
    """Where to go on from is known, for the first time in this state of the topic."""


class Fault(NamedTuple):
    """Stop the topic: somebody has to look at this."""

    reason: str


class FindLeader(NamedTuple):
    """Who leads at the source is to be found out again."""


Output: TypeAlias = (
    AskOffsets
    | AskEpochEnd
    | AskLast
    | Append
    | Truncate
    | BeginAt
    | RaiseEpoch
    | Started
    | Fault
    | FindLeader
)
Outputs: TypeAlias = "list[Output]"
