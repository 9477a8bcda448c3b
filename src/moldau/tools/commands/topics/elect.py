"""`moldau topics elect`: leader elections that an administrator asks for (ElectLeaders)."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from moldau.tools.shared import completion
from moldau.tools.shared.errors import CommandError, UsageError
from moldau.tools.shared.options import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_TIMEOUT_SECONDS,
    Bootstrap,
    ClientSettings,
    Json,
    Timeout,
    teach,
)
from moldau.tools.shared.output import print_json, print_table

_VERSION = 2

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


def elect(
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
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    client_settings: ClientSettings = None,
    timeout: Timeout = DEFAULT_TIMEOUT_SECONDS,
) -> None:
    """Elect leaders (see HELP)."""
    from moldau.tools.commands.transactions.routing import routing_of
    from moldau.tools.shared.admin import select_names
    from moldau.tools.shared.connection import Connection
    from moldau.tools.shared.raw_request import error_words

    routing = routing_of(Connection(bootstrap, client_settings, timeout))
    if partitions and not topics:
        raise UsageError("--partition needs a topic")
    asked: dict[str, list[int]] | None = None
    if topics:
        existing = sorted({name for name, _ in routing.partitions})
        names = select_names(topics, existing, what="topic", connection=routing.connection)
        asked = {
            name: [
                i
                for place, i in sorted(routing.partitions)
                if place == name and (not partitions or i in partitions)
            ]
            for name in names
        }
    if kind is Type.UNCLEAN and not yes:
        typer.confirm("elect leaders that may lack records? What they lack is lost.", abort=True, err=True)
    rows = None
    if asked is not None:
        rows = [TopicPartitions(topic=name, partitions=indexes) for name, indexes in asked.items()]
    request = ElectLeadersRequest(
        election_type=int(kind is Type.UNCLEAN), topic_partitions=rows, timeout_ms=int(timeout * 1000)
    )
    answer = routing.ask(next(iter(routing.brokers)), request, _VERSION)
    if answer.error_code:
        raise CommandError(f"no leader was elected: {error_words(answer.error_code)}")
    found = [
        _row(topic.topic, each)
        for topic in answer.replica_election_results
        for each in topic.partition_result
    ]
    if as_json:
        print_json(found)
    else:
        columns = {"topic": "TOPIC", "partition": "PARTITION", "result": "RESULT"}
        print_table(found, columns, empty="no election was needed")
    if any(each["error"] for each in found):
        raise typer.Exit(1)


def _row(topic: str, result: Any) -> dict[str, Any]:
    from moldau.tools.shared.raw_request import error_words

    needless = result.error_code == ErrorCode.ELECTION_NOT_NEEDED
    words = result.error_message or error_words(result.error_code)
    return {
        "topic": topic,
        "partition": result.partition_id,
        "result": "elected" if not result.error_code else words,
        "error": bool(result.error_code) and not needless,
    }


def register(app: typer.Typer) -> None:
    """Add the command to `moldau topics`."""
    app.command("elect", help=teach(HELP))(elect)
