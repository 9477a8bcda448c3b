"""`moldau configs`: shows and changes settings of topics, brokers and groups, with the source of each
value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from moldau.tools.shared import completion
from moldau.tools.shared.errors import CommandError, UsageError
from moldau.tools.shared.options import Connect, Json, connected, parse_assignments
from moldau.tools.shared.output import print_rows

if TYPE_CHECKING:
    from moldau.client.admin.configs import Config
    from moldau.client.cluster import Cluster

app = typer.Typer(
    no_args_is_help=True,
    help="Show and change the settings of topics, brokers and groups.",
    epilog="Try: moldau configs describe topic orders --all   "
    "and: moldau configs alter broker default --set log.retention.ms=3600000",
)

KINDS = {"topic": 2, "broker": 4, "group": 32}
"""What has settings, by the protocol's number; Kafka's plural forms are accepted too."""

Kind = Annotated[
    str, typer.Argument(metavar="KIND", help="topic, broker or group.", autocompletion=completion.kinds)
]
Name = Annotated[
    str,
    typer.Argument(
        help="A name, a broker id, or `default` for the cluster-wide defaults of brokers.",
        autocompletion=completion.named_of_kind,
    ),
]


@app.command()
@connected
def describe(
    connect: Connect,
    kind: Kind,
    name: Annotated[
        str | None,
        typer.Argument(
            help="A name, a broker id or `default`; all of the kind if absent.",
            autocompletion=completion.named_of_kind,
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Show defaults too.")] = False,
    synonyms: Annotated[
        bool, typer.Option("--synonyms", help="Show the values that apply if this one is deleted.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the settings that were set; with --all, every setting."""
    from moldau.client.admin.configs import Source, describe_configs

    number = _kind(kind)
    given = None if name is None else _name(number, name)
    cluster = connect().cluster()
    names = _names(cluster, number) if given is None else [given]
    if given is not None:
        _require_broker(cluster, number, given)
    described = describe_configs(cluster, number, names)
    rows = [
        _row(resource_name, each, synonyms)
        for resource_name, entries in sorted(described.items())
        for each in sorted(entries)
        if everything or each.source != Source.DEFAULT_CONFIG
    ]
    columns = {"resource": kind.upper(), "name": "SETTING", "value": "VALUE", "source": "SOURCE"}
    if synonyms:
        columns["synonyms"] = "SYNONYMS"
    print_rows(as_json, rows, columns, empty="nothing was set; --all shows the defaults")


def _row(resource_name: str, entry: Config, synonyms: bool) -> dict[str, Any]:
    from moldau.tools.shared.admin import SOURCES

    row: dict[str, Any] = {
        "resource": resource_name or "default",
        "name": entry.name,
        "value": "(hidden)" if entry.is_sensitive else entry.value,
        "source": SOURCES[entry.source],
        "read_only": entry.is_read_only,
    }
    if synonyms:
        row["synonyms"] = [f"{SOURCES[each.source]}:{each.name}={each.value}" for each in entry.synonyms]
    return row


@app.command()
@connected
def alter(
    connect: Connect,
    kind: Kind,
    name: Name,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", metavar="NAME=VALUE", help="Set a setting. May be repeated."),
    ] = None,
    delete: Annotated[
        list[str] | None,
        typer.Option("--delete", "-d", metavar="NAME", help="Reset a setting to its default."),
    ] = None,
) -> None:
    """Set settings, or reset them to their defaults."""
    from moldau.tools.shared.admin import change_settings, require_names

    settings = parse_assignments(set_, "--set")
    if not settings and not delete:
        raise UsageError("nothing to alter: give --set NAME=VALUE or --delete NAME")
    number = _kind(kind)
    resource_name = _name(number, name)
    require_names(delete, "--delete")
    connection = connect()
    _require_broker(connection.cluster(), number, resource_name)
    if not change_settings(connection, number, [resource_name], settings, delete or ()):
        raise typer.Exit(1)


def _kind(word: str) -> int:
    singular = word.lower().rstrip("s")
    if singular not in KINDS:
        raise UsageError(f"{word!r} has no settings: use topic, broker or group")
    return KINDS[singular]


def _name(kind: int, name: str) -> str:
    """The resource's name in requests: "" for the cluster-wide defaults, which only `default` means."""
    if not name:
        raise UsageError("the name is empty; `broker default` means the defaults of every broker")
    if kind == KINDS["broker"]:
        if name == "default":
            return ""
        if not name.isdigit():
            raise UsageError(
                f"{name!r} is not a broker's id: `moldau status` shows the ids; `default` means all of them"
            )
    return name


def _require_broker(cluster: Cluster, kind: int, name: str) -> None:
    """Raise CommandError for an unknown broker id."""
    from moldau.client.admin.topics import describe_cluster

    if kind == KINDS["broker"] and name:
        known = [each.broker_id for each in describe_cluster(cluster).brokers]
        if int(name) not in known:
            raise CommandError(f"there is no broker {name}; known brokers: {', '.join(map(str, known))}")


def _names(cluster: Cluster, kind: int) -> list[str]:
    """Return all resources of a kind: topics, brokers, or groups."""
    from moldau.client.admin.groups import list_all_groups
    from moldau.client.admin.topics import describe_cluster, describe_topics

    if kind == KINDS["topic"]:
        return [each.name for each in describe_topics(cluster)]
    if kind == KINDS["broker"]:
        return [str(each.broker_id) for each in describe_cluster(cluster).brokers]
    return sorted(
        each.group_id for each in list_all_groups(cluster) if each.protocol_type in ("", "consumer")
    )
