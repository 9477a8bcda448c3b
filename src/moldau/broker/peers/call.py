"""One request to another broker: what is asked, until when, and the future of its response.

    waits for a connection -> in flight -> settled: a response, or PeerError

Invariant: settled once; who no longer waits (cancelled) disturbs nothing.
"""

import asyncio
from typing import Any, ClassVar, NamedTuple, Protocol

from moldau.broker.peers.peers import PeerError
from moldau.common.core.timers import TimerHandle
from moldau.common.protocol.declare import Message


class PeerRequest(Protocol):
    """What can be sent: a declared message, or a hand-tuned one."""

    KEY: ClassVar[int]
    VERSIONS: ClassVar[tuple[int, int]]
    RESPONSE: ClassVar[type[Message]]

    def encode(self, version: int) -> bytes:
        """The request's bytes."""


class RawResponse(NamedTuple):
    """A response that is not decoded: its body is `frame[body_offset:]`, in this version."""

    frame: memoryview
    body_offset: int
    version: int


class Call:
    """One request, and who waits for it."""

    __slots__ = (
        "frames_before",
        "future",
        "raw",
        "request",
        "timer",
        "version",
        "version_max",
        "version_min",
    )

    def __init__(
        self,
        request: PeerRequest,
        version_min: int,
        version_max: int | None,
        future: "asyncio.Future[Any]",
        *,
        raw: bool = False,
    ) -> None:
        """`raw`: the response is a RawResponse."""
        self.request = request
        self.version_min = version_min
        self.version_max = version_max
        self.version = -1  # chosen when it is sent
        self.future = future
        self.raw = raw
        self.timer: TimerHandle | None = None
        self.frames_before = 0
        """How many frames the connection had received when it was sent."""

    @property
    def done(self) -> bool:
        """Whether nobody waits any more."""
        return self.future.done()

    def answer(self, response: Any) -> None:
        self._stop_timer()
        if not self.future.done():
            self.future.set_result(response)

    def fail(self, message: str, kind: type[PeerError] = PeerError) -> None:
        self._stop_timer()
        if not self.future.done():
            self.future.set_exception(kind(message))
            self.future.exception()  # a caller that has gone is no error of the loop

    def _stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
