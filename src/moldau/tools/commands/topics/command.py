"""`moldau topics`: list, create, describe, alter, delete, trim; reassign.py and elect.py have the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from moldau.tools.commands.topics import elect, reassign
from moldau.tools.shared import completion
from moldau.tools.shared.errors import CommandError, UsageError
from moldau.tools.shared.options import Connect, Json, connected, parse_assignments, teach
from moldau.tools.shared.output import headings, print_json, print_rows, print_table

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


class Wanted(NamedTuple):
    """Which topics, or of describe which partitions; the fields of description.Filter."""

    under_replicated: UnderReplicated = False
    unavailable: Unavailable = False
    under_min_isr: UnderMinIsr = False
    at_min_isr: AtMinIsr = False
    with_overrides: Overrides = False


@app.command("list")
@connected
def list_(
    connect: Connect,
    topics: Patterns = None,
    internal: Internal = False,
    wanted: Wanted = Wanted(),
    as_json: Json = False,
) -> None:
    """List topics with their partitions and replicas."""
    from moldau.tools.commands.topics.description import Filter, load_topics

    found = load_topics(connect(), topics, internal=internal, wanted=Filter(*wanted))
    rows = [
        {"topic": each.name, "partitions": len(each.partitions), "replicas": each.replication_factor}
        for each in found
    ]
    columns = headings("topic partitions replicas")
    print_rows(as_json, rows, columns, empty="no topics: create one with `moldau topics create NAME`")


@app.command()
@connected
def create(
    connect: Connect,
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
) -> None:
    """Create topics."""
    from moldau.client.admin.topics import NewTopic, create_topics
    from moldau.tools.shared.admin import refusal

    settings = parse_assignments(config, "--config")
    connection = connect()
    assignment = _parse_assignment(replica_assignment)
    asked = [
        NewTopic(name, partitions, replication_factor, dict(enumerate(assignment)), settings)
        for name in dict.fromkeys(topics)
    ]
    _, refused = create_topics(
        connection.cluster(), asked, validate_only=dry_run, timeout_seconds=connect.timeout_seconds
    )
    failures = []
    for topic in asked:
        problem = refused.get(topic.name)
        if problem is None:
            print(f"Topic {topic.name} would be created." if dry_run else f"Created topic {topic.name}.")
        elif not (if_not_exists and problem.name == "TOPIC_ALREADY_EXISTS"):
            failures.append(f"{topic.name}: {refusal(connection, problem)}")
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
@connected
def describe(
    connect: Connect,
    topics: Patterns = None,
    internal: Internal = False,
    all_settings: Annotated[
        bool, typer.Option("--all", "-a", help="Show defaults among the settings too.")
    ] = False,
    wanted: Wanted = Wanted(),
    as_json: Json = False,
) -> None:
    """Show partitions, leaders, replicas, offsets and settings."""
    from moldau.tools.commands.topics.description import Filter, kafka_lines, load_topics
    from moldau.tools.shared.output import on_terminal

    connection = connect()
    # Offsets cost a request a leader; the lines for scripts do not show them.
    found = load_topics(
        connection, topics, internal=internal, wanted=Filter(*wanted), offsets=as_json or on_terminal()
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
    columns = headings(
        "partition leader replicas isr elr last_known_elr start end",
        elr="ELIGIBLE",
        last_known_elr="LAST KNOWN",
    )
    if not any(each.last_known_eligible for each in topic.partitions):
        del columns["last_known_elr"]
    print_table([each.as_row() for each in topic.partitions], columns)
    settings = topic.shown_settings(all_settings)
    print_table(settings, headings("name value source", name="SETTING"))


@app.command()
@connected
def alter(
    connect: Connect,
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
) -> None:
    """Add partitions, set and unset settings."""
    from moldau.client.admin.configs import TOPIC
    from moldau.client.admin.topics import enlarge_topics
    from moldau.tools.shared.admin import (
        change_settings,
        report_each,
        require_names,
        select_names,
        topic_names,
    )

    settings = parse_assignments(config, "--config")
    if not partitions and not settings and not delete_config:
        raise UsageError("nothing to alter: give --partitions, --config or --delete-config")
    require_names(delete_config, "--delete-config")
    connection = connect()
    names = select_names(
        topics,
        topic_names(connection, internal=True),
        what="topic",
        regex=regex,
        connection=connection,
    )
    well = True
    if partitions:
        refused = enlarge_topics(
            connection.cluster(),
            dict.fromkeys(names, partitions),
            validate_only=dry_run,
            timeout_seconds=connect.timeout_seconds,
        )
        verb = "would have" if dry_run else "now has"
        well = report_each(connection, names, refused, f"{{}} {verb} {partitions} partitions.")
    if (settings or delete_config) and not dry_run:
        well &= change_settings(connection, TOPIC, names, settings, delete_config or ())
    if not well:
        raise typer.Exit(1)


@app.command()
@connected
def delete(
    connect: Connect,
    topics: Names,
    regex: Regex = False,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="Succeed if the topic does not exist.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask before deleting what a regex matched.")
    ] = False,
) -> None:
    """Delete topics and their records."""
    from moldau.client.admin.topics import delete_topics
    from moldau.tools.shared.admin import report_each, select_names, topic_names

    connection = connect()
    existing = topic_names(connection, internal=not regex)
    asked = [name for name in topics if regex or not if_exists or name in existing]
    names = select_names(asked, existing, what="topic", regex=regex, connection=connection)
    if regex and not yes:
        typer.confirm(f"delete {', '.join(names)}?", abort=True, err=True)
    refused = delete_topics(connection.cluster(), names, timeout_seconds=connect.timeout_seconds)
    if not report_each(connection, names, refused, "Deleted topic {}."):
        raise typer.Exit(1)


@app.command()
@connected
def trim(
    connect: Connect,
    topic: Annotated[str, typer.Argument(help="The topic.", autocompletion=completion.topics)],
    before: Annotated[
        str,
        typer.Option("--before", "-o", metavar="WHERE", help="An offset, end, or @MOMENT (2026-02-14, 7d)."),
    ],
    partitions: Annotated[
        list[int] | None, typer.Option("--partition", "-p", help="Only this partition. May be repeated.")
    ] = None,
) -> None:
    """Delete the records before an offset or a timestamp."""
    import time

    from moldau.client.admin.problem import KafkaProblem
    from moldau.client.admin.records import delete_records
    from moldau.client.admin.topics import leaders
    from moldau.tools.shared.admin import no_such_topic, refusal
    from moldau.tools.shared.offset_range import parse_offset_range, resolve

    if not before.strip("@ ") or ":" in before.partition("@")[0]:
        raise UsageError(f"--before {before!r} names no offset or moment: nothing was deleted")
    until = parse_offset_range(before, time.time_ns() // 1_000_000)
    if until.stop is not None:
        raise UsageError(f"--before {before!r} is a range: name where the log is to begin")
    bound = until.start
    connection = connect()
    known = leaders(connection.cluster(), [topic])
    if not known:
        raise no_such_topic(connection, topic)
    for index in partitions or ():
        if (topic, index) not in known:
            raise CommandError(f"{topic} has no partition {index}: see `moldau topics describe {topic}`")
    chosen = [place for place in known if not partitions or place[1] in partitions]
    offsets = resolve(connection.cluster(), bound, chosen)
    trimmed = delete_records(connection.cluster(), offsets, timeout_seconds=connect.timeout_seconds)
    failures = []
    for (_, index), each in trimmed.items():
        if each.error_code:
            failures.append(f"{topic}-{index}: {refusal(connection, KafkaProblem(each.error_code))}")
        else:
            print(f"{topic}-{index} now begins at offset {each.low_watermark}.")
    if failures:
        raise CommandError("\nmoldau: ".join(failures))


app.command("reassign", help=teach(reassign.HELP))(reassign.reassign)
app.command("elect", help=teach(elect.HELP))(elect.elect)
