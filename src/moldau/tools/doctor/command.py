"""`moldau doctor`: goes the way of a client, step by step, and says at which one it ends and what to do.

    settings -> name -> connection -> TLS -> SASL -> versions -> advertised addresses -> login and metadata
             -> leaders, in-sync replicas, disks -> round trip and clocks -> coordinator -> lag

A step that failed makes the later ones pointless where they depend on it: they are reported as skipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from moldau.tools.doctor.findings import Finding, Grade, Report
from moldau.tools.shared import completion
from moldau.tools.shared.errors import CommandError, UsageError, explain_kafka_failure
from moldau.tools.shared.options import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    ClientSettings,
    Json,
    parse_assignments,
    teach,
)
from moldau.tools.shared.output import note, on_terminal, print_json

if TYPE_CHECKING:
    from moldau.client.admin.layout import Layout
    from moldau.tools.shared.connection import Connection

STYLES = {Grade.OK: "green", Grade.WARNING: "bold yellow", Grade.FAILED: "bold red", Grade.SKIPPED: "dim"}
CHECK_WIDTH = 19

HELP = """Find out, from this machine, what keeps a client from the cluster, and what to do about it.

Examples:

* moldau doctor
* moldau doctor -b broker.example:9092 --group billing
* moldau doctor -b broker.example:9093 -X security.protocol=ssl -X ssl.ca.location=ca.pem
* moldau doctor --command-config client.properties --read-only --json

Unless --read-only is given, records are written to a topic made for it (moldau-doctor-...), read back, and
the topic is deleted; --topic takes one that exists instead.

The exit code is 0 if a client can work (warnings may remain), 1 if it cannot, 2 for a wrong command line.
"""


def register(root: typer.Typer) -> None:
    """Add the command to the application."""
    root.command("doctor", help=teach(HELP))(doctor)


def doctor(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    client_settings: ClientSettings = None,
    timeout: Annotated[
        float,
        typer.Option("--timeout", metavar="SECONDS", min=0.1, help="How long to wait at each step."),
    ] = 5.0,
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic",
            "-t",
            metavar="TOPIC",
            help="Write the records to this topic: it keeps them.",
            autocompletion=completion.topics,
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            "-g",
            metavar="GROUP",
            help="Look at this group's coordinator and lag.",
            autocompletion=completion.groups,
        ),
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Write nothing and make no topic.")] = False,
    as_json: Json = False,
) -> None:
    """Go the way of a client, step by step (see HELP)."""
    if read_only and topic is not None:
        raise UsageError("--topic names where to write, and --read-only forbids it: drop one")
    report = Report(_quiet if as_json else _print)
    settings = parse_assignments(client_settings, "-X")
    bootstrap = settings.pop("bootstrap.servers", bootstrap) if bootstrap == DEFAULT_BOOTSTRAP else bootstrap
    settings.pop("bootstrap.servers", None)
    examine(report, bootstrap, settings, timeout, topic, group, read_only=read_only)
    failed, warned = report.count(Grade.FAILED), report.count(Grade.WARNING)
    if as_json:
        print_json({"healthy": not failed, "findings": [each.as_json() for each in report.findings]})
    elif failed:
        note(f"{failed} {'problem' if failed == 1 else 'problems'} found; the first one is usually the cause")
    else:
        note(f"a client can work{f'; {warned} things to look at' if warned else ''}")
    raise typer.Exit(1 if failed else 0)


def examine(
    report: Report,
    bootstrap: str,
    settings: Mapping[str, str],
    timeout_seconds: float,
    topic: str | None,
    group: str | None,
    *,
    read_only: bool,
) -> None:
    """Run all checks. UsageError for settings that cannot be used at all."""
    from moldau.tools.doctor.addresses import Advertised, check_advertised, check_bootstrap
    from moldau.tools.doctor.groups import check_coordinator, check_lag
    from moldau.tools.doctor.partitions import check_batches, check_disks, check_partitions, check_store
    from moldau.tools.doctor.round_trip import check_round_trip
    from moldau.tools.doctor.transport import transport_of
    from moldau.tools.shared.connection import parse_address

    transport = transport_of(settings, timeout_seconds)
    addresses = [parse_address(part) for part in bootstrap.split(",") if part.strip()]
    if not addresses:
        raise UsageError("the bootstrap address is empty: write HOST:PORT, such as 127.0.0.1:9092")
    reached = check_bootstrap(report, addresses, transport, timeout_seconds)
    if not reached:
        report.skip("the rest", "no bootstrap address works")
        return
    connected = _log_in(report, bootstrap, settings, timeout_seconds)
    if connected is None:
        # librdkafka drops the bootstrap connection for the advertised address, perhaps before it has asked.
        advertised = [Advertised(*each) for each in reached[0].brokers]
        check_advertised(report, advertised, addresses, reached[0].cluster_id, transport, timeout_seconds)
        report.skip("the rest", "the cluster's metadata is not known")
        return
    connection, layout = connected
    brokers = [Advertised(each.broker_id, each.host, each.port) for each in layout.brokers.values()]
    alive = check_advertised(
        report,
        sorted(brokers, key=lambda each: each.node_id),
        addresses,
        layout.cluster_id,
        transport,
        timeout_seconds,
    )
    check_partitions(report, layout, topic)
    check_disks(report, connection, alive)
    check_store(report, connection)
    check_batches(report, connection)
    if not alive:
        report.skip("the rest", "no broker is reached at its advertised address")
        return
    if read_only:
        report.skip("round trip", "--read-only")
    else:
        check_round_trip(report, connection, topic, [each.node_id for each in alive])
    if check_coordinator(report, connection, group):
        check_lag(report, connection, group)


def _log_in(
    report: Report, bootstrap: str, settings: Mapping[str, str], timeout_seconds: float
) -> tuple[Connection, Layout] | None:
    """Read the metadata, with the client's settings; None where that fails."""
    from confluent_kafka import KafkaException

    from moldau.client.errors import ClientError
    from moldau.tools.shared.connection import Connection

    try:
        connection = Connection(
            bootstrap, [f"{name}={value}" for name, value in settings.items()], timeout_seconds
        )
        layout = connection.layout()
    except KafkaException as failure:
        raise UsageError(f"librdkafka refuses the settings: {failure.args[0].str()}") from None
    except (CommandError, ClientError) as failure:
        report.fail(
            "login" if "sasl" in settings.get("security.protocol", "").lower() else "metadata",
            explain_kafka_failure(failure) or str(failure),
            "see the message, and the broker's log; -X debug=broker,security shows what librdkafka does",
        )
        return None
    controller = layout.controller_id
    seat = f"controller {controller}" if controller >= 0 else "no controller"
    brokers, topics = len(layout.brokers), len(layout.topics)
    counts = f"{brokers} {'broker' if brokers == 1 else 'brokers'}, {topics} topics"
    message = f"cluster {layout.cluster_id}: {counts}, {seat}"
    if controller < 0:
        report.warn("metadata", message, "topics and settings cannot be changed: see `moldau status`")
    else:
        report.ok("metadata", message)
    return connection, layout


def _quiet(finding: Finding) -> None:
    """Findings are printed as one document at the end."""


def _print(finding: Finding) -> None:
    line = f"{finding.grade.value:8} {finding.check:{CHECK_WIDTH}} {finding.message}"
    if on_terminal():
        from rich.console import Console
        from rich.text import Text

        Console().print(Text(line, style=STYLES[finding.grade]))
    else:
        print(line, flush=True)
    if finding.remedy:
        print(f"{'':8} {'':{CHECK_WIDTH}} -> {finding.remedy}", flush=True)
