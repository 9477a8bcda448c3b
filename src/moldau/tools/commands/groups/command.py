"""`moldau groups`: list, describe, members, state, delete, delete-offsets, reset-offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from moldau.tools.commands.groups import reset_offsets
from moldau.tools.shared import completion
from moldau.tools.shared.errors import CommandError, explain_kafka_failure
from moldau.tools.shared.options import Connect, Json, connected, teach
from moldau.tools.shared.output import headings, note, print_json, print_rows, print_table

if TYPE_CHECKING:
    from moldau.tools.shared.connection import Connection

app = typer.Typer(
    no_args_is_help=True,
    help="Show groups of consumers (share groups too), their offsets and lag; reset offsets, delete groups.",
    epilog="Try: moldau groups describe billing   "
    "and: moldau groups reset-offsets billing --topic orders --to-datetime 2026-02-14T09:00:00.000",
)

Groups = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="GROUP",
        help="Names or regular expressions; default: all.",
        autocompletion=completion.groups,
    ),
]
States = Annotated[
    list[str] | None, typer.Option("--state", "-s", help="Only groups in this state (Stable, Empty, ...).")
]
Types = Annotated[
    list[str] | None, typer.Option("--type", "-t", help="Only groups of this type: classic, consumer, share.")
]


@app.command("list")
@connected
def list_(connect: Connect, states: States = None, types: Types = None, as_json: Json = False) -> None:
    """List groups with their state and type."""
    from moldau.tools.commands.groups.description import list_groups

    rows = [
        {"group": each.group_id, "state": each.state, "type": each.type.capitalize()}
        for each in list_groups(connect().cluster(), states, types)
    ]
    print_rows(as_json, rows, headings("group state type"), empty="no groups")


@app.command()
@connected
def describe(connect: Connect, groups: Groups = None, as_json: Json = False) -> None:
    """Show committed offset, log end offset, lag and member of each partition."""
    from moldau.tools.commands.groups.description import describe_groups, offset_rows

    connection = connect()
    described = describe_groups(connection, groups)
    rows = [row for each in described for row in offset_rows(connection.cluster(), each)]
    if as_json:
        print_json(rows)
        return
    for each in described:
        if not each.members:
            note(f"Consumer group '{each.group_id}' has no active members.")
    columns = headings("group topic partition current_offset log_end_offset lag consumer_id host client_id")
    if any(row["note"] for row in rows):
        columns["note"] = "NOTE"
    print_table(rows, columns, empty="no committed offsets and no members")


@app.command()
@connected
def members(
    connect: Connect,
    groups: Groups = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show the assigned partitions.")] = False,
    as_json: Json = False,
) -> None:
    """Show the members of groups and the number of their partitions."""
    from moldau.tools.commands.groups.description import describe_groups

    rows: list[dict[str, Any]] = [
        {
            "group": each.group_id,
            "consumer_id": member.member_id,
            "instance_id": member.instance_id,
            "host": member.host,
            "client_id": member.client_id,
            "partitions": len(member.assignment),
            "assignment": [f"{topic}-{index}" for topic, index in member.assignment],
        }
        for each in describe_groups(connect(), groups)
        for member in sorted(each.members)
    ]
    columns = headings("group consumer_id")
    if any(row["instance_id"] for row in rows):
        columns["instance_id"] = "GROUP-INSTANCE-ID"
    columns |= headings("host client_id partitions", partitions="#PARTITIONS")
    if verbose:
        columns["assignment"] = "ASSIGNMENT"
    print_rows(as_json, rows, columns, empty="no active members")


@app.command()
@connected
def state(connect: Connect, groups: Groups = None, as_json: Json = False) -> None:
    """Show the coordinator, assignor, state and size of groups."""
    from moldau.tools.commands.groups.description import describe_groups

    rows = [
        {
            "group": each.group_id,
            "coordinator": f"{each.coordinator.host}:{each.coordinator.port} ({each.coordinator.broker_id})",
            "assignor": each.assignor,
            "state": each.state,
            "members": len(each.members),
        }
        for each in describe_groups(connect(), groups)
    ]
    if as_json:
        print_json(rows)
        return
    columns = {
        "group": "GROUP",
        "coordinator": "COORDINATOR (ID)",
        "assignor": "ASSIGNMENT-STRATEGY",
        "state": "STATE",
        "members": "#MEMBERS",
    }
    print_table(rows, columns, empty="no groups")


@app.command()
@connected
def delete(
    connect: Connect,
    groups: Annotated[
        list[str],
        typer.Argument(
            metavar="GROUP", help="Names, or regular expressions with -r.", autocompletion=completion.groups
        ),
    ],
    regex: Annotated[bool, typer.Option("--regex", "-r", help="The names are regular expressions.")] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask before deleting what a regex matched.")
    ] = False,
) -> None:
    """Delete groups and their committed offsets. The groups must have no members."""
    from moldau.client.admin.groups import delete_groups
    from moldau.client.admin.problem import KafkaProblem
    from moldau.tools.commands.groups.description import list_groups
    from moldau.tools.shared.admin import select_names

    connection = connect()
    existing = [each.group_id for each in list_groups(connection.cluster())]
    names = select_names(groups, existing, what="group", regex=regex, connection=connection)
    if regex and not yes:
        typer.confirm(f"delete {', '.join(names)}?", abort=True, err=True)
    outcome = delete_groups(connection.cluster(), names)
    for name, code in outcome.items():
        if code:
            note(f"moldau: {name}: {explain_kafka_failure(KafkaProblem(code))}")
        else:
            print(f"Deleted group {name}.")
    if any(outcome.values()):
        raise typer.Exit(1)


@app.command("delete-offsets")
@connected
def delete_offsets(
    connect: Connect,
    group: Annotated[str, typer.Argument(help="The group.", autocompletion=completion.groups)],
    topics: Annotated[
        list[str],
        typer.Option(
            "--topic",
            metavar="TOPIC[:0,1]",
            help="A topic, or some partitions of it.",
            autocompletion=completion.topics_to_reset,
        ),
    ],
) -> None:
    """Delete a group's committed offsets of topics that no member is subscribed to."""
    from moldau.client.admin.groups import delete_committed_offsets
    from moldau.client.admin.problem import KafkaProblem
    from moldau.client.errors import error_words
    from moldau.tools.commands.groups.description import expand_topics, share_group_ids

    connection = connect()
    if group in share_group_ids(connection.cluster()):
        _forget_topics(connection, group, topics)
        return
    try:
        outcome = delete_committed_offsets(connection.cluster(), group, expand_topics(connection, topics))
    except KafkaProblem as problem:
        raise CommandError(f"group {group!r}: {problem.words}") from None
    failed = {place: error_words(code) for place, code in outcome.items() if code}
    for topic, index in sorted(set(outcome) - set(failed)):
        print(f"Deleted the offset of {topic}-{index}.")
    if failed:
        raise CommandError(
            "; ".join(f"{topic}-{index}: {problem}" for (topic, index), problem in sorted(failed.items()))
        )


def _forget_topics(connection: Connection, group: str, topics: list[str]) -> None:
    """Let a share group forget topics, whole ones."""
    from moldau.client.admin.problem import KafkaProblem
    from moldau.client.admin.share_groups import delete_share_offsets
    from moldau.client.errors import error_words

    if any(":" in each for each in topics):
        raise CommandError(f"group {group!r} is a share group: it forgets whole topics only")
    try:
        outcome = delete_share_offsets(connection.cluster(), group, topics)
    except KafkaProblem as problem:
        raise CommandError(f"group {group!r}: {problem.words}") from None
    for topic, code in outcome.items():
        if not code:
            print(f"Deleted the offsets of {topic}.")
    if any(outcome.values()):
        failed = {topic: error_words(code) for topic, code in outcome.items() if code}
        raise CommandError("; ".join(f"{topic}: {words}" for topic, words in failed.items()))


app.command("reset-offsets", help=teach(reset_offsets.HELP))(reset_offsets.reset_offsets)
