"""`moldau streams`: run, list, describe, reset.

What runs an app is `moldau.streams`; here are options, tables and pictures. PySpark is imported only by what
needs it: `list`, `describe` and `reset` read checkpoints and ask the cluster, without a session.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from moldau.cli.options import ClientSettings, teach

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
        help="The folder (or URI) in which apps keep what must survive a restart.",
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


def register(root: typer.Typer) -> None:
    """Add the command to the application."""
    root.add_typer(app, name="streams")


RUN_HELP = teach(
    """Run an app's flows in one Spark session, until Ctrl-C (or SIGTERM) or with --once until all is read.

    The file makes an app and flows, or holds SQL statements (.sql):

* # app.py
* from moldau.streams import App
* app = App("late")
* flights = app.topic("flights", schema="carrier string, dep_delay double")
    *
* @app.to("late-flights", key="carrier")
* def late_flights():
*     return flights.stream().where("dep_delay > 60")

    Examples:

* moldau streams run app.py                                      with Spark inside this process
* moldau streams run app.py --once                               what is there now, then end
* moldau streams run app.py --master spark://host:7077 --checkpoints s3a://bucket/checkpoints
* moldau streams run app.py --spark spark.driver.memory=4g

    Ctrl-C lets the micro-batches that run finish; pressed twice it does not wait. Started again, every flow
    goes on where its checkpoint is. A flow that fails is started again, three times (while no broker
    answers, for ever); then it stays stopped while the others go on, and the exit code is 1 at the end.
    Started twice, the newer driver takes over and the older one stops."""
)


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
    client_settings: ClientSettings = None,
) -> None:
    """Run an app's flows."""
    from moldau.cli.streams_run import RunOptions, run_file

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
            client_settings=tuple(client_settings or ()),
        ),
    )
