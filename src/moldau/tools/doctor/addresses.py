"""The first checks: the addresses that the client was given, and those that the brokers advertise.

A client connects to a bootstrap address once, to learn the brokers' own addresses; then it uses those alone.
So half of "it connects and then hangs" is an advertised address that means nothing where the client runs.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from moldau.tools.doctor.findings import Report, Stopwatch
from moldau.tools.doctor.handshake import Reached, Trouble, lacking, reach, resolve
from moldau.tools.doctor.transport import Transport

_SLOW_LOOKUP_MS = 1000.0
_SLOW_CONNECT_MS = 1000.0

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Advertised:
    """A broker as Metadata names it."""

    node_id: int
    host: str
    port: int


def check_bootstrap(
    report: Report, addresses: Sequence[Address], transport: Transport, timeout_seconds: float
) -> list[Reached]:
    """Try each bootstrap address; one that works is enough for a client, so the others are warnings."""
    reached: list[Reached] = []
    troubles: list[tuple[str, Trouble]] = []
    for host, port in addresses:
        try:
            _look_up(report, host, port)
            found = reach(host, port, transport, timeout_seconds)
        except Trouble as trouble:
            troubles.append((f"{host}:{port}", trouble))
            continue
        _describe(report, f"{host}:{port}", found, transport)
        reached.append(found)
    for named, each in troubles:
        if reached:
            message = f"bootstrap address {named}: {each.message}"
            report.warn(each.step, message, f"clients use the others; {each.remedy}")
        else:
            report.fail(each.step, each.message, each.remedy)
    clusters = {found.cluster_id for found in reached if found.cluster_id}
    if len(clusters) > 1:
        report.fail(
            "cluster",
            f"the bootstrap addresses belong to different clusters: {', '.join(sorted(clusters))}",
            "name brokers of one cluster only: a client would use either, by chance",
        )
    return reached


def _look_up(report: Report, host: str, port: int) -> None:
    if _is_literal(host):
        return
    found, took_ms = resolve(host, port)
    addresses = ", ".join(dict.fromkeys(str(each[4][0]) for each in found))
    if took_ms > _SLOW_LOOKUP_MS:
        report.warn(
            "name",
            f"{host} is {addresses}; the look-up took {took_ms:.0f} ms",
            "clients repeat it at each connection: look at this machine's DNS servers",
        )
    else:
        report.ok("name", f"{host} is {addresses} ({took_ms:.1f} ms)")


def _is_literal(host: str) -> bool:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def _describe(report: Report, named: str, found: Reached, transport: Transport) -> None:
    if found.unreachable:
        report.warn(
            "connection",
            f"{named}: {', '.join(found.unreachable)} does not accept connections, {found.address} does",
            "each connection tries the first one first: let the broker listen at both addresses, or set "
            "-X broker.address.family=v4 (or v6)",
        )
    elif found.connect_ms > _SLOW_CONNECT_MS:
        report.warn(
            "connection",
            f"{named} took {found.connect_ms:.0f} ms to accept",
            "a lossy network or an overloaded machine: every new connection pays it",
        )
    else:
        report.ok("connection", f"{named} accepts connections ({found.connect_ms:.1f} ms)")
    if found.tls is not None:
        checked = "certificate and name valid" if transport.names_checked else "name not checked"
        report.ok("TLS", f"{named} speaks {found.tls}, {checked}")
    if found.mechanisms:
        report.ok("SASL", f"{named} offers {', '.join(found.mechanisms)}")
    if found.user:
        report.ok("login", f"{found.user} is logged in by {transport.mechanism}")
    missing = lacking(found.apis)
    if missing:
        report.fail(
            "versions",
            f"{named} does not serve {', '.join(missing)} on this listener",
            "it is a controller's or a proxy's port: use a broker's client listener",
        )
    else:
        report.ok("versions", f"{named} serves {len(found.apis)} APIs (answered in {found.answer_ms:.1f} ms)")


def check_advertised(
    report: Report,
    brokers: Iterable[Advertised],
    bootstrap: Sequence[Address],
    cluster_id: str | None,
    transport: Transport,
    timeout_seconds: float,
) -> list[Advertised]:
    """Connect to each broker's advertised address. Returns the brokers that were reached."""
    brokers = list(brokers)
    reached: list[Advertised] = []
    for broker in brokers:
        named = f"{broker.host}:{broker.port}"
        watch = Stopwatch()
        try:
            found = reach(broker.host, broker.port, transport, timeout_seconds)
        except Trouble as trouble:
            report.fail(
                "advertised address",
                f"broker {broker.node_id} advertises {named}: {trouble.message}",
                _advice(broker, bootstrap, trouble),
            )
            continue
        if cluster_id and found.cluster_id and found.cluster_id != cluster_id:
            report.fail(
                "advertised address",
                f"broker {broker.node_id} advertises {named}, where a broker of another cluster answers "
                f"({found.cluster_id}, and not {cluster_id})",
                "two clusters advertise the same address: correct advertised.listeners of one",
            )
            continue
        reached.append(broker)
        report.ok("advertised address", f"broker {broker.node_id} at {named} ({watch})")
    _check_duplicates(report, brokers)
    return reached


def _advice(broker: Advertised, bootstrap: Sequence[Address], trouble: Trouble) -> str:
    """What to do about an advertised address: the usual mistakes first."""
    local = broker.host in ("localhost", "0.0.0.0", "::", "::1") or broker.host.startswith("127.")
    remote = [
        host for host, _ in bootstrap if host not in ("localhost", "::1") and not host.startswith("127.")
    ]
    if local and remote:
        return (
            f"{broker.host} means this machine, not the broker's: set advertised.listeners of broker "
            f"{broker.node_id} to an address that clients reach, such as {remote[0]}:{broker.port}"
        )
    if trouble.step == "name":
        return (
            f"the name is known on the broker's side only (a container's or a machine's own name): set "
            f"advertised.listeners of broker {broker.node_id} to a name or address that clients can resolve"
        )
    return (
        f"clients use this address and no other: set advertised.listeners of broker {broker.node_id} to one "
        f"that is reached from here, or start it; {trouble.remedy}"
    )


def _check_duplicates(report: Report, brokers: Sequence[Advertised]) -> None:
    holders: dict[Address, list[int]] = {}
    for broker in brokers:
        holders.setdefault((broker.host, broker.port), []).append(broker.node_id)
    for (host, port), ids in holders.items():
        if len(ids) > 1:
            report.fail(
                "advertised address",
                f"brokers {', '.join(map(str, ids))} all advertise {host}:{port}",
                "each needs an address of its own (behind a load balancer: a port each)",
            )
