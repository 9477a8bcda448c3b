"""`moldau configs`: shows and changes settings of topics, brokers and groups, with the source of each
value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from moldau.tools.shared import completion
from moldau.tools.shared.errors import CommandError, UsageError
from moldau.tools.shared.options import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_TIMEOUT_SECONDS,
    Bootstrap,
    ClientSettings,
    Json,
    Timeout,
    parse_assignments,
)
from moldau.tools.shared.output import note, print_json, print_table

if TYPE_CHECKING:
    from moldau.tools.shared.connection import Connection

app = typer.Typer(
    no_args_is_help=True,
    help="Show and change the settings of topics, brokers and groups.",
    epilog="Try: moldau configs describe topic orders --all   "
    "and: moldau configs alter broker default --set log.retention.ms=3600000",
)

KINDS = {"topic": "TOPIC", "broker": "BROKER", "group": "GROUP"}
"""Kinds of resources with settings; Kafka's plural forms are accepted too."""

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


def register(root: typer.Typer) -> None:
    """Add the command to the application."""
    root.add_typer(app, name="configs")


@app.command()
def describe(
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
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    client_settings: ClientSettings = None,
    timeout: Timeout = DEFAULT_TIMEOUT_SECONDS,
) -> None:
    """Show the settings that were set; with --all, every setting."""
    from moldau.tools.shared.admin import describe_configs
    from moldau.tools.shared.connection import Connection

    resource_kind = _kind(kind)
    given = None if name is None else _name(resource_kind, name)
    connection = Connection(bootstrap, client_settings, timeout)
    admin = connection.admin()
    names = _names(admin, connection, resource_kind) if given is None else [given]
    if given == "":
        from moldau.tools.commands.configs.cluster_defaults import describe_default

        described: dict[str, dict[str, Any]] = {"": {**describe_default(connection)}}
    else:
        if name is not None:
            _require_broker(admin, connection, resource_kind, name)
        described = describe_configs(admin, connection, resource_kind, names)
    rows = [
        _row(resource_name, entry, synonyms)
        for resource_name, entries in sorted(described.items())
        for entry in sorted(entries.values(), key=lambda each: str(each.name))
        if everything or (entry.source != 5 and not entry.is_default)
    ]
    if as_json:
        print_json(rows)
        return
    columns = {"resource": kind.upper(), "name": "SETTING", "value": "VALUE", "source": "SOURCE"}
    if synonyms:
        columns["synonyms"] = "SYNONYMS"
    print_table(rows, columns, empty="nothing was set; --all shows the defaults")


def _row(resource_name: str, entry: Any, synonyms: bool) -> dict[str, Any]:
    from moldau.tools.shared.admin import SOURCES

    row = {
        "resource": resource_name or "default",
        "name": entry.name,
        "value": "(hidden)" if entry.is_sensitive else entry.value,
        "source": SOURCES.get(entry.source, str(entry.source)),
        "read_only": entry.is_read_only,
    }
    if synonyms:
        row["synonyms"] = [
            f"{SOURCES.get(each.source, str(each.source))}:{each.name}={each.value}"
            for each in (entry.synonyms or {}).values()
        ]
    return row


@app.command()
def alter(
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
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    client_settings: ClientSettings = None,
    timeout: Timeout = DEFAULT_TIMEOUT_SECONDS,
) -> None:
    """Set settings, or reset them to their defaults."""
    from moldau.tools.shared.admin import alter_configs, require_names
    from moldau.tools.shared.connection import Connection

    settings = parse_assignments(set_, "--set")
    if not settings and not delete:
        raise UsageError("nothing to alter: give --set NAME=VALUE or --delete NAME")
    resource_kind = _kind(kind)
    resource_name = _name(resource_kind, name)
    require_names(delete, "--delete")
    connection = Connection(bootstrap, client_settings, timeout)
    if not resource_name:
        from moldau.tools.commands.configs.cluster_defaults import alter_default, describe_default

        if delete:
            held = describe_default(connection)
            for each in delete:
                if each not in held:
                    note(
                        f"moldau: no default of {each} was set: see `moldau configs describe broker default`"
                    )
        alter_default(connection, settings, delete or ())
        print("Updated the settings of every broker (default).")
        return
    _require_broker(connection.admin(), connection, resource_kind, resource_name)
    if not alter_configs(connection, resource_kind, [resource_name], settings, delete or ()):
        raise typer.Exit(1)


def _kind(word: str) -> Any:
    from confluent_kafka.admin import ResourceType

    singular = word.lower().rstrip("s")
    if singular not in KINDS:
        raise UsageError(f"{word!r} has no settings: use topic, broker or group")
    return getattr(ResourceType, KINDS[singular])


def _name(kind: Any, name: str) -> str:
    """The resource's name in requests: "" for the cluster-wide defaults, which only `default` means."""
    from confluent_kafka.admin import ResourceType

    if not name:
        raise UsageError("the name is empty; `broker default` means the defaults of every broker")
    if kind == ResourceType.BROKER:
        if name == "default":
            return ""
        if not name.isdigit():
            raise UsageError(
                f"{name!r} is not a broker's id: `moldau status` shows the ids; `default` means all of them"
            )
    return name


def _require_broker(admin: Any, connection: Connection, kind: Any, name: str) -> None:
    """Raise CommandError for an unknown broker id: librdkafka would wait for it until its timeout."""
    from confluent_kafka.admin import ResourceType

    if kind == ResourceType.BROKER:
        known = sorted(admin.list_topics(timeout=connection.timeout_seconds).brokers)
        if int(name) not in known:
            raise CommandError(f"there is no broker {name}; known brokers: {', '.join(map(str, known))}")


def _names(admin: Any, connection: Connection, kind: Any) -> list[str]:
    """Return all resources of a kind: topics, brokers and their cluster-wide defaults, or groups."""
    from confluent_kafka.admin import ResourceType

    from moldau.tools.shared.admin import topic_names, wait

    if kind == ResourceType.TOPIC:
        return topic_names(admin, connection, internal=True)
    if kind == ResourceType.BROKER:
        brokers = admin.list_topics(timeout=connection.timeout_seconds).brokers
        return [str(broker) for broker in sorted(brokers)]
    listed = wait(admin.list_consumer_groups(request_timeout=connection.timeout_seconds), connection)
    return sorted(group.group_id for group in listed.valid)
