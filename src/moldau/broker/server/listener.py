"""One listener: accepts and counts connections, closes idle ones, logs misbehaving clients once.

It holds the limits (frame size, connections in all and per host, idle time) for its connections. Idle time is
counted in ticks of the sweeper, so that a request does not read the clock.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from moldau.broker.server.commit_backlog import CommitBacklog
from moldau.broker.server.connection import Connection, Dispatcher
from moldau.broker.server.login_counts import LoginCounts
from moldau.broker.server.other_protocols import recognise
from moldau.broker.server.request_memory import RequestMemory
from moldau.broker.server.response_memory import ResponseMemory
from moldau.broker.server.turns import Turns
from moldau.common.core.clock import Clock
from moldau.common.core.logs import SayOnce
from moldau.common.core.network import BoundAddress, Network
from moldau.common.core.timers import TimerHandle, Timers

if TYPE_CHECKING:
    from moldau.broker.security.quotas.connection_rates import ConnectionRates
    from moldau.broker.server.accept_limits import AcceptLimits
    from moldau.broker.server.listener_tls import ListenerTls
    from moldau.broker.server.login_frames import LoginFrames
    from moldau.common.credentials.tls.handshakes import Handshakes

log = logging.getLogger("moldau.server")

_SWEEPS_PER_IDLE_TIME = 10
_DELAYED_MAX = 1_000  # connections over their address's quota that are kept; more are closed at once


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a listener."""

    frame_bytes_max: int
    connections_per_host_max: int
    idle_ms: int
    handshake_ms: int = 30_000
    host_overrides: Mapping[str, int] = field(default_factory=dict)
    """Exceptions from `connections_per_host_max`, by address."""


class Listener:
    """A named address on which clients connect."""

    def __init__(
        self,
        name: str,
        security_protocol: str,
        limits: Limits,
        *,
        clock: Clock,
        timers: Timers,
        http_address: Callable[[], str | None],
        requests: RequestMemory,
        responses: ResponseMemory,
        backlog: CommitBacklog,
        turns: Turns,
        login_frames: "LoginFrames | None" = None,
        tls: "ListenerTls | None" = None,
        handshakes: "Handshakes | None" = None,
    ) -> None:
        """`requests`, `responses`, `backlog`, `turns`, `login_frames` and `handshakes` are those of the
        broker, shared by its listeners; `tls` is there where the protocol is SSL or SASL_SSL."""
        self.name = name
        self.security_protocol = security_protocol
        self.host = ""
        self.port = 0
        self.frame_bytes_max = limits.frame_bytes_max
        self.tick = 0
        self.connections: dict[Connection, None] = {}  # in the order in which they came
        self.connection_rates: ConnectionRates | None = None  # None: no address has a quota of connections
        self.delayed: dict[Connection, TimerHandle] = {}  # over that quota: closed after a while
        self.muted: dict[Connection, None] = {}  # those that wait for their quota
        self.accepted_count = 0
        self.refused_count = 0
        self.limits = limits
        self.accept_limits: AcceptLimits | None = None
        self._accepts_not: set[str] = set()  # why nothing is accepted
        self._per_host: dict[str, int] = {}
        self.requests = requests
        self.responses = responses
        self.backlog = backlog
        self.turns = turns
        self.login_frames = login_frames
        self.timers = timers
        self.tls = tls
        self.handshake_failures = 0
        self.logins = LoginCounts()
        self._handshakes = handshakes
        self._clock = clock
        self._http_address = http_address
        self._address: BoundAddress | None = None
        self._sweep_timer: TimerHandle | None = None
        self._say = SayOnce(log, now_ms=clock.monotonic_ms)

    async def bind(self, network: Network, host: str, port: int, backlog: int) -> None:
        """Take the address, not accepting yet; OSError when it is taken or not ours. Port 0: any."""
        self._address = await network.bind(host, port, backlog)
        self.host, self.port = host, self._address.port

    async def serve(self, dispatcher: Dispatcher) -> None:
        """Accept clients from now on."""
        assert self._address is not None
        if self.tls is None:
            await self._address.serve(lambda: Connection(self, dispatcher))
        else:
            from moldau.broker.server.handshake_watcher import HandshakeWatcher
            from moldau.common.credentials.tls.stream import TlsStream

            assert self._handshakes is not None
            tls, handshakes = self.tls, self._handshakes
            named = tls if self.security_protocol == "SSL" else None
            watcher = HandshakeWatcher(named, self._clock, self.handshake_failed, self._not_tls)
            await self._address.serve(
                lambda: TlsStream(
                    Connection(self, dispatcher),
                    tls.context,
                    handshakes=handshakes,
                    timers=self.timers,
                    timeout_ms=self.limits.handshake_ms,
                    watcher=watcher,
                )
            )
        self._schedule_sweep()

    def hold(self) -> None:
        """Take no new requests, so that those under way can be answered before the end."""
        for connection in self.connections:
            connection.hold()

    async def close(self) -> None:
        """Stop listening and end every connection."""
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        if self._address is not None:
            self._address.close()
        for connection in [*self.connections, *self.delayed]:
            connection.close()
        if self._address is not None:
            await asyncio.sleep(0)  # lets the transports report their end

    # What a connection asks

    def admit(self, connection: Connection) -> bool:
        """Whether there is room for one more; counts it if so."""
        host = connection.session.client_host
        count = self._per_host.get(host, 0)
        if self.accept_limits is not None and self.accept_limits.is_over(self.name):
            self._refuse(host, "max.connections")
            return False
        host_max = self.limits.host_overrides.get(host, self.limits.connections_per_host_max)
        if count >= host_max:
            self._refuse(host, f"max.connections.per.ip={host_max}")
            return False
        if self.connection_rates is not None:
            delay_ms = self.connection_rates.delay_ms(host)
            if delay_ms:
                self.refused_count += 1
                if len(self.delayed) < _DELAYED_MAX:
                    self.delayed[connection] = self.timers.call_later(delay_ms, connection.close)
                return False
        self.connections[connection] = None
        self._per_host[host] = count + 1
        self.accepted_count += 1
        if self.accept_limits is not None:
            self.accept_limits.admitted(self.name)
        return True

    def _refuse(self, host: str, limit: str) -> None:
        self.refused_count += 1
        self._say.warning((host, limit), "a connection from %s is refused: %s is reached", host, limit)

    # What limits on all listeners ask

    @property
    def connection_count(self) -> int:
        """How many connections there are."""
        return len(self.connections)

    def accept_nothing(self, reason: str) -> None:
        """Accept nothing until this reason, and all others, are over."""
        if not self._accepts_not and self._address is not None:
            self._address.wait()
            self._say.warning(
                ("accepts nothing", reason),
                "the listener %s accepts no connections for now: its limit (%s) is reached",
                self.name,
                "max.connections" if reason == "count" else "max.connection.creation.rate",
            )
        self._accepts_not.add(reason)

    def accept_again(self, reason: str) -> None:
        """This reason is over."""
        if reason in self._accepts_not:
            self._accepts_not.discard(reason)
            if not self._accepts_not and self._address is not None:
                self._address.go_on()

    def close_idlest(self) -> bool:
        """Close the connection that has been idle the longest; whether there was one."""
        idle = [each for each in self.connections if not each.closed]
        if not idle:
            return False
        min(idle, key=lambda each: each.idle_tick).close()
        return True

    def forget(self, connection: Connection) -> None:
        """The connection is gone."""
        delayed = self.delayed.pop(connection, None)
        if delayed is not None:
            delayed.cancel()
        if connection not in self.connections:
            return
        del self.connections[connection]
        host = connection.session.client_host
        left = self._per_host.get(host, 1) - 1
        if left:
            self._per_host[host] = left
        else:
            self._per_host.pop(host, None)
        if self.accept_limits is not None:
            self.accept_limits.forgotten()

    def peer_failed(self, connection: Connection, kind: str, sentence: str) -> None:
        """Log once for each host and kind of failure that a client broke the protocol."""
        host = connection.session.client_host
        self._say.warning((host, kind), "closed the connection of %s: it sent %s", host, sentence)

    def handshake_failed(self, connection: Connection, kind: str, sentence: str) -> None:
        """Log once for each host and kind of failure that a client is not let in by TLS."""
        self.handshake_failures += 1
        host = connection.session.client_host
        self._say.warning((host, "tls", kind), "a TLS client from %s on %s: %s", host, self.name, sentence)

    def _not_tls(self, connection: Connection, first_bytes: bytes) -> bytes:
        """A client that speaks no TLS where it is asked for: an answer in its protocol, if it allows any."""
        self.handshake_failures += 1
        return self.recognised(connection, first_bytes)

    def login_failed(self, connection: Connection, reason: str) -> None:
        """Log once for each host and reason that a login failed."""
        host = connection.session.client_host
        self._say.warning((host, reason), "a login from %s on %s failed: %s", host, self.name, reason)

    def held_too_long(self, connection: Connection, sentence: str) -> None:
        """Log that a connection is closed because of the memory it holds."""
        host = connection.session.client_host
        self._say.warning(
            (host, "memory"),
            "closed the connection of %s:%d: %s",
            host,
            connection.session.client_port,
            sentence,
        )

    def other_protocol(self, connection: Connection, first_bytes: bytes) -> None:
        """Answer a client of another protocol as well as that allows, then close."""
        answer = self.recognised(connection, first_bytes)
        if answer and connection.transport is not None:
            connection.transport.write(answer)
        connection.close()

    def recognised(self, connection: Connection, first_bytes: bytes) -> bytes:
        """Log which other protocol the client speaks; an answer in it, if it allows any."""
        seen = recognise(
            first_bytes,
            listener=f"{self.host}:{self.port}",
            http_address=self._http_address(),
            tls=self.tls is not None,
        )
        host = connection.session.client_host
        self._say.warning((host, seen.kind), "closed the connection of %s: %s", host, seen.sentence)
        return seen.answer

    # Idle connections

    def _schedule_sweep(self) -> None:
        if self.limits.idle_ms > 0:
            self._sweep_timer = self.timers.call_later(
                self.limits.idle_ms / _SWEEPS_PER_IDLE_TIME, self._sweep
            )

    def _sweep(self) -> None:
        self.tick += 1
        oldest = self.tick - _SWEEPS_PER_IDLE_TIME
        for connection in [each for each in self.connections if each.idle_tick < oldest]:
            if connection.closed:
                connection.abort()  # it was closed a while ago, and still does not take what it was sent
            elif not connection.queue:
                connection.close()
        self._schedule_sweep()
