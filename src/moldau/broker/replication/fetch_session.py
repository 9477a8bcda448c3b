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

What all sessions hold is counted towards `moldau.client.state.max.bytes` (core/client_state.py). When it
does not fit, one is closed that has been idle for two minutes; else the largest session of the principal that
holds most, if that principal would still hold more than the newcomer, or the session is much larger than the
new one. When there is none, the new client gets no session: it names all its partitions, and reads all the
same. So the sessions of one principal never drive out those of the others.

A session belongs to the principal that opened it. To anybody else it does not exist: its answers would name
topics that are none of theirs.
"""

import random
from collections import OrderedDict
from collections.abc import Iterable

from moldau.common.core.client_state import Account
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.hot_fetch import FetchTopic

_EVICTION_IDLE_MS = 120_000
_FINAL_EPOCH = -1
_INITIAL_EPOCH = 0
_EPOCH_MAX = (1 << 31) - 1
TARGETS_MAX = 100_000  # of one session; who asks for more goes without one
_SESSION_BYTES = 1024
_TARGET_BYTES = 480  # the target, its numbers, its key without the topic, and its place in the dict
_MUCH_LARGER = 4


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


class Targets(dict[tuple[bytes, int], FetchTarget]):
    """The partitions of one session, or of a request without one. Each may have its own copy of its topic's
    name: `topic_bytes` in all."""

    __slots__ = ("topic_bytes",)

    def __init__(self) -> None:
        super().__init__()
        self.topic_bytes = 0

    @property
    def held_bytes(self) -> int:
        """What the process holds for them, about."""
        return _SESSION_BYTES + len(self) * _TARGET_BYTES + self.topic_bytes


class FetchSession:
    """One session and its partitions."""

    __slots__ = (
        "by_id",
        "epoch",
        "held_bytes",
        "last_used_ms",
        "of_follower",
        "owner",
        "session_id",
        "targets",
    )

    def __init__(
        self, session_id: int, by_id: bool, targets: Targets, now_ms: float, owner: str, *, of_follower: bool
    ) -> None:
        self.session_id = session_id
        self.owner = owner
        self.of_follower = of_follower
        self.by_id = by_id  # keyed by topic ids (version 13 on) or by names; the two do not mix
        self.targets = targets
        self.epoch = 1
        self.held_bytes = 0  # as it was counted
        self.last_used_ms = now_ms


class FetchSessions:
    """All sessions, the least recently used first."""

    def __init__(self, slots_max: int, rng: random.Random, account: Account | None = None) -> None:
        """Without an account there is no limit of bytes."""
        self._slots_max = slots_max
        self._account = account
        self._bytes_of: dict[str, int] = {}  # by owner, of clients
        if account is not None:
            account.evict = self._evict
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
            self._give_up(oldest)
        if not self._make_room(targets.held_bytes, owner, now_ms, of_follower=of_follower):
            return 0
        session_id = 0
        while session_id == 0 or session_id in self._sessions:
            session_id = self._random.randrange(1, _EPOCH_MAX)
        session = FetchSession(session_id, by_id, targets, now_ms, owner, of_follower=of_follower)
        self._sessions[session_id] = session
        self._count(session, targets.held_bytes)
        return session_id

    def close(self, session_id: int, owner: str = "") -> None:
        """The client ends its session; an unknown one is already over."""
        session = self._sessions.get(session_id)
        if session is not None and session.owner == owner:
            self._remove(session)

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

    def changed(self, session_id: int, now_ms: float) -> bool:
        """Count a session anew whose partitions have changed; False: it has too many, and is closed."""
        session = self._sessions.get(session_id)
        if session is None:
            return True  # evicted meanwhile: this request is still answered
        held_bytes = session.targets.held_bytes
        added_bytes = held_bytes - session.held_bytes
        if not added_bytes:
            return True
        fits = len(session.targets) <= TARGETS_MAX
        if fits and added_bytes > 0:
            fits = self._make_room(
                added_bytes, session.owner, now_ms, of_follower=session.of_follower, but=session
            )
        if fits:
            self._count(session, held_bytes)
        else:
            self._remove(session)
        return fits

    # Memory

    def _count(self, session: FetchSession, held_bytes: int) -> None:
        added_bytes, session.held_bytes = held_bytes - session.held_bytes, held_bytes
        if not session.of_follower:
            owned_bytes = self._bytes_of.get(session.owner, 0) + added_bytes
            self._bytes_of[session.owner] = owned_bytes
            if not owned_bytes:
                del self._bytes_of[session.owner]
        if self._account is not None:
            self._account.change(added_bytes)

    def _remove(self, session: FetchSession) -> None:
        del self._sessions[session.session_id]
        self._count(session, 0)

    def _give_up(self, session: FetchSession) -> None:
        self._remove(session)
        self.evicted_count += 1
        if self._account is not None:
            self._account.evicted()

    def _make_room(
        self,
        size_bytes: int,
        owner: str,
        now_ms: float,
        *,
        of_follower: bool,
        but: FetchSession | None = None,
    ) -> bool:
        """Close others until so many bytes fit. A follower's session is taken over the limit if need be:
        there are no more of them than brokers."""
        account = self._account
        while account is not None and not account.admits(size_bytes):
            victim = self._victim(size_bytes, owner, now_ms, of_follower=of_follower)
            if victim is None or victim is but:
                if of_follower:
                    return True
                account.refused()
                return False
            self._give_up(victim)
        return True

    def _victim(
        self, size_bytes: int, owner: str, now_ms: float, *, of_follower: bool
    ) -> FetchSession | None:
        oldest = next(iter(self._sessions.values()), None)
        if oldest is not None and now_ms - oldest.last_used_ms >= _EVICTION_IDLE_MS:
            return oldest
        largest = self._largest()
        if largest is None:
            return None
        newcomer_bytes = self._bytes_of.get(owner, 0) + size_bytes
        heavier = largest.owner != owner and self._bytes_of[largest.owner] > newcomer_bytes
        much_larger = largest.held_bytes > _MUCH_LARGER * size_bytes
        return largest if of_follower or heavier or much_larger else None

    def _largest(self) -> FetchSession | None:
        """The largest session of the principal that holds most; followers' do not count."""
        if not self._bytes_of:
            return None
        heaviest = max(self._bytes_of, key=lambda owner: self._bytes_of[owner])
        owned = (each for each in self._sessions.values() if each.owner == heaviest and not each.of_follower)
        return max(owned, key=lambda session: session.held_bytes, default=None)

    def _evict(self, size_bytes: int) -> None:
        """Something more valuable needs the room."""
        while size_bytes > 0 and (session := self._largest()) is not None:
            size_bytes -= session.held_bytes
            self._give_up(session)


def targets_of(topics: Iterable[FetchTopic]) -> Targets:
    """The partitions that a full request names."""
    targets = Targets()
    count = 0
    for key, partitions in topics:
        for index, leader_epoch, offset, last_epoch, start_offset, limit_bytes in partitions:
            targets[key, index] = FetchTarget(
                key, index, leader_epoch, offset, limit_bytes, last_epoch, start_offset
            )
        count, count_before = len(targets), count
        targets.topic_bytes += (len(key) + 33) * (count - count_before)
    return targets


def update(
    targets: Targets, topics: Iterable[FetchTopic], forgotten: Iterable[tuple[bytes, list[int]]]
) -> bool:
    """Take over what an incremental request changes; a partition keeps its place in the order. Whether
    partitions have come or gone: then the session is to be counted anew."""
    resized = False
    for key, partitions in topics:
        for index, leader_epoch, offset, last_fetched_epoch, start_offset, limit_bytes in partitions:
            target = targets.get((key, index))
            if target is None:
                targets[key, index] = FetchTarget(
                    key, index, leader_epoch, offset, limit_bytes, last_fetched_epoch, start_offset
                )
                targets.topic_bytes += len(key) + 33
                resized = True
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
            if targets.pop((key, index), None) is not None:
                targets.topic_bytes -= len(key) + 33
                resized = True
    return resized
