"""A listener without TLS closes the connection of a client that begins a handshake: the client says so."""

from __future__ import annotations

import socket
import struct
import threading

import pytest

from moldau.client.connection import Connection, ConnectionLost
from moldau.client.options import ClientOptions
from moldau.common.credentials.client.options import client_security


@pytest.mark.parametrize("abruptly", [False, True], ids=["closed", "reset"])
def test_a_connection_closed_in_the_handshake_hints_at_no_tls(abruptly: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def close() -> None:
            accepted = server.accept()[0]
            accepted.recv(1)
            if abruptly:
                accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            else:
                accepted.recv(65536)  # all of the hello: else the end would be a reset, too
            accepted.close()

        closing = threading.Thread(target=close)
        closing.start()
        options = ClientOptions(security=client_security({"security.protocol": "SSL"}))
        try:
            with pytest.raises(ConnectionLost, match=r"no TLS connection to .*: it closes the connection"):
                Connection("127.0.0.1", server.getsockname()[1], options)
        finally:
            closing.join(60)
