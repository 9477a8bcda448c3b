"""The end of a TLS handshake on a listener: its certificate names the client, or the log says what failed."""

from typing import TYPE_CHECKING, cast

from moldau.broker.server.connection import Connection
from moldau.common.core.clock import Clock
from moldau.common.credentials.principals import MappingError
from moldau.common.credentials.tls.failures import failure_of
from moldau.common.credentials.tls.stream import TlsStream

if TYPE_CHECKING:
    from moldau.broker.server.listener import Listener


class HandshakeWatcher:
    """Is told of the handshakes of one listener."""

    def __init__(self, listener: "Listener", clock: Clock) -> None:
        self._listener = listener
        self._clock = clock

    def secured(self, stream: TlsStream) -> None:
        """On an SSL listener the certificate names the client; on SASL_SSL the login does."""
        connection, tls = cast(Connection, stream.get_protocol()), self._listener.tls
        assert tls is not None
        assert stream.ssl_object is not None
        if self._listener.security_protocol != "SSL":
            return
        try:
            principal = tls.principal_of(stream.ssl_object)
        except MappingError as error:
            self._listener.handshake_failed(connection, "principal", str(error))
            connection.abort()
            return
        if principal is not None:
            connection.session.authenticate(principal, self._clock.now_ms())

    def failed(self, stream: TlsStream, error: Exception) -> None:
        """The handshake failed, took too long, or was given up by the client."""
        failure = failure_of(error)
        self._listener.handshake_failed(
            cast(Connection, stream.get_protocol()), failure.kind, failure.sentence
        )

    def foreign(self, stream: TlsStream, first_bytes: bytes) -> bytes:
        """The client speaks no TLS: an answer in its protocol, if there is one."""
        connection = cast(Connection, stream.get_protocol())
        self._listener.handshake_failures += 1
        return self._listener.recognised(connection, first_bytes)
