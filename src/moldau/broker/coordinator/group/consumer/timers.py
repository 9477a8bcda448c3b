"""The timers of a consumer group's members.

    session     the member must send a request within its session timeout
    rebalance   a member that is told to revoke partitions must confirm it within its own rebalance timeout
    rejoin      a classic member that is told to join again must do so within its rebalance timeout
    resync      a classic member that has joined must fetch its assignment within its rebalance timeout

A deadline that passes removes its member. Deadlines live in memory only: they are set with each request,
again when the shard is loaded, and again when a failed append took back the decision that had cancelled them.
"rejoin" and "resync" are then left to the next heartbeat, which sets the first if there is need of it.
"""

from collections.abc import Iterable

from moldau.broker.coordinator.deadlines import DeadlineChanges, Deadlines, Key
from moldau.broker.coordinator.group.consumer.group import ConsumerGroup
from moldau.broker.coordinator.group.consumer.limits import ConsumerLimits
from moldau.broker.coordinator.group.consumer.member import JOIN_EPOCH, ConsumerMember, MemberState

SESSION, REBALANCE, REJOIN, RESYNC = "session", "rebalance", "rejoin", "resync"
NAMES = (SESSION, REBALANCE, REJOIN, RESYNC)

_CAUSES = {
    SESSION: "was silent for {} ms (session timeout)",
    REBALANCE: "did not revoke its partitions within {} ms (rebalance timeout)",
    REJOIN: "did not join again within {} ms (rebalance timeout)",
    RESYNC: "did not ask for its assignment within {} ms (rebalance timeout)",
}


class MemberTimers:
    """The timers of all consumer groups of a shard. A decision makes one on `DeadlineChanges`, which its
    result applies."""

    def __init__(self, deadlines: Deadlines | DeadlineChanges) -> None:
        self._deadlines = deadlines

    def restart_session(
        self, group: ConsumerGroup, member: ConsumerMember, limits: ConsumerLimits, now_ms: int
    ) -> None:
        """A member, as it is now, has sent a request: its session starts again."""
        self._deadlines.set(
            (group.group_id, SESSION, member.member_id), now_ms + session_timeout_ms(member, limits)
        )

    def stepped(self, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> None:
        """A member of the consumer protocol has taken a step; `group` still has it as it was before."""
        known = group.members.get(member.member_id)
        if known is not None and known.classic is not None:
            self._cancel(group, member.member_id, (REJOIN, RESYNC))
        elif known is not None and known.state is member.state and known.pending == member.pending:
            return
        key = (group.group_id, REBALANCE, member.member_id)
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            self._deadlines.set(key, now_ms + member.rebalance_timeout_ms)
        else:
            self._deadlines.cancel(key)

    def joined(self, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> None:
        """A classic member has joined, and is to fetch its assignment."""
        self._cancel(group, member.member_id, (REBALANCE, REJOIN))
        self._deadlines.set(
            (group.group_id, RESYNC, member.member_id), now_ms + max(member.rebalance_timeout_ms, 0)
        )

    def synced(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        """A classic member has its assignment."""
        self._cancel(group, member.member_id, (RESYNC,))

    def must_rejoin(self, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> None:
        """A classic member is told to join again; telling it twice gives it no more time."""
        key = (group.group_id, REJOIN, member.member_id)
        if self._deadlines.get(key) is None:
            self._deadlines.set(key, now_ms + max(member.rebalance_timeout_ms, 0))

    def away(self, group: ConsumerGroup, member_id: str) -> None:
        """A static member is away for a moment, and has nothing to revoke."""
        self._cancel(group, member_id, (REBALANCE,))

    def cancel(self, group: ConsumerGroup, member_id: str) -> None:
        """The member is gone."""
        self._cancel(group, member_id, NAMES)

    def _cancel(self, group: ConsumerGroup, member_id: str, names: Iterable[str]) -> None:
        for name in names:
            self._deadlines.cancel((group.group_id, name, member_id))

    def taken(self, group_id: str, member_ids: Iterable[str]) -> dict[Key, int | None]:
        """The timers of these members as they are, to be given to `put_back`."""
        deadlines = self._deadlines
        return {
            (group_id, name, member_id): deadlines.get((group_id, name, member_id))
            for member_id in member_ids
            for name in NAMES
        }

    def put_back(self, taken: dict[Key, int | None]) -> None:
        """Restore the timers."""
        for key, at_ms in taken.items():
            if at_ms is None:
                self._deadlines.cancel(key)
            else:
                self._deadlines.set(key, at_ms)

    def start(self, group: ConsumerGroup, limits: ConsumerLimits, now_ms: int) -> None:
        """Give every member the timers that it should have and does not."""
        deadlines = self._deadlines
        for member_id, member in group.members.items():
            if deadlines.get((group.group_id, SESSION, member_id)) is None:
                self.restart_session(group, member, limits, now_ms)
            key = (group.group_id, REBALANCE, member_id)
            if _revokes(member) and deadlines.get(key) is None:
                deadlines.set(key, now_ms + member.rebalance_timeout_ms)


def session_timeout_ms(member: ConsumerMember, limits: ConsumerLimits) -> int:
    """A classic member brings its own; the others have their group's."""
    return limits.session_timeout_ms if member.classic is None else member.classic.session_timeout_ms


def why_removed(member: ConsumerMember, name: str, limits: ConsumerLimits) -> str | None:
    """For the log: what the member did not do in time; None if the deadline does not concern it any more."""
    if name == REBALANCE and not _revokes(member):
        return None
    if name in (REJOIN, RESYNC) and member.classic is None:
        return None
    limit_ms = session_timeout_ms(member, limits) if name == SESSION else member.rebalance_timeout_ms
    cause = _CAUSES.get(name)
    return None if cause is None else cause.format(limit_ms)


def _revokes(member: ConsumerMember) -> bool:
    """Whether the member was told to revoke partitions. A classic one is told to join again instead."""
    return (
        member.classic is None
        and member.state is MemberState.UNREVOKED_PARTITIONS
        and member.member_epoch >= JOIN_EPOCH
    )
