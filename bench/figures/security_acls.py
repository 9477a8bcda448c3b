"""A produce request of 100 bytes by a user who may write: without authorizer, with 1, 100 and 10,000 ACLs.

The user has logged in by PLAIN, without TLS. Of the ACLs one allows the user to write; the others are of
other users and of other topics, four a topic, every tenth for a prefix. So few concern the request, as on
most clusters, and what is measured is whether their number matters.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence

from bench import wire
from bench.client import Connection, RequestFailed
from bench.figures import Figure, Row, Start, Values
from bench.figures.security_requests import cpu_of_requests
from bench.load import closed_loop_tls
from bench.login import connector
from bench.secured import SecuredProcess, gathered, running

CONNECTIONS = 100
SECONDS = 3.0
WARM_UP_S = 5.0
COUNTS = (1, 100, 10_000)
TOPIC = "team-1-orders"
LISTENER = "SASL_PLAINTEXT"
ACLS_A_REQUEST = 500
CREATE_ACLS = 30
_TOPIC, _LITERAL, _PREFIXED, _READ, _WRITE, _ALLOW = 2, 3, 4, 3, 4, 3


def measure(start: Start) -> Values:
    """CPU microseconds a request without authorizer, and by number of ACLs."""
    return gathered({"without authorizer": lambda: _without(start), "with ACLs": lambda: _with(start)})


def _without(start: Start) -> Values:
    with running(start, LISTENER, "MUTUAL", authorizer=False) as broker:
        _make_topic(broker)
        return {"cpu_us_none": _request_us(broker, WARM_UP_S)}


def _with(start: Start) -> Values:
    values: dict[str, float] = {}
    with running(start, LISTENER, "MUTUAL") as broker:
        _make_topic(broker)
        there = 0
        for count in COUNTS:
            _add(broker, [_acl(number) for number in range(there, count)])
            there = count
            _wait_until_allowed(broker)
            values[f"cpu_us_{count}"] = _request_us(broker, 1.0 if values else WARM_UP_S)
    return values


def _request_us(broker: SecuredProcess, warm_up_s: float) -> float:
    port, connect = broker.ports[LISTENER], connector(broker.security.login(LISTENER, "alice"))
    request = wire.produce(TOPIC, wire.batch([bytes(100)]))
    closed_loop_tls(port, TOPIC, request, CONNECTIONS, warm_up_s, connect)
    used, load = cpu_of_requests(broker, port, TOPIC, request, CONNECTIONS, SECONDS, connect)
    return used.total_s / load.requests * 1e6


def _make_topic(broker: SecuredProcess) -> None:
    with _admin(broker) as connection:
        connection.create_topic(TOPIC)


def _admin(broker: SecuredProcess) -> Connection:
    return Connection(broker.ports[LISTENER], connect=connector(broker.security.login(LISTENER, "admin")))


def _acl(number: int) -> bytes:
    """The ACL of this number as CreateAcls 1 has it; 0 lets alice write."""
    if number == 0:
        name, pattern, user, operation = TOPIC, _LITERAL, "alice", _WRITE
    else:
        user, operation = f"user-{number % 997}", (_READ, _WRITE)[number % 2]
        prefixed = number % 10 == 0
        pattern = _PREFIXED if prefixed else _LITERAL
        name = f"team-{number}-" if prefixed else f"team-{number // 4}-orders"
    head = struct.pack(">b", _TOPIC) + wire.string(name) + struct.pack(">b", pattern)
    return head + wire.string(f"User:{user}") + wire.string("*") + struct.pack(">bb", operation, _ALLOW)


def _add(broker: SecuredProcess, acls: Sequence[bytes]) -> None:
    with _admin(broker) as connection:
        for at in range(0, len(acls), ACLS_A_REQUEST):
            some = acls[at : at + ACLS_A_REQUEST]
            request = wire.frame(CREATE_ACLS, 1, struct.pack(">i", len(some)) + b"".join(some))
            answer = bytes(connection.call(request))
            (count,) = struct.unpack_from(">i", answer, 12)
            position = 16
            for _ in range(count):
                error, length = struct.unpack_from(">hh", answer, position)
                position += 4 + max(0, length)
                if error:
                    raise RequestFailed(f"CreateAcls: error {error}")


def _wait_until_allowed(broker: SecuredProcess) -> None:
    """Until the broker knows that alice may write: it may answer CreateAcls before that."""
    connect = connector(broker.security.login(LISTENER, "alice"))
    deadline = time.monotonic() + 30
    while True:
        with Connection(broker.ports[LISTENER], connect=connect) as connection:
            try:
                connection.produce(TOPIC, wire.batch([bytes(100)]))
                return
            except RequestFailed:
                if time.monotonic() > deadline:
                    raise
        time.sleep(0.05)


FIGURE = Figure(
    "security-acls",
    "ACLs: one 100-byte produce request (acks=1, 100 connections, login by PLAIN)",
    measure,
    (
        Row("cpu_us_none", "broker CPU a request, no authorizer", "µs"),
        Row("cpu_us_1", "1 ACL", "µs"),
        Row("cpu_us_100", "100 ACLs", "µs"),
        Row("cpu_us_10000", "10,000 ACLs", "µs"),
    ),
    "The user's own ACL and those of others, four a topic, every tenth for a prefix.",
)
