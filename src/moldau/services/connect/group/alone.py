"""A worker without a group: it leads, and everything there is is its own."""

from __future__ import annotations

from moldau.services.connect.group.interface import GroupListener
from moldau.services.connect.group.protocol import NOTHING, Work
from moldau.services.connect.runtime.interface import TaskId


class Alone:
    """See Membership."""

    is_leader = True
    is_rebalancing = False
    signs_requests = False
    leader_url = ""
    generation = 0
    trouble = ""

    def __init__(self) -> None:
        self._listener: GroupListener | None = None
        self._held: Work = NOTHING
        self._revoked: Work = NOTHING

    def start(self, listener: GroupListener) -> None:
        """See Membership."""
        self._listener = listener
        self.join_again()

    def close(self) -> None:
        """See Membership."""

    def join_again(self) -> None:
        """See Membership."""
        assert self._listener is not None
        found = self._listener.wanted(-1)
        if found is not None:
            wanted, offset = found
            self._revoked = self._held - wanted
            self._held = self._held | wanted
            self._listener.assigned(offset)

    def let_go(self, work: Work) -> None:
        """See Membership."""
        self._held -= work
        self._revoked -= work

    def owner_url(self, work: TaskId) -> str:
        """See Membership."""
        return ""

    def held(self) -> Work:
        """See Membership."""
        return self._held

    def revoked(self) -> Work:
        """See Membership."""
        return self._revoked
