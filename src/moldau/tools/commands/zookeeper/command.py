"""`moldau zookeeper start`: one ZooKeeper server in the foreground, until Ctrl-C or SIGTERM.

For brokers on this machine, or a first try. Not here: an ensemble of three (moldau/ensemble).
"""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Annotated

import typer

from moldau.tools.shared.errors import CommandError
from moldau.tools.shared.options import Json, teach
from moldau.tools.shared.output import note, print_json

DEFAULT_FOLDER = Path("moldau-zookeeper")
WATCH_SECONDS = 0.5

app = typer.Typer(no_args_is_help=True, help="Run a ZooKeeper server for brokers on this machine.")

START_HELP = """Run one ZooKeeper server in the foreground, until Ctrl-C, and print its connect string.

Examples:

* moldau zookeeper start
* moldau serve --set zookeeper.connect=127.0.0.1:2181 --set node.id=1
* moldau zookeeper start --port 12181 --data /var/lib/zookeeper

Needs Java, and ZooKeeper's jars: an installation that ZOOKEEPER_HOME names, or those that PySpark brings.
"""


@app.callback()
def _group() -> None:
    """Make `start` a command of its own, although it is the only one."""


@app.command(help=teach(START_HELP))
def start(
    port: Annotated[
        int, typer.Option("--port", "-p", min=1, max=65535, help="Where brokers connect.")
    ] = 2181,
    host: Annotated[str, typer.Option("--host", help="The address to listen at.")] = "127.0.0.1",
    data: Annotated[
        Path, typer.Option("--data", "-d", metavar="DIR", help="The folder for data, settings and log.")
    ] = DEFAULT_FOLDER,
    tick_ms: Annotated[
        int,
        typer.Option(
            "--tick",
            metavar="MS",
            min=100,
            help="ZooKeeper's unit of time: sessions last two ticks or longer.",
        ),
    ] = 500,
    as_json: Json = False,
) -> None:
    """Run one ZooKeeper server in the foreground (see START_HELP)."""
    from moldau.ensemble import EnsembleError, ZooKeeperServer

    server = ZooKeeperServer(data, port, host=host, tick_ms=tick_ms)
    finish = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: finish.set())
    try:
        server.start()
    except EnsembleError as problem:
        raise CommandError(str(problem)) from None
    try:
        if as_json:
            print_json({"connect": server.connect_string, "pid": server.pid, "data": str(data)})
        else:
            print(
                f"ZooKeeper is ready: zookeeper.connect={server.connect_string}; its data is in {data}",
                flush=True,
            )
            note("Ctrl-C ends it")
        while not finish.wait(WATCH_SECONDS):
            if not server.is_running():
                raise CommandError(f"ZooKeeper ended by itself: see {server.log_path}")
    finally:
        server.stop()
