"""One member of a classic group: what it told us when it joined, what it is assigned, and which of its calls
is parked."""

from collections.abc import Collection, Sequence

from moldau.coordinator.result import Parked
from moldau.protocol.messages.join_group import JoinGroupRequestProtocol, JoinGroupResponse
from moldau.protocol.messages.sync_group import SyncGroupResponse


class ClassicMember:
    """A member; `instance_id` makes it a static one (KIP-345), which keeps its place over restarts of the
    client."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "member_id",
        "parked_join",
        "parked_sync",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
    )

    def __init__(
        self,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Sequence[tuple[str, bytes]],
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = tuple(protocols)
        self.assignment = assignment
        self.parked_join: Parked[JoinGroupResponse] | None = None
        self.parked_sync: Parked[SyncGroupResponse] | None = None
        self.is_new = False

    def metadata(self, protocol_name: str | None) -> bytes:
        """What the member said of itself under `protocol_name`: for consumers, its subscription."""
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
        """Whether a parked call proves the member alive. A new member does not even know its id yet, so its
        first join counts only until the deadline: it may have hung up long ago."""
        return not self.is_new and (self.parked_join is not None or self.parked_sync is not None)


def protocols_of(protocols: Sequence[JoinGroupRequestProtocol]) -> tuple[tuple[str, bytes], ...]:
    """A request's protocols as immutable pairs that do not share the request's buffer."""
    return tuple((protocol.name, bytes(protocol.metadata or b"")) for protocol in protocols)
