"""`moldau topics reassign`: other replicas for partitions, with progress, throttle, cancel.

The plan comes from Kafka's JSON or is made (reassign_plan.py); moving.py carries it out.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moldau.tools.shared import completion
from moldau.tools.shared.errors import CommandError, UsageError
from moldau.tools.shared.options import Connect, Json, Throttle, connected
from moldau.tools.shared.output import headings, note, print_json, print_rows

if TYPE_CHECKING:
    from moldau.client.admin.layout import Layout, Place
    from moldau.tools.commands.topics.reassign_plan import Plan

HELP = """Give partitions other replicas: move them, or change their replication factor.

Clients go on meanwhile. The replicas come from a JSON file as for kafka-reassign-partitions, or are chosen:
with --brokers among these brokers, with --replication-factor as many as asked for. What may stay, stays.

Examples:

* moldau topics reassign orders --replication-factor 3 --dry-run
* moldau topics reassign 'ord.*' --brokers 1,2,3 --throttle 20000000 --wait
* moldau topics reassign --plan plan.json --wait
* moldau topics reassign --status
* moldau topics reassign orders --cancel
"""


@connected
def reassign(
    connect: Connect,
    topics: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TOPIC", help="Names or regular expressions.", autocompletion=completion.topics
        ),
    ] = None,
    plan: Annotated[
        str, typer.Option("--plan", "-f", metavar="FILE", help="Kafka's JSON plan; - for standard input.")
    ] = "",
    brokers: Annotated[
        str, typer.Option("--brokers", metavar="1,2,3", help="Choose replicas among these brokers.")
    ] = "",
    replication_factor: Annotated[
        int, typer.Option("--replication-factor", "-r", min=0, help="So many replicas of each partition.")
    ] = 0,
    throttle: Throttle = None,
    wait: Annotated[
        bool, typer.Option("--wait", "-w", help="Wait until all of it is done, then remove the throttle.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan; move nothing.")] = False,
    status: Annotated[
        bool, typer.Option("--status", help="Show what is under way; remove throttles when nothing is.")
    ] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="Cancel what is under way.")] = False,
    as_json: Json = False,
) -> None:
    """Give partitions other replicas (see HELP)."""
    from moldau.tools.commands.topics.reassign_plan import plan_json

    if status + cancel + bool(plan or brokers or replication_factor) != 1:
        raise UsageError("give one of: --plan; --brokers or --replication-factor; --status; --cancel")
    layout = connect().layout()
    if status:
        _show_status(layout, _chosen(layout, topics), as_json)
    elif cancel:
        _cancel(layout, _chosen(layout, topics), as_json)
    else:
        wanted = _made(layout, topics, plan, brokers, replication_factor)
        if dry_run:
            print_json(plan_json(wanted.targets))
        else:
            _carry_out(layout, wanted, throttle, wait, as_json)


def _chosen(layout: Layout, topics: Sequence[str] | None) -> list[Place]:
    """The partitions of the topics that were named; all when none were."""
    from moldau.tools.shared import connection
    from moldau.tools.shared.admin import select_names

    if not topics:
        return list(layout.partitions)
    names = set(select_names(topics, layout.topics, what="topic", connection=connection.latest))
    return [place for place in layout.partitions if place[0] in names]


def _made(
    layout: Layout, topics: Sequence[str] | None, file: str, brokers: str, replication_factor: int
) -> Plan:
    from moldau.tools.commands.topics.reassign_plan import Plan, parse_plan, spread

    if file:
        if topics or brokers or replication_factor:
            raise UsageError("--plan names topics and brokers: give it alone")
        try:
            text = sys.stdin.read() if file == "-" else open(file, encoding="utf-8").read()  # noqa: SIM115
        except OSError as error:
            raise CommandError(f"{file} cannot be read: {error.strerror}") from None
        return parse_plan(text)
    if not topics:
        raise UsageError("name the topics whose partitions are to be reassigned")
    racks = {each.broker_id: each.rack for each in layout.brokers.values()}
    if brokers:
        try:
            ids = [int(each) for each in brokers.split(",")]
        except ValueError:
            raise UsageError(f"--brokers {brokers!r} is not understood: write 1,2,3") from None
        unknown = [each for each in ids if each not in racks]
        if unknown:
            raise CommandError(f"broker {unknown[0]} is not in service: see `moldau brokers list`")
        racks = {each: racks[each] for each in ids}
    replicas = layout.replicas
    targets = spread(replicas, _chosen(layout, topics), racks, replication_factor or None)
    return Plan(targets, {})


def _carry_out(layout: Layout, plan: Plan, rate: int | None, wait: bool, as_json: bool) -> None:
    from moldau.client.admin.log_dirs import prefer_directories
    from moldau.tools.commands.brokers.waiting import Countdown
    from moldau.tools.shared.moving import Moving

    if not plan.targets:
        _say(as_json, {"partitions": 0}, "Nothing to reassign: all is as asked for.")
        return
    prefer_directories(layout.cluster, plan.directories)
    count = len(plan.targets)
    if not wait:
        Moving(layout, plan.targets, rate_bytes_per_second=rate).start()
        prefer_directories(layout.cluster, plan.directories)
        _say(
            as_json,
            {"partitions": count, "done": False},
            f"Reassigning {count} partitions: `moldau topics reassign --status` shows how far it is"
            + (", and removes the throttle in the end." if rate else "."),
        )
        return
    with Countdown("partitions to be reassigned") as countdown:
        moving = Moving(layout, plan.targets, report=countdown.show, rate_bytes_per_second=rate)
        try:
            moving.run()
        except KeyboardInterrupt:
            note(
                "moldau: the reassignment goes on: `moldau topics reassign --status` shows how far it is, "
                "--cancel cancels it"
            )
            raise
    prefer_directories(layout.cluster, plan.directories)
    _say(as_json, {"partitions": count, "done": True}, f"Reassigned {count} partitions.")


def _show_status(layout: Layout, places: Sequence[Place], as_json: bool) -> None:
    from moldau.client.admin.reassignments import find_moves, throttled_topics, unthrottle

    moves = find_moves(layout.cluster)
    rows = [
        {
            "topic": place[0],
            "partition": place[1],
            "replicas": list(moves[place].replicas),
            "adding": list(moves[place].adding),
            "removing": list(moves[place].removing),
        }
        for place in places
        if place in moves
    ]
    throttled = [] if moves else throttled_topics(layout)
    if throttled:
        unthrottle(layout, throttled)
        note("moldau: nothing is under way: throttles removed")
    columns = headings("topic partition replicas adding removing")
    print_rows(as_json, rows, columns, empty="no reassignment is under way")


def _cancel(layout: Layout, places: Sequence[Place], as_json: bool) -> None:
    from moldau.client.admin.reassignments import find_moves, submit_moves, unthrottle

    chosen = [place for place in find_moves(layout.cluster) if place in set(places)]
    refused: Mapping[Place, str] = submit_moves(layout.cluster, dict.fromkeys(chosen)) if chosen else {}
    still = [place for place in refused if place in find_moves(layout.cluster)]
    if still:
        raise CommandError(f"{len(still)} partitions not cancelled: {refused[still[0]]}")
    if not find_moves(layout.cluster):
        unthrottle(layout, sorted({name for name, _ in chosen}))
    _say(as_json, {"cancelled": len(chosen)}, f"Cancelled {len(chosen)} reassignments.")


def _say(as_json: bool, values: Mapping[str, Any], sentence: str) -> None:
    if as_json:
        print_json(values)
    else:
        print(sentence)
