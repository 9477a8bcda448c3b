"""The follower's side of an incremental fetch session (KIP-227): what the leader has been told.

A request names only the partitions whose position changed, and those that are to be left out from now on;
the leader remembers the rest. When a response is missing or the leader has forgotten the session, everything
is told again in a full request.

Invariant: `told` is exactly what the leader reads for the request in flight.
"""

from collections.abc import Iterable
from typing import NamedTuple

from moldau.broker.replication.following.followed import Followed, Position
from moldau.common.protocol.replica_fetch import ReplicaFetchRequest

_EPOCH_MAX = (1 << 31) - 1
_NO_SESSION = -1
Key = tuple[bytes, int]


class FetchLimits(NamedTuple):
    """What every request asks for: `replica.fetch.*`."""

    wait_ms_max: int
    bytes_min: int
    response_bytes_max: int
    partition_bytes_max: int


class FollowerSession:
    """One session with one leader."""

    def __init__(self, *, incremental: bool = True) -> None:
        """Not `incremental`: every request is a full one, and the leader keeps nothing."""
        self.incremental = incremental
        self._session_id = 0
        self._epoch = 0
        self.told: dict[Followed, Position] = {}
        self._changed: dict[Followed, None] = {}
        self._forgotten: dict[Key, None] = {}
        """What the leader still reads, and must be told to leave out if no row names it anew."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to fetch."""
        return not self.told and not self._changed

    @property
    def count(self) -> int:
        """How many partitions the next request is for, at least."""
        return max(len(self.told), len(self._changed))

    def asked(self) -> list[Followed]:
        """Every partition that the next request fetches."""
        return [*self.told, *(each for each in self._changed if each not in self.told)]

    def ask_for(self, followed: Followed) -> None:
        """Fetch this partition from its present position on."""
        self._changed[followed] = None

    def leave_out(self, followed: Followed) -> None:
        """Fetch it no more."""
        self._changed.pop(followed, None)
        if self.told.pop(followed, None) is not None:
            self._forgotten[_key(followed)] = None

    def begin_anew(self, everything: Iterable[Followed]) -> None:
        """What the leader knows is uncertain: the next request is a full one, of `everything`."""
        self._epoch = 0
        self.told.clear()
        self._forgotten.clear()
        self._changed = dict.fromkeys(everything)

    def request(self, limits: FetchLimits, wait_ms: int) -> ReplicaFetchRequest:
        """The next request; its rows (`row`) are still to be added."""
        if not self.incremental:
            self._changed = dict.fromkeys((*self.told, *self._changed))
            self._forgotten.clear()
            self.told.clear()
        return ReplicaFetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=limits.bytes_min,
            max_bytes=limits.response_bytes_max,
            session_id=self._session_id if self.incremental else 0,
            session_epoch=self._epoch if self.incremental else _NO_SESSION,
            forgotten=self._take_forgotten() if self._forgotten else {},
        )

    def _take_forgotten(self) -> dict[bytes, list[int]]:
        """What the next request tells the leader to leave out."""
        forgotten: dict[bytes, list[int]] = {}
        # Named as changed and as forgotten in one request, it would be forgotten.
        named = {_key(followed) for followed in self._changed}
        kept: dict[Key, None] = {}
        for topic_id, index in self._forgotten:
            if (topic_id, index) in named:
                kept[topic_id, index] = None
            else:
                forgotten.setdefault(topic_id, []).append(index)
        self._forgotten = kept  # until their rows are there
        return forgotten

    def take_changed(self) -> list[Followed]:
        """Those that the request must name; they count as told with `row`."""
        changed, self._changed = list(self._changed), {}
        return changed

    def row(self, followed: Followed, request: ReplicaFetchRequest, limits: FetchLimits) -> None:
        """Add this partition's row."""
        partition, log = followed.partition, followed.partition.log
        position = followed.position
        saved = partition.log_start_saved
        request.add(
            partition.topic_id,
            partition.index,
            position.leader_epoch,
            position.offset,
            log.latest_leader_epoch,
            log.log_start_offset if saved is None else saved[0],
            limits.partition_bytes_max,
        )
        self.told[followed] = position
        if self._forgotten:
            self._forgotten.pop(_key(followed), None)

    def answered(self, session_id: int) -> bool:
        """The leader has answered; whether its session goes on."""
        self._session_id = session_id
        self._epoch = 1 if self._epoch == _EPOCH_MAX else self._epoch + 1
        return session_id != 0 or not self.incremental


def _key(followed: Followed) -> Key:
    return followed.partition.topic_id, followed.partition.index
