"""One client's connection: bytes become frames, frames answers, and the answers leave in the requests' order.

    bytes -> [ shared receive buffer ] -> whole frames -> dispatch -> bytes, or a `Slot` that is filled later

A request is a function call. Only an answer that must wait gets a `Slot` in the connection's queue: the write
of this turn (a Produce request), a long poll, a join. While a slot *blocks* (anything but Produce), no
further frame of this connection is looked at, as in Kafka; bytes that come meanwhile are kept, and reading
stops.

Memory is bounded: an idle connection owns no receive buffer (all share one), a started frame grows with the
bytes that really came and not with the length it claims, and a client that does not read its answers gets no
further ones.

Invariant: slots leave the queue from the left, and only once filled, so that answers cannot overtake one
another. Not here: what a frame means (dispatch.py).
"""

import asyncio
import logging
import struct
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, cast

from moldau.handlers.exchange import AnswerFrame, Shortcut, Slot

if TYPE_CHECKING:
    from moldau.server.listener import Listener

log = logging.getLogger("moldau.server")

Parts = AnswerFrame

_FRAME_SIZE = struct.Struct(">i").unpack_from
_SHARED_BUFFER_BYTES = 256 * 1024
_GROWTH_BYTES_MIN = 64 * 1024
_POOLED_BYTES = 2 * 1024 * 1024  # a frame of up to this size gets a buffer of this size at once
_POOL_MAX = 8
_PARKED_MAX = (
    256  # answers of one connection that wait for this turn's write, before its next frames wait too
)
_PARKED_AGAIN_MAX = _PARKED_MAX // 2  # then the next frames go on, a good many at a time
_WRITE_HIGH_BYTES = 1024 * 1024

# One event loop, one thread: a read fills this buffer and is consumed before the next read begins.
_shared = bytearray(_SHARED_BUFFER_BYTES)
_shared_view = memoryview(_shared)
# Buffers for the frames of bulk producers, kept because touching fresh memory costs more than receiving into
# it does.
_pool: list[bytearray] = []


class Dispatcher(Protocol):
    """Gives each frame its meaning."""

    def frame(self, connection: "Connection", view: memoryview) -> Parts | None:
        """Handle one request; the view is valid only during the call. None: nothing to send now."""

    def foreign(self, connection: "Connection", first_bytes: bytes) -> None:
        """The bytes are no Kafka frame: say so, in the log and if possible to the client."""


class PeerError(Exception):
    """The client broke the protocol; it is disconnected, and the log says so once for each kind."""

    def __init__(self, kind: str, sentence: str) -> None:
        super().__init__(sentence)
        self.kind = kind


class Connection(asyncio.BufferedProtocol):
    """The broker's end of one client's TCP connection."""

    __slots__ = (
        "blocked",
        "client_host",
        "client_port",
        "closed",
        "consuming",
        "dispatcher",
        "idle_tick",
        "listener",
        "own",
        "own_end",
        "paused",
        "queue",
        "shortcut",
        "transport",
        "write_paused",
    )

    def __init__(self, listener: "Listener", dispatcher: Dispatcher) -> None:
        self.listener = listener
        self.dispatcher = dispatcher
        self.transport: asyncio.Transport | None = None
        self.client_host = ""
        self.client_port = 0
        self.queue: deque[Slot] = deque()
        self.blocked = False  # a slot at the queue's end waits for something slow
        self.paused = False  # reading is off
        self.write_paused = False  # the client does not take what it was sent
        self.closed = False
        self.consuming = False
        self.own: bytearray | None = None  # bytes of a frame that has not come whole
        self.own_end = 0
        self.idle_tick = listener.tick
        self.shortcut: Shortcut | None = None

    # The transport's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass of it
        peer = transport.get_extra_info("peername")
        if peer:
            self.client_host, self.client_port = peer[0], peer[1]
        transport.set_write_buffer_limits(high=_WRITE_HIGH_BYTES)
        if not self.listener.admit(self):
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._give_back()
        self.listener.forget(self)
        queue, self.queue = self.queue, deque()
        for slot in queue:
            if slot.on_lost is not None and not slot.filled:
                slot.on_lost()

    def get_buffer(self, sizehint: int) -> memoryview:
        own = self.own
        if own is None:
            return _shared_view
        end = self.own_end
        if end == len(own):
            own = self._grow()
        if end >= 4:
            # Receive no further than the frame goes: the next one then begins in the shared buffer, uncopied.
            frame_end = _FRAME_SIZE(own, 0)[0] + 4
            if end < frame_end <= len(own):
                return memoryview(own)[end:frame_end]
        return memoryview(own)[end:]

    def buffer_updated(self, nbytes: int) -> None:
        self.idle_tick = self.listener.tick
        if self.own is None:
            used = self._consume(_shared, _shared_view, nbytes)
            if used < nbytes and not self.closed:
                self._keep(_shared_view[used:nbytes])
        else:
            self.own_end += nbytes
            self._consume_own()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self.write_paused = True

    def resume_writing(self) -> None:
        self.write_paused = False
        self._go_on()

    # Frames

    def _consume(self, buffer: bytearray, view: memoryview, end: int) -> int:
        """Handle the whole frames in `view[:end]`, of `buffer`; the count of bytes used up."""
        position = 0
        queue = self.queue
        self.consuming = True  # an answer given at once must not start a second round inside this one
        try:
            while end - position >= 4 and not (self.blocked or self.write_paused or self.closed):
                (size_bytes,) = _FRAME_SIZE(view, position)
                if not 0 < size_bytes <= self.listener.frame_bytes_max:
                    self.dispatcher.foreign(self, bytes(view[position : min(end, position + 64)]))
                    position = end
                    break
                after = position + 4 + size_bytes
                if after > end:
                    break
                shortcut = self.shortcut
                if not (
                    shortcut is not None
                    and buffer.startswith(shortcut.prefix, position + 12)
                    and buffer.startswith(shortcut.head, position + 4)
                    and shortcut.take(self, view, position, after)
                ):
                    self._handle(view[position + 4 : after])
                position = after
                if len(queue) >= _PARKED_MAX:
                    self.blocked = True
        except Exception:
            # Whoever answers this connection (a turn's write) goes on with the others.
            log.exception("a request of %s failed: this is a bug", self.client_host)
            position = end
            self.close()
        finally:
            self.consuming = False
        return position

    def _handle(self, frame: memoryview) -> None:
        """One frame, the usual way; its answer goes out now, or waits behind earlier ones."""
        try:
            parts = self.dispatcher.frame(self, frame)
        except PeerError as error:
            self.refuse(error)
            return
        if parts is None:
            return
        if self.queue:
            slot = Slot(self)
            slot.filled, slot.parts = True, parts
            self.queue.append(slot)
        else:
            self._send(parts)

    def refuse(self, error: PeerError) -> None:
        """The client broke the protocol: say so in the log, and end the connection."""
        if not self.closed:
            self.listener.peer_failed(self, error.kind, str(error))
            self.close()

    @staticmethod
    def kept(frame: memoryview) -> memoryview | bytes:
        """The frame for longer than the call that got it: a large one stands in a buffer of its own, which
        nothing is received into any more; any other is copied."""
        buffer = frame.obj
        if type(buffer) is bytearray and len(buffer) > _POOLED_BYTES:
            return frame
        return bytes(frame)

    def _send(self, parts: AnswerFrame) -> None:
        transport = self.transport
        assert transport is not None
        if isinstance(parts, bytes):
            transport.write(parts)
        else:
            transport.writelines(parts)

    def _consume_own(self) -> None:
        own, end = self.own, self.own_end
        if own is None:
            return
        used = self._consume(own, memoryview(own)[:end], end)
        if self.closed:
            return
        if used == end:
            self._give_back()
            self._resume()
        elif used:
            rest = bytes(memoryview(own)[used:end])
            self._give_back()
            self._keep(memoryview(rest))
        elif self.blocked or self.write_paused:
            self._pause()

    def _keep(self, rest: memoryview) -> None:
        """Bytes that cannot be handled now: part of a frame, or frames behind a blocked one."""
        count = len(rest)
        size_bytes = max(self._wanted_bytes(rest), count)
        own = _pool.pop() if size_bytes == _POOLED_BYTES and _pool else bytearray(size_bytes)
        own[:count] = rest
        self.own, self.own_end = own, count
        if self.blocked or self.write_paused:
            self._pause()

    def _wanted_bytes(self, start: memoryview) -> int:
        """How large a buffer to begin with; memory that is not touched costs nothing."""
        if len(start) < 4:
            return _GROWTH_BYTES_MIN
        size_bytes: int = _FRAME_SIZE(start, 0)[0] + 4
        if size_bytes <= _GROWTH_BYTES_MIN:
            return max(size_bytes, 4)
        return _POOLED_BYTES

    def _give_back(self) -> None:
        """The frame is handled: the connection is as small again as an idle one."""
        own, self.own, self.own_end = self.own, None, 0
        if own is not None and len(own) == _POOLED_BYTES and len(_pool) < _POOL_MAX:
            _pool.append(own)

    def _grow(self) -> bytearray:
        own, end = self.own, self.own_end
        assert own is not None
        size_bytes = 2 * end
        if end >= 4:
            (frame_bytes,) = _FRAME_SIZE(own, 0)
            if 0 < frame_bytes <= self.listener.frame_bytes_max and frame_bytes + 4 > end:
                size_bytes = min(frame_bytes + 4, 4 * end)
        grown = bytearray(max(size_bytes, _GROWTH_BYTES_MIN))
        grown[:end] = own
        self.own = grown
        return grown

    # Answers

    def park(self, *, blocking: bool, on_lost: Callable[[], None] | None = None) -> Slot:
        """Keep a place in the order for an answer that comes later; `blocking` holds the next frames back.

        `on_lost` is called if the connection ends before the slot is filled.
        """
        slot = Slot(self, blocking, on_lost)
        self.queue.append(slot)
        if blocking:
            self.blocked = True
        return slot

    def slot_filled(self) -> None:
        """Send what is now complete from the queue's left, and go on with the frames that waited."""
        if self.closed:
            return
        queue = self.queue
        while queue and queue[0].filled:
            slot = queue.popleft()
            parts, slot.parts = slot.parts, None
            if type(parts) is bytes:  # the usual answer to a Produce request
                self.transport.write(parts)  # type: ignore[union-attr]
            elif parts is not None:
                self._send(parts)
        if self.blocked:
            self.blocked = bool(queue) and (
                (queue[-1].blocking and not queue[-1].filled) or len(queue) > _PARKED_AGAIN_MAX
            )
            self._go_on()

    def _go_on(self) -> None:
        if self.consuming or self.blocked or self.write_paused or self.closed:
            return
        if self.own is not None:
            self._consume_own()
        if not (self.blocked or self.write_paused):
            self._resume()

    def _pause(self) -> None:
        if not self.paused and self.transport is not None and not self.closed:
            self.paused = True
            self.transport.pause_reading()

    def _resume(self) -> None:
        if self.paused and self.transport is not None and not self.closed:
            self.paused = False
            self.transport.resume_reading()

    def hold(self) -> None:
        """Read no further for now."""
        self._pause()

    def close(self) -> None:
        """End the connection; what was already answered is still sent."""
        self.closed = True
        if self.transport is not None:
            self.transport.close()

    def abort(self) -> None:
        """End the connection at once; what the client has not taken yet is dropped."""
        self.closed = True
        if self.transport is not None:
            self.transport.abort()
