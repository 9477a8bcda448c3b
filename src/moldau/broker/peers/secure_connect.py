"""Connecting over TLS: the context from the settings of this moment, made on a worker; and why it failed."""

import ssl

from moldau.broker.peers.connection import PeerConnection
from moldau.broker.peers.host import PeerHost
from moldau.common.credentials.client.contexts import context_of
from moldau.common.credentials.client.options import ClientSecurity


async def connect_by_tls(
    host: PeerHost, endpoint: tuple[str, int], security: ClientSecurity, connection: PeerConnection
) -> None:
    """Connect, and give the connection its transport once the handshake is over. OSError,
    CredentialsError."""
    context = await host.loop.run_in_executor(host.workers, context_of, security)
    try:
        await host.network.connect(*endpoint, lambda: connection, context)
    except ssl.SSLCertVerificationError as error:
        raise ConnectionError(f"its certificate is refused: {error.verify_message}") from None
    except ssl.SSLError as error:
        raise ConnectionError(f"no TLS handshake: {_words(error)}") from None
    except ConnectionResetError:
        raise ConnectionError("it closed the connection during the TLS handshake") from None
    except TimeoutError:
        raise ConnectionError("the TLS handshake was not answered") from None


def _words(error: ssl.SSLError) -> str:
    reason = error.reason or ""
    if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"):
        return "its listener does not speak TLS"
    if "CERTIFICATE_REQUIRED" in reason:
        return "it wants a certificate of this broker (ssl.keystore.*)"
    return reason.replace("_", " ").lower() or str(error)
