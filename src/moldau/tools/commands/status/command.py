"""`moldau status`: the broker's health over HTTP, and the cluster's state over the Kafka protocol.

Exit code: 0 ok, 1 degraded, 2 failing or unreachable. For brokers without our HTTP port (Apache Kafka) health
is derived from the protocol: partitions without a leader, under-replicated partitions, hanging transactions.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moldau.tools.commands.status.compaction import show_compaction
from moldau.tools.commands.status.connectors import ask_connectors, show_connectors
from moldau.tools.commands.status.health_page import HealthRefused, ask_health, page_url
from moldau.tools.commands.status.members import count_share, members, show_members
from moldau.tools.shared.errors import CommandError, explain_kafka_failure
from moldau.tools.shared.options import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    ClientSettings,
    Json,
    Timeout,
    parse_assignments,
    teach,
)
from moldau.tools.shared.output import note, on_terminal, print_json
from moldau.tools.shared.own_health import own_http, serves

if TYPE_CHECKING:
    from moldau.tools.shared.connection import Connection

DEFAULT_HTTP = "127.0.0.1:9640"
WORDS = ("ok", "degraded", "failing")
PLACES_SHOWN = 5
STYLES = ("bold green", "bold yellow", "bold red")

HELP = """Show whether the broker and its cluster are healthy, and what is wrong.

Examples:

* moldau status
* moldau status -b broker:9092 --http broker:9640
* moldau status --http https://broker:9640 -X ssl.ca.location=authority.pem
* moldau status --connect http://127.0.0.1:8083        and which connectors have failed
* moldau status --json

The exit code is 0 for ok, 1 for degraded, 2 for failing or unreachable.
"""


@dataclass(slots=True)
class Cluster:
    """A cluster according to its metadata."""

    cluster_id: str = ""
    controller: int | None = None
    brokers: list[dict[str, Any]] = field(default_factory=list)
    topics: int = 0
    partitions: int = 0
    under_replicated: list[str] = field(default_factory=list)
    offline: list[str] = field(default_factory=list)
    leaders: Counter[int] = field(default_factory=Counter)
    replicas: Counter[int] = field(default_factory=Counter)
    groups: int | None = None
    open_transactions: int | None = None
    hanging: list[str] = field(default_factory=list)

    @property
    def severity(self) -> int:
        """Return 0 ok, 1 degraded, 2 failing."""
        return 2 if self.offline else 1 if self.under_replicated or self.hanging else 0


def register(root: typer.Typer) -> None:
    """Add the command to the application."""
    root.command("status", help=teach(HELP))(status)


def status(
    http: Annotated[
        str,
        typer.Option(
            "--http",
            envvar="MOLDAU_HTTP",
            metavar="HOST:PORT",
            help="The broker's HTTP port (by default its moldau.http.listener, if it tells, else "
            f"{DEFAULT_HTTP}); https://HOST:PORT where it has TLS. "
            "Its login is taken from MOLDAU_HTTP_LOGIN (NAME:PASSWORD, or a token).",
        ),
    ] = "",
    connect: Annotated[
        str,
        typer.Option(
            "--connect",
            envvar="MOLDAU_CONNECT",
            metavar="URL",
            help="A Connect worker, for which connectors have failed; asked only if it is named.",
        ),
    ] = "",
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    client_settings: ClientSettings = None,
    timeout: Timeout = 5.0,
) -> None:
    """Show whether the broker and its cluster are healthy (see HELP)."""
    from confluent_kafka import KafkaException

    from moldau.client.errors import ClientError
    from moldau.tools.shared.connection import Connection

    settings = parse_assignments(client_settings, "-X")
    cluster: Cluster | None = None
    try:
        connection = Connection(bootstrap, client_settings, timeout)
        http = http or own_http(connection) or DEFAULT_HTTP
        health = _health(http, settings)
        cluster = load_cluster(connection)
        health = same_clusters_health(health, cluster, http)
        load_transactions(cluster, connection, search=health is None)
    except (CommandError, ClientError, KafkaException) as problem:
        failure = explain_kafka_failure(problem) or problem
        # A broker in recovery answers over HTTP long before it serves clients: its own words come first.
        health = that_brokers_health(_health(http or DEFAULT_HTTP, settings), bootstrap, http)
        if health is None:
            raise CommandError(str(failure), exit_code=2) from None
        cluster = None
        note(f"moldau: {failure}")
    severity = max(
        cluster.severity if cluster is not None else 2,
        WORDS.index(health["verdict"]) if health is not None and health.get("verdict") in WORDS else 0,
    )
    connectors = ask_connectors(connect) if connect else None
    severity = max(severity, connectors.severity if connectors is not None else 0)
    if as_json:
        found = {"status": WORDS[severity], "health": health, "cluster": _as_json(cluster, health)}
        print_json(found | ({"connect": connectors._asdict()} if connectors is not None else {}))
    else:
        _show(severity, health, http, cluster)
        if connectors is not None:
            show_connectors(connectors)
    raise typer.Exit(severity)


def _health(http: str, settings: dict[str, str]) -> dict[str, Any] | None:
    try:
        return ask_health(http, settings)
    except HealthRefused as refusal:
        note(f"moldau: {refusal}")
        return None


def that_brokers_health(health: dict[str, Any] | None, bootstrap: str, http: str) -> dict[str, Any] | None:
    """Leave out the page at the usual port if it is that of another broker, which listens elsewhere."""
    from moldau.tools.shared.connection import parse_address

    if health is None or http:
        return health
    addresses = [parse_address(each) for each in bootstrap.split(",") if each.strip()]
    if serves(health, addresses):
        return health
    note(
        f"moldau: left out what {page_url(DEFAULT_HTTP)} says: its broker does not listen at {bootstrap}; "
        "name a broker's HTTP port with --http"
    )
    return None


def same_clusters_health(health: dict[str, Any] | None, cluster: Cluster, http: str) -> dict[str, Any] | None:
    """Leave out what another cluster's broker says: the HTTP port is this machine's unless it is named."""
    theirs = health.get("cluster_id") if health is not None else None
    if not theirs or theirs == cluster.cluster_id:
        return health
    note(
        f"moldau: left out what {page_url(http)} says: its broker is of cluster {theirs}, and not of "
        f"{cluster.cluster_id}; name a broker's HTTP port with --http"
    )
    return None


def load_cluster(connection: Connection) -> Cluster:
    """Read the cluster's metadata."""
    from moldau.tools.commands.groups.description import list_groups

    layout = connection.layout()
    cluster = Cluster(
        cluster_id=layout.cluster_id,
        controller=layout.controller_id if layout.controller_id >= 0 else None,
        brokers=[
            {
                "id": each.broker_id,
                "address": f"{each.host}:{each.port}",
                "rack": each.rack,
                "controller": each.broker_id == layout.controller_id,
            }
            for each in layout.brokers.values()
        ],
        topics=len(layout.topics),
        partitions=len(layout.partitions),
    )
    for (name, index), partition in layout.partitions.items():
        count_share(cluster, partition)
        if partition.leader < 0:
            cluster.offline.append(f"{name}-{index}")
        elif len(partition.in_sync) < len(partition.replicas):
            cluster.under_replicated.append(f"{name}-{index}")
    cluster.groups = len(list_groups(layout.cluster))
    return cluster


def load_transactions(cluster: Cluster, connection: Connection, *, search: bool) -> None:
    """Count the open transactions, and `search` for hanging ones if no health document lists them.

    Refused requests (old broker, TLS, no permission) are left out; they are no verdict on health.
    """
    from moldau.client.admin.transactions import list_transactions
    from moldau.client.errors import ClientError
    from moldau.tools.commands.transactions.hanging import LONGEST_TIMEOUT_MS, choose_places, find_hanging

    try:
        layout = connection.layout()
        cluster.open_transactions = len(list_transactions(layout, states=["Ongoing"]))
        if search:
            places = choose_places(layout, None, None, None)
            found = find_hanging(layout, places, LONGEST_TIMEOUT_MS, time.time_ns() // 1_000_000)
            cluster.hanging = [f"{each.place[0]}-{each.place[1]}" for each in found]
    except (CommandError, ClientError, OSError):
        return


def _as_json(cluster: Cluster | None, health: dict[str, Any] | None) -> dict[str, Any] | None:
    if cluster is None:
        return None
    return {
        "cluster_id": cluster.cluster_id,
        "controller": cluster.controller,
        "brokers": members(cluster, health),
        "topics": cluster.topics,
        "partitions": cluster.partitions,
        "under_replicated_partitions": sorted(cluster.under_replicated),
        "offline_partitions": sorted(cluster.offline),
        "groups": cluster.groups,
        "open_transactions": cluster.open_transactions,
        "hanging_transactions": sorted(cluster.hanging),
    }


def _show(severity: int, health: dict[str, Any] | None, http: str, cluster: Cluster | None) -> None:
    _headline(f"status: {WORDS[severity]}", STYLES[severity])
    if health is None:
        note(
            f"no health page at {page_url(http)} (name it with --http): "
            "status from the cluster's metadata alone"
        )
    elif "version" in health:
        state = f"{health.get('state')}, up {round(health.get('uptime_seconds', 0)):,} s"
        print(f"broker {health.get('node_id')}: Moldau {health['version']}, {state}")
    for cause in (health or {}).get("causes", ()):
        print(f"  {cause.get('name')}: {cause.get('message')}")
        print(f"    {cause.get('remedy')}")
    show_compaction((health or {}).get("compaction"))
    if cluster is None:
        return
    counts = f"{cluster.topics} topics, {cluster.partitions} partitions, {cluster.groups} groups"
    if cluster.open_transactions is not None:
        counts += f", {cluster.open_transactions} open transactions"
    print(f"cluster {cluster.cluster_id}: {counts}")
    for words, places in (
        ("without a leader", cluster.offline),
        ("under-replicated", cluster.under_replicated),
        ("held back by a hanging transaction (moldau transactions find-hanging)", cluster.hanging),
    ):
        if places:
            more = " ..." if len(places) > PLACES_SHOWN else ""
            print(f"  {len(places)} partitions {words}: {', '.join(sorted(places)[:PLACES_SHOWN])}{more}")
    show_members(cluster, health)


def _headline(text: str, style: str) -> None:
    if not on_terminal():
        print(text)
        return
    from rich.console import Console

    Console().print(text, style=style)
