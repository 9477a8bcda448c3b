"""`moldau demo-connect`: see the package. Exit code 0 means that the files have the table as SQL has it."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from moldau.tools.commands.connect.requests import Connect
from moldau.tools.demo.command import started_broker
from moldau.tools.demo.connect.check import difference, file_rows
from moldau.tools.demo.connect.database import Database, database, require_postgres
from moldau.tools.demo.connect.notebook import write_and_run
from moldau.tools.demo.connect.pipeline import SINK, SOURCE, TOPIC, sink_config, source_config, start, worker
from moldau.tools.demo.flights import FLIGHT_COUNT
from moldau.tools.demo.screen import Screen
from moldau.tools.shared.errors import CommandError

_CHANGES = 30
_SECONDS_MAX = 300.0
_PAUSE_SECONDS = 1.0


def register(root: typer.Typer) -> None:
    """Add the command to the application."""
    root.command("demo-connect")(demo_connect)


def demo_connect(
    flights: Annotated[
        int, typer.Option("--flights", min=1, help="Only the first N departures of the year.")
    ] = 100_000,
    notebook: Annotated[Path, typer.Option("--notebook", help="Where to write the notebook.")] = Path(
        "delays.ipynb"
    ),
    keep: Annotated[
        bool, typer.Option("--keep", envvar="KEEP", help="Keep the Parquet files and say where they are.")
    ] = False,
) -> None:
    """Copy a PostgreSQL table into Parquet by Connect while it changes, and check the result."""
    screen = Screen()
    began = time.perf_counter()
    installed = require_postgres()
    if installed:
        screen.say(installed)
    folder = Path(tempfile.mkdtemp(prefix="moldau-demo-"))
    folder.chmod(0o755)
    lake = Path("lake").absolute() if keep else folder / "lake"
    try:
        fault = _run(screen, folder, lake, notebook.absolute(), min(flights, FLIGHT_COUNT))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    screen.say(f"all of it took {time.perf_counter() - began:.0f} s")
    if fault:
        raise CommandError(f"the demo found a fault: {fault}")


def _run(screen: Screen, folder: Path, lake: Path, notebook: Path, flights: int) -> str:
    broker = started_broker(None, with_registry=True)
    try:
        with (
            database(folder / "postgres") as server,
            worker(folder, broker.bootstrap_servers, broker.registry_url) as address,
        ):
            filled = server.fill(flights)
            screen.say(f"PostgreSQL has a table of {filled:,} departures; the worker is at {address}")
            cluster = Connect(address, None)
            start(cluster, SOURCE, source_config(server))
            start(cluster, SINK, sink_config(lake))
            screen.say(
                f"{SOURCE} reads it into the topic {TOPIC}, {SINK} writes that to Parquet; meanwhile ..."
            )
            for number in range(_CHANGES):
                server.change(number)
                time.sleep(0.1)
            screen.say(f"... {_CHANGES} rounds of updates, deletes and inserts in the table")
            fault = _caught_up(screen, cluster, server, lake)
    finally:
        broker.stop()
    if fault:
        screen.verdict([fault], "")
        return fault
    found = write_and_run(lake, notebook, notebook.with_suffix(".png"))
    screen.say(
        f"the notebook {notebook} finds {found:,} departures, and draws {notebook.with_suffix('.png')}"
    )
    return ""


def _caught_up(screen: Screen, cluster: Connect, server: Database, lake: Path) -> str:
    """Wait until the files have the table; what is wrong if they do not."""
    table = server.rows()
    until = time.monotonic() + _SECONDS_MAX
    told = 0
    while True:
        rows, changes = file_rows(lake)
        fault = difference(rows, table)
        if not fault:
            screen.verdict([], f"{len(table):,} rows as SQL has them, from {changes:,} changes in Parquet")
            return ""
        for name in (SOURCE, SINK):
            status = cluster.get("connectors", name, "status")
            for part in (status["connector"], *status["tasks"]):
                if part["state"] == "FAILED":
                    return f"{name} has failed: {part.get('trace', '')}"
        if changes != told:
            screen.say(f"{changes:,} changes are in files")
            told = changes
        if time.monotonic() >= until:
            return fault
        time.sleep(_PAUSE_SECONDS)
