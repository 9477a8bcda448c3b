"""One member of a share group, as the log knows it. Immutable; replay replaces it.

A member is told its assignment and has it: others may have the same partitions, so nothing has to be given up
first, and there is one state only.
"""

from dataclasses import dataclass, field, replace

from moldau.broker.coordinator.group.assignors import EMPTY_ASSIGNMENT, Assignment

JOIN_EPOCH = 0
LEAVE_EPOCH = -1


@dataclass(frozen=True, slots=True)
class ShareMember:
    """A member's metadata and current assignment."""

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    member_epoch: int = JOIN_EPOCH
    previous_member_epoch: int = -1
    assigned: Assignment = field(default_factory=lambda: EMPTY_ASSIGNMENT)

    def at_epoch(self, member_epoch: int, assigned: Assignment) -> "ShareMember":
        """This member in another epoch; the one it comes from is remembered, in case the answer gets lost."""
        return replace(
            self,
            member_epoch=member_epoch,
            previous_member_epoch=self.member_epoch,
            assigned=assigned,
        )
