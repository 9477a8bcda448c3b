"""`moldau topics`: list, create, describe, alter, delete, trim; reassign.py and elect.py have the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from moldau.tools.shared import completion
from moldau.tools.shared.errors import CommandError, UsageError, error_name, explain_kafka_failure
from moldau.tools.shared.options import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_TIMEOUT_SECONDS,
    Bootstrap,
    ClientSettings,
    Json,
    Timeout,
    parse_assignments,
)
from moldau.tools.shared.output import print_json, print_table

if TYPE_CHECKING:
    from moldau.tools.commands.topics.description import TopicDescription

app = typer.Typer(
    no_args_is_help=True,
    help="List, create, describe, alter, delete, trim and reassign topics, and elect leaders.",
    epilog="Try: moldau topics create orders -p 6 -c retention.ms=86400000   "
    "and: moldau topics describe 'ord.*' --under-replicated-partitions",
)

Names = Annotated[
    list[str],
    typer.Argument(metavar="TOPIC", help="Names, or regular expressions.", autocompletion=completion.topics),
]
Patterns = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TOPIC",
        help="Names or regular expressions; default: all.",
        autocompletion=completion.topics,
    ),
]
Internal = Annotated[
    bool, typer.Option("--internal", "-i", help="Show internal topics (__consumer_offsets) too.")
]
UnderReplicated = Annotated[
    bool, typer.Option("--under-replicated-partitions", help="Only under-replicated partitions.")
]
Unavailable = Annotated[
    bool, typer.Option("--unavailable-partitions", help="Only partitions without a leader.")
]
UnderMinIsr = Annotated[
    bool,
    typer.Option(
        "--under-min-isr-partitions",
        help="Only partitions with fewer in-sync replicas than min.insync.replicas.",
    ),
]
AtMinIsr = Annotated[
    bool,
    typer.Option(
        "--at-min-isr-partitions", help="Only partitions with exactly min.insync.replicas in-sync replicas."
    ),
]
Overrides = Annotated[
    bool, typer.Option("--topics-with-overrides", help="Only topics with settings of their own.")
]
Config = Annotated[
    list[str] | None, typer.Option("--config", "-c", metavar="NAME=VALUE", help="A setting. May be repeated.")
]
Regex = Annotated[bool, typer.Option("--regex", "-r", help="The names are regular expressions.")]


def register(root: typer.Typer) -> None:
    """Add the command to the application."""
    from moldau.tools.commands.topics import elect, reassign

    if not any(each.name == "reassign" for each in app.registered_commands):
        reassign.register(app)
        elect.register(app)
    root.add_typer(app, name="topics")


@app.command("list")
def list_(
    topics: Patterns = None,
    internal: Internal = False,
    under_replicated: UnderReplicated = False,
    unavailable: Unavailable = False,
    under_min_isr: UnderMinIsr = False,
    at_min_isr: AtMinIsr = False,
    with_overrides: Overrides = False,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    client_settings: ClientSettings = None,
    timeout: Timeout = DEFAULT_TIMEOUT_SECONDS,
) -> None:
    """List topics with their partitions and replicas."""
    from moldau.tools.commands.topics.description import Filter, load_topics
    from moldau.tools.shared.connection import Connection

    wanted = Filter(under_replicated, unavailable, under_min_isr, at_min_isr, with_overrides)
    found = load_topics(
        Connection(bootstrap, client_settings, timeout), topics, internal=internal, wanted=wanted
    )
    rows = [
        {"topic": each.name, "partitions": len(each.partitions), "replicas": each.replication_factor}
        for each in found
    ]
    if as_json:
        print_json(rows)
    else:
        columns = {"topic": "TOPIC", "partitions": "PARTITIONS", "replicas": "REPLICAS"}
        print_table(rows, columns, empty="no topics: create one with `moldau topics create NAME`")


@app.command()
def create(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC", help="Names of the topics to create.")],
    partitions: Annotated[
        int, typer.Option("--partitions", "-p", help="Partitions (the broker's default if absent).")
    ] = -1,
    replication_factor: Annotated[
        int,
        typer.Option(
            "--replication-factor", "-r", help="Replicas of each partition (the broker's default if absent)."
        ),
    ] = -1,
    replica_assignment: Annotated[
        str, typer.Option(metavar="0:1,1:2", help="Brokers of each partition, instead of -p and -r.")
    ] = "",
    config: Config = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Succeed if the topic exists.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only validate; create nothing.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    client_settings: ClientSettings = None,
    timeout: Timeout = DEFAULT_TIMEOUT_SECONDS,
) -> None:
    """Create topics."""
    from confluent_kafka.admin import NewTopic

    from moldau.tools.shared.admin import ANSWER_SECONDS, wait
    from moldau.tools.shared.causes import with_cause
    from moldau.tools.shared.connection import Connection

    settings = parse_assignments(config, "--config")
    connection = Connection(bootstrap, client_settings, timeout)
    assignment = _parse_assignment(replica_assignment)
    requests = [
        NewTopic(name, num_partitions=len(assignment), replica_assignment=assignment, config=settings)
        if assignment
        else NewTopic(name, num_partitions=partitions, replication_factor=replication_factor, config=settings)
        for name in topics
    ]
    futures = connection.admin().create_topics(
        requests,
        request_timeout=timeout + ANSWER_SECONDS,
        operation_timeout=timeout,
        validate_only=dry_run,
    )
    failures = []
    for name, future in futures.items():
        try:
            wait(future, connection)
        except Exception as failure:
            sentence = explain_kafka_failure(failure)
            if sentence is None:
                raise
            sentence = with_cause(sentence, error_name(failure), connection)
            if not (if_not_exists and "TOPIC_ALREADY_EXISTS" in sentence):
                failures.append(f"{name}: {sentence}")
        else:
            print(f"Topic {name} would be created." if dry_run else f"Created topic {name}.")
    if failures:
        raise CommandError("\nmoldau: ".join(failures))


def _parse_assignment(text: str) -> list[list[int]]:
    try:
        return [[int(broker) for broker in part.split(":")] for part in text.split(",")] if text else []
    except ValueError:
        raise UsageError(
            f"--replica-assignment {text!r} is not understood: write the brokers of a partition with colons, "
            "partitions with commas, as in 1:2,2:3"
        ) from None


@app.command()
def describe(
    topics: Patterns = None,
    internal: Internal = False,
    all_settings: Annotated[
        bool, typer.Option("--all", "-a", help="Show defaults among the settings too.")
    ] = False,
    under_replicated: UnderReplicated = False,
    unavailable: Unavailable = False,
    under_min_isr: UnderMinIsr = False,
    at_min_isr: AtMinIsr = False,
    with_overrides: Overrides = False,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    client_settings: ClientSettings = None,
    timeout: Timeout = DEFAULT_TIMEOUT_SECONDS,
) -> None:
    """Show partitions, leaders, replicas, offsets and settings."""
    from moldau.tools.commands.topics.description import Filter, kafka_lines, load_topics
    from moldau.tools.shared.connection import Connection
    from moldau.tools.shared.output import on_terminal

    wanted = Filter(under_replicated, unavailable, under_min_isr, at_min_isr, with_overrides)
    connection = Connection(bootstrap, client_settings, timeout)
    # Offsets cost a request a leader; the lines for scripts do not show them.
    found = load_topics(
        connection, topics, internal=internal, wanted=wanted, offsets=as_json or on_terminal()
    )
    if as_json:
        print_json([each.as_json(all_settings) for each in found])
        return
    for each in found:
        if on_terminal():
            _show(each, all_settings)
        else:
            print(kafka_lines(each, {row["name"]: row["value"] for row in each.shown_settings(all_settings)}))


def _show(topic: TopicDescription, all_settings: bool) -> None:
    print(f"{topic.name}   id {topic.topic_id}   {topic.replication_factor} replicas")
    columns = {
        "partition": "PARTITION",
        "leader": "LEADER",
        "replicas": "REPLICAS",
        "isr": "ISR",
        "elr": "ELIGIBLE",
        "last_known_elr": "LAST KNOWN",
        "start": "START",
        "end": "END",
    }
    if not any(each.last_known_eligible for each in topic.partitions):
        del columns["last_known_elr"]
    print_table([each.as_row() for each in topic.partitions], columns)
    settings = topic.shown_settings(all_settings)
    print_table(settings, {"name": "SETTING", "value": "VALUE", "source": "SOURCE"})


@app.command()
def alter(
    topics: Names,
    partitions: Annotated[
        int, typer.Option("--partitions", "-p", help="The new number of partitions: it can only grow.")
    ] = 0,
    config: Config = None,
    delete_config: Annotated[
        list[str] | None,
        typer.Option("--delete-config", metavar="NAME", help="Reset a setting to its default."),
    ] = None,
    regex: Regex = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only validate; change nothing.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    client_settings: ClientSettings = None,
    timeout: Timeout = DEFAULT_TIMEOUT_SECONDS,
) -> None:
    """Add partitions, set and unset settings."""
    from confluent_kafka.admin import NewPartitions

    from moldau.client.admin.configs import TOPIC
    from moldau.tools.shared.admin import (
        ANSWER_SECONDS,
        change_settings,
        require_names,
        select_names,
        topic_names,
        wait_for_each,
    )
    from moldau.tools.shared.connection import Connection

    settings = parse_assignments(config, "--config")
    if not partitions and not settings and not delete_config:
        raise UsageError("nothing to alter: give --partitions, --config or --delete-config")
    require_names(delete_config, "--delete-config")
    connection = Connection(bootstrap, client_settings, timeout)
    admin = connection.admin()
    names = select_names(
        topics,
        topic_names(connection, internal=True),
        what="topic",
        regex=regex,
        connection=connection,
    )
    well = True
    if partitions:
        futures = admin.create_partitions(
            [NewPartitions(name, partitions) for name in names],
            request_timeout=timeout + ANSWER_SECONDS,
            operation_timeout=timeout,
            validate_only=dry_run,
        )
        verb = "would have" if dry_run else "now has"
        well = wait_for_each(futures, connection, f"{{}} {verb} {partitions} partitions.")
    if (settings or delete_config) and not dry_run:
        well &= change_settings(connection, TOPIC, names, settings, delete_config or ())
    if not well:
        raise typer.Exit(1)


@app.command()
def delete(
    topics: Names,
    regex: Regex = False,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="Succeed if the topic does not exist.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask before deleting what a regex matched.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    client_settings: ClientSettings = None,
    timeout: Timeout = DEFAULT_TIMEOUT_SECONDS,
) -> None:
    """Delete topics and their records."""
    from moldau.tools.shared.admin import ANSWER_SECONDS, select_names, topic_names, wait_for_each
    from moldau.tools.shared.connection import Connection

    connection = Connection(bootstrap, client_settings, timeout)
    admin = connection.admin()
    existing = topic_names(connection, internal=not regex)
    asked = [name for name in topics if regex or not if_exists or name in existing]
    names = select_names(asked, existing, what="topic", regex=regex, connection=connection)
    if regex and not yes:
        typer.confirm(f"delete {', '.join(names)}?", abort=True, err=True)
    if names and not wait_for_each(
        admin.delete_topics(names, request_timeout=timeout + ANSWER_SECONDS, operation_timeout=timeout),
        connection,
        "Deleted topic {}.",
    ):
        raise typer.Exit(1)


@app.command()
def trim(
    topic: Annotated[str, typer.Argument(help="The topic.", autocompletion=completion.topics)],
    before: Annotated[
        str,
        typer.Option("--before", "-o", metavar="WHERE", help="An offset, end, or @MOMENT (2026-02-14, 7d)."),
    ],
    partitions: Annotated[
        list[int] | None, typer.Option("--partition", "-p", help="Only this partition. May be repeated.")
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    client_settings: ClientSettings = None,
    timeout: Timeout = DEFAULT_TIMEOUT_SECONDS,
) -> None:
    """Delete the records before an offset or a timestamp."""
    import time

    from confluent_kafka import TopicPartition

    from moldau.tools.shared.admin import no_such_topic, wait
    from moldau.tools.shared.connection import Connection
    from moldau.tools.shared.offset_range import parse_offset_range, resolve

    if not before.strip("@ ") or ":" in before.partition("@")[0]:
        raise UsageError(f"--before {before!r} names no offset or moment: nothing was deleted")
    until = parse_offset_range(before, time.time_ns() // 1_000_000)
    if until.stop is not None:
        raise UsageError(f"--before {before!r} is a range: name where the log is to begin")
    bound = until.start
    connection = Connection(bootstrap, client_settings, timeout)
    admin = connection.admin()
    known = admin.list_topics(timeout=timeout).topics
    if topic not in known:
        raise no_such_topic(connection, topic)
    chosen = [
        (topic, index) for index in sorted(known[topic].partitions) if not partitions or index in partitions
    ]
    for index in partitions or ():
        if index not in known[topic].partitions:
            raise CommandError(f"{topic} has no partition {index}: see `moldau topics describe {topic}`")
    consumer = connection.consumer()
    try:
        offsets = resolve(consumer, bound, chosen, timeout)
    finally:
        consumer.close()
    futures = admin.delete_records(
        [TopicPartition(*each, offset) for each, offset in offsets.items()], request_timeout=timeout
    )
    for each, future in futures.items():
        print(f"{each.topic}-{each.partition} now begins at offset {wait(future, connection).low_watermark}.")
