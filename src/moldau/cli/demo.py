"""`moldau demo` (`make demo`): a real broker, a third of a million real records, a group of three, and a
check of it all.

The demo is a test that a person can watch: it ends with exit code 0 only if every record came back once, in
the order in which its key was produced, and the group has no lag. KEEP=1 (or --keep) leaves the broker
running.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moldau.cli.errors import CommandError

if TYPE_CHECKING:
    from moldau.cli.demo_group import Outcome
    from moldau.cli.demo_screen import Screen
    from moldau.testing import Broker

TOPIC = "departures"
GROUP = "demo"
PARTITIONS = 6
MEMBERS = 3
DELIVERY_TIMEOUT_SECONDS = 60.0

Records = Sequence[tuple[bytes, bytes]]


def register(root: typer.Typer) -> None:
    """Add the command to the application."""
    root.command("demo")(demo)


def demo(
    keep: Annotated[
        bool, typer.Option("--keep", envvar="KEEP", help="Leave the broker running and print its address.")
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option("--data", help="Keep the records in this folder instead of a temporary one."),
    ] = None,
) -> None:
    """Start a broker, replay 336,776 real departures, read them with a group of three, and check."""
    from moldau.cli.demo_flights import FLIGHT_COUNT, find_data, read_departures
    from moldau.cli.demo_screen import Screen
    from moldau.testing import Broker

    find_data()
    screen = Screen()
    broker = Broker(process=True, data=data)
    started_at = time.perf_counter()
    broker.start()
    kept = False
    try:
        screen.say(
            f"broker at {broker.bootstrap_servers}, ready after {time.perf_counter() - started_at:.2f} s"
        )
        broker.create_topic(TOPIC, PARTITIONS)
        with screen.task("reading the departures of 2013 from New York", FLIGHT_COUNT) as advance:
            records = []
            for record in read_departures():
                records.append(record)
                if len(records) % 5_000 == 0:
                    advance(len(records))
        _require(
            len(records) == FLIGHT_COUNT, f"the table has {len(records):,} departures, not {FLIGHT_COUNT:,}"
        )
        failures = _run(broker, records, screen)
        kept = keep and not failures
        screen.finish(broker, kept=kept, topic=TOPIC, group=GROUP)
    finally:
        if not kept:
            broker.stop()
    if failures:
        raise CommandError("the demo found a fault: " + "; ".join(failures))


def _run(broker: Broker, records: Records, screen: Screen) -> list[str]:
    """Produce, consume, check; gives what is wrong."""
    from moldau.cli.demo_group import consume

    size_bytes = sum(len(key) + len(value) for key, value in records)
    with screen.task(f"producing, acks=all, {PARTITIONS} partitions", len(records)) as advance:
        produce_seconds, unacknowledged = produce(broker, records, advance)
    screen.rate("produced", len(records), size_bytes, produce_seconds)
    with screen.task(f"consuming with a group of {MEMBERS} members", len(records)) as advance:
        outcome = consume(broker.bootstrap_servers, TOPIC, GROUP, MEMBERS, PARTITIONS, len(records), advance)
    screen.rate("consumed", outcome.count, outcome.size_bytes, outcome.seconds)
    screen.members(outcome)
    failures = check(records, outcome)
    if unacknowledged:
        failures.append(f"{unacknowledged:,} records were not acknowledged")
    if outcome.lag:
        failures.append(f"the group still has a lag of {outcome.lag:,}")
    keys = len({key for key, _ in records})
    screen.verdict(
        failures,
        f"all {len(records):,} records came back once, in order within each of {keys} carriers, lag 0",
    )
    return failures


def produce(broker: Broker, records: Records, advance: Any) -> tuple[float, int]:
    """Send all records at full speed.

    Gives the seconds until the last acknowledgement, and how many failed.
    """
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 20,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 1_000_000,
            "partitioner": "murmur2_random",
            # Only failures come back one by one; success is what is left when the queue is empty.
            "delivery.report.only.error": True,
            "log_level": 3,
        }
    )
    failed = 0

    def refused(error: Any, message: Any) -> None:
        nonlocal failed
        failed += 1

    started_at = time.perf_counter()
    for count, (key, value) in enumerate(records, start=1):
        producer.produce(TOPIC, value, key, on_delivery=refused)
        if count % 2_000 == 0:
            producer.poll(0)
            advance(count - len(producer))
    while left := len(producer):
        advance(len(records) - left)
        producer.flush(0.1)
        if time.perf_counter() - started_at > DELIVERY_TIMEOUT_SECONDS:
            return time.perf_counter() - started_at, left + failed
    return time.perf_counter() - started_at, failed


def check(records: Records, outcome: Outcome) -> list[str]:
    """Compare what was read with what was sent: the same records, in the same order within each key."""
    sent: dict[bytes, list[bytes]] = {}
    for key, value in records:
        sent.setdefault(key, []).append(value)
    failures = []
    if outcome.count != len(records):
        failures.append(f"{outcome.count:,} records were read, not {len(records):,}")
    for key, values in sent.items():
        read = outcome.values.get(key, [])
        if read == values:
            continue
        place = next(
            (index for index, pair in enumerate(zip(read, values, strict=False)) if pair[0] != pair[1]), None
        )
        if place is None:
            failures.append(f"carrier {key.decode()}: {len(read):,} of {len(values):,} records were read")
        else:
            failures.append(f"carrier {key.decode()}: record {place:,} is another than the one that was sent")
    return failures


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise CommandError(otherwise)
