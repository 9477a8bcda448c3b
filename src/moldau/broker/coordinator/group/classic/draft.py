"""Decides about a classic group on a copy of it, and applies the decision in one place.

    decide:  draft = Draft(group) ──> its `now` is a copy, which the decision changes
             draft.result(response) ──> records, answers, and the draft itself as the effect
    apply:   `Draft.apply`, called by the shard as it replays the records

Until then the group is unchanged, also when the decision raises or its result is dropped.
(Heartbeats and commits only extend a session; their effect is `ClassicGroup.session_restart`.)

What a rebalance holds in memory (who has joined, deadlines) is not in the log, as in Kafka: after a crash the
clients begin it again. So a failed append does not undo it; where it has to be repaired, the result's
`on_failure` decides again, on what the group is by then.

    written to the log (replayed, undone by the journal)   the generation's outcome: `ClassicGroup.persisted`
    in memory only (applied here, repaired by on_failure)  membership, deadlines, notices of removals
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, TypeVar

from moldau.broker.coordinator.deadlines import DeadlineChanges
from moldau.broker.coordinator.group.classic.member import ClassicMember
from moldau.broker.coordinator.group.classic.membership import Membership
from moldau.broker.coordinator.group.classic.states import ClassicState
from moldau.broker.coordinator.group.parts import ShardParts
from moldau.broker.coordinator.result import ParkedAnswer, Result
from moldau.common.protocol.messages.coordinator_records import GroupMetadataValue
from moldau.common.protocol.messages.join_group import JoinGroupResponse
from moldau.common.protocol.messages.sync_group import SyncGroupResponse

R = TypeVar("R")


class Drafted(Protocol):
    """The group (group.py), as decisions about it see it."""

    parts: ShardParts
    group_id: str
    membership: Membership
    persisted: GroupMetadataValue | None

    @property
    def state(self) -> ClassicState: ...

    @property
    def generation(self) -> int: ...

    @property
    def members(self) -> Mapping[str, ClassicMember]: ...

    def count(self) -> None: ...


class Removal(NamedTuple):
    """A member that the coordinator removed, for the log."""

    member_id: str
    client_host: str
    cause: str


class Draft:
    """What a classic group is to become. Read and change `now`; nothing outside the draft changes."""

    def __init__(self, group: Drafted) -> None:
        self.group = group
        self._now: Membership | None = None
        self.records: list[Any] = []
        self.answers: list[ParkedAnswer] = []
        self.deadlines = DeadlineChanges(group.parts.deadlines)
        self.removals: list[Removal] = []

    @property
    def now(self) -> Membership:
        """The group's membership as it is to become; copied when it is first asked for."""
        if self._now is None:
            self._now = self.group.membership.copy()
        return self._now

    def apply(self) -> None:
        """Make the group what the draft says."""
        if self._now is not None:
            self._now.pending_joins.settle()
            self.group.membership = self._now
            self.group.count()
        self.deadlines.apply()
        for removal in self.removals:
            self.group.parts.removals.removed(self.group.group_id, *removal)

    def result(self, response: R | None = None) -> Result[R]:
        """The decision as the runtime takes it. Without a response the caller stays parked."""
        return Result(response, self.records, self.answers, effects=[self.apply])

    # Deadlines.

    def set_deadline(self, name: str, at_ms: int, member_id: str = "") -> None:
        self.deadlines.set((self.group.group_id, name, member_id), at_ms)

    def cancel_deadline(self, name: str, member_id: str = "") -> None:
        self.deadlines.cancel((self.group.group_id, name, member_id))

    def touch(self, member: ClassicMember, now_ms: int) -> None:
        """The member sent a request: its session starts again."""
        self.set_deadline("session", now_ms + member.session_timeout_ms, member.member_id)

    # Parked requests.

    def answer_join(self, member: ClassicMember, response: JoinGroupResponse) -> ClassicMember:
        """Answer the member's parked join, if one is parked; the member without it."""
        if member.parked_join is None:
            return member
        self.answers.append(ParkedAnswer(member.parked_join, response))
        member = member._replace(parked_join=None)
        self.now.put(member)
        return member

    def answer_sync(self, member: ClassicMember, response: SyncGroupResponse) -> ClassicMember:
        """Answer the member's parked sync, if one is parked; the member without it."""
        if member.parked_sync is None:
            return member
        self.answers.append(ParkedAnswer(member.parked_sync, response))
        member = member._replace(parked_sync=None)
        self.now.put(member)
        return member

    def refuse_all(self, error_code: int) -> None:
        """Answer everyone who is parked here."""
        for member in list(self.now.members.values()):
            refusal = JoinGroupResponse(error_code=error_code, member_id=member.member_id)
            member = self.answer_join(member, refusal)
            self.answer_sync(member, SyncGroupResponse(error_code=error_code))
