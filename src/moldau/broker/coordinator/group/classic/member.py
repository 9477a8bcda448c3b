"""One member of a classic group: what it sent when it joined, its assignment, and which of its requests is
parked. Immutable: a decision replaces members in its draft (draft.py)."""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from moldau.broker.coordinator.result import Parked
from moldau.common.protocol.messages.join_group import JoinGroupRequestProtocol, JoinGroupResponse
from moldau.common.protocol.messages.sync_group import SyncGroupResponse

MEMBER_BYTES = 2048
"""Of a member's objects, its deadline, and its places in dicts."""

_PROTOCOL_BYTES = 256


class ClassicMember(NamedTuple):
    """A member. `instance_id` makes it a static one (KIP-345), which keeps its place over restarts.

    protocols   (name, metadata) by preference
    is_new      its first join is parked, and it does not know its id yet
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    assignment: bytes = b""
    parked_join: Parked[JoinGroupResponse] | None = None
    parked_sync: Parked[SyncGroupResponse] | None = None
    is_new: bool = False

    @property
    def held_bytes(self) -> int:
        """What the process holds for it, about."""
        texts = sum(map(len, (self.member_id, self.instance_id or "", self.client_id, self.client_host)))
        return MEMBER_BYTES + texts + protocols_bytes(self.protocols) + len(self.assignment)

    def metadata(self, protocol_name: str | None) -> bytes:
        """The member's metadata under `protocol_name`: for consumers, its subscription."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        return b""

    def vote(self, candidates: Collection[str]) -> str | None:
        """The first of its protocols that all members support; members list theirs by preference."""
        for name, _ in self.protocols:
            if name in candidates:
                return name
        return None

    def keeps_session_by_waiting(self) -> bool:
        """Whether a parked request keeps the member's session alive. The first join of a new member does not:
        it cannot send heartbeats yet, and may have disconnected.
        """
        return not self.is_new and (self.parked_join is not None or self.parked_sync is not None)


def protocols_bytes(protocols: Iterable[tuple[str, bytes]]) -> int:
    """What protocols hold, about; a name may take four bytes for each character."""
    return sum(_PROTOCOL_BYTES + 4 * len(name) + len(metadata) for name, metadata in protocols)


def protocols_of(protocols: Sequence[JoinGroupRequestProtocol]) -> tuple[tuple[str, bytes], ...]:
    """A request's protocols as immutable pairs that do not share the request's buffer."""
    return tuple((protocol.name, bytes(protocol.metadata or b"")) for protocol in protocols)
