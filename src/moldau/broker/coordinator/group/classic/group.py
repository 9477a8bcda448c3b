"""A classic group (the protocol before KIP-848): its membership, its persisted state, and checks of offset
requests.

    membership   its present state, in memory: replaced by `Draft.apply`, and by nothing else
    persisted    the value of its GroupMetadata record: replaced by replay, undone by the journal

A rebalance (who has joined, who still has to) is in memory only: after a crash the clients begin it again.
Its outcome is written, one record with every member's subscription and assignment, so that a stable group
survives a restart without a rebalance.

Invariant: a stable group that is fully committed equals the group that `from_value(persisted)` builds.
Not here: the states (states.py), what a decision changes (draft.py), the phases of a rebalance
(rebalance.py), the requests (requests.py).
"""

import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from moldau.broker.coordinator.group.classic import rebalance as classic_rebalance
from moldau.broker.coordinator.group.classic.draft import Draft
from moldau.broker.coordinator.group.classic.member import ClassicMember
from moldau.broker.coordinator.group.classic.membership import CONSUMER, Membership
from moldau.broker.coordinator.group.classic.record import membership_of
from moldau.broker.coordinator.group.classic.states import ClassicState
from moldau.broker.coordinator.group.group import GroupKind
from moldau.broker.coordinator.group.parts import ShardParts
from moldau.broker.coordinator.records import GroupRecord, group_metadata_tombstone
from moldau.broker.coordinator.result import ParkedAnswer, Result
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.coordinator_records import GroupMetadataValue

if TYPE_CHECKING:
    pass


class ClassicGroup:
    """One group of the classic protocol. A group that only stores offsets is an empty one without a protocol
    type."""

    kind = GroupKind.CLASSIC

    def __init__(self, parts: ShardParts, group_id: str, membership: Membership) -> None:
        self.parts = parts
        self.group_id = group_id
        self.membership = membership
        self.persisted: GroupMetadataValue | None = None
        # With more bytes of subscriptions it is not tried to be made a consumer group (migration/upgrade.py).
        self.upgrade_bytes_max = sys.maxsize

    @classmethod
    def from_value(cls, parts: ShardParts, group_id: str, value: GroupMetadataValue) -> "ClassicGroup":
        """The group as its record describes it: stable with all members, or empty."""
        group = cls(parts, group_id, membership_of(value))
        group.persisted = value
        return group

    # What decisions read most. All the rest is in `membership`.

    @property
    def state(self) -> ClassicState:
        return self.membership.state

    @property
    def generation(self) -> int:
        return self.membership.generation

    @property
    def members(self) -> Mapping[str, ClassicMember]:
        return self.membership.members

    @property
    def protocol_type(self) -> str:
        return self.membership.protocol_type

    @property
    def protocol_name(self) -> str | None:
        return self.membership.protocol_name

    def count(self) -> None:
        """Count what the group holds now."""
        self.parts.held.set(self.group_id, self.membership.held_bytes)

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
    ) -> int:
        """Generation -1 without a member comes from an admin tool or from a consumer that assigns itself its
        partitions; it may commit while the group is empty."""
        empty = self.state is ClassicState.EMPTY
        if generation_or_member_epoch < 0 and empty:
            return ErrorCode.NONE
        if generation_or_member_epoch < 0 and not member_id and instance_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error_code = self.membership.check_member(member_id, instance_id)
        if error_code:
            return error_code
        if generation_or_member_epoch != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        if self.state is ClassicState.COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def validate_transactional_commit(
        self, member_id: str, instance_id: str | None, generation_or_member_epoch: int
    ) -> int:
        """Other than a plain commit this is taken in the middle of a rebalance, and is no heartbeat."""
        anonymous = not member_id and instance_id is None
        if generation_or_member_epoch < 0 and (anonymous or self.state is ClassicState.EMPTY):
            return ErrorCode.NONE
        error_code = self.membership.check_member(member_id, instance_id)
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
        """Whether the group consumes `topic`; if its subscriptions cannot be read, it counts as consuming
        all.
        """
        topics = self.membership.topics
        return self.protocol_type == CONSUMER if topics is None else topic in topics

    def offsets_expire_from_ms(self, commit_timestamp_ms: int) -> int | None:
        """Kafka's rule (KIP-211): from the commit for offset-only groups, from the moment of becoming empty
        for others; while a consumer group is stable, from the commit (for topics that it does not subscribe
        to)."""
        if not self.protocol_type:
            return commit_timestamp_ms
        if self.state is ClassicState.EMPTY:
            since_ms = self.membership.state_timestamp_ms
            return commit_timestamp_ms if since_ms == -1 else since_ms
        if self.state is ClassicState.STABLE and self.membership.topics is not None:
            return commit_timestamp_ms
        return None

    def tombstones(self) -> list[GroupRecord]:
        return [group_metadata_tombstone(self.group_id)]

    def session_restart(self, member: ClassicMember, now_ms: int) -> Callable[[], None]:
        """The effect of a heartbeat or a commit, which needs no draft: the member's session starts again."""
        key = (self.group_id, "session", member.member_id)
        return partial(self.parts.deadlines.set, key, now_ms + member.session_timeout_ms)

    def on_deadline(self, name: str, member_id: str, now_ms: int) -> Result[None]:
        draft = Draft(self)
        classic_rebalance.on_deadline(draft, name, member_id, now_ms)
        return draft.result()

    def loaded(self, now_ms: int) -> Result[None]:
        """Give every member a full session to find its coordinator."""
        draft = Draft(self)
        for member in self.members.values():
            draft.touch(member, now_ms)
        if len(self.members) > self.parts.settings().group_max_size:
            classic_rebalance.prepare_rebalance(draft, now_ms)
        return draft.result()

    def unloaded(self, error_code: int) -> list[ParkedAnswer]:
        draft = Draft(self)
        draft.refuse_all(error_code)
        if self.state is not ClassicState.DEAD:
            draft.now.enter(ClassicState.DEAD, self.membership.state_timestamp_ms)
        draft.apply()
        return draft.answers
