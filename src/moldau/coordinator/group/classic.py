"""A classic group: its members, who leads, which protocol and generation they agreed on, and what of that is
persisted.

The rebalance itself (who has joined, who still has to) lives in memory only, like in Kafka: after a crash the
clients begin it again. What is written is its outcome, one GroupMetadata record with every member's
subscription and assignment, so that a stable group goes on over a restart without a rebalance. `persisted` is
that record's value; only replay changes it.

Invariant: a stable group that is fully committed equals the group that `from_value(persisted)` builds.
Not here: the phases of a rebalance (classic_rebalance.py) and the requests (classic_requests.py).
"""

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from moldau.coordinator.group import classic_rebalance
from moldau.coordinator.group.classic_member import ClassicMember
from moldau.coordinator.group.classic_state import TRANSITIONS, ClassicState
from moldau.coordinator.group.group import GroupKind
from moldau.coordinator.group.subscription import subscribed_topics
from moldau.coordinator.records import Record, group_metadata_tombstone
from moldau.coordinator.result import ParkedAnswer, Result
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.coordinator_records import GroupMetadataValue, MemberMetadata
from moldau.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from moldau.protocol.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from moldau.coordinator.group.shard import GroupShard

CONSUMER = "consumer"
"""The protocol type of consumers, whose subscriptions the coordinator can read."""


class ClassicGroup:
    """One group of the classic protocol. A group that only stores offsets is an empty one without a protocol
    type."""

    kind = GroupKind.CLASSIC

    def __init__(self, shard: "GroupShard", group_id: str, now_ms: int) -> None:
        self.shard = shard
        self.group_id = group_id
        self.state = ClassicState.EMPTY
        self.previous_state = ClassicState.EMPTY
        self.state_timestamp_ms = now_ms
        self.generation = 0
        self.protocol_type = ""
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static_members: dict[str, str] = {}
        self.pending_joins: set[str] = set()
        self.pending_syncs: set[str] = set()
        self.parked_join_count = 0
        self.new_member_added = False
        self.initial_delay_left_ms = 0
        self.topics: frozenset[str] | None = None
        self.persisted: GroupMetadataValue | None = None
        # With more bytes of subscriptions it is not tried to be made a consumer group (upgrade.py).
        self.upgrade_bytes_max = sys.maxsize
        self._supporters: dict[str, int] = {}

    @classmethod
    def from_value(cls, shard: "GroupShard", group_id: str, value: GroupMetadataValue) -> "ClassicGroup":
        """The group as its record describes it: stable with all members, or empty."""
        group = cls(shard, group_id, value.current_state_timestamp)
        group.generation = value.generation
        group.protocol_type = value.protocol_type or ""
        group.protocol_name = value.protocol
        group.persisted = value
        for row in value.members:
            timeout_ms = row.session_timeout if row.rebalance_timeout == -1 else row.rebalance_timeout
            protocols = ((value.protocol or "", bytes(row.subscription or b"")),)
            member = ClassicMember(
                row.member_id,
                row.group_instance_id,
                row.client_id,
                row.client_host,
                timeout_ms,
                row.session_timeout,
                protocols,
                bytes(row.assignment or b""),
            )
            group.add(member)
        if value.members:
            group.state = ClassicState.STABLE
        group.leader_id = value.leader
        group.refresh_topics()
        return group

    def to_value(self) -> GroupMetadataValue:
        """The group's record: what `from_value` needs."""
        return GroupMetadataValue(
            protocol_type=self.protocol_type,
            generation=self.generation,
            protocol=self.protocol_name,
            leader=self.leader_id,
            current_state_timestamp=self.state_timestamp_ms,
            members=[
                MemberMetadata(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.metadata(self.protocol_name),
                    assignment=member.assignment,
                )
                for member in self.members.values()
            ],
        )

    # State.

    def transition(self, state: ClassicState, now_ms: int) -> None:
        """Enter `state`; a transition outside the table is a bug."""
        if state not in TRANSITIONS[self.state]:
            raise AssertionError(f"group {self.group_id!r}: no way from {self.state.value} to {state.value}")
        self.previous_state = self.state
        self.state = state
        self.state_timestamp_ms = now_ms

    def next_generation(self, now_ms: int) -> None:
        """Everybody who will join has joined: agree on a protocol, or become empty."""
        persisted = 0 if self.persisted is None else self.persisted.generation
        self.generation = max(self.generation, persisted) + 1  # downgrade.py writes one ahead
        self.pending_syncs.clear()
        if self.members:
            self.protocol_name = self.select_protocol()
            self.transition(ClassicState.COMPLETING_REBALANCE, now_ms)
        else:
            self.protocol_name = None
            self.leader_id = None
            self.transition(ClassicState.EMPTY, now_ms)
        self.refresh_topics()

    def refresh_topics(self) -> None:
        """Work out what the members subscribe to, where that can be known."""
        self.topics = None
        if self.protocol_type == CONSUMER:
            self.topics = subscribed_topics(
                member.metadata(self.protocol_name) for member in self.members.values()
            )

    # Members.

    def add(self, member: ClassicMember) -> None:
        """Take a member in; the first one leads."""
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        if member.parked_join is not None:
            self.parked_join_count += 1
        self.pending_joins.discard(member.member_id)
        self._count(member, 1)

    def remove(self, member_id: str) -> None:
        """Let a member, pending or real, go; another one leads if it led. Its parked calls must be answered
        already."""
        self.pending_joins.discard(member_id)
        self.pending_syncs.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is None:
            return
        if member.parked_join is not None:
            self.parked_join_count -= 1
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
            del self.static_members[member.instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self._count(member, -1)

    def set_protocols(self, member: ClassicMember, protocols: tuple[tuple[str, bytes], ...]) -> None:
        """Replace what `member` supports."""
        self._count(member, -1)
        member.protocols = protocols
        self._count(member, 1)

    def rename(self, old_id: str, new_id: str) -> ClassicMember:
        """Give a static member a new id in place of the old one, keeping its position, role and
        assignment."""
        members = list(self.members.items())
        self.members.clear()
        for member_id, member in members:
            self.members[new_id if member_id == old_id else member_id] = member
        member = self.members[new_id]
        member.member_id = new_id
        if member.instance_id is not None:
            self.static_members[member.instance_id] = new_id
        if self.leader_id == old_id:
            self.leader_id = new_id
        if old_id in self.pending_syncs:
            self.pending_syncs.remove(old_id)
            self.pending_syncs.add(new_id)
        return member

    def elect_joined_leader(self) -> bool:
        """Make sure that a member who has joined leads; False if nobody has."""
        leader = self.members.get(self.leader_id or "")
        if leader is not None and leader.parked_join is not None:
            return True
        for member in self.members.values():
            if member.parked_join is not None:
                self.leader_id = member.member_id
                return True
        return False

    def all_joined(self) -> bool:
        """Whether nobody is missing in the join phase."""
        return self.parked_join_count == len(self.members) and not self.pending_joins

    def rebalance_timeout_ms(self) -> int:
        """How long the group waits for its slowest member."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def check_member(self, member_id: str, instance_id: str | None) -> int:
        """0, or why this caller is not the member it says it is."""
        if instance_id is not None:
            known_id = self.static_members.get(instance_id)
            if known_id is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known_id != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    # Protocols.

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether a member with these protocols can join: one of them must be everybody's."""
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

    def _count(self, member: ClassicMember, step: int) -> None:
        for name in {name for name, _ in member.protocols}:
            self._supporters[name] = self._supporters.get(name, 0) + step

    # Answers.

    def join_response(self, member_id: str, *, skip_assignment: bool = False) -> JoinGroupResponse:
        """The present generation, told to a member; only the leader learns who the others are."""
        leads = member_id == self.leader_id
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type=self.protocol_type or None,
            protocol_name=self.protocol_name or "",
            leader=self.leader_id or "",
            skip_assignment=skip_assignment,
            member_id=member_id,
            members=[
                JoinGroupResponseMember(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    metadata=member.metadata(self.protocol_name),
                )
                for member in (self.members.values() if leads else ())
            ],
        )

    def take_join(self, member: ClassicMember, response: JoinGroupResponse) -> list[ParkedAnswer]:
        """The answer to `member`'s parked join, if one is parked."""
        parked, member.parked_join = member.parked_join, None
        if parked is None:
            return []
        self.parked_join_count -= 1
        return [ParkedAnswer(parked, response)]

    def take_sync(self, member: ClassicMember, response: SyncGroupResponse) -> list[ParkedAnswer]:
        """The answer to `member`'s parked sync, if one is parked."""
        parked, member.parked_sync = member.parked_sync, None
        return [] if parked is None else [ParkedAnswer(parked, response)]

    def take_all(self, error_code: int) -> list[ParkedAnswer]:
        """Answers for everybody who is parked here."""
        answers: list[ParkedAnswer] = []
        for member in self.members.values():
            refusal = JoinGroupResponse(error_code=error_code, member_id=member.member_id)
            answers += self.take_join(member, refusal)
            answers += self.take_sync(member, SyncGroupResponse(error_code=error_code))
        return answers

    # As a `Group`.

    def state_name(self) -> str:
        return self.state.value

    def member_count(self) -> int:
        return len(self.members)

    def is_empty(self) -> bool:
        return self.state is ClassicState.EMPTY

    def validate_offset_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation_or_member_epoch: int,
        api_version: int,
        now_ms: int,
    ) -> int:
        """Generation -1 without a member comes from an admin tool or from a consumer that assigns itself its
        partitions; it may commit while the group is empty. A member's commit counts as a heartbeat."""
        empty = self.state is ClassicState.EMPTY
        if generation_or_member_epoch < 0 and empty:
            return ErrorCode.NONE
        if generation_or_member_epoch < 0 and not member_id and instance_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error_code = self.check_member(member_id, instance_id)
        if error_code:
            return error_code
        if generation_or_member_epoch != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        if self.state is ClassicState.COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        self.touch(self.members[member_id], now_ms)
        return ErrorCode.NONE

    def validate_transactional_commit(
        self, member_id: str, instance_id: str | None, generation_or_member_epoch: int
    ) -> int:
        """Other than a plain commit this is taken in the middle of a rebalance, and is no heartbeat."""
        anonymous = not member_id and instance_id is None
        if generation_or_member_epoch < 0 and (anonymous or self.state is ClassicState.EMPTY):
            return ErrorCode.NONE
        error_code = self.check_member(member_id, instance_id)
        if error_code:
            return error_code
        same = generation_or_member_epoch == self.generation
        return ErrorCode.NONE if same else ErrorCode.ILLEGAL_GENERATION

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> int:
        return ErrorCode.NONE

    def validate_offset_delete(self) -> int:
        """A consumer group in use may lose offsets of topics that it does not subscribe to; others must be
        empty."""
        if self.state is ClassicState.EMPTY or self.protocol_type == CONSUMER:
            return ErrorCode.NONE
        return ErrorCode.NON_EMPTY_GROUP

    def validate_delete(self) -> int:
        return ErrorCode.NONE if self.state is ClassicState.EMPTY else ErrorCode.NON_EMPTY_GROUP

    def subscribed_to(self, topic: str) -> bool:
        """If a consumer group's subscriptions cannot be read, it is taken to subscribe to everything."""
        return self.protocol_type == CONSUMER if self.topics is None else topic in self.topics

    def offsets_expire_from_ms(self, commit_timestamp_ms: int) -> int | None:
        """Kafka's rule (KIP-211): from the commit for offset-only groups, from the moment of becoming empty
        for others; while a consumer group is stable, from the commit (for topics that it does not subscribe
        to)."""
        if not self.protocol_type:
            return commit_timestamp_ms
        if self.state is ClassicState.EMPTY:
            return commit_timestamp_ms if self.state_timestamp_ms == -1 else self.state_timestamp_ms
        if self.state is ClassicState.STABLE and self.topics is not None:
            return commit_timestamp_ms
        return None

    def tombstones(self) -> list[Record]:
        return [group_metadata_tombstone(self.group_id)]

    def touch(self, member: ClassicMember, now_ms: int) -> None:
        """The member gave a sign of life: its session starts again."""
        self.shard.deadlines.set(
            (self.group_id, "session", member.member_id), now_ms + member.session_timeout_ms
        )

    def on_deadline(self, name: str, member_id: str, now_ms: int) -> Result[None]:
        return classic_rebalance.on_deadline(self, name, member_id, now_ms)

    def loaded(self, now_ms: int) -> Result[None]:
        """Give every member a full session to find its coordinator."""
        result: Result[None] = Result()
        for member in self.members.values():
            self.touch(member, now_ms)
        if len(self.members) > self.shard.settings().group_max_size:
            classic_rebalance.prepare_rebalance(self, result, now_ms)
        return result

    def unloaded(self, error_code: int) -> list[ParkedAnswer]:
        self.state = ClassicState.DEAD
        return self.take_all(error_code)
