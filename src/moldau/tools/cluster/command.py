"""`moldau cluster`: start, status, stop, purge."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.models import TyperPath

from moldau.tools.shared.errors import CommandError, UsageError
from moldau.tools.shared.options import Json, parse_assignments, teach
from moldau.tools.shared.output import headings, note, print_json, print_table

if TYPE_CHECKING:
    from moldau.tools.cluster.picture import Picture
    from moldau.tools.cluster.plan import Plan

DEFAULT_FOLDER = Path("moldau-cluster")
START_TIMEOUT_SECONDS = 120.0
STOP_TIMEOUT_SECONDS = 60.0
PARTITIONS_SHOWN = 5

app = typer.Typer(
    no_args_is_help=True,
    help="Run a cluster on this machine: a ZooKeeper ensemble and several brokers, each a process.",
    epilog="Try: moldau cluster start   then: moldau cluster stop --broker 2   and: moldau cluster status",
)


class _FolderName(TyperPath):
    """A path that is not empty: `purge -d "$UNSET"` is not about the folder where it is typed."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        if not str(value).strip():
            self.fail("the folder's name is empty", param, ctx)
        return super().convert(value, param, ctx)


Data = Annotated[
    Path,
    typer.Option(
        "--data",
        "-d",
        metavar="DIR",
        envvar="MOLDAU_CLUSTER",
        help="The cluster's folder.",
        click_type=_FolderName(path_type=Path),
    ),
]
Only = Annotated[
    list[int] | None,
    typer.Option("--broker", metavar="ID", help="Only this broker. May be repeated."),
]

START_HELP = """Start a ZooKeeper ensemble and brokers on this machine; wait until all replicas are in sync.

Topics get three replicas, two of which must have a record before it is acknowledged; a dead broker is noticed
after two seconds. All this is a setting that --set changes. What was asked for is kept in the folder: another
start brings up the same cluster, or what is missing of it. More --brokers may be asked for at any time.

Examples:

* moldau cluster start
* moldau cluster start --brokers 5 --zookeepers 3 --set moldau.durability=group
* moldau cluster start --data /tmp/try --port 19092 --http-port 19640 --zookeeper-port 12181
* moldau cluster start --broker 2          start broker 2 again, after it was stopped or has died
* moldau cluster start --secure            with TLS, logins and ACLs; see client.properties in its folder

Needs Java, and ZooKeeper's jars: an installation that ZOOKEEPER_HOME names, or those that PySpark brings.
"""

STOP_HELP = """Stop the brokers one after the other, the controller last, then ZooKeeper.

Each broker hands its leadership over before it ends, so that clients see no error while others go on.
The data stays; `moldau cluster start` brings the same cluster up again.

Examples:

* moldau cluster stop
* moldau cluster stop --broker 2           the others go on
"""

STATUS_HELP = """Show each process, each broker's health, and the partitions that lack replicas.

The exit code is 0 for ok, 1 for degraded, 2 for failing.
"""


@app.command(help=teach(START_HELP))
def start(
    brokers: Annotated[
        int | None, typer.Option("--brokers", "-n", help="How many brokers; 3 for a new cluster.")
    ] = None,
    zookeepers: Annotated[
        int | None,
        typer.Option("--zookeepers", help="How many ZooKeeper servers: 1, or 3 of which any may fail."),
    ] = None,
    data: Data = DEFAULT_FOLDER,
    port: Annotated[
        int | None,
        typer.Option("--port", "-p", help="Where clients connect to broker 1 (9092); the next follow."),
    ] = None,
    http_port: Annotated[
        int | None,
        typer.Option("--http-port", help="Health and metrics of broker 1 (9640); the next follow."),
    ] = None,
    zookeeper_port: Annotated[
        int | None,
        typer.Option("--zookeeper-port", help="The first ZooKeeper server (2181); the next follow."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", metavar="NAME=VALUE", help="A setting of all brokers. May be repeated."),
    ] = None,
    secure: Annotated[
        bool,
        typer.Option("--secure", help="A new cluster with TLS, logins (SCRAM) and ACLs."),
    ] = False,
    only: Only = None,
    timeout: Annotated[
        float,
        typer.Option("--timeout", metavar="SECONDS", help="How long to wait until the cluster is whole."),
    ] = START_TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Start a cluster, or what is missing of it (see START_HELP)."""
    from moldau.tools.cluster import plan as plans
    from moldau.tools.cluster import starting
    from moldau.tools.cluster.lock import exclusive

    fresh = not data.exists()
    try:
        data.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise CommandError(f"{data} cannot be made ({problem.strerror}): name another with --data") from None
    try:
        with exclusive(data), _Report() as report:
            before = plans.load(data)
            plan = (before or plans.Plan()).changed(
                brokers=brokers,
                zookeepers=zookeepers,
                port=port,
                http_port=http_port,
                zookeeper_port=zookeeper_port,
                settings=parse_assignments(set_, "--set") or None,
                secure=secure or None,
            )
            _require_known(plan, only)
            starting.check_change(data, before, plan)
            plans.save(data, plan)
            started = starting.start(data, plan, timeout, only=only, report=report)
    except UsageError:
        if fresh:
            _leave_nothing(data)
        raise
    if as_json:
        print_json(
            {"bootstrap_servers": plan.bootstrap, "started": started.names, **started.picture.as_json()}
        )
        return
    _show(started.picture)
    _say_next(data, plan, started.names)


def _leave_nothing(folder: Path) -> None:
    """Remove a folder that this command has just made for nothing."""
    from moldau.tools.cluster.lock import FILE

    (folder / FILE).unlink(missing_ok=True)
    if not any(folder.iterdir()):
        folder.rmdir()


def _say_next(folder: Path, plan: Plan, started: list[str]) -> None:
    at = "" if folder == DEFAULT_FOLDER else f" --data {folder}"
    print(f"started: {', '.join(started)}" if started else "everything ran already")
    print(f"clients connect to {plan.bootstrap}; settings, data and logs are in {folder}")
    if plan.secure:
        from moldau.tools.cluster.secured import ADMIN, CLIENT_FILE

        file = folder / CLIENT_FILE
        print(f"TLS, logins and ACLs are on; {file} has the settings and password of the user {ADMIN}")
        access = f"export MOLDAU_COMMAND_CONFIG={shlex.quote(str(file.absolute()))}"
    else:
        access = f"export MOLDAU_BOOTSTRAP={plan.bootstrap}"
    note(
        f"\n  {access}\n"
        "  moldau topics create orders --partitions 6\n"
        f"  moldau cluster stop{at} --broker {plan.brokers}     the others take over\n"
        f"  moldau cluster start{at}               it comes back\n"
        f"  moldau cluster status{at}"
    )


@app.command(help=teach(STATUS_HELP))
def status(data: Data = DEFAULT_FOLDER, as_json: Json = False) -> None:
    """Show the cluster's processes, health and partitions (see STATUS_HELP)."""
    from moldau.tools.cluster.picture import DEGRADED, OK, look

    picture = look(data, _plan(data))
    if as_json:
        print_json(picture.as_json())
    else:
        _show(picture)
        print(f"status: {picture.verdict}")
    raise typer.Exit({OK: 0, DEGRADED: 1}.get(picture.verdict, 2))


@app.command(help=teach(STOP_HELP))
def stop(
    data: Data = DEFAULT_FOLDER,
    only: Only = None,
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout", metavar="SECONDS", help="How long each server may take before it is killed."
        ),
    ] = STOP_TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Stop the cluster in order (see STOP_HELP)."""
    from moldau.tools.cluster import stopping
    from moldau.tools.cluster.lock import exclusive

    plan = _plan(data)
    _require_known(plan, only)
    with exclusive(data), _Report() as report:
        stopped = stopping.stop(data, plan, timeout, only=only, report=report)
    if as_json:
        print_json({"stopped": stopped})
    else:
        print(f"stopped: {', '.join(stopped)}" if stopped else "nothing ran")


@app.command()
def purge(
    data: Data = DEFAULT_FOLDER,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Stop the cluster and delete all of its data."""
    from moldau.tools.cluster import stopping
    from moldau.tools.cluster.lock import exclusive

    plan = _plan(data)
    if not yes:
        typer.confirm(f"delete all topics and records of the cluster in {data}?", abort=True, err=True)
    with exclusive(data), _Report() as report:
        stopping.purge(data, plan, report)
    print(f"the cluster in {data} is deleted")


def _plan(folder: Path) -> Plan:
    from moldau.tools.cluster.plan import load

    plan = load(folder)
    if plan is None:
        raise CommandError(
            f"there is no cluster in {folder}: start one with `moldau cluster start`, or name its folder "
            "with --data"
        )
    return plan


def _require_known(plan: Plan, only: list[int] | None) -> None:
    for broker in only or ():
        if broker not in plan.broker_ids:
            raise UsageError(f"there is no broker {broker}: the cluster has brokers 1 to {plan.brokers}")


def _show(picture: Picture) -> None:
    from moldau.tools.cluster.processes import GONE

    columns = headings("name address pid state health leaders controller", name="SERVER")
    rows = [
        {**each.as_json(), "name": each.name, "controller": "yes" if each.controller else None}
        for each in picture.servers
    ]
    print_table(rows, columns)
    for each in picture.servers:
        for cause in each.causes:
            print(f"{each.name}: {cause}")
    if picture.registered is None and any(each.pid for each in picture.servers):
        print("no broker answers for the cluster")
    for words, names in (
        ("without a leader", picture.offline),
        ("under-replicated", picture.under_replicated),
    ):
        if names:
            more = " ..." if len(names) > PARTITIONS_SHOWN else ""
            shown = ", ".join(names[:PARTITIONS_SHOWN])
            print(f"{len(names)} of {picture.partitions} partitions {words}: {shown}{more}")
    dead = [each for each in picture.servers if each.state == GONE]
    if dead:
        them = ", ".join(each.name for each in dead)
        note(f"`moldau cluster start` starts {them} again; see {dead[0].log}")


class _Report:
    """One line on standard error about what is waited for, on a terminal only."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._shown = ""

    def __call__(self, words: str) -> None:
        """Replace the line."""
        if self._terminal and words != self._shown:
            print(f"\r\033[K{words} ...", end="", file=sys.stderr, flush=True)
            self._shown = words

    def __enter__(self) -> _Report:
        return self

    def __exit__(self, *error: object) -> None:
        if self._shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
