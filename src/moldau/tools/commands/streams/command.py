"""`moldau streams`: run, list, describe, reset.

The app itself is run by `moldau.streams`; here are options and output. `list`, `describe` and `reset` read
checkpoints and ask the cluster; they do not import PySpark.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from moldau.tools.shared.errors import CommandError, UsageError
from moldau.tools.shared.options import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_TIMEOUT_SECONDS,
    ClientSettings,
    Json,
    Timeout,
    teach,
)
from moldau.tools.shared.output import note
from moldau.tools.shared.schema_registry import RegistrySettings

if TYPE_CHECKING:
    from moldau.streams.folder import Folder
    from moldau.tools.shared.connection import Connection

DEFAULT_CHECKPOINTS = "checkpoints"

app = typer.Typer(
    no_args_is_help=True,
    help="Run pipelines on Spark: topics in, topics and tables out (docs/streams.md is the tutorial).",
    epilog="Try: moldau streams run app.py   and, while it runs: moldau streams describe delays",
)

Checkpoints = Annotated[
    str | None,
    typer.Option(
        "--checkpoints",
        "-c",
        metavar="FOLDER",
        envvar="MOLDAU_CHECKPOINTS",
        help="The folder (or URI) of the apps' checkpoints.",
    ),
]
Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server",
        "-b",
        metavar="HOST:PORT",
        help="A broker of the cluster; else what the app says, else MOLDAU_BOOTSTRAP, else 127.0.0.1:9092.",
        rich_help_panel="Connection",
    ),
]


RUN_HELP = teach("""
Run an app's flows in one Spark session, until Ctrl-C (or SIGTERM), or with --once until all is read.

The file is Python that makes an app and flows (docs/streams.md), or SQL statements (.sql):

* from moldau.streams import App
* app = App("late")
* flights = app.topic("flights", schema="carrier string, dep_delay double")
* @app.to("late-flights", key="carrier")
* def late_flights(): return flights.stream().where("dep_delay > 60")

Examples:

* moldau streams run app.py                        with Spark inside this process
* moldau streams run app.py --once                 what is there now, then end
* moldau streams run app.py -m spark://host:7077 --checkpoints s3a://bucket/checkpoints
* moldau streams run app.py --spark spark.driver.memory=4g

Ctrl-C lets the micro-batches that run finish; pressed twice it does not wait. Started again, every flow goes
on from its checkpoint.

What Spark itself has to say goes to a file, which the first line names; it is removed when all went well.

A flow that fails is started again, three times (while no broker answers: for ever); then it stays stopped,
the others go on, and the exit code at the end is 1. When an app is started twice, the newer driver takes over
and the older one stops.
""")


@app.command(help=RUN_HELP)
def run(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The app: a .py or .sql file.")],
    master: Annotated[
        str | None,
        typer.Option(
            "--master", "-m", metavar="URL", help="A Spark cluster; else Spark runs inside this process."
        ),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Read what is there now, then end (Spark's AvailableNow).")
    ] = False,
    checkpoints: Checkpoints = None,
    app_name: Annotated[
        str | None, typer.Option("--app", metavar="NAME", help="Which app, if the file makes several.")
    ] = None,
    delivery: Annotated[
        str | None,
        typer.Option(
            "--delivery", metavar="MODE", help="exactly-once or at-least-once, whatever the app says."
        ),
    ] = None,
    spark: Annotated[
        list[str] | None,
        typer.Option("--spark", metavar="NAME=VALUE", help="A setting of Spark's. May be repeated."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a line of JSON per flow and second instead of a table.")
    ] = False,
    bootstrap: Bootstrap = None,
    registry: Annotated[
        str | None,
        typer.Option(
            "--schema-registry",
            "-r",
            metavar="URL",
            help="The registry of topics that have a schema there; else what the app says, else "
            "MOLDAU_SCHEMA_REGISTRY.",
            rich_help_panel="Connection",
        ),
    ] = None,
    registry_settings: RegistrySettings = None,
    client_settings: ClientSettings = None,
) -> None:
    """Run an app's flows."""
    from moldau.tools.commands.streams.run import RunOptions, run_file

    run_file(
        file,
        RunOptions(
            master=master,
            once=once,
            checkpoints=checkpoints,
            app_name=app_name,
            delivery=delivery,
            spark=tuple(spark or ()),
            as_json=as_json,
            bootstrap=bootstrap,
            registry=registry,
            registry_settings=tuple(registry_settings or ()),
            client_settings=tuple(client_settings or ()),
        ),
    )


App = Annotated[str, typer.Argument(metavar="APP", help="The app's name.")]
Flows = Annotated[list[str] | None, typer.Argument(metavar="[FLOW]", help="The flows; default: all.")]


@app.command("list")
def list_(
    checkpoints: Checkpoints = None,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
    client_settings: ClientSettings = None,
    timeout: Timeout = DEFAULT_TIMEOUT_SECONDS,
) -> None:
    """List apps and flows: those with checkpoints in the folder, and those whose groups the cluster knows.

    The latter are `elsewhere`: their checkpoints are in another folder, or gone.
    """
    from moldau.tools.commands.streams.checkpoints import show_list

    with said_as_sentences():
        show_list(_root(checkpoints), _connection(bootstrap, client_settings, timeout), as_json)


@app.command()
def describe(
    name: App,
    flows: Flows = None,
    checkpoints: Checkpoints = None,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
    client_settings: ClientSettings = None,
    timeout: Timeout = DEFAULT_TIMEOUT_SECONDS,
) -> None:
    """Show the state of an app's flows: topics, micro-batch, watermark, and position and lag by partition.

    POSITION is the checkpoint's: the flow continues there. GROUP-OFFSET is what Kafka's tools show. No LAG
    means that no broker answered.
    """
    from moldau.tools.commands.streams.checkpoints import show_description

    with said_as_sentences():
        connection = _connection(bootstrap, client_settings, timeout)
        show_description(_root(checkpoints), name, flows or [], connection, as_json)


@app.command()
def reset(
    name: App,
    flows: Flows = None,
    checkpoints: Checkpoints = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    bootstrap: Bootstrap = None,
    client_settings: ClientSettings = None,
    timeout: Timeout = DEFAULT_TIMEOUT_SECONDS,
) -> None:
    """Make flows start over: remove their checkpoints, state and group offsets.

    The next run starts at the beginning of the input topics unless the app says otherwise, and writes its
    output again. Records in topics stay. The app must be stopped.
    """
    from moldau.tools.commands.streams.checkpoints import forget, require_flows, require_stopped

    if checkpoints is not None and not checkpoints.strip():
        raise UsageError("--checkpoints is empty: nothing was removed")
    with said_as_sentences():
        root = _root(checkpoints)
        chosen = require_flows(root, name, flows or [])
        require_stopped(chosen)
        names = ", ".join(each.flow for each in chosen)
        if not yes and not typer.confirm(f"Remove checkpoints and state of {names} (app {name}) in {root}?"):
            raise CommandError("nothing was removed")
        forget(root, chosen, _connection(bootstrap, client_settings, timeout))


def _root(checkpoints: str | None) -> Folder:
    from moldau.streams.folder import Folder

    return Folder(checkpoints or DEFAULT_CHECKPOINTS)


def _connection(
    bootstrap: str | None, client_settings: list[str] | None, timeout: float
) -> Connection | None:
    """The cluster; None, with a note, if no broker answers."""
    from moldau.tools.shared.connection import Connection

    servers = bootstrap or os.environ.get("MOLDAU_BOOTSTRAP") or DEFAULT_BOOTSTRAP
    try:
        return Connection(servers, client_settings, timeout)
    except UsageError:
        raise
    except CommandError as failure:
        if bootstrap:
            raise
        note(f"moldau: {failure}; this is the state in the checkpoints")
        return None


@contextmanager
def said_as_sentences() -> Iterator[None]:
    """Turn errors of moldau.streams into CommandError."""
    from moldau.streams import AppError, StreamsError

    try:
        yield
    except AppError as failure:
        raise UsageError(str(failure)) from failure
    except StreamsError as failure:
        raise CommandError(str(failure)) from failure
