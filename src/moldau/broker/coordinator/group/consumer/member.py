"""One member of a consumer group (KIP-848), as the log knows it.

Two kinds of records make a member: its *metadata* (what it subscribes to, who it is) and its *current
assignment* (its epoch, what it may consume, what it still has to give up). A member is immutable; replay
replaces it.

    member epoch   the assignment epoch that the member has caught up with; 0 joins, -1 leaves, -2 a static
                   member that left for a moment
    assigned       what the member may consume now, with the epoch at which it got each partition
    pending        what it has to revoke before it may go on; until it confirms, no other member gets these
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple

from moldau.broker.coordinator.group.assignors import Assignment

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2

PartitionEpochs = Mapping[bytes, Mapping[int, int]]
"""topic id -> partition -> the assignment epoch at which the member got it. Never changed in place."""

NO_PARTITIONS: PartitionEpochs = MappingProxyType({})


class MemberState(IntEnum):
    """How far a member has come towards its target; the numbers are those of the record."""

    STABLE = 0
    """It has caught up with its epoch's target."""
    UNREVOKED_PARTITIONS = 1
    """It has to give up partitions before it may move to the next epoch."""
    UNRELEASED_PARTITIONS = 2
    """It is in the newest epoch, but partitions of its target are still with others."""
    UNKNOWN = 127
    """Written by a version that knows more states."""

    @classmethod
    def _missing_(cls, value: object) -> "MemberState":
        return cls.UNKNOWN


class ClassicSide(NamedTuple):
    """What only a member that speaks the classic protocol has: its own session timeout, and the protocols
    (assignors) that it supports, with its subscription under each; the first one is the one it is told."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]

    @property
    def protocol_name(self) -> str:
        """The protocol that the member is told."""
        return self.protocols[0][0] if self.protocols else ""

    @property
    def subscription(self) -> bytes:
        """The subscription as the member sent it; all its protocols carry the same."""
        return self.protocols[0][1] if self.protocols else b""


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """A member's metadata and current assignment. `classic` is None for one that speaks the consumer
    protocol."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    topic_names: frozenset[str] = frozenset()
    topic_regex: str = ""
    classic: ClassicSide | None = None
    member_epoch: int = JOIN_EPOCH
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: PartitionEpochs = field(default_factory=lambda: NO_PARTITIONS)
    pending: PartitionEpochs = field(default_factory=lambda: NO_PARTITIONS)

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        """Whether nothing is left to do for this member at that epoch."""
        return self.state is MemberState.STABLE and self.member_epoch == assignment_epoch

    def at_epoch(
        self,
        member_epoch: int,
        state: MemberState,
        assigned: PartitionEpochs,
        pending: PartitionEpochs = NO_PARTITIONS,
    ) -> "ConsumerMember":
        """This member after a step; the epoch it comes from is remembered, in case the answer gets lost."""
        return replace(
            self,
            member_epoch=member_epoch,
            previous_member_epoch=self.member_epoch,
            state=state,
            assigned=assigned,
            pending=pending,
        )

    def subscription(self, resolved: Mapping[str, frozenset[str]]) -> frozenset[str]:
        """All topic names that the member reads. A regular expression that is not resolved matches
        nothing."""
        if not self.topic_regex:
            return self.topic_names
        matched = resolved.get(self.topic_regex, frozenset())
        return self.topic_names | matched if self.topic_names else matched


def without_epochs(partitions: PartitionEpochs) -> Assignment:
    """The partitions alone."""
    return {topic_id: frozenset(epochs) for topic_id, epochs in partitions.items()}


def has_any(partitions: PartitionEpochs, owned: Iterable[tuple[bytes, Iterable[int]]]) -> bool:
    """Whether any of `owned` is among `partitions`."""
    return any(
        index in epochs
        for topic_id, indices in owned
        if (epochs := partitions.get(topic_id))
        for index in indices
    )


def has_all(partitions: PartitionEpochs, owned: Iterable[tuple[bytes, Iterable[int]]]) -> bool:
    """Whether all of `owned` are among `partitions`."""
    return all(index in partitions.get(topic_id, {}) for topic_id, indices in owned for index in indices)
