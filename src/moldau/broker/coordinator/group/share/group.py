"""The persisted state of a share group (KIP-932), and queries on it.

    group epoch        goes up whenever the targets are out of date: members, subscriptions, topics or what is
                       initialized changed
    assignment epoch   the group epoch for which the targets were computed
    targets            what each member should have
    states             which share-partitions have state at the share coordinator

Only replay changes what is listed above, through journaled containers. Not here: deciding (heartbeat.py).
"""

from collections.abc import Iterable
from typing import Any, Protocol

from moldau.broker.coordinator.group.assignors import EMPTY_ASSIGNMENT, Assignment
from moldau.broker.coordinator.group.group import GroupKind
from moldau.broker.coordinator.group.share import records
from moldau.broker.coordinator.group.share.member import ShareMember
from moldau.broker.coordinator.group.share.states import SharePartitionStates
from moldau.broker.coordinator.group.topics import Topics
from moldau.broker.coordinator.journal import Journal
from moldau.broker.coordinator.result import ParkedAnswer, Result
from moldau.common.protocol.errors import ErrorCode

ASSIGNOR = "simple"


class Service(Protocol):
    """Handles the group's deadlines (service.py)."""

    def on_deadline(self, group: "ShareGroup", name: str, member_id: str, now_ms: int) -> Result[None]: ...

    def start_timers(self, group: "ShareGroup", now_ms: int) -> None: ...

    def resume(self, group: "ShareGroup") -> None: ...


class ShareGroup:
    """The persisted state of one share group, with questions about it."""

    kind = GroupKind.SHARE
    protocol_type = "share"

    def __init__(self, group_id: str, journal: Journal, service: Service | None = None) -> None:
        self.group_id = group_id
        self._service = service
        self._journal = journal
        self.group_epoch = 0
        self.metadata_hash = 0
        self.assignment_epoch = 0
        self.assigned_at_ms = 0
        self.members: dict[str, ShareMember] = journal.dict()
        self.targets: dict[str, Assignment] = journal.dict()
        self.states = SharePartitionStates()
        # In memory only: the image changed in a way that may concern this group; and when the share
        # coordinator was last asked to initialize share-partitions, or to delete what could not be deleted.
        self.topics_changed = True
        self.asked_at_ms: int | None = None
        self.deletes_asked_at_ms: int | None = None

    # What replay does

    def set_epoch(self, group_epoch: int, metadata_hash: int) -> None:
        """The group epoch and the hash of the topics it rests on."""
        self._journal.assign(self, "group_epoch", group_epoch)
        self._journal.assign(self, "metadata_hash", metadata_hash)

    def set_assignment_epoch(self, assignment_epoch: int, assigned_at_ms: int) -> None:
        """The epoch of the targets, and when they were computed."""
        self._journal.assign(self, "assignment_epoch", assignment_epoch)
        self._journal.assign(self, "assigned_at_ms", assigned_at_ms)

    def set_states(self, states: SharePartitionStates) -> None:
        """Which share-partitions have state."""
        self._journal.assign(self, "states", states)

    # Queries

    def target(self, member_id: str) -> Assignment:
        """What a member should have."""
        return self.targets.get(member_id, EMPTY_ASSIGNMENT)

    def reads_any(self, names: frozenset[str]) -> bool:
        """Whether any member is subscribed to one of `names`."""
        return any(not names.isdisjoint(member.topic_names) for member in self.members.values())

    def held_partition_count(self) -> int:
        """How many partitions the targets have, each as often as there are members with it."""
        return sum(len(each) for target in self.targets.values() for each in target.values())

    # The interface `Group`

    def state_name(self) -> str:
        """Empty or Stable: a member has what it is told at once."""
        return "Stable" if self.members else "Empty"

    def member_count(self) -> int:
        """How many members there are."""
        return len(self.members)

    def is_empty(self) -> bool:
        """Whether there is no member."""
        return not self.members

    def validate_offset_commit(
        self, member_id: str, instance_id: str | None, generation_or_member_epoch: int, api_version: int
    ) -> int:
        """A share group has no committed offsets."""
        return ErrorCode.GROUP_ID_NOT_FOUND

    def validate_transactional_commit(
        self, member_id: str, instance_id: str | None, generation_or_member_epoch: int
    ) -> int:
        """A share group has no committed offsets."""
        return ErrorCode.GROUP_ID_NOT_FOUND

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> int:
        """A share group has no committed offsets."""
        return ErrorCode.GROUP_ID_NOT_FOUND

    def validate_offset_delete(self) -> int:
        """A share group has no committed offsets."""
        return ErrorCode.GROUP_ID_NOT_FOUND

    def validate_delete(self) -> int:
        """Only an empty group may be deleted."""
        return ErrorCode.NON_EMPTY_GROUP if self.members else ErrorCode.NONE

    def subscribed_to(self, topic: str) -> bool:
        """Whether any member reads `topic`."""
        return self.reads_any(frozenset((topic,)))

    def offsets_expire_from_ms(self, commit_timestamp_ms: int) -> int | None:
        """It has no offsets that could expire."""
        return None

    def tombstones(self) -> list[Any]:
        """Records that delete the group, whatever it holds; members' own first, the group's last."""
        gone: list[Any] = []
        for member_id in self.members:
            gone += records.member_tombstones(self.group_id, member_id)
        gone.append(records.states_tombstone(self.group_id))
        gone.append(records.assignment_epoch_tombstone(self.group_id))
        gone.append(records.group_tombstone(self.group_id))
        return gone

    def on_deadline(self, name: str, member_id: str, now_ms: int) -> Result[None]:
        """A deadline of a member has passed."""
        return Result() if self._service is None else self._service.on_deadline(self, name, member_id, now_ms)

    def loaded(self, now_ms: int) -> Result[None]:
        """The shard was loaded: every member gets a whole session timeout."""
        if self._service is not None:
            self._service.start_timers(self, now_ms)
            self._service.resume(self)
        return Result()

    def unloaded(self, error_code: int) -> list[ParkedAnswer]:
        """No request is ever parked in a share group."""
        return []


def topic_names_read(members: Iterable[ShareMember], topics: Topics) -> frozenset[str]:
    """The names of topics that exist and that a member subscribes to. Clients name any number that do not
    exist, so this looks at the topics where they are fewer."""
    subscriptions = {member.topic_names for member in members}
    existing = topics.topics
    if len(existing) * len(subscriptions) < sum(map(len, subscriptions)):
        return frozenset([name for name in existing if any(name in names for names in subscriptions)])
    return frozenset([name for name in frozenset().union(*subscriptions) if name in existing])
