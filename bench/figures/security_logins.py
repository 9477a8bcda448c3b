"""Logins a second by each SASL mechanism, and what one costs the broker.

A login is a new connection, SaslHandshake, SaslAuthenticate (PLAIN one, SCRAM two) and the connection's end.
Without TLS, whose handshakes are measured by security-connections. Eight threads log in side by side; SCRAM
with 4,096 iterations, which cost the client and not the broker.
"""

from __future__ import annotations

import threading
import time

from bench.figures import Figure, Row, Start, Values
from bench.login import connector
from bench.secured import SecuredProcess, gathered, running
from moldau.testing.security import PLAIN, SCRAM_256, SCRAM_512

THREADS = 8
SECONDS = 4.0
WARM_UP_S = 3.0
KEYS = {PLAIN: "plain", SCRAM_256: "scram256", SCRAM_512: "scram512"}
_LISTENER = "SASL_PLAINTEXT"


def measure(start: Start) -> Values:
    """Logins a second and CPU milliseconds a login for each mechanism."""
    with running(start, _LISTENER, "MUTUAL", authorizer=False) as broker:
        parts = {mechanism: lambda one=mechanism: _logins(broker, one) for mechanism in KEYS}
        return gathered(parts)


def _logins(broker: SecuredProcess, mechanism: str) -> Values:
    if mechanism != PLAIN:
        broker.security.add_scram_users(broker.admin_settings(), ["alice"])
    _repeat(broker, mechanism, WARM_UP_S)
    before, began = broker.cpu(), time.monotonic()
    count = _repeat(broker, mechanism, SECONDS)
    took_s, used = time.monotonic() - began, broker.cpu() - before
    key = KEYS[mechanism]
    return {f"{key}_per_s": count / took_s, f"{key}_cpu_ms": used.total_s / count * 1e3}


def _repeat(broker: SecuredProcess, mechanism: str, seconds: float) -> int:
    """Log in from all threads until the time is up; how often."""
    port, connect = broker.ports[_LISTENER], connector(broker.security.login(_LISTENER, "alice", mechanism))
    ends = time.monotonic() + seconds
    counts, failures = [0] * THREADS, []

    def work(number: int) -> None:
        try:
            while time.monotonic() < ends:
                connect(port, 30).close()
                counts[number] += 1
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    if failures:
        raise failures[0]
    return sum(counts)


FIGURE = Figure(
    "security-logins",
    "Logins (a new connection each, eight at a time)",
    measure,
    (
        Row("plain_per_s", "PLAIN", "1/s", 0),
        Row("plain_cpu_ms", "broker CPU a login", "ms", 2),
        Row("scram256_per_s", "SCRAM-SHA-256", "1/s", 0),
        Row("scram256_cpu_ms", "broker CPU a login", "ms", 2),
        Row("scram512_per_s", "SCRAM-SHA-512", "1/s", 0),
        Row("scram512_cpu_ms", "broker CPU a login", "ms", 2),
    ),
)
