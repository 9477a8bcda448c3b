"""What a connection stands between: the listener that keeps it, and the dispatcher that handles its frames.

Both are written down here for a connection of any type, so that connection.py needs neither of them.
"""

from collections.abc import Container, MutableMapping
from typing import TYPE_CHECKING, Protocol, TypeVar

from moldau.broker.handlers.parts.exchange import AnswerFrame

if TYPE_CHECKING:
    from moldau.broker.server.commit_backlog import CommitBacklog
    from moldau.broker.server.login_counts import LoginCounts
    from moldau.broker.server.login_frames import LoginFrames
    from moldau.broker.server.request_memory import RequestMemory
    from moldau.broker.server.response_memory import ResponseMemory
    from moldau.broker.server.turns import Turns
    from moldau.common.core.timers import Timers

C = TypeVar("C")
C_contra = TypeVar("C_contra", contravariant=True)

Parts = AnswerFrame
REPEATED: Parts = []
"""Stands for: the connection's shortcut has taken the frame."""


class PeerError(Exception):
    """The client broke the protocol; it is disconnected, which is logged once for each kind of error."""

    def __init__(self, kind: str, sentence: str) -> None:
        super().__init__(sentence)
        self.kind = kind


class FrameDispatcher(Protocol[C_contra]):
    """Handles frames."""

    def request(self, connection: C_contra, view: memoryview, position: int, end: int) -> Parts | None:
        """Handle the frame whose size field stands at `position` in the view, which is valid only during the
        call. None: nothing to send now; `REPEATED`: nor did it take long enough to look at the clock.
        PeerError: end the connection.
        """

    def other_protocol(self, connection: C_contra, first_bytes: bytes) -> None:
        """The bytes are not a Kafka frame: log that, and tell the client if its protocol allows."""

    @property
    def takes_empty_frames(self) -> bool:
        """Whether a frame of no bytes is one."""

    def connected(self, connection: C_contra) -> "FrameDispatcher[C_contra]":
        """What handles the frames of a new connection: this, or its login first."""


class Keeper(Protocol[C]):
    """The listener, as its connections see it (listener.py)."""

    name: str
    security_protocol: str
    frame_bytes_max: int
    tick: int
    """Idle time is counted in these."""
    accepted_count: int
    requests: "RequestMemory"
    responses: "ResponseMemory"
    backlog: "CommitBacklog"
    turns: "Turns"
    timers: "Timers"
    logins: "LoginCounts"
    login_frames: "LoginFrames | None"

    @property
    def delayed(self) -> Container[C]:
        """Connections over their address's quota, which are closed after a while."""

    @property
    def muted(self) -> MutableMapping[C, None]:
        """Those that wait for their client's quota."""

    def admit(self, connection: C) -> bool:
        """Whether there is room for one more; counts it if so."""

    def forget(self, connection: C) -> None:
        """The connection is gone."""

    def peer_failed(self, connection: C, kind: str, sentence: str) -> None:
        """Log that the client broke the protocol."""

    def held_too_long(self, connection: C, sentence: str) -> None:
        """Log that it is closed because of the memory it holds."""

    def login_failed(self, connection: C, reason: str) -> None:
        """Log that a login failed."""

    def other_protocol(self, connection: C, first_bytes: bytes) -> None:
        """Answer a client of another protocol as well as that allows, then close."""
