"""`moldau registry`: a schema registry with Confluent's paths."""

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

HELP = """Run a schema registry until Ctrl-C (or SIGTERM), with Confluent's paths, errors and records.

Schemas are kept in the topic _schemas. Several instances elect one that writes; any of them may be asked. A
file of settings is schema-registry.properties as Confluent's registry takes it; options win over it. Health
is at /health, metrics at /metrics.

Examples:

* moldau registry
* moldau registry -b broker:9092 --listen http://0.0.0.0:8081
* moldau registry --config schema-registry.properties --set schema.compatibility.level=full
"""


def register(root: typer.Typer) -> None:
    """Add the command to the application."""
    root.command("registry", help=teach(HELP))(registry)


def registry(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    client_settings: ClientSettings = None,
    listen: Annotated[
        list[str] | None,
        typer.Option(
            "--listen",
            "-l",
            metavar="URL",
            help="Where to listen; http://127.0.0.1:8081 if nothing says so. May be repeated.",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", "-c", metavar="FILE", help="A property file of settings, as Confluent's registry has."
        ),
    ] = None,
    settings: ServiceSettings = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Answer reads only; needs the right to read _schemas only.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run a registry (see HELP)."""
    texts = read_property_file(config, "--config") if config is not None else {}
    texts |= parse_assignments(settings, "--set")
    texts |= {f"kafkastore.{name}": value for name, value in parse_assignments(client_settings, "-X").items()}
    if listen:
        texts["listeners"] = ",".join(listen)
    if bootstrap != DEFAULT_BOOTSTRAP or "kafkastore.bootstrap.servers" not in texts:
        texts["kafkastore.bootstrap.servers"] = bootstrap
    try:
        from moldau.tools.commands.registry.running import run_registry
    except ImportError as missing:
        raise CommandError(
            f"the schema registry is not installed ({missing.name}): pip install 'moldau[registry]'"
        ) from None
    raise typer.Exit(run_registry(texts, is_read_only=read_only, as_json=as_json))
