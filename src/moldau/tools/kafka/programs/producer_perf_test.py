"""kafka-producer-perf-test: the load of perf/producing.py, with Kafka's options and lines."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moldau.tools.kafka.formats.client_metrics import ClientMetrics
from moldau.tools.kafka.java.properties import read_properties
from moldau.tools.kafka.lines.subcommands import Subcommands, whole
from moldau.tools.kafka.problems import CommandLineError, Ended, ToolError
from moldau.tools.kafka.programs.storage import random_id

if TYPE_CHECKING:
    from moldau.tools.commands.perf.payloads import Payloads
    from moldau.tools.commands.perf.producing import Sent

TRANSACTION_MS = 3000
_SHARES = (0.5, 0.95, 0.99, 0.999)


def main(words: Sequence[str]) -> int:
    """Send the records, and print what Kafka's tool prints. Returns the exit code."""
    parser = _parser()
    try:
        given = parser.parse_args(words or ["--help"])
    except Ended as help_:
        raise Ended(str(help_), 1 if words else 0, on_stdout=True) from None  # as Kafka's
    _check(parser, given)
    for old, new in (("producer_props", "command-property"), ("producer_config", "command-config")):
        if getattr(given, old) is not None:
            option = old.replace("_", "-") if old == "producer_props" else "producer.config"
            print(
                f"Option --{option} has been deprecated and will be removed in a future version. "
                f"Use --{new} instead."
            )
    settings, transaction_ms = _settings(parser, given)
    payloads = _payloads(given)
    if given.warmup_records > 0:
        print(
            f"Warmup first {given.warmup_records} records. Steady state results will print after "
            "the complete "
            "test summary."
        )
    return _run(given, settings, payloads, transaction_ms)


def _run(given: Any, settings: Mapping[str, Any], payloads: Payloads, transaction_ms: int | None) -> int:
    from moldau.tools.commands.perf.producing import Load, ProducerLoad

    load = Load(
        given.topic, given.num_records, payloads, given.throughput, given.warmup_records, transaction_ms
    )
    metrics = ClientMetrics("producer")
    more = metrics.settings if given.print_metrics else {}
    run = ProducerLoad(load, {**settings, **more}, _print_window, given.reporting_interval / 1000)
    outcome = run.run()
    print(_summary(outcome.total, ""))
    if outcome.steady is not None:
        print(_summary(outcome.steady, " steady state"))
    if given.print_metrics:
        metrics.refresh(run.producer.poll)
        metrics.print()
    if outcome.failed:
        raise ToolError(f"{outcome.failed} of {given.num_records} records failed: {outcome.failure}")
    return 0


def _parser() -> Subcommands:
    parser = Subcommands(
        prog="kafka-producer-perf-test",
        description="Sends records as fast as possible, or at a given rate, and shows rate and latency.",
    )
    parser.add_argument("--bootstrap-server", help="A broker, as HOST:PORT.")
    parser.add_argument("--topic", required=True, help="Where to.")
    parser.add_argument("--num-records", type=whole(64), required=True, help="How many records.")
    parser.add_argument("--payload-delimiter", default="\\n", help="What parts the values of --payload-file.")
    parser.add_argument(
        "--throughput", type=float, required=True, help="Records a second; -1: all that goes."
    )
    for name in ("--producer-props", "--command-property"):
        text = "Client settings, NAME=VALUE." if "command" in name else "The old name of --command-property."
        parser.add_argument(name, nargs="+", action="extend", metavar="NAME=VALUE", help=text)
    parser.add_argument("--producer.config", dest="producer_config", help="The old name of --command-config.")
    parser.add_argument("--command-config", help="A file of client settings.")
    parser.add_argument(
        "--print-metrics", action="store_true", help="Print the client's counters in the end."
    )
    parser.add_argument("--transactional-id", help="Send in transactions of this id.")
    parser.add_argument("--transaction-duration-ms", type=whole(64), help="When transactions are committed.")
    parser.add_argument("--warmup-records", type=whole(64), default=0, help="Not in the steady figures.")
    parser.add_argument(
        "--reporting-interval", type=whole(64), default=5000, help="Milliseconds between lines."
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--record-size", type=whole(32), help="Bytes of each value.")
    which.add_argument("--payload-file", help="A text file of values.")
    which.add_argument("--payload-monotonic", action="store_true", help="0, 1, 2 and so on.")
    return parser


def _check(parser: Subcommands, given: Any) -> None:
    if given.num_records < 1:
        parser.error("--num-records should be greater than zero.")
    if given.record_size is not None and given.record_size < 1:
        parser.error("--record-size should be greater than zero.")
    if given.warmup_records < 0 or given.warmup_records >= given.num_records:
        parser.error(
            "The value for --warmup-records must be strictly fewer than the number of records in the test."
        )
    if given.reporting_interval <= 0:
        parser.error("--reporting-interval should be greater than zero.")
    if given.transaction_duration_ms is not None and given.transaction_duration_ms <= 0:
        parser.error("--transaction-duration-ms should be greater than zero.")
    if given.producer_props and given.command_property:
        parser.error("--producer-props and --command-property cannot be specified together.")
    if given.producer_config and given.command_config:
        parser.error("--producer.config and --command-config cannot be specified together.")


def _settings(parser: Subcommands, given: Any) -> tuple[dict[str, Any], int | None]:
    """librdkafka's settings, and how long transactions last (None: no transactions)."""
    from moldau.tools.kafka.java.java_settings import translate
    from moldau.tools.kafka.queries.reaching import require_client
    from moldau.tools.shared.connection import QUIET

    file = given.command_config or given.producer_config
    found = read_properties(file) if file else {}
    for word in given.command_property or given.producer_props or ():
        name, equals, value = word.partition("=")
        if not equals:
            raise CommandLineError(f"Invalid property: {word}", "Client settings are NAME=VALUE.")
        found[name] = value
    if given.bootstrap_server:
        found["bootstrap.servers"] = given.bootstrap_server
    servers = found.get("bootstrap.servers")
    if not servers:
        parser.error(
            "At least one of --bootstrap-server, --command-property, --producer-props, --producer.config "
            "or --command-config must be specified."
        )
    transaction_ms = given.transaction_duration_ms
    if given.transactional_id:
        found["transactional.id"] = given.transactional_id
    if transaction_ms is not None and "transactional.id" not in found:
        found["transactional.id"] = f"performance-producer-{random_id()}"
    if "transactional.id" in found and transaction_ms is None:
        transaction_ms = TRANSACTION_MS
    require_client(servers, found)
    if found.get("acks", "all") not in ("all", "-1") or "max.in.flight.requests.per.connection" in found:
        found.setdefault("enable.idempotence", "false")  # as Java's producer does
    return {"client.id": "perf-producer-client", "logger": QUIET, **translate(found)}, transaction_ms


def _payloads(given: Any) -> Payloads:
    from moldau.tools.commands.perf.payloads import counting, lines_of, random_letters

    if given.payload_monotonic:
        return counting()
    if given.record_size is not None:
        return random_letters(given.record_size)
    path = Path(given.payload_file)
    print(f"Reading payloads from: {path.absolute()}")
    delimiter = given.payload_delimiter.replace("\\n", "\n").replace("\\t", "\t")
    try:
        payloads, count = lines_of(path, delimiter)
    except (OSError, UnicodeDecodeError):
        raise ToolError("File does not exist or empty file provided.") from None
    except ValueError as problem:
        raise ToolError(str(problem)) from None
    print(f"Number of records read: {count}")
    return payloads


def _print_window(window: Sent) -> None:
    found = window.latencies
    print(
        f"{window.records} records sent, {window.records_per_second:.1f} records/sec "
        f"({window.mib_per_second:.2f} MB/sec), {found.mean_ms:.1f} ms avg latency, "
        f"{found.max_ms:.1f} ms max latency."
    )
    sys.stdout.flush()


def _summary(sent: Sent, kind: str) -> str:
    found = sent.latencies
    shares = [int(found.percentile_ms(share)) for share in _SHARES]
    return (
        f"{sent.records}{kind} records sent, {sent.records_per_second:f} records/sec "
        f"({sent.mib_per_second:.2f} MB/sec), {found.mean_ms:.2f} ms avg latency, "
        f"{found.max_ms:.2f} ms max latency, "
        f"{shares[0]} ms 50th, {shares[1]} ms 95th, {shares[2]} ms 99th, {shares[3]} ms 99.9th."
    )
