"""`moldau topics elect`: leader elections that an administrator asks for (ElectLeaders)."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from moldau.client.admin.elections import Election, elect_leaders
from moldau.client.admin.layout import Place
from moldau.tools.shared import completion
from moldau.tools.shared.errors import UsageError
from moldau.tools.shared.options import Connect, Json, connected
from moldau.tools.shared.output import headings, print_rows

HELP = """Elect leaders: the preferred replicas, or (unclean) any that is alive.

A preferred election moves leadership back to the first replica of each partition. An unclean one gives a
partition without a leader one that may lack records: what it lacks is lost.

Examples:

* moldau topics elect
* moldau topics elect orders --partition 3
* moldau topics elect orders --type unclean --yes
"""


class Type(StrEnum):
    """Which replica is to lead."""

    PREFERRED = "preferred"
    UNCLEAN = "unclean"


@connected
def elect(
    connect: Connect,
    topics: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TOPIC",
            help="Names or regular expressions; default: all.",
            autocompletion=completion.topics,
        ),
    ] = None,
    kind: Annotated[Type, typer.Option("--type", "-t", help="Which replica is to lead.")] = Type.PREFERRED,
    partitions: Annotated[
        list[int] | None, typer.Option("--partition", "-p", help="Only this partition. May be repeated.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before an unclean election.")] = False,
    as_json: Json = False,
) -> None:
    """Elect leaders (see HELP)."""
    from moldau.tools.shared.admin import select_names

    connection = connect()
    layout = connection.layout()
    if partitions and not topics:
        raise UsageError("--partition needs a topic")
    asked: list[Place] | None = None
    if topics:
        names = select_names(topics, layout.topics, what="topic", connection=connection)
        asked = [
            (name, index)
            for name, index in layout.partitions
            if name in names and (not partitions or index in partitions)
        ]
    if kind is Type.UNCLEAN and not yes:
        typer.confirm("elect leaders that may lack records? What they lack is lost.", abort=True, err=True)
    found = [
        _row(each)
        for each in elect_leaders(layout.cluster, int(kind is Type.UNCLEAN), asked, connect.timeout_seconds)
    ]
    columns = headings("topic partition result")
    print_rows(as_json, found, columns, empty="no election was needed")
    if any(each["error"] for each in found):
        raise typer.Exit(1)


def _row(election: Election) -> dict[str, Any]:
    return {
        "topic": election.place[0],
        "partition": election.place[1],
        "result": election.words or "elected",
        "error": bool(election.error_code) and not election.is_needless,
    }
