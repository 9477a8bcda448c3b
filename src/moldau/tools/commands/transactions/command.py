"""`moldau transactions`: list, describe, describe-producers, find-hanging, abort, terminate."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from moldau.tools.shared import completion
from moldau.tools.shared.errors import CommandError, UsageError
from moldau.tools.shared.options import Connect, Json, connected
from moldau.tools.shared.output import note, print_json, print_rows, print_table

if TYPE_CHECKING:
    from moldau.client.admin.transactions import Description

DEFAULT_MAX_TIMEOUT_MINUTES = 15

app = typer.Typer(
    no_args_is_help=True,
    help="Show transactions, find hanging ones, and abort them.",
    epilog="Try: moldau transactions list --state Ongoing   and: moldau transactions find-hanging   "
    "and: moldau transactions abort --topic orders --partition 0 --start-offset 120",
)

Topic = Annotated[str, typer.Option("--topic", help="The topic.", autocompletion=completion.topics)]
Partition = Annotated[int, typer.Option("--partition", "-p", help="The partition.")]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@app.command("list")
@connected
def list_(
    connect: Connect,
    states: Annotated[
        list[str] | None,
        typer.Option("--state", "-s", help="Only in this state (Ongoing, Empty, PrepareAbort, ...)."),
    ] = None,
    producer_ids: Annotated[
        list[int] | None, typer.Option("--producer-id", help="Only of this producer id. May be repeated.")
    ] = None,
    duration: Annotated[
        str,
        typer.Option(
            "--duration-filter",
            metavar="DURATION",
            help="Only transactions older than this: 90s, 1h30m, or milliseconds.",
        ),
    ] = "",
    pattern: Annotated[
        str,
        typer.Option(
            "--pattern",
            "--transactional-id-pattern",
            help="Only transactional ids that match this regular expression (the whole id).",
        ),
    ] = "",
    as_json: Json = False,
) -> None:
    """List transactional ids with their coordinator, producer id and state."""
    from moldau.client.admin.transactions import NONE, list_transactions
    from moldau.tools.shared.timestamps import parse_duration_ms

    duration_ms = int(duration) if duration.isdigit() else parse_duration_ms(duration) if duration else NONE
    rows = [
        {
            "transactional_id": each.transactional_id,
            "coordinator": each.coordinator,
            "producer_id": each.producer_id,
            "state": each.state,
        }
        for each in list_transactions(
            connect().layout(),
            states=states or (),
            producer_ids=producer_ids or (),
            duration_ms=duration_ms,
            pattern=pattern,
        )
    ]
    columns = {
        "transactional_id": "TransactionalId",
        "coordinator": "Coordinator",
        "producer_id": "ProducerId",
        "state": "TransactionState",
    }
    print_rows(as_json, rows, columns, empty="no transactional ids")


@app.command()
@connected
def describe(
    connect: Connect,
    transactional_ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="TRANSACTIONAL_ID", help="Transactional ids; default: all."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what the coordinator knows: producer id and epoch, state, timeout, age, partitions.

    The partitions are those of the transaction; once it is ending, those whose marker is not written yet.
    """
    from moldau.client.admin.transactions import describe_transactions, list_transactions
    from moldau.tools.commands.transactions.description import refusal

    layout = connect().layout()
    if transactional_ids:
        described, refused = describe_transactions(layout.cluster, transactional_ids)
    else:
        listed = list_transactions(layout)
        names = [each.transactional_id for each in listed]
        described, refused = describe_transactions(layout.cluster, names, listed)
    now_ms = _now_ms()
    rows = [_described(each, now_ms) for each in described]
    if as_json:
        print_json(rows)
    else:
        columns = {
            "coordinator": "CoordinatorId",
            "transactional_id": "TransactionalId",
            "producer_id": "ProducerId",
            "producer_epoch": "ProducerEpoch",
            "state": "TransactionState",
            "timeout_ms": "TransactionTimeoutMs",
            "start_ms": "CurrentTransactionStartTimeMs",
            "duration_ms": "TransactionDurationMs",
            "partitions": "TopicPartitions",
        }
        print_table(rows, columns, empty="" if refused else "no transactional ids")
    for each, error_code in sorted(refused.items()):
        note(f"moldau: {refusal(each, error_code)}")
    if refused:
        raise typer.Exit(1)


def _described(each: Description, now_ms: int) -> dict[str, object]:
    return {
        "coordinator": each.coordinator,
        "transactional_id": each.transactional_id,
        "producer_id": each.producer_id,
        "producer_epoch": each.producer_epoch,
        "state": each.state,
        "timeout_ms": each.timeout_ms,
        "start_ms": each.start_ms,
        "duration_ms": None if each.start_ms is None else max(now_ms - each.start_ms, 0),
        "partitions": [f"{topic}-{index}" for topic, index in each.partitions],
    }


@app.command("describe-producers")
@connected
def describe_producers_(
    connect: Connect,
    topic: Topic,
    partition: Partition,
    broker_id: Annotated[
        int | None, typer.Option("--broker-id", help="Ask this replica instead of the leader.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the producers of a partition, and the start offsets of their open transactions."""
    from moldau.client.admin.transactions import describe_producers

    place = (topic, partition)
    producers = describe_producers(connect().layout(), [place], broker_id)[place]
    rows = [
        {
            "producer_id": each.producer_id,
            "producer_epoch": each.producer_epoch,
            "coordinator_epoch": each.coordinator_epoch,
            "last_sequence": each.last_sequence,
            "last_timestamp_ms": each.last_timestamp_ms,
            "start_offset": each.start_offset,
        }
        for each in sorted(producers, key=lambda each: each.producer_id)
    ]
    columns = {
        "producer_id": "ProducerId",
        "producer_epoch": "ProducerEpoch",
        "coordinator_epoch": "LatestCoordinatorEpoch",
        "last_sequence": "LastSequence",
        "last_timestamp_ms": "LastTimestamp",
        "start_offset": "CurrentTransactionStartOffset",
    }
    print_rows(as_json, rows, columns, empty="no producers")


@app.command("find-hanging")
@connected
def find_hanging_(
    connect: Connect,
    topic: Annotated[
        str | None, typer.Option("--topic", help="Only this topic.", autocompletion=completion.topics)
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", help="Only this partition of --topic.")
    ] = None,
    broker_id: Annotated[
        int | None, typer.Option("--broker-id", help="Only the replicas of this broker.")
    ] = None,
    max_timeout_minutes: Annotated[
        int,
        typer.Option(
            "--max-transaction-timeout",
            metavar="MINUTES",
            help="Leave out transactions that were written to since: the longest timeout that producers use.",
        ),
    ] = DEFAULT_MAX_TIMEOUT_MINUTES,
    as_json: Json = False,
) -> None:
    """Find open transactions that no coordinator will end: read_committed consumers would wait for ever."""
    from moldau.tools.commands.transactions.hanging import MS_A_MINUTE, choose_places, find_hanging

    if partition is not None and topic is None:
        raise UsageError("--partition needs --topic: of which topic is it?")
    layout = connect().layout()
    places = choose_places(layout, topic, partition, broker_id)
    now_ms = _now_ms()
    found = find_hanging(layout, places, max_timeout_minutes * MS_A_MINUTE, now_ms, broker_id)
    rows = [
        {
            "topic": each.place[0],
            "partition": each.place[1],
            "producer_id": each.producer.producer_id,
            "producer_epoch": each.producer.producer_epoch,
            "coordinator_epoch": each.producer.coordinator_epoch,
            "start_offset": each.producer.start_offset,
            "last_timestamp_ms": each.producer.last_timestamp_ms,
            "duration_minutes": each.minutes(now_ms),
        }
        for each in found
    ]
    columns = {
        "topic": "Topic",
        "partition": "Partition",
        "producer_id": "ProducerId",
        "producer_epoch": "ProducerEpoch",
        "coordinator_epoch": "CoordinatorEpoch",
        "start_offset": "StartOffset",
        "last_timestamp_ms": "LastTimestamp",
        "duration_minutes": "Duration(min)",
    }
    print_rows(as_json, rows, columns, empty=f"no hanging transaction in {len(places)} partitions")
    for each in found:
        note(f"abort it with: {each.remedy}")


@app.command()
@connected
def abort(
    connect: Connect,
    topic: Topic,
    partition: Partition,
    start_offset: Annotated[
        int | None,
        typer.Option("--start-offset", help="The transaction's start offset, as find-hanging shows it."),
    ] = None,
    producer_id: Annotated[
        int | None, typer.Option("--producer-id", help="Instead: the producer id, with both epochs.")
    ] = None,
    producer_epoch: Annotated[
        int | None, typer.Option("--producer-epoch", help="The producer's epoch in that partition.")
    ] = None,
    coordinator_epoch: Annotated[
        int | None, typer.Option("--coordinator-epoch", help="The coordinator epoch known there (or -1).")
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Even if its coordinator knows the transaction; only this partition is aborted then.",
        ),
    ] = False,
) -> None:
    """Abort a hanging transaction in one partition, so that read_committed consumers go on.

    A transaction that its coordinator knows is ended in all partitions by `terminate`.
    """
    from moldau.tools.commands.transactions.hanging import abort_hanging, producer_at

    by_producer = (producer_id, producer_epoch, coordinator_epoch)
    if (start_offset is None) == (None in by_producer) or (
        start_offset is not None and by_producer != (None, None, None)
    ):
        raise UsageError(
            "identify the transaction: either --start-offset, or --producer-id with --producer-epoch and "
            "--coordinator-epoch; `moldau transactions describe-producers` shows them"
        )
    place = (topic, partition)
    layout = connect().layout()
    if start_offset is not None:
        found = producer_at(layout, place, start_offset)
        chosen = (found.producer_id, found.producer_epoch, found.coordinator_epoch)
    else:
        chosen = (producer_id or 0, producer_epoch or 0, coordinator_epoch or 0)
    abort_hanging(layout, place, *chosen, force=force)
    print(f"Aborted the transaction of producer {chosen[0]} in {topic}-{partition}.")


@app.command()
@connected
def terminate(
    connect: Connect,
    transactional_id: Annotated[str, typer.Argument(help="Whose transaction.")],
) -> None:
    """Abort the open transaction of a transactional id in all partitions, and fence its producer.

    The old producer gets PRODUCER_FENCED; a new one may use the id at once.
    """
    from moldau.tools.commands.transactions.description import end_by_fencing, require_description

    cluster = connect().layout().cluster
    before = require_description(cluster, transactional_id)
    if before.state == "Dead":
        raise CommandError(f"transactional id {transactional_id!r} has expired: there is nothing to end")
    # The timeout stays what it was: until another producer takes the id, this is its setting.
    producer_id, producer_epoch = end_by_fencing(cluster, transactional_id, before.timeout_ms)
    print(f"Terminated {transactional_id}: was {before.state}; now producer {producer_id}:{producer_epoch}.")
