"""All listeners of a broker, and the limits over all of their connections.

take     binds every address, before anything is written: a port in use leaves no new folder behind
serve    accepts clients, once the broker can answer
hold     reads no new requests, so that those under way can be answered
close    closes every connection
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from moldau.broker.handlers.parts.broker import ResponseRoom
from moldau.broker.server.accept_limits import AcceptLimits
from moldau.broker.server.addresses import cannot_listen
from moldau.broker.server.commit_backlog import CommitBacklog
from moldau.broker.server.connection import Dispatcher
from moldau.broker.server.listener import Limits, Listener
from moldau.broker.server.login_frames import LoginFrames
from moldau.broker.server.request_memory import RequestMemory
from moldau.broker.server.response_memory import ResponseMemory
from moldau.broker.server.turns import Turns
from moldau.common.core.client_state import ClientState
from moldau.common.core.clock import Clock
from moldau.common.core.network import Network
from moldau.common.core.timers import Timers
from moldau.common.settings.broker import BrokerSettings
from moldau.common.settings.checks import counts_of
from moldau.common.settings.listeners import Listener as PlannedListener
from moldau.common.settings.listeners import inter_broker_listener

if TYPE_CHECKING:
    from moldau.broker.security.quotas.limits import ClientQuotas
    from moldau.broker.server.listener_tls import ListenerTls
    from moldau.broker.server.tls_renewals import TlsRenewals
    from moldau.common.credentials.tls.handshakes import Handshakes

    MakeTls = Callable[[str, str], ListenerTls]


class Listeners:
    """The listeners of one broker."""

    def __init__(
        self,
        settings: BrokerSettings,
        *,
        network: Network,
        clock: Clock,
        timers: Timers,
        seconds: Callable[[], float],
        response_room: ResponseRoom,
        http_address: Callable[[], str | None],
        client_state: ClientState,
        make_tls: "MakeTls | None" = None,
        make_handshakes: "Callable[[], Handshakes] | None" = None,
    ) -> None:
        """`http_address` is shown to browsers on a Kafka port. `make_tls` and `make_handshakes` are called if
        there are listeners with TLS."""
        self._settings = settings
        self._network = network
        self._clock = clock
        self._timers = timers
        self._http_address = http_address
        self._make_tls = make_tls
        self._make_handshakes = make_handshakes
        self._handshakes: Handshakes | None = None
        self._renewals: TlsRenewals | None = None
        self._accept_limits: AcceptLimits | None = None
        self.requests = RequestMemory(settings.queued_max_request_bytes, timers, clock)
        self.responses = ResponseMemory(
            settings.moldau_queued_max_response_bytes, response_room, timers, clock
        )
        self.backlog = CommitBacklog(clock.monotonic_ms)
        self._turns = Turns(timers, seconds)
        self._login_frames = LoginFrames(client_state.logins)
        self.all: list[Listener] = []
        """In the order of the settings."""
        self.also_renewed: list[ListenerTls] = []
        """The TLS of other ports, whose stores are renewed as the listeners' are."""

    async def bind(self, planned: Sequence[PlannedListener]) -> None:
        """Bind every address; connections are refused until `serve`. AddressError: one cannot be had."""
        for plan in planned:
            tls = await self._tls_of(plan)
            listener = Listener(
                plan.name,
                plan.protocol,
                _limits(self._settings),
                clock=self._clock,
                timers=self._timers,
                http_address=self._http_address,
                requests=self.requests,
                responses=self.responses,
                backlog=self.backlog,
                turns=self._turns,
                login_frames=self._login_frames,
                tls=tls,
                handshakes=self._handshakes,
            )
            try:
                await listener.bind(
                    self._network, plan.host, plan.port, self._settings.socket_listen_backlog_size
                )
            except OSError as error:
                raise cannot_listen(plan.host, plan.port, error) from None
            self.all.append(listener)

    async def _tls_of(self, plan: PlannedListener) -> "ListenerTls | None":
        """The stores of a listener with TLS, loaded. SettingError."""
        if plan.protocol not in ("SSL", "SASL_SSL"):
            return None
        assert self._make_tls is not None
        assert self._make_handshakes is not None
        tls = self._make_tls(plan.name, plan.protocol)
        await tls.load(self._settings)
        if self._handshakes is None:
            self._handshakes = self._make_handshakes()
        return tls

    async def serve(self, settings: BrokerSettings, dispatcher: Dispatcher) -> None:
        """Accept clients, whose frames go to `dispatcher`."""
        self._limit_accepting(settings)
        for listener in self.all:
            listener.limits = _limits(settings)
            listener.frame_bytes_max = settings.socket_request_max_bytes
            try:
                await listener.serve(dispatcher)
            except OSError as error:  # bound by both, and another program was the first to listen
                raise cannot_listen(listener.host, listener.port, error) from None
        secured = self._secured()
        if secured:
            from moldau.broker.server.tls_renewals import TlsRenewals

            self._renewals = TlsRenewals(secured, settings, self._timers)
            self._renewals.look()

    def _secured(self) -> "list[ListenerTls]":
        return [*(each.tls for each in self.all if each.tls is not None), *self.also_renewed]

    @property
    def have_tls(self) -> bool:
        """Whether any listener, or the HTTP port, has TLS."""
        return bool(self._secured())

    async def problem_with_stores(self, settings: BrokerSettings) -> str | None:
        """Why a listener could not use the key and trust stores of these settings; None: all can."""
        for tls in self._secured():
            problem = await tls.problem_with(settings)
            if problem is not None:
                return problem
        return None

    def quotas_changed(self, quotas: "ClientQuotas") -> None:
        """These quotas hold from now on. Who waits because of one that is another now goes on at once."""
        waiting = [(each, each.session.limits) for listener in self.all for each in listener.muted]
        for listener in self.all:
            listener.connection_rates = quotas.connections if quotas.connections.active else None
            for connection in listener.connections:
                connection.session.rights_changed()
        for connection, before in waiting:
            session = connection.session
            now = quotas.limits_of(session.principal, session.client_id) if quotas.active else None
            if now is None or before is None or now.values != before.values:
                connection.unmute()

    def change_limits(self, settings: BrokerSettings) -> None:
        """Other settings hold from now on. The largest frame is that of the start."""
        for listener in self.all:
            listener.limits = _limits(settings)
        self._limit_accepting(settings)
        if self._renewals is not None:
            self._renewals.settings_changed(settings)

    def _limit_accepting(self, settings: BrokerSettings) -> None:
        if self._accept_limits is None:
            between = inter_broker_listener(settings) or self.all[0].name
            self._accept_limits = AcceptLimits(self.all, between, self._clock, self._timers)
            for listener in self.all:
                listener.accept_limits = self._accept_limits
        self._accept_limits.set(settings)

    def rights_changed(self) -> None:
        """ACLs or quotas have changed: what was decided about any connection's client is decided again."""
        for listener in self.all:
            for connection in listener.connections:
                connection.session.rights_changed()

    def hold(self) -> None:
        """Take no new requests from any connection."""
        for listener in self.all:
            listener.hold()

    async def close(self) -> None:
        """Stop listening and end every connection; closing twice does nothing more."""
        for listener in self.all:
            await listener.close()
        if self._accept_limits is not None:
            self._accept_limits.stop()
        if self._renewals is not None:
            await self._renewals.stop()
        if self._handshakes is not None:
            self._handshakes.close()
        self.requests.stop()
        self.responses.stop()


def _limits(settings: BrokerSettings) -> Limits:
    return Limits(
        frame_bytes_max=settings.socket_request_max_bytes,
        connections_per_host_max=settings.max_connections_per_ip,
        idle_ms=settings.connections_max_idle_ms,
        handshake_ms=settings.moldau_ssl_handshake_timeout_ms,
        host_overrides=counts_of(settings.max_connections_per_ip_overrides),
    )
