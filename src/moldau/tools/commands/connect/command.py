"""`moldau connect`: run, list, create, validate, status, restart, pause, resume, stop, delete, offsets,
plugins."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from moldau.tools.commands.connect.files import connector_of
from moldau.tools.commands.connect.offsets import parse_offsets
from moldau.tools.commands.connect.requests import DEFAULT_CONNECT, Connect, ConnectSettings, ConnectUrl
from moldau.tools.commands.connect.run import HELP as RUN_HELP
from moldau.tools.commands.connect.run import run
from moldau.tools.commands.connect.watching import wait_for
from moldau.tools.shared.errors import CommandError, UsageError
from moldau.tools.shared.options import Json, parse_assignments, teach
from moldau.tools.shared.output import note, print_json, print_table

app = typer.Typer(
    no_args_is_help=True,
    help="Run Connect workers; connectors of a Connect cluster (ours, or Kafka's), over its REST interface.",
    epilog="Try: moldau connect plugins   then: moldau connect create orders --file orders.json",
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The connector's name.")]
File = Annotated[
    str,
    typer.Option(
        "--file",
        "-f",
        metavar="FILE",
        help="The configuration: JSON ({name, config}, or the settings alone) or properties; - is "
        "standard input.",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--config", "-c", metavar="NAME=VALUE", help="A setting; wins over the file. May be repeated."
    ),
]
Wait = Annotated[
    float,
    typer.Option("--wait", metavar="SECONDS", help="How long to wait until it is so; 0: do not wait."),
]

CREATE_HELP = """Make a connector, and wait until its tasks run or fail.

Examples:

* moldau connect create orders --file orders.json
* moldau connect create letters -c connector.class=FileStreamSource -c file=letters.txt -c topic=letters
* moldau connect create orders --file orders.json --replace     change its configuration
"""

OFFSETS_HELP = """Show where a connector stands; set it or forget it while the connector is stopped.

Examples:

* moldau connect offsets orders
* moldau connect stop orders   then: moldau connect offsets orders --set orders:0=812 --set orders:1=0
* moldau connect offsets letters --set '{"filename": "letters.txt"}={"position": 30}'
* moldau connect offsets orders --reset                         all of them
"""


def register(root: typer.Typer) -> None:
    """Add the command to the application."""
    root.add_typer(app, name="connect")


app.command("run", help=teach(RUN_HELP))(run)


@app.command("list")
def list_connectors(
    connect: ConnectUrl = DEFAULT_CONNECT, connect_settings: ConnectSettings = None, as_json: Json = False
) -> None:
    """List the connectors with their states."""
    found = Connect(connect, connect_settings).get("connectors", expand=["info", "status"])
    rows = [_row(name, each) for name, each in sorted(found.items())]
    if as_json:
        print_json(rows)
        return
    columns = {
        "name": "NAME",
        "type": "TYPE",
        "state": "STATE",
        "tasks": "TASKS",
        "class": "CLASS",
        "why": "WHY",
    }
    print_table(rows, columns, empty="there are no connectors: `moldau connect create` makes one")


@app.command("create", help=teach(CREATE_HELP))
def create(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="Its name; else the file's.")] = "",
    file: File = "",
    settings: Settings = None,
    replace: Annotated[bool, typer.Option("--replace", help="Change it if it is there.")] = False,
    state: Annotated[
        str, typer.Option("--state", metavar="STATE", help="Its first state: RUNNING, PAUSED or STOPPED.")
    ] = "",
    wait: Wait = 30.0,
    connect: ConnectUrl = DEFAULT_CONNECT,
    connect_settings: ConnectSettings = None,
    as_json: Json = False,
) -> None:
    """Make a connector (see CREATE_HELP)."""
    name, config = connector_of(file, name or None, parse_assignments(settings, "--config"))
    cluster = Connect(connect, connect_settings)
    if replace:
        if state:
            raise UsageError(
                "--state is for a new connector: use pause, resume or stop for one that is there"
            )
        info = cluster.put("connectors", name, "config", body=config)
    else:
        body = {"name": name, "config": config, **({"initial_state": state.upper()} if state else {})}
        info = cluster.post("connectors", body=body)
    if as_json:
        print_json(info)
    else:
        note(f"connector {name} ({info['type']}) is configured")
    wanted = "RUNNING" if not state else state.upper()
    if wait and not (replace and _target(cluster, name) != "RUNNING"):
        wait_for(cluster, name, wanted, wait)


@app.command("validate")
def validate(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="Its name; else the file's.")] = "",
    file: File = "",
    settings: Settings = None,
    all_settings: Annotated[bool, typer.Option("--all", help="Also settings that are right.")] = False,
    connect: ConnectUrl = DEFAULT_CONNECT,
    connect_settings: ConnectSettings = None,
    as_json: Json = False,
) -> None:
    """Check a configuration without making anything; the exit code is 1 if something is wrong."""
    _, config = connector_of(file, name or "check", parse_assignments(settings, "--config"))
    plugin = str(config.get("connector.class", "")).strip()
    if not plugin:
        raise UsageError("there is no connector.class: `moldau connect plugins` names what there is")
    found = Connect(connect, connect_settings).put(
        "connector-plugins", plugin, "config", "validate", body=config
    )
    if as_json:
        print_json(found)
    else:
        rows = [_checked(each) for each in found["configs"] if all_settings or each["value"]["errors"]]
        print_table(rows, {"name": "SETTING", "value": "VALUE", "errors": "WRONG"})
        if not found["error_count"]:
            note("the configuration is right")
    if found["error_count"]:
        raise typer.Exit(1)


@app.command("status")
def status(
    name: Name,
    connect: ConnectUrl = DEFAULT_CONNECT,
    connect_settings: ConnectSettings = None,
    as_json: Json = False,
) -> None:
    """Show how a connector and its tasks are, and why one has failed. The exit code is 1 if one has."""
    found = Connect(connect, connect_settings).get("connectors", name, "status")
    parts = [("connector", found["connector"]), *((f"task {each['id']}", each) for each in found["tasks"])]
    if as_json:
        print_json(found)
    else:
        rows = [{"part": part, **each} for part, each in parts]
        columns = {"part": "PART", "state": "STATE", "worker_id": "WORKER", "engine": "ENGINE"}
        print_table(rows, columns, title=f"{name} ({found['type']})")
        for part, each in parts:
            if each.get("trace"):
                note(f"\n{part} failed: {each['trace'].rstrip()}")
    if any(each["state"] == "FAILED" for _, each in parts):
        raise typer.Exit(1)


@app.command("config")
def config(
    name: Name,
    connect: ConnectUrl = DEFAULT_CONNECT,
    connect_settings: ConnectSettings = None,
    as_json: Json = False,
) -> None:
    """Show a connector's configuration."""
    found = Connect(connect, connect_settings).get("connectors", name, "config")
    if as_json:
        print_json(found)
        return
    print_table(
        [{"name": key, "value": found[key]} for key in sorted(found)], {"name": "SETTING", "value": "VALUE"}
    )


@app.command("restart")
def restart(
    name: Name,
    task: Annotated[int | None, typer.Option("--task", metavar="N", help="One task alone.")] = None,
    only_failed: Annotated[
        bool, typer.Option("--only-failed", help="What has failed, and nothing else.")
    ] = False,
    connector_only: Annotated[
        bool, typer.Option("--connector-only", help="Leave the tasks as they are.")
    ] = False,
    wait: Wait = 30.0,
    connect: ConnectUrl = DEFAULT_CONNECT,
    connect_settings: ConnectSettings = None,
) -> None:
    """Restart a connector and its tasks, and wait until they run or fail."""
    cluster = Connect(connect, connect_settings)
    if task is not None:
        cluster.post("connectors", name, "tasks", str(task), "restart")
    elif connector_only and not only_failed:
        cluster.post("connectors", name, "restart")
    else:
        query = {"includeTasks": not connector_only, "onlyFailed": only_failed}
        cluster.post("connectors", name, "restart", **query)
    note(f"{name} is restarted")
    if wait:
        wait_for(cluster, name, "RUNNING", wait)


def _target_command(verb: str, state: str, text: str) -> None:
    @app.command(verb, help=text)
    def change(
        name: Name,
        wait: Wait = 30.0,
        connect: ConnectUrl = DEFAULT_CONNECT,
        connect_settings: ConnectSettings = None,
    ) -> None:
        cluster = Connect(connect, connect_settings)
        cluster.put("connectors", name, verb)
        if wait:
            wait_for(cluster, name, state, wait)
        else:
            note(f"{name} is told to {verb}")


_target_command("pause", "PAUSED", "Pause a connector: its tasks keep what they have, and move no records.")
_target_command("resume", "RUNNING", "Let a paused or stopped connector go on.")
_target_command(
    "stop", "STOPPED", "Stop a connector: its tasks end, its configuration stays, its offsets can be set."
)


@app.command("delete")
def delete(
    name: Name, connect: ConnectUrl = DEFAULT_CONNECT, connect_settings: ConnectSettings = None
) -> None:
    """Remove a connector and its tasks; what it has written stays, and so do its offsets."""
    Connect(connect, connect_settings).ask("DELETE", ("connectors", name), None, {})
    note(f"connector {name} is removed")


@app.command("offsets", help=teach(OFFSETS_HELP))
def offsets(
    name: Name,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="WHERE=OFFSET",
            help="TOPIC:PARTITION=OFFSET of a sink, or JSON=JSON of a source; null forgets one. May be "
            "repeated.",
        ),
    ] = None,
    reset: Annotated[bool, typer.Option("--reset", help="Forget all offsets.")] = False,
    connect: ConnectUrl = DEFAULT_CONNECT,
    connect_settings: ConnectSettings = None,
    as_json: Json = False,
) -> None:
    """Show or change offsets (see OFFSETS_HELP)."""
    if changes and reset:
        raise UsageError("--set and --reset are two different wishes")
    cluster = Connect(connect, connect_settings)
    if changes:
        body = {"offsets": parse_offsets(changes)}
        note(cluster.ask("PATCH", ("connectors", name, "offsets"), body, {})["message"])
    elif reset:
        note(cluster.ask("DELETE", ("connectors", name, "offsets"), None, {})["message"])
    found = cluster.get("connectors", name, "offsets")["offsets"]
    if as_json:
        print_json(found)
        return
    rows = [{"partition": _inline(each["partition"]), "offset": _inline(each["offset"])} for each in found]
    print_table(rows, {"partition": "PARTITION", "offset": "OFFSET"}, empty=f"{name} has no offsets")


@app.command("plugins")
def plugins(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="Show the settings of this one.")] = "",
    every: Annotated[bool, typer.Option("--all", help="Also converters, transforms, predicates.")] = False,
    connect: ConnectUrl = DEFAULT_CONNECT,
    connect_settings: ConnectSettings = None,
    as_json: Json = False,
) -> None:
    """List the connectors that the worker has, or the settings of one."""
    cluster = Connect(connect, connect_settings)
    if name:
        rows = cluster.get("connector-plugins", name, "config")
        columns = {
            "name": "SETTING",
            "type": "TYPE",
            "default_value": "DEFAULT",
            "importance": "IMPORTANCE",
            "documentation": "MEANING",
        }
    else:
        rows = cluster.get("connector-plugins", connectorsOnly="false" if every else "true")
        columns = {"class": "CLASS", "type": "TYPE", "version": "VERSION"}
    if as_json:
        print_json(rows)
        return
    print_table(rows, columns, empty="the worker has no connectors")


def _row(name: str, found: dict[str, Any]) -> dict[str, Any]:
    info, state = found.get("info", {}), found.get("status", {})
    tasks = state.get("tasks", [])
    running = sum(each["state"] == "RUNNING" for each in tasks)
    traces = [
        each.get("trace", "")
        for each in (state.get("connector", {}), *tasks)
        if each.get("state") == "FAILED"
    ]
    return {
        "name": name,
        "type": info.get("type"),
        "state": state.get("connector", {}).get("state"),
        "tasks": f"{running}/{len(tasks)}",
        "class": info.get("config", {}).get("connector.class"),
        "why": traces[0].strip().splitlines()[0] if traces and traces[0].strip() else None,
    }


def _checked(each: dict[str, Any]) -> dict[str, Any]:
    value = each["value"]
    return {"name": value["name"], "value": value["value"], "errors": "; ".join(value["errors"])}


def _target(cluster: Connect, name: str) -> str:
    try:
        return str(cluster.get("connectors", name, "status")["connector"]["state"])
    except CommandError:
        return "RUNNING"  # not told yet


def _inline(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
