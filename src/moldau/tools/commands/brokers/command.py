"""`moldau brokers`: list, describe, drain, remove."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from moldau.tools.commands.brokers import rebalance
from moldau.tools.shared.errors import CommandError, UsageError
from moldau.tools.shared.options import DEFAULT_AT_ONCE, AtOnce, Connect, Json, Throttle, connected, teach
from moldau.tools.shared.output import headings, note, print_json, print_rows, print_table

if TYPE_CHECKING:
    from moldau.tools.commands.brokers.overview import BrokerRow, Overview

NAMES_SHOWN = 10

app = typer.Typer(
    no_args_is_help=True,
    help="List and describe the brokers of a cluster, empty them, and remove them for good.",
    epilog="Try: moldau brokers list   and: moldau brokers drain 3 --dry-run",
)

BrokerId = Annotated[int, typer.Argument(metavar="BROKER", help="The broker's id (node.id).")]

DRAIN_HELP = """Move all replicas of a broker to the others, so that it can be removed.

Clients go on meanwhile. A broker that is lost for good can be drained too: its partitions are copied from
their other replicas. Interrupted and started again, it goes on where it was.

Examples:

* moldau brokers drain 3 --dry-run
* moldau brokers drain 3 --throttle 20000000
* moldau brokers drain 3 --cancel
"""


REMOVE_HELP = """Unregister a broker that has stopped for good and holds no replica any more.

In order:

* moldau brokers drain 3
* (stop the broker's process)
* moldau brokers remove 3

Without it, the cluster waits for the broker to come back.
"""


@app.command("list")
@connected
def list_(connect: Connect, as_json: Json = False) -> None:
    """List the brokers: rack, address, leaders, replicas, those that lag, bytes, controller, state.

    A broker that is gone has a row while partitions have replicas on it.
    """
    from moldau.tools.commands.brokers.overview import load_overview

    overview = load_overview(connect().layout())
    rows = [each.as_row() for each in overview.brokers.values()]
    columns = headings("id rack address leaders replicas lagging bytes controller state", id="BROKER")
    print_rows(as_json, rows, columns)


@app.command()
@connected
def describe(connect: Connect, broker: BrokerId, as_json: Json = False) -> None:
    """Show one broker: its folders, what lags on it, moves to and from it."""
    from moldau.client.admin.reassignments import find_moves
    from moldau.tools.commands.brokers.overview import load_overview

    layout = connect().layout()
    row = load_overview(layout).broker(broker)
    moves = find_moves(layout.cluster)
    coming = sorted(f"{name}-{index}" for (name, index), move in moves.items() if broker in move.adding)
    going = sorted(f"{name}-{index}" for (name, index), move in moves.items() if broker in move.removing)
    if as_json:
        more = {"lagging_partitions": row.lagging, "moving_here": coming, "moving_away": going}
        print_json({**row.as_row(), **more, "directories": [_directory(each) for each in row.directories]})
        return
    role = ", the controller" if row.controller else ""
    print(f"broker {row.id} at {row.address or 'no known address'}: {row.state}{role}")
    if row.rack is not None:
        print(f"rack {row.rack}")
    print(f"leads {row.leaders} of {row.replicas} partitions")
    for words, names in (("not in sync", row.lagging), ("moving here", coming), ("moving away", going)):
        if names:
            print(f"{len(names)} {words}: {_shortened(names)}")
    columns = {"path": "DIRECTORY", "used_bytes": "BYTES", "usable_bytes": "FREE", "failure": "FAILURE"}
    print_table([_directory(each) for each in row.directories], columns)


def _directory(each: Any) -> dict[str, Any]:
    free = each.usable_bytes if each.usable_bytes >= 0 else None
    return {
        "path": each.path,
        "used_bytes": each.used_bytes,
        "usable_bytes": free,
        "failure": each.failure or None,
    }


def _shortened(names: list[str]) -> str:
    return ", ".join(names[:NAMES_SHOWN]) + (" ..." if len(names) > NAMES_SHOWN else "")


@app.command(help=teach(DRAIN_HELP))
@connected
def drain(
    connect: Connect,
    broker: BrokerId,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print where each partition would go; move nothing.")
    ] = False,
    throttle: Throttle = None,
    at_once: AtOnce = DEFAULT_AT_ONCE,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Cancel the moves away from this broker that are under way.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Move all replicas of a broker to the others (see DRAIN_HELP)."""
    from moldau.client.admin.layout import layout as read_layout
    from moldau.tools.commands.brokers import draining
    from moldau.tools.commands.brokers.overview import load_overview
    from moldau.tools.commands.brokers.waiting import Countdown

    layout = connect().layout()
    if cancel:
        count = draining.cancel(layout, broker)
        _say(
            as_json,
            {"broker": broker, "cancelled": count},
            f"{count} moves away from broker {broker} cancelled.",
        )
        return
    overview = load_overview(layout, sizes=dry_run)
    overview.broker(broker)
    targets = draining.plan_drain(overview, broker)
    if dry_run:
        _show_plan(overview, targets, as_json)
        return
    with Countdown(f"partitions left on broker {broker}") as countdown:
        work = draining.Drain(
            layout,
            broker,
            lambda: load_overview(read_layout(layout.cluster), sizes=False),
            countdown.show,
            rate_bytes_per_second=throttle,
            at_once=at_once,
        )
        try:
            moved = work.run()
        except KeyboardInterrupt:
            note(
                f"moldau: the moves under way go on: `moldau brokers drain {broker}` waits for them, "
                f"`moldau brokers drain {broker} --cancel` cancels them"
            )
            raise
    sentence = (
        f"{moved} partitions moved: broker {broker} holds no replica now. To remove it for good, stop it, "
        f"then: moldau brokers remove {broker}"
    )
    _say(as_json, {"broker": broker, "moved": moved}, sentence)


def _show_plan(overview: Overview, targets: dict[tuple[str, int], list[int]], as_json: bool) -> None:
    rows = [
        {"topic": name, "partition": index, "replicas": overview.replicas[name, index], "becomes": target}
        for (name, index), target in targets.items()
    ]
    columns = headings("topic partition replicas becomes")
    print_rows(as_json, rows, columns, empty="it holds no replica")


@app.command(help=teach(REMOVE_HELP))
@connected
def remove(
    connect: Connect,
    broker: BrokerId,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Unregister a broker that has stopped for good (see REMOVE_HELP)."""
    from moldau.client.admin.problem import KafkaProblem
    from moldau.client.admin.topics import unregister_broker
    from moldau.tools.commands.brokers.overview import load_overview

    layout = connect().layout()
    overview = load_overview(layout, sizes=False)
    if broker in overview.brokers:
        _require_removable(overview.broker(broker))
    if not yes:
        typer.confirm(f"unregister broker {broker} for good?", abort=True, err=True)
    try:
        unregister_broker(layout.cluster, broker)
    except KafkaProblem as problem:
        raise CommandError(f"broker {broker} was not removed: {problem.words}") from None
    _say(as_json, {"broker": broker, "removed": True}, f"Broker {broker} is removed.")


def _require_removable(row: BrokerRow) -> None:
    from moldau.tools.commands.brokers.overview import IN_SERVICE

    if row.replicas:
        raise UsageError(
            f"broker {row.id} still has {row.replicas} replicas: move them first with "
            f"`moldau brokers drain {row.id}`"
        )
    if row.state == IN_SERVICE:
        raise UsageError(
            f"broker {row.id} runs at {row.address}: stop it first, or it registers again at once"
        )


def _say(as_json: bool, values: dict[str, Any], sentence: str) -> None:
    if as_json:
        print_json(values)
    else:
        print(sentence)


app.command("rebalance", help=teach(rebalance.HELP))(rebalance.rebalance)
