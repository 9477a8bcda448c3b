"""`moldau rest`: Kafka over HTTP."""

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

HELP = """Serve Kafka over HTTP until Ctrl-C (or SIGTERM): Confluent's API in versions 2 and 3, and more.

A page to try the operations is at /ui, their OpenAPI document at /openapi.json, health at /health, metrics at
/metrics. A file of settings is kafka-rest.properties as Confluent's proxy takes it; options win over it.

Examples:

* moldau rest
* moldau rest -b broker:9092 --listen http://0.0.0.0:8082 --schema-registry http://127.0.0.1:8081
* moldau rest --config kafka-rest.properties
* curl -N -H 'Accept: text/event-stream' http://127.0.0.1:8082/v3/clusters/ID/topics/orders/records
"""


def register(root: typer.Typer) -> None:
    """Add the command to the application."""
    root.command("rest", help=teach(HELP))(rest)


def rest(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    client_settings: ClientSettings = None,
    listen: Annotated[
        list[str] | None,
        typer.Option(
            "--listen",
            "-l",
            metavar="URL",
            help="Where to listen; http://127.0.0.1:8082 if nothing says so. May be repeated.",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", "-c", metavar="FILE", help="A property file of settings, as Confluent's proxy has."
        ),
    ] = None,
    settings: ServiceSettings = None,
    schema_registry: Annotated[
        str | None,
        typer.Option(
            "--schema-registry",
            metavar="URL",
            envvar="MOLDAU_SCHEMA_REGISTRY",
            help="The schema registry, for Avro, JSON Schema and Protobuf.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Run the proxy (see HELP)."""
    texts = read_property_file(config, "--config") if config is not None else {}
    texts |= parse_assignments(settings, "--set")
    texts |= {f"client.{name}": value for name, value in parse_assignments(client_settings, "-X").items()}
    if schema_registry:
        texts["schema.registry.url"] = schema_registry
    if listen:
        texts["listeners"] = ",".join(listen)
    named = bootstrap != DEFAULT_BOOTSTRAP
    if named or "bootstrap.servers" not in texts:
        texts["bootstrap.servers"] = bootstrap
    try:
        from moldau.tools.commands.rest.running import run_proxy
    except ImportError as missing:
        raise CommandError(
            f"the REST proxy is not installed ({missing.name}): pip install 'moldau[rest]'"
        ) from None
    raise typer.Exit(run_proxy(texts, as_json=as_json))
