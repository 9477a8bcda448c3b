"""`moldau perf produce | consume | latency`: throughput of writes and reads, and latency.

The measurements are in producing.py, consuming.py and round_trips.py; kafka-producer-perf-test and its
sisters print the same ones in Kafka's manner.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moldau.tools.shared import completion
from moldau.tools.shared.errors import CommandError, UsageError
from moldau.tools.shared.options import Connect, Json, connected, teach
from moldau.tools.shared.output import note, print_json

if TYPE_CHECKING:
    from moldau.tools.commands.perf.payloads import Payloads

app = typer.Typer(
    no_args_is_help=True,
    help="Measure how fast records are written, read, and go there and back.",
    epilog="Try: moldau topics create load -p 3   then: moldau perf produce load   "
    "and: moldau perf consume load",
)

Topic = Annotated[str, typer.Argument(help="The topic.", autocompletion=completion.topics)]
Records = Annotated[int, typer.Option("--records", "-n", min=1, help="How many records.")]

PRODUCE_HELP = """Write records as fast as one process can, or at a given rate, and measure the latency of
each.

Examples:

* moldau perf produce load
* moldau perf produce load -n 5000000 --size 1000 -X compression.type=zstd
* moldau perf produce load --throughput 10000 --warmup 20000
* moldau perf produce load --payload-file orders.jsonl --transaction-ms 500
* moldau perf produce load --json

The latency is the time from handing a record to the client until the broker acknowledged it (acks=all, unless
-X acks=1). At full speed it is mostly time spent in the client's queue; --throughput shows the broker's.
"""


@app.command("produce", help=teach(PRODUCE_HELP))
@connected
def produce(
    connect: Connect,
    topic: Topic,
    records: Records = 1_000_000,
    size: Annotated[int, typer.Option("--size", min=1, help="Bytes of each value (random letters).")] = 100,
    payload_file: Annotated[
        Path | None, typer.Option("--payload-file", help="Instead: lines of this file, in random order.")
    ] = None,
    throughput: Annotated[
        float, typer.Option("--throughput", metavar="RECORDS", help="At most so many records a second.")
    ] = -1,
    warmup: Annotated[
        int, typer.Option("--warmup", metavar="RECORDS", min=0, help="Leave the first records out.")
    ] = 0,
    transaction_ms: Annotated[
        int | None,
        typer.Option("--transaction-ms", min=1, help="In transactions that are committed after this time."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write records (see PRODUCE_HELP)."""
    from moldau.tools.commands.perf.figures import produced, sent_json
    from moldau.tools.commands.perf.live import Live
    from moldau.tools.commands.perf.producing import Load, ProducerLoad

    if warmup >= records:
        raise UsageError(f"--warmup {warmup} leaves nothing of {records} records to measure")
    payloads = _payloads(size, payload_file)
    connection = connect()
    more = {"transactional_id": f"moldau-perf-{os.getpid()}"} if transaction_ms else {}
    settings = connection.settings(**more)
    load = Load(topic, records, payloads, throughput, warmup, transaction_ms)
    with Live("writing", records) as live:
        run = ProducerLoad(load, settings, lambda window: live.show(window.records, window.bytes), 0.25)
        _require_topic(run.producer, topic, connect.timeout_seconds)
        outcome = run.run()
    if as_json:
        print_json(sent_json(topic, outcome))
    else:
        print(produced(topic, outcome))
    if outcome.failed:
        raise CommandError(f"{outcome.failed} of {records} records failed: {outcome.failure}")


@app.command("consume")
@connected
def consume(
    connect: Connect,
    topic: Topic,
    records: Records = 1_000_000,
    group: Annotated[
        str,
        typer.Option(
            "--group", "-g", help="The group; default: a new one.", autocompletion=completion.groups
        ),
    ] = "",
    from_latest: Annotated[
        bool, typer.Option("--from-latest", help="Begin at the end if the group has no offset yet.")
    ] = False,
    patience: Annotated[
        float, typer.Option("--patience", metavar="SECONDS", help="Stop after so long without a record.")
    ] = 5.0,
    as_json: Json = False,
) -> None:
    """Read records as fast as one process can."""
    from moldau.tools.commands.perf.consuming import ConsumerLoad, Wanted
    from moldau.tools.commands.perf.figures import consumed, read_json
    from moldau.tools.commands.perf.live import Live

    connection = connect()
    settings = connection.settings(
        group_id=group or f"moldau-perf-{os.getpid()}",
        auto_offset_reset="latest" if from_latest else "earliest",
        enable_auto_commit=bool(group),
    )
    with Live("reading", records) as live:
        run = ConsumerLoad(
            Wanted([topic], records, patience),
            settings,
            lambda total, before: live.show(total.records - before.records, total.bytes - before.bytes),
            0.25,
        )
        read = run.run()
    if as_json:
        print_json(read_json(topic, read))
    else:
        print(consumed(topic, read))
    if read.records < records:
        note(f"moldau: {topic} gave {read.records} of {records} records: nothing came for {patience:g} s")
        raise typer.Exit(1)


@app.command("latency")
@connected
def latency(
    connect: Connect,
    topic: Topic,
    records: Records = 1_000,
    size: Annotated[int, typer.Option("--size", min=1, help="Bytes of each value.")] = 100,
    acks: Annotated[str, typer.Option("--acks", help="1 or all.")] = "all",
    as_json: Json = False,
) -> None:
    """Send one record after the other and read each back: the time from producer to consumer."""
    from moldau.tools.commands.perf.figures import chart, latencies_json, percentiles
    from moldau.tools.commands.perf.live import Live
    from moldau.tools.commands.perf.payloads import random_letters
    from moldau.tools.commands.perf.round_trips import Probe, measure

    if acks not in ("1", "all", "-1"):
        raise UsageError(f"--acks {acks}: latency needs an acknowledgement; write 1 or all")
    connection = connect()
    values = random_letters(size)
    probe = Probe(value=lambda: values(1)[0])
    with Live("round trips", records) as live:
        found = measure(
            topic, records, probe, connection.settings(), acks, lambda number, ms: live.show(1, size)
        )
    if as_json:
        print_json({"topic": topic, "records": found.count, "latency_ms": latencies_json(found)})
    else:
        print(f"{found.count} round trips over {topic}: {percentiles(found)}\n{chart(found)}")


def _payloads(size: int, file: Path | None) -> Payloads:
    from moldau.tools.commands.perf.payloads import lines_of, random_letters

    if file is None:
        return random_letters(size)
    try:
        return lines_of(file)[0]
    except OSError as problem:
        raise CommandError(f"{file} cannot be read: {problem.strerror}") from None
    except UnicodeDecodeError:
        raise CommandError(f"{file} is not UTF-8 text") from None
    except ValueError:
        raise CommandError(f"{file} is empty: it must have a line for each value") from None


def _require_topic(producer: Any, topic: str, timeout: float) -> None:
    """A topic that does not exist is said at once; librdkafka would wait for it for minutes."""
    known = producer.list_topics(topic, timeout=timeout).topics[topic]
    if known.error is not None and not known.error.retriable():
        raise CommandError(f"topic {topic!r}: {known.error.str()} ({known.error.name()})")
    if known.error is not None:
        print(f"moldau: waiting for topic {topic}", file=sys.stderr)
