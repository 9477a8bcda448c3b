"""`moldau connect run`: a worker as a program."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from moldau.tools.shared.errors import CommandError
from moldau.tools.shared.options import DEFAULT_BOOTSTRAP, Bootstrap, Json, ServiceSettings, parse_assignments

HELP = """Run a worker until Ctrl-C (or SIGTERM); workers of one group.id share connectors.

Without a file: the group moldau-connect, JSON converters, and the topics connect-configs, connect-offsets and
connect-status with as many replicas as the brokers' default. A file without group.id: a worker alone.

Examples:

* moldau connect run
* moldau connect run connect-distributed.properties --listen http://0.0.0.0:8083
* moldau connect run connect-standalone.properties file-source.properties file-sink.json
"""

DEFAULTS = {
    "group.id": "moldau-connect",
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "config.storage.topic": "connect-configs",
    "offset.storage.topic": "connect-offsets",
    "status.storage.topic": "connect-status",
    "config.storage.replication.factor": "-1",
    "offset.storage.replication.factor": "-1",
    "status.storage.replication.factor": "-1",
}
"""A worker's settings where no file has any."""


def run(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[WORKER.properties [CONNECTOR...]]",
            help="The worker's settings, as Kafka's connect-standalone and connect-distributed take them; "
            "then connectors (properties or JSON).",
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    listen: Annotated[
        list[str] | None,
        typer.Option(
            "--listen", "-l", metavar="URL", help="Where the REST interface listens. May be repeated."
        ),
    ] = None,
    settings: ServiceSettings = None,
    as_json: Json = False,
) -> None:
    """Run a worker (see HELP)."""
    from moldau.tools.commands.connect.worker_files import connector_file, worker_texts

    file = files[0] if files else None
    texts = worker_texts(file) if file is not None else dict(DEFAULTS)
    texts |= parse_assignments(settings, "--set")
    if listen:
        texts["listeners"] = ",".join(listen)
    if bootstrap != DEFAULT_BOOTSTRAP or "bootstrap.servers" not in texts:
        texts["bootstrap.servers"] = bootstrap
    connectors = [connector_file(each) for each in (files or [])[1:]]
    try:
        from moldau.tools.commands.connect.running import run_worker
    except ImportError as missing:
        raise CommandError(
            f"the Connect worker is not installed ({missing.name}): pip install 'moldau[connect]'"
        ) from None
    raise typer.Exit(run_worker(texts, connectors, file=file, as_json=as_json))
