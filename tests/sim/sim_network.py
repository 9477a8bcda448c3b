"""TCP without sockets: named hosts, connections with a seeded pace, and everything that happens to
connections.

    transport A                                    transport B
    write -> [ unsent ] -> segments of any size, in flight -> [ unread ] -> protocol
               ^ grows beyond its limit: pause_writing          ^ reading paused: the window closes

Bytes arrive whole, once and in order, or not at all, cut into segments anywhere. A window bounds what is in
flight and unread, so that a reader that stops reading is felt by the writer. Faults:

    kill of a process       what its kernel took arrives, then the end; what it still held is lost
    vanish (no power)       what is in flight is lost; peers learn it a while later, by a reset
    reset                   both ends lose the connection, with all that is in flight
    separate / join         bytes between two hosts wait, in both directions or one; connections are not made
    half_open               one end is gone, and the other learns it only when it sends

A transport behaves as uvloop's: it calls a BufferedProtocol or a Protocol, never from within its own `write`
except for `pause_writing`, and never after `connection_lost`.
"""

from __future__ import annotations

import asyncio
import errno
import random
import zlib
from collections import deque
from collections.abc import Callable
from typing import Any

from sim_loop import VirtualLoop
from sim_process import Process

WINDOW_BYTES = 128 * 1024
CONNECT_TIMEOUT_SECONDS = 3.0
RESENT_AFTER_SECONDS = 0.02
Endpoint = tuple[str, int]


class Network:
    """All hosts and what is between them."""

    def __init__(self, loop: VirtualLoop, source: random.Random) -> None:
        self.loop = loop
        self.random = source
        self.latency_seconds_max = 0.002
        self.slow_hosts: dict[str, float] = {}
        """Hosts whose links take up to so many seconds more."""
        self.segment_bytes_max = 64 * 1024
        self.wake_up_seconds_max = 0.0
        """How long a task whose connection was made may take to go on, while the connection is in use."""
        self._addresses: dict[Endpoint, TakenAddress] = {}
        self._transports: list[SimulatedTransport] = []
        self._apart: set[tuple[str, str]] = set()
        self._next_port = 40_000

    # What a host offers to its process

    def take(self, process: Process, host: str, port: int, *, waits: bool) -> TakenAddress:
        """An address for the process. OSError when it is taken. `waits`: connections wait for `serve`."""
        key = (host or process.host, port or self._any_port())
        if key in self._addresses:
            raise OSError(errno.EADDRINUSE, "address already in use")
        address = self._addresses[key] = TakenAddress(self, process, key, waits)
        process.on_kill.append(address.close)
        return address

    async def connect(
        self, process: Process, host: str, port: int, make_protocol: Callable[[], asyncio.BaseProtocol]
    ) -> tuple[SimulatedTransport, asyncio.BaseProtocol]:
        """Connect the process. ConnectionRefusedError when nobody serves there, TimeoutError behind a cut."""
        deadline = self.loop.time() + CONNECT_TIMEOUT_SECONDS
        await asyncio.sleep(self.latency_seconds())
        while True:
            address = self._addresses.get((host, port))
            apart = self.are_apart(process.host, host) or self.are_apart(host, process.host)
            if not apart and (address is None or not (address.waits or address.make_protocol)):
                raise ConnectionRefusedError(errno.ECONNREFUSED, f"nobody serves {host}:{port}")
            if not apart and address is not None and address.make_protocol is not None:
                break
            if self.loop.time() > deadline:
                raise TimeoutError(errno.ETIMEDOUT, f"no connection to {host}:{port}")
            await asyncio.sleep(0.05)
        here = SimulatedTransport(self, process, (process.host, self._any_port()), address.key)
        there = SimulatedTransport(self, address.process, address.key, here.address)
        here.peer, there.peer = there, here
        self._transports = [each for each in self._transports if not each.ended]
        self._transports += (here, there)
        self.loop.call_soon(there.begin, address.make_protocol, context=address.process.context())
        here.begin(make_protocol)
        assert here.protocol is not None
        if self.wake_up_seconds_max:
            try:
                await asyncio.sleep(self.wake_up_seconds_max * self.random.random())
            except asyncio.CancelledError:
                here.abort()  # as an event loop does with the connection of an attempt that is cancelled
                raise
        return here, here.protocol

    def give_back(self, address: TakenAddress) -> None:
        """The address is free again."""
        if self._addresses.get(address.key) is address:
            del self._addresses[address.key]

    def _any_port(self) -> int:
        self._next_port += 1
        return self._next_port

    # Faults

    def process_killed(self, process: Process) -> None:
        """Its kernel ends its connections."""
        for transport in self._of(process):
            transport.end_by_kernel()

    def vanish(self, process: Process) -> None:
        """Its machine is without power: nothing more comes from it."""
        for transport in self._of(process):
            transport.vanish()

    def reset(self, share: float = 1.0) -> int:
        """Reset this share of all connections, drawn from the seed; how many."""
        pairs = [each for each in self._transports if not each.ended and each.address < each.peer.address]
        chosen = [each for each in pairs if self.random.random() < share]
        for transport in chosen:
            transport.peer.reset_arrives()
            transport.reset_arrives()
        return len(chosen)

    def reset_between(self, one: str, other: str) -> None:
        """Reset all connections of two hosts."""
        for transport in list(self._transports):
            if not transport.ended and (transport.address[0], transport.peer.address[0]) == (one, other):
                transport.peer.reset_arrives()
                transport.reset_arrives()

    def half_open(self, share: float) -> int:
        """Of this share of all connections one end, drawn from the seed, is forgotten; how many."""
        pairs = [each for each in self._transports if not each.ended and each.address < each.peer.address]
        chosen = [each for each in pairs if self.random.random() < share]
        for transport in chosen:
            one = transport if self.random.random() < 0.5 else transport.peer
            one.forget()
        return len(chosen)

    def separate(self, one: str, other: str, *, one_way: bool = False) -> None:
        """From now on nothing passes between the two hosts; `one_way`: from the first to the second."""
        self._apart.add((one, other))
        if not one_way:
            self._apart.add((other, one))

    def join(self, one: str, other: str) -> None:
        """What waited goes on."""
        self._apart -= {(one, other), (other, one)}

    def join_all(self) -> None:
        """All hosts reach each other."""
        self._apart.clear()

    def are_apart(self, one: str, other: str) -> bool:
        return (one, other) in self._apart

    def latency_seconds(self) -> float:
        """Of one segment: usually short, now and then the longest."""
        return self.latency_seconds_max * self.random.random() ** 3

    def _of(self, process: Process) -> list[SimulatedTransport]:
        return [each for each in self._transports if each.process is process and not each.ended]


class TakenAddress:
    """A listening address of a process, as `moldau.common.core.network.Address`."""

    def __init__(self, network: Network, process: Process, key: Endpoint, waits: bool) -> None:
        self.network, self.process, self.key, self.waits = network, process, key, waits
        self.host, self.port = key
        self.make_protocol: Callable[[], asyncio.BaseProtocol] | None = None
        self.held: Callable[[], asyncio.BaseProtocol] | None = None  # while it accepts nothing

    async def serve(self, make_protocol: Callable[[], asyncio.BaseProtocol]) -> None:
        self.make_protocol = make_protocol

    def wait(self) -> None:
        if self.make_protocol is not None:
            self.held, self.make_protocol, self.waits = self.make_protocol, None, True

    def go_on(self) -> None:
        if self.held is not None:
            self.make_protocol, self.held = self.held, None

    def close(self) -> None:
        self.make_protocol, self.held, self.waits = None, None, False
        self.network.give_back(self)


class ProcessNetwork:
    """The network as one process sees it, as `moldau.common.core.network.Network`."""

    def __init__(self, network: Network, process: Process) -> None:
        self._network, self._process = network, process

    async def bind(self, host: str, port: int, backlog: int) -> TakenAddress:
        return self._network.take(self._process, host, port, waits=False)

    def listen(self, host: str, port: int, backlog: int) -> TakenAddress:
        return self._network.take(self._process, host, port, waits=True)

    async def connect(
        self, host: str, port: int, make_protocol: Callable[[], Any], tls: object = None
    ) -> tuple[SimulatedTransport, Any]:
        assert tls is None, "there is no TLS in the simulation"
        return await self._network.connect(self._process, host, port, make_protocol)

    def name(self) -> str:
        return self._process.host


class SimulatedTransport(asyncio.Transport):
    """One end of a connection."""

    peer: SimulatedTransport

    def __init__(self, network: Network, process: Process, address: Endpoint, peer_address: Endpoint) -> None:
        super().__init__()
        self.network, self.process = network, process
        self.address, self.peer_address = address, peer_address
        self.protocol: asyncio.BaseProtocol | None = None
        self.ended = False  # nothing more is called
        self._loop = network.loop
        self._unsent = bytearray()
        self._unread = bytearray()
        self._wire: deque[tuple[Callable[..., None], tuple[object, ...]]] = deque()
        self._in_flight_bytes = 0  # towards this end
        self._last_arrival = 0.0  # at the other end
        self._high_bytes, self._low_bytes = 64 * 1024, 16 * 1024
        self._writing_paused = False
        self._reading = True
        self._read_scheduled = False
        self._closing = False
        self._end_comes = False  # the peer has sent all
        self._reset = False

    def begin(self, factory: Callable[[], asyncio.BaseProtocol]) -> None:
        """Connected."""
        self.protocol = factory()
        self.protocol.connection_made(self)

    # What a protocol calls

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": self.peer_address, "sockname": self.address}.get(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self.protocol is not None
        return self.protocol

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high_bytes = 64 * 1024 if high is None else high
        self._low_bytes = self._high_bytes // 4 if low is None else low

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low_bytes, self._high_bytes

    def get_write_buffer_size(self) -> int:
        return len(self._unsent)

    def is_closing(self) -> bool:
        return self._closing

    def is_reading(self) -> bool:
        return self._reading

    def can_write_eof(self) -> bool:
        return False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.process.must_live()
        if self._closing or self.ended:
            return
        if self._reset:
            self._soon(self._lose)
            return
        self._unsent += data
        self._send()
        if len(self._unsent) > self._high_bytes and not self._writing_paused:
            self._writing_paused = True
            self._protocol_call("pause_writing")

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        if self._closing or self._reading:
            return
        self._reading = True
        if self._reset:
            self._soon(self._lose)
        else:
            self._read_soon()

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._reading = False
            if not self._unsent:
                self._soon(self._finish, None)

    def abort(self) -> None:
        if not self.ended:
            self._closing = True
            self._unsent.clear()
            self._to_peer(self.peer.reset_arrives)
            self._soon(self._finish, None)

    # Sending

    def _send(self) -> None:
        """Bring into flight what the window takes, in segments of any size."""
        while self._unsent and not self.ended:
            room = WINDOW_BYTES - self.peer._in_flight_bytes - len(self.peer._unread)
            if room <= 0:
                break
            size = min(len(self._unsent), room, self.network.segment_bytes_max)
            if size > 1 and self.network.random.random() < 0.2:
                size = self.network.random.randint(1, size)
            segment = bytes(self._unsent[:size])
            del self._unsent[:size]
            self.peer._in_flight_bytes += size
            self._to_peer(self.peer._arrive, segment)
        if self._writing_paused and len(self._unsent) <= self._low_bytes and not self.ended:
            self._writing_paused = False
            self._soon(self._protocol_call, "resume_writing")
        if self._closing and not self._unsent and not self.ended:
            self._soon(self._finish, None)

    def _to_peer(self, arrives: Callable[..., None], *args: object) -> None:
        """In order, after a while; never while the hosts are apart."""
        network, latency = self.network, self.network.latency_seconds()
        if network.slow_hosts:
            for host in (self.process.host, self.peer.process.host):
                latency += network.slow_hosts.get(host, 0.0) * network.random.random()
        self._last_arrival = max(self._last_arrival, self._loop.time() + latency)
        self._wire.append((arrives, args))
        self._loop.call_at(self._last_arrival, self._carry, context=self.peer.process.context())

    def _carry(self) -> None:
        """The oldest of what is on its way arrives; while the hosts are apart it is sent again."""
        if self.network.are_apart(self.process.host, self.peer.process.host):
            self._loop.call_later(RESENT_AFTER_SECONDS, self._carry)
        elif self._wire:
            arrives, args = self._wire.popleft()
            arrives(*args)

    # Receiving

    def _arrive(self, segment: bytes) -> None:
        self._in_flight_bytes -= len(segment)
        if self.ended:
            self.peer.reset_arrives()
            return
        if not self._reset:
            self._unread += segment
            self._read_soon()

    def _read_soon(self) -> None:
        if not self._read_scheduled and self._reading:
            self._read_scheduled = True
            self._soon(self._read)

    def _read(self) -> None:
        """As much as the protocol takes at once; once a turn of the loop."""
        self._read_scheduled = False
        if self.ended or not self._reading or self._closing:
            return
        protocol = self.protocol
        unread = self._unread
        if unread:
            try:
                if isinstance(protocol, asyncio.BufferedProtocol):
                    buffer = memoryview(protocol.get_buffer(-1))
                    size = min(len(buffer), len(unread))
                    buffer[:size] = unread[:size]
                    self._note(unread[:size])
                    del unread[:size]
                    protocol.buffer_updated(size)
                else:
                    data = bytes(unread)
                    unread.clear()
                    self._note(data)
                    protocol.data_received(data)  # type: ignore[union-attr]
            except Exception as error:
                self._loop.call_exception_handler({"message": "a protocol failed", "exception": error})
                self.abort()
                return
            self._loop.call_later(
                self.network.latency_seconds(), self.peer._send, context=self.peer.process.context()
            )
        if self._unread:
            self._read_soon()
        elif self._end_comes and not self._closing and not self.ended:
            keep_open = protocol.eof_received()  # type: ignore[union-attr]
            if not keep_open:
                self.close()

    def _note(self, data: bytes | bytearray) -> None:
        self._loop.trace.add(
            self._loop.time(),
            str(self.process),
            f"reads {len(data)} bytes {zlib.crc32(data):08x} from {self.peer_address[0]}",
        )

    # Ends

    def _end_arrives(self) -> None:
        self._end_comes = True
        self._read_soon()

    def reset_arrives(self) -> None:
        """The connection is no more; a process that does not read learns it when it does, or writes."""
        if self.ended or self._reset:
            return
        self._reset = True
        self._unread.clear()
        self._unsent.clear()
        if self._reading or self._closing:
            self._soon(self._lose)

    def _lose(self) -> None:
        self._finish(ConnectionResetError(errno.ECONNRESET, "connection reset by peer"))

    def _finish(self, error: Exception | None) -> None:
        if self.ended:
            return
        self._tell_peer()
        self.ended = True
        if self.protocol is not None:
            self.protocol.connection_lost(error)

    def _tell_peer(self) -> None:
        """As a kernel does: bytes that nobody read make the end a reset."""
        if self._unread:
            self._to_peer(self.peer.reset_arrives)
        elif not self._reset:
            self._to_peer(self.peer._end_arrives)

    def end_by_kernel(self) -> None:
        """The process was killed."""
        self._tell_peer()
        self.ended = True

    def forget(self) -> None:
        """This end is gone, and the other is told nothing until it sends."""
        if not self.ended:
            self._reset = True
            self._unread.clear()
            self._unsent.clear()
            self._wire.clear()
            self._soon(self._lose)

    def vanish(self) -> None:
        """The machine is gone, without a word."""
        self.ended = True
        self._wire.clear()
        self._loop.call_later(
            self.network.random.random() * 2, self.peer.reset_arrives, context=self.peer.process.context()
        )

    def _soon(self, call: Callable[..., None], *args: object) -> None:
        self._loop.call_soon(call, *args, context=self.process.context())

    def _protocol_call(self, name: str) -> None:
        if not self.ended:
            getattr(self.protocol, name)()
