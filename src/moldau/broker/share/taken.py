"""What a member gets of a share-partition. Apart from the machine, so that a broker that serves no share
group does not load it."""

from typing import TYPE_CHECKING, NamedTuple

from moldau.common.records.batch import Readable

if TYPE_CHECKING:
    from moldau.broker.share.share_partition import Acquired


class Taken(NamedTuple):
    """An error code, or what was acquired, and the batches around it."""

    error_code: int
    acquired: "list[Acquired]"
    records: Readable


NOTHING = Taken(0, [], b"")
SKIPPED = Taken(0, [], b"")
"""Nothing of what was read, but there may be something behind it."""
