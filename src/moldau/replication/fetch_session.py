"""Incremental fetch sessions (KIP-227): a consumer of many partitions does not repeat them every time.

For each session the broker keeps the partitions and the client's fetch offset in each; a request names
only what changed, and the answer only the partitions with something new: records, an error, a moved high
watermark or start offset.

    request            id 0, epoch 0       -> full request, opens a session   (answer carries its id)
                       id 0, epoch -1      -> full request, no session
                       id n, epoch e > 0   -> incremental; e must be the one that is expected next
                       id n, epoch -1      -> full request, ends session n
                       id n, epoch 0       -> full request, replaces session n

There are `max.incremental.fetch.session.cache.slots` sessions at most. When they are all taken, the least
recently used one is closed if it has been idle for two minutes; else the new client gets none. A
follower always gets one, in the place of the client that has been idle longest: without, each of its requests
would name all partitions.

A session belongs to the principal that opened it. To anybody else it does not exist: its answers would name
topics that are none of theirs.
"""

import random
from collections import OrderedDict
from collections.abc import Iterable

from moldau.protocol.errors import ErrorCode
from moldau.protocol.hot_fetch import FetchTopic

_EVICTION_IDLE_MS = 120_000
_FINAL_EPOCH = -1
_INITIAL_EPOCH = 0
_EPOCH_MAX = (1 << 31) - 1
TARGETS_MAX = 100_000  # of one session; who asks for more goes without one


class FetchTarget:
    """One partition of a fetch session: the fetch offset, and what the last response said."""

    __slots__ = (
        "index",
        "key",
        "last_fetched_epoch",
        "leader_epoch",
        "limit_bytes",
        "log_start_offset",
        "offset",
        "told_error",
        "told_high_watermark",
        "told_start_offset",
    )

    def __init__(
        self,
        key: bytes,
        index: int,
        leader_epoch: int,
        offset: int,
        limit_bytes: int,
        last_fetched_epoch: int = -1,
        log_start_offset: int = -1,
    ) -> None:
        self.key = key
        self.index = index
        self.leader_epoch = leader_epoch
        self.offset = offset
        self.limit_bytes = limit_bytes
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset  # a follower's own; -1 of a consumer
        self.told_high_watermark = -1
        self.told_start_offset = -1
        self.told_error = 0


Targets = dict[tuple[bytes, int], FetchTarget]


class FetchSession:
    """One session and its partitions."""

    __slots__ = ("by_id", "epoch", "last_used_ms", "of_follower", "owner", "session_id", "targets")

    def __init__(
        self, session_id: int, by_id: bool, targets: Targets, now_ms: float, owner: str, *, of_follower: bool
    ) -> None:
        self.session_id = session_id
        self.owner = owner
        self.of_follower = of_follower
        self.by_id = by_id  # keyed by topic ids (version 13 on) or by names; the two do not mix
        self.targets = targets
        self.epoch = 1
        self.last_used_ms = now_ms


class FetchSessions:
    """All sessions, the least recently used first."""

    def __init__(self, slots_max: int, rng: random.Random) -> None:
        self._slots_max = slots_max
        self._random = rng
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self.evicted_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def open(
        self, by_id: bool, targets: Targets, now_ms: float, owner: str = "", *, of_follower: bool = False
    ) -> int:
        """The id of a new session of this principal, or 0 when there is no room for one."""
        if not 0 < len(targets) <= TARGETS_MAX or self._slots_max <= 0:
            return 0
        if len(self._sessions) >= self._slots_max:
            oldest = next(iter(self._sessions.values()))
            if now_ms - oldest.last_used_ms < _EVICTION_IDLE_MS:
                clients = (each for each in self._sessions.values() if not each.of_follower)
                client = next(clients, None) if of_follower else None
                if client is None:
                    return 0
                oldest = client
            del self._sessions[oldest.session_id]
            self.evicted_count += 1
        session_id = 0
        while session_id == 0 or session_id in self._sessions:
            session_id = self._random.randrange(1, _EPOCH_MAX)
        self._sessions[session_id] = FetchSession(
            session_id, by_id, targets, now_ms, owner, of_follower=of_follower
        )
        return session_id

    def close(self, session_id: int, owner: str = "") -> None:
        """The client ends its session; an unknown one is already over."""
        session = self._sessions.get(session_id)
        if session is not None and session.owner == owner:
            del self._sessions[session_id]

    def resume(
        self, session_id: int, epoch: int, by_id: bool, now_ms: float, owner: str = ""
    ) -> FetchSession | int:
        """The session that an incremental request goes on with, or an error code."""
        session = self._sessions.get(session_id)
        if session is None or session.owner != owner:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.by_id != by_id:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        session.epoch = 1 if epoch == _EPOCH_MAX else epoch + 1
        session.last_used_ms = now_ms
        self._sessions.move_to_end(session_id)
        return session


def targets_of(topics: Iterable[FetchTopic]) -> Targets:
    """The partitions that a full request names."""
    return {
        (key, index): FetchTarget(key, index, leader_epoch, offset, limit_bytes, last_epoch, start_offset)
        for key, partitions in topics
        for index, leader_epoch, offset, last_epoch, start_offset, limit_bytes in partitions
    }


def update(
    targets: Targets, topics: Iterable[FetchTopic], forgotten: Iterable[tuple[bytes, list[int]]]
) -> None:
    """Take over what an incremental request changes; a partition keeps its place in the order."""
    for key, partitions in topics:
        for index, leader_epoch, offset, last_fetched_epoch, start_offset, limit_bytes in partitions:
            target = targets.get((key, index))
            if target is None:
                targets[key, index] = FetchTarget(
                    key, index, leader_epoch, offset, limit_bytes, last_fetched_epoch, start_offset
                )
            else:
                if leader_epoch != target.leader_epoch or offset < target.offset:
                    # It may have dropped the last response, which it had asked for in another epoch.
                    target.told_high_watermark = target.told_start_offset = -1
                target.leader_epoch = leader_epoch
                target.offset = offset
                target.limit_bytes = limit_bytes
                target.last_fetched_epoch = last_fetched_epoch
                target.log_start_offset = start_offset
    for key, indexes in forgotten:
        for index in indexes:
            targets.pop((key, index), None)
