"""What the herder asks of its membership in a group of workers, and what it is told by it."""

from __future__ import annotations

from typing import Protocol

from moldau.services.connect.group.protocol import Work
from moldau.services.connect.runtime.interface import TaskId


class GroupListener(Protocol):
    """The herder's side. Called on the member's thread; returns soon, but for the first."""

    def wanted(self, offset: int) -> tuple[Work, int] | None:
        """This worker leads: what there is to run, read at least up to `offset`, and up to where it was read;
        None: it could not be read so far in time."""

    def assigned(self, offset: int) -> None:
        """There is a new generation; its assignment holds for the configuration as of `offset`."""

    def lost(self) -> None:
        """The group does not count on this worker any more: it must stop all that it runs."""


class Membership(Protocol):
    """This worker's place in its group."""

    def start(self, listener: GroupListener) -> None:
        """Join."""

    def close(self) -> None:
        """Leave, so that others take over at once."""

    def join_again(self) -> None:
        """There is something to distribute anew."""

    def let_go(self, work: Work) -> None:
        """These are stopped; they were revoked, or the worker has none any more."""

    def held(self) -> Work:
        """What this worker is to run, and to stop only when it is told."""

    def revoked(self) -> Work:
        """What of that it must stop."""

    @property
    def is_leader(self) -> bool:
        """Whether this worker distributes the work and writes the configuration."""

    @property
    def leader_url(self) -> str:
        """Where the leader is reached; empty: nobody knows."""

    def owner_url(self, work: TaskId) -> str:
        """Where the member is reached to which this work was given; known to the leader alone; empty: nobody
        else has it."""

    @property
    def trouble(self) -> str:
        """Why this worker has been out of its group for longer than a session; empty: it is not."""

    @property
    def generation(self) -> int:
        """The number of the assignment; -1 without one."""

    @property
    def is_rebalancing(self) -> bool:
        """Whether work is being distributed anew."""

    @property
    def signs_requests(self) -> bool:
        """Whether requests between workers are signed (protocol `sessioned`)."""
