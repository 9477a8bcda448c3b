"""What a classic group holds in memory: its state, members, leader, protocol and generation.

A plain value without deadlines, log or clock. Decisions change a copy (draft.py).

Invariants: `parked_join_count` counts the members whose join is parked; `static_members` names members;
`leader_id` names a member as soon as there is one.
"""

from collections.abc import Iterable

from moldau.broker.coordinator.group.classic.member import ClassicMember
from moldau.broker.coordinator.group.classic.pending_ids import PendingIds
from moldau.broker.coordinator.group.classic.states import FOLLOWERS, ClassicState
from moldau.broker.coordinator.group.classic.subscription import subscribed_topics
from moldau.common.protocol.errors import ErrorCode

CONSUMER = "consumer"
"""The protocol type of consumers, whose subscriptions the coordinator can read."""


GROUP_BYTES = 4096
"""Of a group's own objects."""


class Membership:
    """See the module. `pending_joins` are ids that were given out and have not joined yet (KIP-394),
    `pending_syncs` the members that have yet to ask for their assignment."""

    def __init__(self, state_timestamp_ms: int) -> None:
        self.state = ClassicState.EMPTY
        self.previous_state = ClassicState.EMPTY
        self.state_timestamp_ms = state_timestamp_ms
        self.generation = 0
        self.protocol_type = ""
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static_members: dict[str, str] = {}
        self.pending_joins = PendingIds()
        self.pending_syncs: frozenset[str] = frozenset()
        self.parked_join_count = 0
        self.new_member_added = False
        self.initial_delay_left_ms = 0
        self.topics: frozenset[str] | None = None
        self._supporters: dict[str, int] = {}
        self._members_bytes = 0

    @property
    def held_bytes(self) -> int:
        """What the process holds for the group, about."""
        return GROUP_BYTES + self._members_bytes + self.pending_joins.held_bytes

    def copy(self) -> "Membership":
        """A copy that may change without the original; members are immutable and shared."""
        twin = Membership.__new__(Membership)
        twin.__dict__.update(self.__dict__)
        twin.members = self.members.copy()
        twin.static_members = self.static_members.copy()
        twin._supporters = self._supporters.copy()
        twin.pending_joins = self.pending_joins.copy()
        return twin

    # State.

    def enter(self, state: ClassicState, now_ms: int) -> None:
        """Enter `state`; a transition outside the table is a bug."""
        if state not in FOLLOWERS[self.state]:
            raise AssertionError(f"a classic group cannot go from {self.state.value} to {state.value}")
        self.previous_state = self.state
        self.state = state
        self.state_timestamp_ms = now_ms

    def next_generation(self, generation: int, now_ms: int) -> None:
        """The join phase is over: choose a protocol, or become empty."""
        self.generation = generation
        self.pending_syncs = frozenset()
        if self.members:
            self.protocol_name = self.select_protocol()
            self.enter(ClassicState.COMPLETING_REBALANCE, now_ms)
        else:
            self.protocol_name = None
            self.leader_id = None
            self.enter(ClassicState.EMPTY, now_ms)
        self.refresh_topics()

    def refresh_topics(self) -> None:
        """Compute what the members subscribe to; None where it cannot be read."""
        self.topics = None
        if self.protocol_type == CONSUMER:
            self.topics = subscribed_topics(
                member.metadata(self.protocol_name) for member in self.members.values()
            )

    # Members.

    def put(self, member: ClassicMember) -> None:
        """Add a member, or replace the one of this id. The first member leads."""
        old = self.members.get(member.member_id)
        self.members[member.member_id] = member
        if old is None or old.protocols is not member.protocols:
            self._count_protocols(old, -1)
            self._count_protocols(member, 1)
        self.parked_join_count += _parked(member) - _parked(old)
        self._members_bytes += member.held_bytes - (0 if old is None else old.held_bytes)
        if old is not None:
            return
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.pending_joins.discard(member.member_id)

    def remove(self, member_id: str) -> None:
        """Remove a member, pending or real; another one leads if it led."""
        self.pending_joins.discard(member_id)
        self.pending_syncs -= {member_id}
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._count_protocols(member, -1)
        self._members_bytes -= member.held_bytes
        self.parked_join_count -= _parked(member)
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
            del self.static_members[member.instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)

    def rename(self, old_id: str, new_id: str) -> None:
        """Give a static member another id; it keeps its position, role and assignment."""
        member = self.members[old_id]._replace(member_id=new_id)
        self._members_bytes += len(new_id) - len(old_id)
        self.members = {
            (new_id if member_id == old_id else member_id): (member if member_id == old_id else other)
            for member_id, other in self.members.items()
        }
        if member.instance_id is not None:
            self.static_members[member.instance_id] = new_id
        if self.leader_id == old_id:
            self.leader_id = new_id
        if old_id in self.pending_syncs:
            self.pending_syncs = self.pending_syncs - {old_id} | {new_id}

    def elect_joined_leader(self) -> bool:
        """Make sure that a joined member leads; False if none has joined."""
        leader = self.members.get(self.leader_id or "")
        if leader is not None and leader.parked_join is not None:
            return True
        for member in self.members.values():
            if member.parked_join is not None:
                self.leader_id = member.member_id
                return True
        return False

    def all_joined(self) -> bool:
        """Whether all members have joined."""
        return self.parked_join_count == len(self.members) and not self.pending_joins

    def rebalance_timeout_ms(self) -> int:
        """How long the group waits for its slowest member."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def check_member(self, member_id: str, instance_id: str | None) -> int:
        """The error code with which this caller is refused, or 0 if it is a member."""
        if instance_id is not None:
            known_id = self.static_members.get(instance_id)
            if known_id is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known_id != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    # Protocols.

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether a member with these protocols can join: all members must have one of them in common."""
        if self.state is ClassicState.EMPTY:
            return bool(protocol_type) and any(True for _ in names)
        count = len(self.members)
        return protocol_type == self.protocol_type and any(
            self._supporters.get(name, 0) == count for name in names
        )

    def select_protocol(self) -> str | None:
        """The protocol with the most first votes among those that all members support."""
        count = len(self.members)
        candidates = {name for name, supporters in self._supporters.items() if supporters == count}
        votes: dict[str | None, int] = {}
        for member in self.members.values():
            choice = member.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=lambda name: votes[name])

    def _count_protocols(self, member: ClassicMember | None, step: int) -> None:
        for name in dict(() if member is None else member.protocols):
            self._supporters[name] = self._supporters.get(name, 0) + step


def _parked(member: ClassicMember | None) -> int:
    return int(member is not None and member.parked_join is not None)
