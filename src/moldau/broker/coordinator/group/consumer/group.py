"""The persisted state of a consumer group (KIP-848), and queries on it.

    group epoch        goes up whenever the target is out of date: members, subscriptions or topics changed
    assignment epoch   the group epoch for which the targets were computed
    targets            what each member should have
    members            what each member has (and still has to give up)

Only replay changes what is listed above, through journaled containers, so a failed append can be undone.
Deciding is in heartbeat.py and leave.py; this file decides nothing.

While an application moves from one protocol to the other, some of the members use the classic one
(`member.classic`): the group is *mixed*. Their member epoch is sent to them as the generation.
"""

import sys
from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from moldau.broker.coordinator.group.assignors import EMPTY_ASSIGNMENT, Assignment
from moldau.broker.coordinator.group.consumer import records
from moldau.broker.coordinator.group.consumer.member import STATIC_LEAVE_EPOCH, ConsumerMember
from moldau.broker.coordinator.group.group import GroupKind
from moldau.broker.coordinator.journal import Journal
from moldau.broker.coordinator.result import ParkedAnswer, Result
from moldau.common.protocol.errors import ErrorCode

COMMIT_VERSION_MIN = 9
"""OffsetCommit from v9 on knows member epochs."""

OTHER_EPOCH = (ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.ILLEGAL_GENERATION)
"""The member of a consumer group commits in another epoch than its present one; the second is for members
that use the classic protocol."""


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """The topics that a pattern matched, as of a version of the metadata image."""

    topics: frozenset[str]
    image_version: int
    at_ms: int


class Service(Protocol):
    """Handles the group's deadlines (service.py)."""

    def on_deadline(self, group: "ConsumerGroup", name: str, member_id: str, now_ms: int) -> Result[None]: ...

    def start_timers(self, group: "ConsumerGroup", now_ms: int) -> None: ...


class ConsumerGroup:
    """The persisted state of one consumer group, with questions about it."""

    kind = GroupKind.CONSUMER
    protocol_type = "consumer"

    def __init__(self, group_id: str, journal: Journal, service: Service | None = None) -> None:
        self.group_id = group_id
        self._service = service
        self.group_epoch = 0
        self.metadata_hash = 0
        self.assignment_epoch = 0
        self.assigned_at_ms = 0
        self.members: dict[str, ConsumerMember] = journal.dict()
        self.static_members: dict[str, str] = journal.dict()
        self.targets: dict[str, Assignment] = journal.dict()
        self.regexes: dict[str, ResolvedRegex] = journal.dict()
        self._holders: dict[tuple[bytes, int], str] = journal.dict()
        self._journal = journal
        # In memory only: the image changed in a way that may concern this group; compare its topics with the
        # next heartbeat.
        self.topics_changed = True
        self.regexes_checked_at_ms = 0
        # In memory only: with more members no further downgrade is tried.
        self.downgrade_size_max = sys.maxsize

    # What replay does.

    def set_epoch(self, group_epoch: int, metadata_hash: int) -> None:
        """The group epoch and the hash of the topics it rests on."""
        self._journal.assign(self, "group_epoch", group_epoch)
        self._journal.assign(self, "metadata_hash", metadata_hash)

    def set_assignment_epoch(self, assignment_epoch: int, assigned_at_ms: int) -> None:
        """The epoch of the targets, and when they were computed."""
        self._journal.assign(self, "assignment_epoch", assignment_epoch)
        self._journal.assign(self, "assigned_at_ms", assigned_at_ms)

    def put_member(self, member: ConsumerMember) -> None:
        """Add or replace a member, and index the partitions that it holds."""
        old = self.members.get(member.member_id)
        if old is None or old.assigned is not member.assigned or old.pending is not member.pending:
            self._release(old)
            for partitions in (member.assigned, member.pending):
                for topic_id, epochs in partitions.items():
                    for index in epochs:
                        self._holders[topic_id, index] = member.member_id
        self.members[member.member_id] = member
        if old is not None and old.instance_id != member.instance_id:
            self._release_instance(old)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def remove_member(self, member_id: str) -> None:
        """Remove a member and free what it held."""
        member = self.members.pop(member_id, None)
        self._release(member)
        if member is not None:
            self._release_instance(member)

    def _release_instance(self, member: ConsumerMember) -> None:
        instance_id = member.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member.member_id:
            del self.static_members[instance_id]

    def _release(self, member: ConsumerMember | None) -> None:
        if member is None:
            return
        for partitions in (member.assigned, member.pending):
            for topic_id, epochs in partitions.items():
                for index in epochs:
                    if self._holders.get((topic_id, index)) == member.member_id:
                        del self._holders[topic_id, index]

    # Queries of decisions.

    def holder(self, topic_id: bytes, index: int) -> str | None:
        """The member that has a partition or still has to give it up."""
        return self._holders.get((topic_id, index))

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        """The member behind a group instance id."""
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def held_partition_count(self) -> int:
        """How many partitions members have or still have to give up."""
        return len(self._holders)

    def target(self, member_id: str) -> Assignment:
        """What a member should have."""
        return self.targets.get(member_id, EMPTY_ASSIGNMENT)

    def resolved_topics(self) -> dict[str, frozenset[str]]:
        """The topics of each resolved pattern."""
        return {pattern: resolved.topics for pattern, resolved in self.regexes.items()}

    def assignor(self, allowed: Sequence[str]) -> str:
        """The assignor that this group's members prefer."""
        return preferred_assignor(self.members.values(), allowed)

    def reads_any(self, names: frozenset[str]) -> bool:
        """Whether any member is subscribed to one of `names`."""
        if any(not names.isdisjoint(resolved.topics) for resolved in self.regexes.values()):
            return True
        return any(not names.isdisjoint(member.topic_names) for member in self.members.values())

    # Members that use the classic protocol.

    def all_classic(self, leaving: Container[str] = ()) -> bool:
        """Whether every member, except those who leave, uses the classic protocol."""
        return all(
            member.classic is not None or member_id in leaving for member_id, member in self.members.items()
        )

    def only_classic_speak(self) -> bool:
        """Whether no member sends heartbeats of the consumer protocol now: all use the classic one,
        or are static and away for a moment."""
        return all(
            member.classic is not None or member.member_epoch == STATIC_LEAVE_EPOCH
            for member in self.members.values()
        )

    def supports_classic(self, protocol_type: str, names: Collection[str]) -> bool:
        """Whether a classic member with these protocols can join: one of them must be supported by all
        other classic members."""
        if protocol_type != self.protocol_type:
            return False
        sides = [member.classic for member in self.members.values() if member.classic is not None]
        common = set(names)
        for side in sides:
            common.intersection_update(name for name, _ in side.protocols)
        return bool(common)

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Whether another member still has a partition of the member's target."""
        return any(
            index not in member.assigned.get(topic_id, {}) and self.holder(topic_id, index) is not None
            for topic_id, indices in self.target(member.member_id).items()
            for index in indices
        )

    # The interface `Group`.

    def state_name(self) -> str:
        """Empty, Assigning (the target is out of date), Reconciling (members are on their way) or Stable."""
        if not self.members:
            return "Empty"
        if self.group_epoch > self.assignment_epoch:
            return "Assigning"
        epoch = self.assignment_epoch
        stable = all(member.is_reconciled_to(epoch) for member in self.members.values())
        return "Stable" if stable else "Reconciling"

    def member_count(self) -> int:
        """How many members there are, static ones that are away included."""
        return len(self.members)

    def is_empty(self) -> bool:
        """Whether there is no member."""
        return not self.members

    def validate_offset_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation_or_member_epoch: int,
        api_version: int,
    ) -> int:
        """Members commit in their own epoch (to classic ones: generation); in an empty group, a request
        without an epoch may (from tools)."""
        if generation_or_member_epoch < 0 and not self.members:
            return ErrorCode.NONE
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if api_version < COMMIT_VERSION_MIN and member.classic is None:
            return ErrorCode.UNSUPPORTED_VERSION
        return _check_epoch(member, generation_or_member_epoch)

    def validate_transactional_commit(
        self, member_id: str, instance_id: str | None, generation_or_member_epoch: int
    ) -> int:
        """As for a plain commit, but a request without any member is accepted."""
        anonymous = not member_id and instance_id is None
        if generation_or_member_epoch < 0 and (anonymous or not self.members):
            return ErrorCode.NONE
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return _check_epoch(member, generation_or_member_epoch)

    def may_commit_partition(self, member_id: str, member_epoch: int, topic_id: bytes, index: int) -> bool:
        """Whether a member that is one epoch late may still commit this partition: it may if it has had it
        since that epoch or longer, because no other member can have consumed it meanwhile (KIP-1251)."""
        member = self.members.get(member_id)
        if member is None or not 0 < member_epoch <= member.member_epoch:
            return False
        for partitions in (member.assigned, member.pending):
            since_epoch = partitions.get(topic_id, {}).get(index)
            if since_epoch is not None and since_epoch <= member_epoch:
                return True
        return False

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> int:
        """A request without a member id is accepted; with one, it has to be a member in its present epoch."""
        if member_id is None and member_epoch < 0:
            return ErrorCode.NONE
        member = self.members.get(member_id or "")
        return ErrorCode.UNKNOWN_MEMBER_ID if member is None else _check_epoch(member, member_epoch)

    def validate_offset_delete(self) -> int:
        """Offsets of topics without subscribers may be deleted; the caller checks the topics."""
        return ErrorCode.NONE

    def validate_delete(self) -> int:
        """Only an empty group may be deleted."""
        return ErrorCode.NON_EMPTY_GROUP if self.members else ErrorCode.NONE

    def subscribed_to(self, topic: str) -> bool:
        """Whether any member reads `topic`."""
        return self.reads_any(frozenset((topic,)))

    def offsets_expire_from_ms(self, commit_timestamp_ms: int) -> int | None:
        """From its commit (the caller keeps those of subscribed topics)."""
        return commit_timestamp_ms

    def tombstones(self) -> list[Any]:
        """Records that delete the group, whatever it holds, in the order in which Kafka writes them."""
        group_id = self.group_id
        of_members = [records.member_tombstones(group_id, member_id) for member_id in self.members]
        gone: list[Any] = [current for current, _, _ in of_members]
        gone += [target for _, target, _ in of_members]
        gone.append(records.assignment_epoch_tombstone(group_id))
        gone += [metadata for _, _, metadata in of_members]
        gone += [records.regex_tombstone(group_id, pattern) for pattern in self.regexes]
        gone.append(records.partition_metadata_tombstone(group_id))
        gone.append(records.group_tombstone(group_id))
        return gone

    def on_deadline(self, name: str, member_id: str, now_ms: int) -> Result[None]:
        """A deadline of a member has passed."""
        return Result() if self._service is None else self._service.on_deadline(self, name, member_id, now_ms)

    def loaded(self, now_ms: int) -> Result[None]:
        """The shard was loaded: every member gets a whole session timeout."""
        if self._service is not None:
            self._service.start_timers(self, now_ms)
        return Result()

    def unloaded(self, error_code: int) -> list[ParkedAnswer]:
        """No request is ever parked in a consumer group."""
        return []


def preferred_assignor(members: Iterable[ConsumerMember], allowed: Sequence[str]) -> str:
    """The assignor that most members ask for, the earlier one of `allowed` among equals; its first by
    default."""
    votes = Counter(member.assignor for member in members)
    return max(allowed, key=lambda name: votes[name])


def all_topic_names(
    members: Iterable[ConsumerMember], resolved: Mapping[str, frozenset[str]]
) -> frozenset[str]:
    """Every topic name that a member subscribes to."""
    distinct = {(member.topic_names, member.topic_regex) for member in members}
    names: set[str] = set()
    for topic_names, pattern in distinct:
        names |= topic_names
        if pattern:
            names |= resolved.get(pattern, frozenset())
    return frozenset(names)


def _check_epoch(member: ConsumerMember, member_epoch: int) -> int:
    if member_epoch == member.member_epoch:
        return ErrorCode.NONE
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
