"""One client connection: cuts bytes into frames, dispatches them, sends responses in the order of the
requests.

    bytes -> [ shared receive buffer ] -> whole frames -> dispatch -> bytes, or a `Slot` that is filled later

A request is a function call. Only a response that must wait gets a `Slot` in the connection's queue: for the
write of this turn (Produce), a long poll, a join. While a slot *blocks* (anything but Produce), the
connection's next frames are not handled, as in Kafka; bytes that come meanwhile are kept, and reading stops.

Memory is bounded: an idle connection has no receive buffer, the buffer of a partial frame grows with the
bytes received (frame_buffer.py), and a client that does not read its responses gets no more. More than
`SMALL_BYTES` in either direction counts towards a limit over all connections (request_memory.py,
response_memory.py); a connection that waits for memory is not read from. Nor is one whose appends wait for
followers, beyond its share (commit_backlog.py).

Invariant: slots leave the queue from the left, and only once filled, so responses cannot overtake one
another. Not here: what a frame means (dispatch.py), who the client is (parts/session.py).

Hot: `buffer_updated`, `_consume` and `slot_filled`. Budget, with all that a request passes but the socket: 7
reference loops for Produce, 27 for a Fetch of one record (bench/hot_path.py).
"""

import asyncio
import logging
import socket
import struct
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias, cast

from moldau.broker.handlers.parts.exchange import AnswerFrame, Shortcut, Slot
from moldau.broker.handlers.parts.session import Session
from moldau.broker.server.frame_buffer import FrameBuffer, shared_view, size_for
from moldau.broker.server.holds import (
    ALL,
    AWAITED,
    BLOCKED,
    CLOSED,
    FOLLOWERS,
    GRANTED,
    HANDLING,
    IGNORED,
    LOST,
    MUTED,
    RESPONSES,
    TURN,
    UNCOUNTED,
    UNREAD,
)
from moldau.broker.server.interfaces import REPEATED, FrameDispatcher, Keeper, Parts, PeerError
from moldau.broker.server.request_memory import SMALL_BYTES
from moldau.broker.server.turns import TURN_SECONDS
from moldau.common.core.timers import TimerHandle

if TYPE_CHECKING:
    from moldau.broker.server.login_frames import LoginFrames

log = logging.getLogger("moldau.server")

_FRAME_SIZE = struct.Struct(">i").unpack_from
_UNCHANGED = ALL ^ (RESPONSES | FOLLOWERS)  # what a filled slot does not end
_LIFE_BYTES = 1024  # a read of less, which completes no frame, does not count as life
_PARKED_MAX = (
    256  # answers of one connection that wait for this turn's write, before its next frames wait too
)
_PARKED_AGAIN_MAX = _PARKED_MAX // 2  # then the next frames go on, a good many at a time


class _ParkedAnswer(Slot):
    """A finished response behind an unfinished one; its bytes count as unsent."""

    __slots__ = ("size_bytes",)

    def __init__(self, exchange: "Connection", parts: AnswerFrame) -> None:
        super().__init__(exchange)
        self.filled = True
        self.parts = [parts] if isinstance(parts, bytes) else parts
        self.size_bytes = sum(map(len, self.parts))


class Connection(asyncio.BufferedProtocol):
    """The broker's end of one client's TCP connection."""

    __slots__ = (
        "bulk",
        "dispatcher",
        "frame_bytes_max",
        "handled_bytes",
        "held",
        "idle_tick",
        "listener",
        "login_frames",
        "memory",
        "mute_timers",
        "own",
        "parked_bytes",
        "paused",
        "queue",
        "session",
        "shortcut",
        "transport",
        "waiting_bytes",
    )

    def __init__(self, listener: "Keeper[Connection]", dispatcher: "FrameDispatcher[Connection]") -> None:
        self.listener = listener
        self.dispatcher = dispatcher
        self.frame_bytes_max = listener.frame_bytes_max
        self.session = Session(listener.name, listener.security_protocol)
        self.transport: asyncio.Transport | None = None
        self.queue: deque[Slot] = deque()
        self.held = 0  # why the next frame is not handled (holds.py)
        self.paused = False  # reading is off
        self.own: FrameBuffer | None = None  # of a frame that has not come whole, or waits
        self.bulk = False  # it has sent a large frame
        self.memory = UNCOUNTED  # whether its frame is counted, and has its memory (holds.py)
        self.login_frames: LoginFrames | None = None  # counts its frames instead until it has logged in
        self.handled_bytes = 0  # of a large request that is being handled
        self.parked_bytes = 0  # of answers that are there and wait behind one that is not
        self.waiting_bytes = 0  # of large requests whose appends wait for followers
        self.idle_tick = listener.tick
        self.mute_timers: tuple[TimerHandle, ...] = ()
        self.shortcut: Shortcut | None = None

    @property
    def closed(self) -> bool:
        """Whether it was closed from here, or by its client."""
        return self.held >= CLOSED

    # The transport's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass of it
        peer, local = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
        unknown = ("", 0)
        self.session.accepted(
            peer[:2] if peer else unknown, local[:2] if local else unknown, self.listener.accepted_count
        )
        transport.set_write_buffer_limits(high=SMALL_BYTES)
        sock = transport.get_extra_info("socket")
        if sock is not None:
            # As Kafka: the system finds out that a client's machine is gone, also while a long poll waits.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if not self.listener.admit(self):
            self.ignore_input()
            if self not in self.listener.delayed:
                self.close()
            return
        self.dispatcher = self.dispatcher.connected(self)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.waiting_bytes:
            self.end_waiting(self.waiting_bytes, replicated=False)
        self.held |= CLOSED | LOST
        if self.mute_timers:
            self.unmute()
        self._give_back()
        if self.session.closers is not None:
            self.session.closed()
        self.parked_bytes = 0
        self.listener.responses.count(self, 0)
        self.listener.forget(self)
        queue, self.queue = self.queue, deque()
        goes_on = False  # a request whose handler cannot be called off keeps its memory until it is done
        for slot in queue:
            if slot.on_lost is not None and not slot.filled:
                slot.on_lost()
            else:
                goes_on = goes_on or (slot.blocking and not slot.filled)
        if not goes_on:
            self.end_handling()

    def get_buffer(self, sizehint: int) -> memoryview:
        own = self.own
        if own is None:
            return shared_view
        if own.end == own.limit:  # the transport reads although it was paused
            own.enlarge(self._wanted_bytes(own))
        return own.space()

    def buffer_updated(self, nbytes: int) -> None:
        own = self.own
        if own is None:
            self.idle_tick = self.listener.tick
            used = self._consume(shared_view, nbytes)
            if used < nbytes and self.held < CLOSED:
                self._keep(shared_view[used:nbytes])
        else:
            if nbytes >= _LIFE_BYTES:
                self.idle_tick = self.listener.tick
            own.end += nbytes
            if own.is_mapped:
                # Large frames of many connections are read one after the other: nobody waits for them all.
                self._pause()
                self.listener.turns.line_up(self._read_on)
            self._consume_own()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self.held |= UNREAD
        self._count_unsent()

    def resume_writing(self) -> None:
        self.held &= ALL ^ UNREAD
        self._count_unsent()
        self._go_on()

    # Frames

    def _consume(self, view: memoryview, end: int) -> int:
        """Handle the whole frames in `view[:end]`; the count of bytes used up."""
        if self.held:
            return 0
        position = 0
        ends_seconds = 0.0
        queue = self.queue
        dispatcher = self.dispatcher
        self.held = HANDLING  # a response given at once must not start a second round inside this one
        try:
            while end - position >= 4 and self.held == HANDLING:
                (size_bytes,) = _FRAME_SIZE(view, position)
                if not 0 < size_bytes <= self.frame_bytes_max and (
                    size_bytes or not dispatcher.takes_empty_frames
                ):
                    dispatcher.other_protocol(self, bytes(view[position : min(end, position + 64)]))
                    position = end
                    break
                after = position + 4 + size_bytes
                if after > end:
                    break
                parts = dispatcher.request(self, view, position, after)
                if parts is not REPEATED:
                    self._answer(parts, after - position - 4)
                    if after < end:  # more came with it
                        now_seconds = self.listener.turns.now_seconds()
                        if not ends_seconds:
                            ends_seconds = now_seconds + TURN_SECONDS
                        elif now_seconds >= ends_seconds and self.held == HANDLING:
                            self.held |= TURN
                            self.listener.turns.line_up(self._take_turn)
                position = after
                if len(queue) >= _PARKED_MAX:
                    self.held |= RESPONSES
        except PeerError as error:
            position = end
            self.refuse(error)
        except Exception:
            # Whoever answers this connection (a turn's write) goes on with the others.
            log.exception("a request of %s failed: this is a bug", self.session.client_host)
            position = end
            self.close()
        finally:
            self.held ^= HANDLING
        return position

    def _take_turn(self) -> None:
        self.held &= ALL ^ TURN
        if self.held < CLOSED:
            self._unblock()

    def _answer(self, parts: Parts | None, request_bytes: int) -> None:
        """The answer to a request goes out now, or waits behind earlier ones."""
        if parts is None:
            queue = self.queue
            if request_bytes > SMALL_BYTES and queue and queue[-1].blocking and not queue[-1].filled:
                self.handled_bytes = request_bytes
                self.listener.requests.begin_handling(request_bytes)
        elif self.queue:
            slot = _ParkedAnswer(self, parts)
            self.queue.append(slot)
            self.parked_bytes += slot.size_bytes
            if self.parked_bytes > SMALL_BYTES:
                self.held |= RESPONSES
                self._count_unsent()
        else:
            self._send(parts)

    def refuse(self, error: PeerError) -> None:
        """The client broke the protocol: log it, and close the connection."""
        if self.held < CLOSED:
            self.listener.peer_failed(self, error.kind, str(error))
            self.close()

    def _send(self, parts: AnswerFrame) -> None:
        transport = self.transport
        assert transport is not None
        if isinstance(parts, bytes):
            transport.write(parts)
        else:
            transport.writelines(parts)

    def _consume_own(self) -> None:
        own = self.own
        if own is None:
            return
        end = own.end
        used = self._consume(own.filled(), end)
        if self.held >= CLOSED:
            return
        if used:
            self.idle_tick = self.listener.tick
        if used == end:
            self._give_back()
            self._resume()
        elif used:
            rest = bytes(own.filled()[used:])
            self._give_back()
            self._keep(memoryview(rest))
        elif 0 < own.frame_bytes <= end:
            self._pause()  # a whole frame, which waits behind a blocked one or behind answers not taken
        elif end == own.limit and self.memory != AWAITED:
            self._grow(own)

    def _read_on(self) -> None:
        own = self.own
        if own is not None and own.end < own.limit:
            self._resume()

    # The buffer of a frame that has not come whole

    @property
    def received_bytes(self) -> int:
        """Bytes of partial or waiting frames held by this connection."""
        return 0 if self.own is None else self.own.end

    def _keep(self, rest: memoryview) -> None:
        """Keep bytes that cannot be handled now: part of a frame, or frames behind a blocking slot."""
        if self.held & IGNORED:
            if self.transport is not None and self.transport.is_reading():
                self.transport.pause_reading()  # uvloop reads after connection_made, whatever that has paused
            return
        count = len(rest)
        held_back = self.held != 0
        size_bytes = count
        if not held_back:
            size_bytes = size_for(rest, count, self.frame_bytes_max, self.bulk)
        if self.login_frames is not None:
            self.login_frames.hold(self, size_bytes)
            if self.held >= CLOSED:
                return
        elif size_bytes > SMALL_BYTES:
            self.memory = GRANTED
            if held_back or not self.listener.requests.ask(self, size_bytes):
                self.listener.requests.keep(self, count)
                if not held_back:
                    self.memory = AWAITED
                size_bytes = count
        self.own = FrameBuffer(rest, size_bytes)
        if held_back or self.memory == AWAITED:
            self._pause()

    def _wanted_bytes(self, own: FrameBuffer) -> int:
        return size_for(own.data, own.end, self.frame_bytes_max, self.bulk)

    def _grow(self, own: FrameBuffer) -> None:
        size_bytes = self._wanted_bytes(own)
        if self.login_frames is not None:
            self.login_frames.hold(self, size_bytes)
            if self.held >= CLOSED:
                return
        elif size_bytes > SMALL_BYTES:
            self.memory = GRANTED
            if not self.listener.requests.ask(self, size_bytes):
                self.memory = AWAITED
                self._pause()
                return
        own.enlarge(size_bytes)

    def memory_granted(self, size_bytes: int) -> None:
        """The memory that was waited for is granted: read on."""
        if self.memory == AWAITED:
            self.memory = GRANTED
        if self.own is not None:
            self.own.enlarge(size_bytes)
            self._go_on()

    def _give_back(self) -> None:
        """The frame is handled: release its buffer."""
        own, self.own = self.own, None
        if own is not None and own.limit > SMALL_BYTES:
            self.bulk = True
            own.release()
        if self.login_frames is not None:
            self.login_frames.give_back(self)
        if self.memory:
            self.memory = UNCOUNTED
            self.listener.requests.give_back(self)

    def end_handling(self) -> None:
        """The large request that was being handled is answered or given up: its bytes are free."""
        size_bytes, self.handled_bytes = self.handled_bytes, 0
        if size_bytes:
            self.listener.requests.end_handling(size_bytes)

    # Answers

    def park(self, *, blocking: bool, on_lost: Callable[[], None] | None = None) -> Slot:
        """Keep a place in the order for a later response; `blocking` holds the next frames back.

        `on_lost` is called if the connection ends before the slot is filled.
        """
        slot = Slot(self, blocking, on_lost)
        self.queue.append(slot)
        if blocking:
            self.held |= RESPONSES
        return slot

    def begin_waiting(self, size_bytes: int) -> None:
        """A request has appended so much, and waits for followers: no further frames beyond the share."""
        if self.held & LOST:
            return
        backlog = self.listener.backlog
        backlog.begin(size_bytes, is_first=not self.waiting_bytes)
        self.waiting_bytes += size_bytes
        if self.waiting_bytes > backlog.share_bytes:
            self.held |= FOLLOWERS

    def end_waiting(self, size_bytes: int, *, replicated: bool) -> None:
        """The request waits no more; its slot is filled next, and that has the next frames handled."""
        if self.held & LOST:
            return  # all of them were given up at once
        self.waiting_bytes -= size_bytes
        self.listener.backlog.end(size_bytes, is_last=not self.waiting_bytes, replicated=replicated)

    def mute(self, duration_ms: float) -> None:
        """Handle no further requests for so long; answers still leave (KIP-219). Of several, the longest
        counts."""
        if self.held >= CLOSED:
            return
        self.session.mutes += 1
        self.held |= MUTED
        self.listener.muted[self] = None
        self.mute_timers += (self.listener.timers.call_later(duration_ms, self._mute_over),)

    def _mute_over(self) -> None:
        self.session.mutes -= 1
        if not self.session.mutes:
            self.unmute()

    def unmute(self) -> None:
        """Handle requests again at once: the quota is gone, or the time is over."""
        timers, self.mute_timers = self.mute_timers, ()
        for timer in timers:
            timer.cancel()
        self.session.mutes = 0
        self.held &= ALL ^ MUTED
        self.listener.muted.pop(self, None)
        if timers and self.held < CLOSED:
            self._unblock()

    def slot_filled(self) -> None:
        """Send what is now complete from the queue's left, and go on with the frames that waited."""
        if self.held >= CLOSED:
            self.end_handling()
            return
        queue = self.queue
        while queue and queue[0].filled:
            slot = queue.popleft()
            parts, slot.parts = slot.parts, None
            if type(parts) is bytes:  # the usual answer to a Produce request
                self.transport.write(parts)  # type: ignore[union-attr]
            elif parts is not None:
                self._send(parts)
                if slot.__class__ is _ParkedAnswer:
                    self.parked_bytes -= slot.size_bytes
        if self.held and self.held & BLOCKED:
            self._unblock()

    def _unblock(self) -> None:
        """A slot was filled: whether the next frames may be handled now."""
        queue = self.queue
        if queue and queue[-1].blocking and queue[-1].filled:
            last = queue[-1]
            if last.parts is not None:
                queue[-1] = parked = _ParkedAnswer(self, last.parts)
                self.parked_bytes += parked.size_bytes
        parked_much = self.parked_bytes > SMALL_BYTES
        waits = bool(queue) and (
            (queue[-1].blocking and not queue[-1].filled) or len(queue) > _PARKED_AGAIN_MAX or parked_much
        )
        held = self.held & _UNCHANGED
        if waits:
            held |= RESPONSES
        if self.waiting_bytes and self.waiting_bytes > self.listener.backlog.share_bytes:
            held |= FOLLOWERS
        self.held = held
        if not (waits or held & TURN):
            self.end_handling()  # other connections go on, and what they do may come back to this one
        self._count_unsent()
        self._go_on()

    def unsent_bytes(self) -> int:
        """Bytes of unsent responses that count towards the limit (a small rest does not)."""
        size_bytes = self.parked_bytes if self.parked_bytes > SMALL_BYTES else 0
        if self.held & UNREAD and self.transport is not None:
            size_bytes += self.transport.get_write_buffer_size()
        return size_bytes

    def _count_unsent(self) -> None:
        if self.held < CLOSED:
            self.listener.responses.count(self, self.unsent_bytes())

    def _go_on(self) -> None:
        if self.held:
            return
        if self.own is not None:
            self._consume_own()
        if not self.held:
            self._resume()

    def _pause(self) -> None:
        if not self.paused and self.transport is not None and self.held < CLOSED:
            self.paused = True
            self.transport.pause_reading()

    def _resume(self) -> None:
        if self.paused and self.transport is not None and self.held < IGNORED and self.memory != AWAITED:
            self.paused = False
            self.transport.resume_reading()

    def ignore_input(self) -> None:
        """Read no further, and forget what has come; answers still leave. The connection is to be closed
        later."""
        self.held |= IGNORED
        if not self.held & HANDLING:
            self._give_back()
        self._pause()

    def hold(self) -> None:
        """Read no further for now."""
        self._pause()

    def close(self) -> None:
        """End the connection; what was already answered is still sent."""
        self.held |= CLOSED
        if self.transport is not None:
            self.transport.close()

    def held_too_long(self, sentence: str) -> None:
        """Close the connection because of the memory that it holds, which counts as free from now on."""
        if self.held < CLOSED:
            self.held |= CLOSED
            self.listener.held_too_long(self, sentence)
        self._give_back()
        # Not at once: the transport may be in the middle of a write that brought this about.
        self.listener.timers.call_later(0, self.abort)

    def abort(self) -> None:
        """End the connection at once; unsent responses are dropped."""
        self.held |= CLOSED
        if self.transport is not None:
            self.transport.abort()


Dispatcher: TypeAlias = FrameDispatcher[Connection]
"""Handles the frames of connections."""
