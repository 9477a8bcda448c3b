"""Share sessions: which partitions a member of a share group reads here, from request to request.

    epoch 0 ──> open, expects 1 ──> 2 ──> ... ──> -1 closes        (after 2^31 - 1 comes 1)

A session is bound to its member's connection: when that ends the session does, and what the member has
acquired is available again. A member may open its session anew at any time, and keeps what it has acquired.

What sessions hold is counted in the budget for what clients make a broker keep (core/client_state.py):
clients choose how many members there are, and the partitions, existing or not.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from moldau.common.core.client_state import Account
from moldau.common.protocol.errors import ErrorCode

INITIAL_EPOCH, FINAL_EPOCH = 0, -1
EPOCH_MAX = 0x7FFFFFFF
PARTITIONS_MAX = 10_000
"""Partitions of one session."""
SESSION_BYTES, PARTITION_BYTES = 1000, 250
"""What the process holds for a session, and for each of its partitions, about."""

Place = tuple[bytes, int]
"""Topic id and partition."""


class MemberKey(NamedTuple):
    """A member of a group."""

    group_id: str
    member_id: str


class Connection(Protocol):
    """The connection that a session belongs to."""

    def when_closed(self, action: Callable[[], None]) -> None:
        """Call `action` when the connection ends."""

    def forget_closed(self, action: Callable[[], None]) -> None:
        """Do not call it any more."""


class ShareSession:
    """One session. `partitions` are (topic id, index), in the order in which they are read."""

    __slots__ = ("_connection", "end", "held_bytes", "is_open", "key", "next_epoch", "partitions")

    def __init__(self, key: MemberKey, end: Callable[["ShareSession"], None]) -> None:
        self.key = key
        self.next_epoch = 1
        self.partitions: dict[Place, None] = {}
        self.held_bytes = SESSION_BYTES
        self.is_open = True
        self._connection: Connection | None = None
        self.end = end

    def bind(self, connection: Connection) -> None:
        """The session is this connection's now."""
        if connection is not self._connection:
            self.unbind()
            self._connection = connection
            connection.when_closed(self.connection_lost)

    def unbind(self) -> None:
        """The session's connection does not matter any more."""
        if self._connection is not None:
            self._connection.forget_closed(self.connection_lost)
            self._connection = None

    def connection_lost(self) -> None:
        """The connection is gone, and with it the session."""
        self._connection = None
        self.end(self)

    def rotate(self, count: int) -> None:
        """Read others first next time, so that a busy partition does not starve the rest."""
        for place in list(self.partitions)[:count]:
            del self.partitions[place]
            self.partitions[place] = None


class ShareSessions:
    """All of a broker."""

    def __init__(
        self,
        limit: Callable[[], int],
        ended: Callable[[ShareSession], None],
        account: Account | None = None,
    ) -> None:
        """`ended` is called with each session that is gone, when it is. Without an account nothing counts."""
        self._account = account
        self._limit = limit
        self._ended = ended
        self._sessions: dict[MemberKey, ShareSession] = {}
        self._counts: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def has_group(self, group_id: str) -> bool:
        """Whether a member of the group has a session here."""
        return group_id in self._counts

    def open(self, key: MemberKey, connection: Connection) -> ShareSession | ErrorCode:
        """A new session; one that the member had is replaced, and what it acquired stays its own."""
        before = self._sessions.get(key)
        if before is not None:
            self._forget(before)
        elif len(self._sessions) >= self._limit():
            return ErrorCode.SHARE_SESSION_LIMIT_REACHED
        if not self._admits(SESSION_BYTES):
            if before is not None:
                self._ended(before)
            return ErrorCode.SHARE_SESSION_LIMIT_REACHED
        session = self._sessions[key] = ShareSession(key, self.close)
        self._counts[key.group_id] = self._counts.get(key.group_id, 0) + 1
        session.bind(connection)
        return session

    def resume(self, key: MemberKey, epoch: int, connection: Connection) -> ShareSession | ErrorCode:
        """The member's session, for the request of this epoch; the final one only finds it."""
        session = self._sessions.get(key)
        if session is None:
            return ErrorCode.SHARE_SESSION_NOT_FOUND
        if epoch != FINAL_EPOCH:
            if epoch != session.next_epoch:
                return ErrorCode.INVALID_SHARE_SESSION_EPOCH
            session.next_epoch = 1 if epoch == EPOCH_MAX else epoch + 1
        session.bind(connection)
        return session

    def add(self, session: ShareSession, places: Sequence[Place]) -> bool:
        """The session has these partitions too; False: there is no memory for them, nothing has changed.
        Beyond the number that a session may have they are left out."""
        if not session.is_open:
            return True
        new = [place for place in dict.fromkeys(places) if place not in session.partitions]
        del new[max(0, PARTITIONS_MAX - len(session.partitions)) :]
        size_bytes = len(new) * PARTITION_BYTES
        if new and not self._admits(size_bytes):
            return False
        session.held_bytes += size_bytes
        session.partitions.update(dict.fromkeys(new))
        return True

    def drop(self, session: ShareSession, places: Sequence[Place]) -> None:
        """The session does not have these partitions any more."""
        before = len(session.partitions)
        for place in places:
            session.partitions.pop(place, None)
        size_bytes = (before - len(session.partitions)) * PARTITION_BYTES
        if session.is_open and size_bytes:
            session.held_bytes -= size_bytes
            self._change(-size_bytes)

    def _admits(self, size_bytes: int) -> bool:
        """Count so much more, if there is room."""
        if self._account is not None and not self._account.admits(size_bytes):
            self._account.refused()
            return False
        self._change(size_bytes)
        return True

    def _change(self, size_bytes: int) -> None:
        if self._account is not None:
            self._account.change(size_bytes)

    def close(self, session: ShareSession) -> None:
        """The session is gone, and what its member acquired is available again."""
        if session.is_open:
            self._forget(session)
            self._ended(session)

    def _forget(self, session: ShareSession) -> None:
        session.is_open = False
        self._change(-session.held_bytes)
        session.unbind()
        del self._sessions[session.key]
        group_id = session.key.group_id
        self._counts[group_id] -= 1
        if not self._counts[group_id]:
            del self._counts[group_id]
