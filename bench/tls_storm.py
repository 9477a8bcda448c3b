"""Opens many TLS connections at once, and tells when each has its first answer.

    python -m bench.tls_storm PORT CA COUNT     a line "ready", then waits for a line on stdin

All connections are opened in one turn; each does its handshake and asks for ApiVersions. One that the broker
closes, or whose handshake fails, counts as failed and is not tried again. Prints JSON: seconds until the
last was answered, and in milliseconds when half and 99 % were.
"""

from __future__ import annotations

import json
import os
import resource
import select
import socket
import ssl
import struct
import sys
import time
from pathlib import Path

from bench import wire
from bench.login import tls_context
from moldau.testing.security import Login

API_VERSIONS = 18
GIVE_UP_S = 60.0
_REQUEST = wire.frame(API_VERSIONS, 0, b"")


class Opening:
    """One connection on its way: connects, shakes hands, asks, and reads one answer."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        self._context = context
        self._plain = socket.socket()
        self._plain.setblocking(False)
        self._plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._plain.connect_ex(("127.0.0.1", port))
        self.descriptor = self._plain.fileno()
        self._tls: ssl.SSLSocket | None = None  # once connected, with the same descriptor
        self._asked = False
        self._answer = b""

    def step(self) -> int:
        """Go on; what to wait for next (EPOLLIN or EPOLLOUT), 0 once answered. OSError when it has failed."""
        if self._tls is None:
            if error := self._plain.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                raise OSError(error, os.strerror(error))
            self._tls = self._context.wrap_socket(
                self._plain, server_hostname="localhost", do_handshake_on_connect=False
            )
        try:
            if not self._asked:
                self._tls.do_handshake()
                self._tls.send(_REQUEST)
                self._asked = True
            while len(self._answer) < 4 or len(self._answer) < 4 + struct.unpack(">i", self._answer[:4])[0]:
                piece = self._tls.recv(65536)
                if not piece:
                    raise ConnectionError("closed")
                self._answer += piece
        except ssl.SSLWantReadError:
            return select.EPOLLIN
        except ssl.SSLWantWriteError:
            return select.EPOLLOUT
        return 0

    def close(self) -> None:
        (self._tls or self._plain).close()


def storm(port: int, context: ssl.SSLContext, count: int) -> dict[str, float]:
    """Open `count` connections; all stay open until the last is answered."""
    poller = select.epoll()
    began = time.monotonic()
    waiting = {}
    for _ in range(count):
        one = Opening(port, context)
        waiting[one.descriptor] = one
        poller.register(one.descriptor, select.EPOLLOUT)
    kept, took_ms, failed = list(waiting.values()), [], 0
    while waiting and time.monotonic() < began + GIVE_UP_S:
        for descriptor, _ in poller.poll(1.0):
            try:
                wanted = waiting[descriptor].step()
            except OSError:
                wanted, failed = -1, failed + 1
            if wanted > 0:
                poller.modify(descriptor, wanted)
                continue
            if wanted == 0:
                took_ms.append((time.monotonic() - began) * 1e3)
            poller.unregister(descriptor)
            del waiting[descriptor]
    for one in kept:
        one.close()
    took_ms.sort()
    if not took_ms:
        raise RuntimeError("no connection was served")
    return {
        "all_s": took_ms[-1] / 1e3,
        "p50_ms": took_ms[len(took_ms) // 2],
        "p99_ms": took_ms[int(len(took_ms) * 0.99)],
        "failed": failed + len(waiting),
    }


if __name__ == "__main__":
    of_port, of_authority, of_count = sys.argv[1:]
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    prepared = tls_context(Login("SSL", Path(of_authority)))
    print("ready", flush=True)
    sys.stdin.readline()
    print(json.dumps(storm(int(of_port), prepared, int(of_count))), flush=True)
