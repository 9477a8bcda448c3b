"""`moldau console`: the cluster in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from moldau.tools.shared.errors import CommandError
from moldau.tools.shared.options import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    ClientSettings,
    Json,
    ServiceSettings,
    parse_assignments,
    read_property_file,
    teach,
)

HELP = """Show a cluster in a browser until Ctrl-C (or SIGTERM): health, topics, messages, groups and more.

On this machine's own address it needs no login, and changes nothing unless --allow-changes is given; at any
other address people log in as users of the brokers (SCRAM). Every page is also there as JSON; /openapi.json
describes that.

Examples:

* moldau console
* moldau console -b broker:9092 --allow-changes
* moldau console --schema-registry http://127.0.0.1:8081 --listen http://127.0.0.1:9000
* moldau console --listen https://0.0.0.0:8443 --config console.properties
"""


def register(root: typer.Typer) -> None:
    """Add the command to the application."""
    root.command("console", help=teach(HELP))(console)


def console(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    client_settings: ClientSettings = None,
    listen: Annotated[
        list[str] | None,
        typer.Option(
            "--listen",
            "-l",
            metavar="URL",
            help="Where to listen; http://127.0.0.1:8080 if nothing says so. May be repeated.",
        ),
    ] = None,
    allow_changes: Annotated[
        bool,
        typer.Option("--allow-changes", help="Without a login, too, topics and groups may be changed."),
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", metavar="FILE", help="A property file of settings."),
    ] = None,
    settings: ServiceSettings = None,
    schema_registry: Annotated[
        str | None,
        typer.Option(
            "--schema-registry",
            metavar="URL",
            envvar="MOLDAU_SCHEMA_REGISTRY",
            help="The schema registry, by which keys and values are decoded.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Run the console (see HELP)."""
    texts = read_property_file(config, "--config") if config is not None else {}
    texts |= parse_assignments(settings, "--set")
    texts |= {f"client.{name}": value for name, value in parse_assignments(client_settings, "-X").items()}
    if schema_registry:
        texts["schema.registry.url"] = schema_registry
    if allow_changes:
        texts["moldau.console.allow.changes"] = "true"
    if listen:
        texts["listeners"] = ",".join(listen)
    if bootstrap != DEFAULT_BOOTSTRAP or "bootstrap.servers" not in texts:
        texts["bootstrap.servers"] = bootstrap
    try:
        from moldau.tools.commands.console.running import run_console
    except ImportError as missing:
        raise CommandError(
            f"the console is not installed ({missing.name}): pip install 'moldau[console]'"
        ) from None
    raise typer.Exit(run_console(texts, as_json=as_json))
