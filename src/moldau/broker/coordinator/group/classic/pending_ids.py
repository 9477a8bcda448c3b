"""A set of member ids of which a copy is cheap, however many there are.

Each client that crashes and joins again leaves one id behind until its session ends, and no setting limits
them. A decision changes a copy of its group (draft.py): if it copied all ids, the duration of a
request would grow with their number.

    group's    | ids |
    draft's    | the same ids, shared | added | removed |  ──settle──> the ids themselves change

Invariant: what is added is not among the ids, and what is removed is.
"""

from collections.abc import Iterator

_ID_BYTES = 768


class PendingIds:
    """The ids. Copies share them until one copy settles; the others are not used afterwards."""

    __slots__ = ("_added", "_ids", "_removed", "held_bytes")

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._added: set[str] = set()
        self._removed: set[str] = set()
        self.held_bytes = 0  # about, with each one's deadline

    def copy(self) -> "PendingIds":
        """A copy; its changes are its own until it settles."""
        twin = PendingIds()
        twin._ids, twin._added, twin._removed = self._ids, self._added.copy(), self._removed.copy()
        twin.held_bytes = self.held_bytes
        return twin

    def settle(self) -> None:
        """The changes hold for good."""
        self._ids |= self._added
        self._ids -= self._removed
        self._added.clear()
        self._removed.clear()

    def add(self, member_id: str) -> None:
        if member_id not in self:
            self.held_bytes += _ID_BYTES + len(member_id)
        self._removed.discard(member_id)
        if member_id not in self._ids:
            self._added.add(member_id)

    def discard(self, member_id: str) -> None:
        if member_id in self:
            self.held_bytes -= _ID_BYTES + len(member_id)
        self._added.discard(member_id)
        if member_id in self._ids:
            self._removed.add(member_id)

    def __contains__(self, member_id: object) -> bool:
        return member_id in self._added or (member_id in self._ids and member_id not in self._removed)

    def __len__(self) -> int:
        return len(self._ids) + len(self._added) - len(self._removed)

    def __iter__(self) -> Iterator[str]:
        """In order."""
        return iter(sorted((self._ids | self._added) - self._removed))
