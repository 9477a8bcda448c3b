"""The end of a TLS handshake on a listener: its certificate names the client, or the log says what failed."""

from collections.abc import Callable
from typing import cast

from moldau.broker.server.connection import Connection
from moldau.broker.server.listener_tls import ListenerTls
from moldau.common.core.clock import Clock
from moldau.common.credentials.principals import MappingError
from moldau.common.credentials.tls.failures import failure_of
from moldau.common.credentials.tls.stream import TlsStream


class HandshakeWatcher:
    """Is called at the end of each handshake of one listener."""

    def __init__(
        self,
        certificates: ListenerTls | None,
        clock: Clock,
        handshake_failed: Callable[[Connection, str, str], None],
        not_tls: Callable[[Connection, bytes], bytes],
    ) -> None:
        """`certificates` knows whom one names; None: the login will say who the client is (SASL_SSL)."""
        self._certificates = certificates
        self._clock = clock
        self._handshake_failed = handshake_failed
        self._not_tls = not_tls

    def secured(self, stream: TlsStream) -> None:
        """The client is connected."""
        if self._certificates is None:
            return
        connection = cast(Connection, stream.get_protocol())
        assert stream.ssl_object is not None
        try:
            principal = self._certificates.principal_of(stream.ssl_object)
        except MappingError as error:
            self._handshake_failed(connection, "principal", str(error))
            connection.abort()
            return
        if principal is not None:
            connection.session.authenticate(principal, self._clock.now_ms())

    def failed(self, stream: TlsStream, error: Exception) -> None:
        """The handshake failed, took too long, or was given up by the client."""
        failure = failure_of(error)
        self._handshake_failed(cast(Connection, stream.get_protocol()), failure.kind, failure.sentence)

    def foreign(self, stream: TlsStream, first_bytes: bytes) -> bytes:
        """The client speaks no TLS: an answer in its protocol, if there is one."""
        return self._not_tls(cast(Connection, stream.get_protocol()), first_bytes)
