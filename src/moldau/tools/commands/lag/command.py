"""`moldau lag`: which consumer groups are behind, with a verdict, for other programs."""

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
    teach,
)

HELP = """Watch the consumer groups of clusters until Ctrl-C (or SIGTERM), and say which are behind and why.

Burrow's HTTP interface and verdicts (OK, WARN, STOP, STALL, REWIND), its metrics at /metrics, and
notifications by HTTP, Slack and mail. --config takes a burrow.toml; without one, one cluster is watched. What
one group is behind at this moment is shown by `moldau groups describe GROUP`.

Examples:

* moldau lag
* moldau lag -b broker:9092 --listen http://127.0.0.1:8000
* moldau lag --config burrow.toml
* curl http://127.0.0.1:8000/v3/kafka/local/consumer/billing/lag
"""


def register(root: typer.Typer) -> None:
    """Add the command to the application."""
    root.command("lag", help=teach(HELP))(lag)


def lag(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    client_settings: ClientSettings = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", metavar="FILE", help="A burrow.toml: clusters, logins, notifiers."),
    ] = None,
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="The cluster's name in paths and metrics.")
    ] = "local",
    listen: Annotated[
        list[str] | None,
        typer.Option(
            "--listen",
            "-l",
            metavar="URL",
            help="Where to listen; http://127.0.0.1:8000 if nothing says so. May be repeated.",
        ),
    ] = None,
    settings: ServiceSettings = None,
    as_json: Json = False,
) -> None:
    """Run the service (see HELP)."""
    texts = parse_assignments(settings, "--set")
    if listen:
        texts["listeners"] = ",".join(listen)
    try:
        from moldau.tools.commands.lag.running import run_lag
    except ImportError as missing:
        raise CommandError(
            f"the lag service is not installed ({missing.name}): pip install 'moldau[lag]'"
        ) from None
    clients = parse_assignments(client_settings, "-X")
    if config is not None and (bootstrap != DEFAULT_BOOTSTRAP or clients):
        raise CommandError("the clusters stand in --config: leave -b and -X out, or --config")
    raise typer.Exit(run_lag(config, (name, bootstrap, clients), texts, as_json=as_json))
