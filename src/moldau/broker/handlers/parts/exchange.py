"""The interface between frame handlers and a connection: session, response slots, shortcut for repeated
requests.

A `Slot` is the place of one answer in its connection's order. A `Shortcut` serves frames that differ from an
earlier one in their records only, as a producer's do: a frame that begins with the same bytes goes to the
shortcut without being decoded.

    | size 4 | key 2, version 2 | correlation id 4 | client id ... up to the records' size | records ...
              ^ head             (differs)          ^ prefix
"""

import mmap
from collections import deque
from collections.abc import Callable
from typing import Protocol

from moldau.broker.handlers.parts.session import Session

AnswerFrame = bytes | list[bytes | memoryview]

COUNTED_BYTES = 16 * 1024
"""Larger requests that wait for followers are counted (`Exchange.begin_waiting`)."""


def kept(view: memoryview) -> memoryview | bytes:
    """The frame, or a part of it, in a form that may be used after the call. The frame of a large request has
    a mapped buffer of its own and is not copied, as 90 MB would take 100 ms; any other is.
    """
    return view if type(view.obj) is mmap.mmap else bytes(view)


class EndConnection(Exception):
    """A request without a response (acks=0) has failed: the connection is closed, as in Kafka."""


class Shortcut(Protocol):
    """Handles frames that begin as an earlier one did.

    It is used only while the session's version is `session_version`.
    """

    session_version: int

    def serve(self, exchange: "Exchange", view: memoryview, position: int, end: int) -> bool:
        """Handle the frame whose size field stands at `position`; False: decode it as any other."""


class Exchange(Protocol):
    """The part of a connection that handlers use."""

    session: Session
    shortcut: Shortcut | None
    queue: "deque[Slot]"

    def park(self, *, blocking: bool, on_lost: Callable[[], None] | None = None) -> "Slot":
        """Keep a place in the order; `blocking` holds this connection's next frames back until it is filled.

        `on_lost` is called if the connection ends before that.
        """

    def slot_filled(self) -> None:
        """A slot of this connection has its answer."""

    def begin_waiting(self, size_bytes: int) -> None:
        """A large request has appended so much, which waits for followers: those that follow may have to
        wait."""

    def end_waiting(self, size_bytes: int, *, replicated: bool) -> None:
        """It waits no more, because its records are replicated or by an error. Called before its slot is
        filled."""

    def mute(self, duration_ms: float) -> None:
        """Handle no further requests for so long; answers still leave (KIP-219)."""

    def close(self) -> None:
        """End the connection."""


class Slot:
    """The place of one answer in its connection's order."""

    __slots__ = ("blocking", "exchange", "filled", "on_lost", "parts")

    def __init__(
        self, exchange: Exchange, blocking: bool = False, on_lost: Callable[[], None] | None = None
    ) -> None:
        self.exchange = exchange
        self.blocking = blocking
        self.on_lost = on_lost
        self.filled = False
        self.parts: AnswerFrame | None = None

    def fill(self, parts: AnswerFrame | None) -> None:
        """Give the answer: a whole frame, in one piece or in parts; None when the client wants no answer."""
        if not self.filled:
            self.filled = True
            self.parts = parts
            self.exchange.slot_filled()
