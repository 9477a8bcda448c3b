"""Requests of one kind to one other broker: one in flight, and whatever comes meanwhile shares the next.

    add ──> | due | due | due |  ──end of the turn, or response to the last request──>  request ──> answered

So a broker with much to ask of another sends few large requests, and one with little sends it at once. An
item belongs to whoever added it, who may have lost interest by the time it is taken.

Not here: what an item is, and how many of them make a request (`Kind`); connections (peers/).
"""

import asyncio
import logging
from collections import deque
from typing import Any, Generic, Protocol, TypeVar

from moldau.broker.peers.peers import PeerError, Peers
from moldau.common.protocol.declare import Message

D = TypeVar("D")

_log = logging.getLogger("moldau.coordinator.request_queue")


class Kind(Protocol[D]):
    """One kind of request."""

    name: str
    """For the log: what could not be done."""
    timeout_ms: int
    version_min: int

    def next_due(self, queued: deque[D]) -> list[D]:
        """Remove from the queue what goes into the next request; what nobody waits for is dropped."""

    def request(self, due: list[D]) -> Message:
        """The request for these."""

    def answered(self, due: list[D], response: Any | None) -> None:
        """The response; None: there was none, and whether the request was carried out is unknown."""


class RequestQueue(Generic[D]):
    """What is due for one broker."""

    def __init__(self, node_id: int, peers: Peers, kind: Kind[D]) -> None:
        self._node_id = node_id
        self._peers = peers
        self._kind = kind
        self._queued: deque[D] = deque()
        self._sent: list[D] = []
        self._sending: asyncio.Future[None] | None = None
        self._scheduled = False
        self._closed = False
        self._failing = False  # so that it is logged once

    def add(self, item: D) -> None:
        """Queue one more."""
        self._queued.append(item)
        self._send_soon()

    def under_way(self) -> list[D]:
        """What was sent or is queued, and has no answer yet."""
        return [*self._sent, *self._queued]

    def close(self) -> None:
        """Send nothing more; what is under way gets no response."""
        self._closed = True
        if self._sending is not None:
            self._sending.cancel()
        left = self.under_way()
        self._queued.clear()
        if left:
            self._kind.answered(left, None)

    def _send_soon(self) -> None:
        if self._sending is None and not self._scheduled and not self._closed:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._send)

    def _send(self) -> None:
        self._scheduled = False
        due = [] if self._closed else self._kind.next_due(self._queued)
        if due:
            self._sent = due
            self._sending = asyncio.ensure_future(self._exchange(due))
            self._sending.add_done_callback(self._exchanged)

    async def _exchange(self, due: list[D]) -> None:
        kind, response = self._kind, None
        try:
            response = await self._peers.send(
                self._node_id, kind.request(due), timeout_ms=kind.timeout_ms, version_min=kind.version_min
            )
            if self._failing:
                self._failing = False
                _log.info("broker %d answers again: %s", self._node_id, kind.name)
        except PeerError as error:
            if not self._failing:
                self._failing = True
                _log.warning("%s; trying again: %s", kind.name, error)
        except Exception:
            _log.exception("%s through broker %d: this is a bug", kind.name, self._node_id)
        kind.answered(due, response)

    def _exchanged(self, sending: "asyncio.Future[None]") -> None:
        self._sending, self._sent = None, []
        if not sending.cancelled() and sending.exception() is not None:
            _log.error("%s: this is a bug", self._kind.name, exc_info=sending.exception())
        if self._queued:
            self._send_soon()
